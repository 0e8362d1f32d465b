"""A client that shares backends with the tests, with session variables of its own, until it is stopped.

Argument: the folder of PyMySQL's sources. It looks at its session all the time, and ends with a
complaint if that is not its own. Where the tests keep all backends for so long that it is refused, it
begins anew.
"""

import os
import sys
import time

sys.path.insert(0, sys.argv[1])

import pymysql

LOOK = (
    "SELECT CONCAT_WS('|', @@sql_mode, @@time_zone, @@foreign_key_checks,"
    " @@character_set_client, DATABASE())"
)
WAITED_TOO_LONG = 1637
OWN = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES|+05:30|OFF|latin1|noise"


def connect():
    connection = pymysql.connect(
        host=os.environ["SUITE_HOST"],
        port=int(os.environ["SUITE_PORT"]),
        user=os.environ["SUITE_USER"],
        password=os.environ["SUITE_PASSWORD"],
        database="noise",
        autocommit=True,
    )
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        cursor.execute("SET time_zone='+05:30', foreign_key_checks=0")
        cursor.execute("SET NAMES latin1")
    return connection


def disturb(connection):
    with connection.cursor() as cursor:
        cursor.execute(LOOK)
        seen = cursor.fetchone()[0]
        if seen != OWN:
            sys.exit(f"{seen}, where {OWN} was set")
        cursor.execute("INSERT INTO note (v) VALUES (1)")
        made = cursor.lastrowid
        cursor.execute("SELECT LAST_INSERT_ID()")
        last = cursor.fetchone()[0]
        if last != made:
            sys.exit(f"the last insert id is {last}, where {made} was made")
        connection.begin()
        cursor.execute("DELETE FROM note WHERE id = %s", (made,))
        connection.commit()
        try:
            cursor.execute('SELECT "nothing"')
        except pymysql.err.MySQLError:
            return
        sys.exit("a name in double quotes was taken for a text")


def share():
    connection = connect()
    try:
        for _ in range(50):
            disturb(connection)
            time.sleep(0.001)
    finally:
        connection.close()


while True:
    try:
        share()
    except pymysql.err.MySQLError as error:
        if error.args[0] != WAITED_TOO_LONG:
            raise
