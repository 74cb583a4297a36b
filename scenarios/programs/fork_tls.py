"""A parent and its child use one encrypted connection, one after the other.

broken: the child asks over the connection that its parent had opened. Each counts
        the records by itself, so the next one from the parent does not authenticate.
fixed:  the child connects for itself and forgets what it inherited.
"""

import os
import sys

import psycopg2


def connect(role):
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="fork/" + role)
    connection.autocommit = True
    if not connection.info.ssl_in_use:
        sys.exit("the connection is not encrypted")
    return connection


def ask(connection, number):
    with connection.cursor() as cursor:
        cursor.execute("select %s", (number,))
        return cursor.fetchone()[0]


def main(mode):
    connection = connect("parent")
    ask(connection, 1)
    child = os.fork()
    if child == 0:
        if mode == "broken":
            ask(connection, 2)
        else:
            mine = connect("child")
            ask(mine, 2)
            mine.close()
        os._exit(0)
    os.waitpid(child, 0)
    print("answer", ask(connection, 42))
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
