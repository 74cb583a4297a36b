"""A service that puts itself into the background by the classic double fork.

broken: it connects first. The process that the shell started ends in the ordinary
        way and closes its connection, which is the daemon's too.
fixed:  it connects when it is a daemon.
"""

import os
import select
import sys

import psycopg2


def connect():
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="daemon/main")
    connection.autocommit = True
    return connection


def serve(connection):
    with connection.cursor() as cursor:
        cursor.execute("select 'served'")
        print(cursor.fetchone()[0], flush=True)
    connection.close()


def main(mode):
    connection = connect() if mode == "broken" else None
    told, tell = os.pipe()
    if os.fork() > 0:
        os.close(tell)
        os.read(told, 1)  # until the daemon stands
        if connection is not None:
            connection.close()
        return
    os.close(told)
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    # The daemon may begin when the first process, which it no longer knows, is gone.
    # Opened before it is told to go on: afterwards it may be gone already.
    handle = os.pidfd_open(int(os.environ["DAEMON_FIRST"]))
    os.write(tell, b".")
    select.select([handle], [], [])
    serve(connection or connect())


if __name__ == "__main__":
    os.environ["DAEMON_FIRST"] = str(os.getpid())
    main(sys.argv[1])
