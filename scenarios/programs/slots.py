"""A program at a server without a free connection slot.

broken: it opens a session for each piece of work.
fixed:  it does all its work in the session that it has.
"""

import os
import sys

import psycopg2

FULL = """select count(*) >= current_setting('max_connections')::int
            from pg_stat_activity where backend_type = 'client backend'"""


def connect():
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="slots/main")
    connection.autocommit = True
    return connection


def ask(connection, question):
    with connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()[0]


def main(mode):
    first = connect()
    print("ready", flush=True)
    while not ask(first, FULL):
        pass
    worker = connect() if mode == "broken" else first
    print(ask(worker, "select 'done'"))
    first.close()


if __name__ == "__main__":
    main(sys.argv[1])
