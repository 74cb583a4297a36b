"""A parent and its forked child that both ask the database.

broken: both use the connection that was opened before the fork. They take turns,
        so nothing fails, but the child's answer waits for whoever reads first.
fixed:  the child opens a connection of its own and forgets the inherited one.
"""

import os
import sys

import psycopg2


def ask(connection, question):
    with connection.cursor() as cursor:
        cursor.execute("select %s", (question,))
        return cursor.fetchone()[0]


def child(connection, mode):
    if mode == "fixed":
        connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="both/child")
    print("child", ask(connection, "from the child"), flush=True)
    if mode == "fixed":
        connection.close()
    os._exit(0)


def main(mode):
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="both/parent")
    connection.autocommit = True
    ask(connection, "before the fork")
    pid = os.fork()
    if pid == 0:
        child(connection, mode)
    _, status = os.waitpid(pid, 0)
    print("parent", ask(connection, "from the parent"))
    connection.close()
    sys.exit(status != 0)


if __name__ == "__main__":
    main(sys.argv[1])
