"""Runs PyMySQL's own tests against the server that SUITE_* name, and prints TAP.

Arguments: the folder with the unpacked sources, and the one where pytest is. Two things that the tests need and the
sources lack are put there: the databases' addresses, and the file for LOAD DATA. Ends with 0 if all tests were run,
whatever their outcome.
"""

import json
import os
import sys

# The runner is not among the machine's own packages.
sys.path[:0] = [sys.argv[2], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import pytest_tap  # noqa: E402

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
    return pytest_tap.run(tests, "pymysql/tests/")


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


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
