"""Runs PyMySQL's own tests against the server that SUITE_* name, and prints TAP.

Arguments: the folder with the unpacked sources, and the one where pytest is. Two things that the tests need and the sources lack
are put there: the databases' addresses, and the file for LOAD DATA. Ends with 0 if all tests were
run, whatever their outcome.
"""

import json
import os
import sys

sys.path.insert(0, sys.argv[2])
import pytest  # noqa: E402: it is not among the machine's own packages

# How many rows the tests of LOAD DATA expect; what is in them does not matter to them.
ROWS = 22749


def main(sources):
    tests = os.path.join(sources, "pymysql", "tests")
    with open(os.path.join(tests, "databases.json"), "w") as file:
        json.dump([database("test1", use_unicode=True, local_infile=True), database("test2")], file)
    os.makedirs(os.path.join(tests, "data"), exist_ok=True)
    with open(os.path.join(tests, "data", "load_local_data.txt"), "w") as file:
        file.writelines(f"{row},{row}\n" for row in range(ROWS))

    sys.path.insert(0, sources)
    os.chdir(sources)
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-W", "ignore"]
    tap = Tap()
    status = pytest.main([*options, tests], plugins=[tap])
    print(f"1..{tap.count}", flush=True)
    ran = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return 0 if status in ran and not tap.broken else 1


def database(name, **rest):
    # Some tests look up "db", the short name of the option.
    return {
        "host": os.environ["SUITE_HOST"],
        "port": int(os.environ["SUITE_PORT"]),
        "user": os.environ["SUITE_USER"],
        "password": os.environ["SUITE_PASSWORD"],
        "db": name,
        **rest,
    }


class Tap:
    """Prints a line for each test, and each reason of a failure as comments."""

    def __init__(self):
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
        name = report.nodeid.removeprefix("pymysql/tests/")
        line = f"{'not ok' if report.failed else 'ok'} {self.count} - {name}"
        print(line + (" # SKIP" if report.skipped else ""), flush=True)
        if report.failed:
            self.comment(report)

    def comment(self, report):
        for line in report.longreprtext.splitlines():
            print(f"# {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
