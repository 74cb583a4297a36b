"""A program whose statement is cancelled while it waits for a lock.

broken: it takes the error for the statement's alone and goes on in its transaction.
fixed:  it rolls back, and does what can be done without the lock.
"""

import os
import sys

import psycopg2


def prepare(connection):
    with connection, connection.cursor() as cursor:
        cursor.execute("create table jobs (n int); create table log (text text)")


def main(mode):
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="cancelled/main")
    prepare(connection)
    print("ready", flush=True)
    with connection.cursor() as cursor:
        try:
            # Each round is a transaction, else we would keep the lock out ourselves.
            while True:
                cursor.execute("insert into log values ('begun')")
                cursor.execute("select n from jobs")
                connection.rollback()
        except psycopg2.errors.QueryCanceled:
            if mode == "fixed":
                connection.rollback()
        cursor.execute("insert into log values ('cancelled')")
    connection.commit()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
