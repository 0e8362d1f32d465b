"""What an application in Python does, for as many connections and requests as it is told.

Arguments: the library, connections, requests on each. A request reads a row, and changes it in a
transaction, the way the library's own manual has it. Connections are opened one after the other.
"""

import os
import sys

HOST, PORT = os.environ["SUITE_HOST"], int(os.environ["SUITE_PORT"])
USER, PASSWORD = os.environ["SUITE_USER"], os.environ["SUITE_PASSWORD"]
DATABASE = "application"
READ = "SELECT v FROM item WHERE id = %s"
CHANGE = "UPDATE item SET v = v + 1 WHERE id = %s"


def by_db_api(connect):
    """What PEP 249 has every driver do: autocommit is off, so a commit ends what a read begins."""

    def run(connections, requests):
        for _ in range(connections):
            connection = connect()
            for _ in range(requests):
                cursor = connection.cursor()
                cursor.execute(READ, (1,))
                assert len(cursor.fetchall()) == 1
                connection.commit()
                cursor.execute(CHANGE, (1,))
                connection.commit()
                cursor.close()
            connection.close()

    return run


def pymysql():
    import pymysql

    return pymysql.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE
    )


def mysqlclient():
    import MySQLdb

    return MySQLdb.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE
    )


def mariadb():
    import mariadb

    return mariadb.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE
    )


def mysql_connector():
    import mysql.connector

    return mysql.connector.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE
    )


def sqlalchemy(connections, requests):
    from sqlalchemy import URL, Integer, create_engine
    from sqlalchemy.orm import DeclarativeBase, Session, mapped_column

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "item"
        id = mapped_column(Integer, primary_key=True)
        v = mapped_column(Integer)

    url = URL.create("mysql+pymysql", USER, PASSWORD, HOST, PORT, DATABASE)
    for _ in range(connections):
        # A pool of one: its connection lasts as long as the engine.
        engine = create_engine(url, pool_size=1, max_overflow=0)
        for _ in range(requests):
            with Session(engine) as session:
                assert session.get(Item, 1) is not None
            with Session(engine) as session, session.begin():
                session.get(Item, 1).v += 1
        engine.dispose()


def django(connections, requests):
    import django
    from django.conf import settings

    database = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": DATABASE,
        "USER": USER,
        "PASSWORD": PASSWORD,
        "HOST": HOST,
        "PORT": str(PORT),
        "CONN_MAX_AGE": None,
    }
    settings.configure(DATABASES={"default": database}, USE_TZ=True)
    django.setup()
    from django.db import close_old_connections, connection, models, transaction

    class Item(models.Model):
        v = models.IntegerField()

        class Meta:
            app_label = "application"
            db_table = "item"

    for _ in range(connections):
        for _ in range(requests):
            # What Django does around each request.
            close_old_connections()
            assert Item.objects.get(pk=1) is not None
            with transaction.atomic():
                item = Item.objects.get(pk=1)
                item.v += 1
                item.save()
            close_old_connections()
        connection.close()


LIBRARIES = {
    "pymysql": by_db_api(pymysql),
    "mysqlclient": by_db_api(mysqlclient),
    "mariadb": by_db_api(mariadb),
    "mysql-connector": by_db_api(mysql_connector),
    "sqlalchemy": sqlalchemy,
    "django": django,
}

if __name__ == "__main__":
    LIBRARIES[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
