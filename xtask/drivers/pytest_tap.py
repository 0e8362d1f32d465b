"""Runs pytest, and prints TAP: a line for each test, and each reason of a failure as comments."""

import pytest


def run(tests, stem):
    """Returns 0 if all tests were run, whatever their outcome. Names are told without the stem."""
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-W", "ignore"]
    tap = Tap(stem)
    status = pytest.main([*options, tests], plugins=[tap])
    print(f"1..{tap.count}", flush=True)
    ran = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 0 if status in ran and not tap.broken else 1


class Tap:
    def __init__(self, stem):
        self.stem = stem
        self.count = 0
        self.broken = False

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken = True
            self.comment(report)

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return
        self.count += 1
        name = report.nodeid.removeprefix(self.stem)
        line = f"{'not ok' if report.failed else 'ok'} {self.count} - {name}"
        print(line + (" # SKIP" if report.skipped else ""), flush=True)
        if report.failed:
            self.comment(report)

    def comment(self, report):
        for line in report.longreprtext.splitlines():
            print(f"# {line}", flush=True)
