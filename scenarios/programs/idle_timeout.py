"""A program that keeps a session while the server ends it for being idle.

broken: it uses the session as if nothing had happened.
fixed:  it connects anew when the server has hung up.
"""

import os
import select
import sys

import psycopg2


def connect():
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="keeper/main")
    connection.autocommit = True
    return connection


def ask(connection):
    with connection.cursor() as cursor:
        cursor.execute("select 'served'")
        return cursor.fetchone()[0]


def stay_idle(connection):
    # Nothing was asked, so what becomes readable is the server's farewell.
    select.select([connection], [], [])


def main(mode):
    connection = connect()
    ask(connection)
    stay_idle(connection)
    if mode == "broken":
        print(ask(connection))
        return
    for _ in range(20):  # a busy machine may make us slow enough to be ended again
        try:
            print(ask(connection))
            connection.close()
            return
        except psycopg2.Error:
            connection = connect()
    raise SystemExit("no session lives long enough")


if __name__ == "__main__":
    main(sys.argv[1])
