"""A program that holds a lock and dies, with a child that lives on.

broken: the child was forked after the connection, so it holds the socket too:
        PostgreSQL keeps the session and the lock until the child ends.
fixed:  the child closes the descriptor that it does not need.
"""

import os
import signal
import sys
import time

import psycopg2


def main(mode):
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="held/main")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_lock(77)")
    told, tell = os.pipe()
    if os.fork() == 0:
        if mode == "fixed":
            os.close(connection.fileno())
        os.write(tell, b".")
        time.sleep(1.5)  # a helper that goes about its business
        os._exit(0)
    os.read(told, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
