"""What a script in Python asks Flifo's console, through PyMySQL."""

import os

import pymysql

connection = pymysql.connect(
    host="127.0.0.1",
    port=int(os.environ["SUITE_PORT"]),
    user="admin",
    password=os.environ["SUITE_PASSWORD"],
)
cursor = connection.cursor(pymysql.cursors.DictCursor)
for statement, values in [("SHOW FULL SERVERS", ()), ("SHOW FULL SERVERS WHERE name = %s", ("db1",))]:
    cursor.execute(statement, values)
    row = cursor.fetchall()[0]
    assert (row["name"], row["state"]) == ("db1", "up"), row
    assert isinstance(row["limit"], int), row
try:
    cursor.execute("SHOW NONSENSE")
    raise AssertionError("there is no such table")
except pymysql.err.ProgrammingError as error:
    assert error.args[0] == 1146, error
connection.close()
