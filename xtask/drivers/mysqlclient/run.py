"""Runs mysqlclient's own tests against the server that SUITE_* name, and prints TAP.

Arguments: the folder with the unpacked sources, the one where pytest is, and the one where the driver is built. The
file with the server's address, which TESTDB names for the tests, is put beside the tests. Ends with 0 if all tests were
run, whatever their outcome.
"""

import os
import sys

# The runner is not among the machine's own packages.
sys.path[:0] = [sys.argv[2], sys.argv[3], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import pytest_tap  # noqa: E402

OPTIONS = """\
[MySQLdb-tests]
host = {SUITE_HOST}
port = {SUITE_PORT}
user = {SUITE_USER}
password = {SUITE_PASSWORD}
database = suite1
default-character-set = utf8mb4
"""


def main(sources):
    tests = os.path.join(sources, "tests")
    with open(os.path.join(tests, "suite.cnf"), "w") as file:
        file.write(OPTIONS.format_map(os.environ))
    os.environ["TESTDB"] = "suite.cnf"
    os.chdir(sources)
    return pytest_tap.run(tests, "tests/")


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
