"""Two threads and one connection, which takes one request at a time.

broken: the second thread asks while the first one's answer is under way. The driver
        refuses, and its request never reaches the wire.
fixed:  each thread has a connection of its own.
"""

import os
import select
import sys
import threading

import psycopg2
import psycopg2.extensions

asked, refused = threading.Event(), threading.Event()


def wait(connection):
    """As gevent and its like do it: the driver hands the waiting over."""
    while True:
        state = connection.poll()
        if state == psycopg2.extensions.POLL_OK:
            return
        if threading.current_thread().name == "slow":
            asked.set()
            refused.wait()
        if state == psycopg2.extensions.POLL_READ:
            select.select([connection], [], [])
        else:
            select.select([], [connection], [])


def connect():
    return psycopg2.connect(os.environ["DATABASE_URL"], application_name="threads/" + threading.current_thread().name)


def ask(connection, question):
    with connection.cursor() as cursor:
        cursor.execute("select %s", (question,))
        return cursor.fetchone()[0]


def main(mode):
    psycopg2.extensions.set_wait_callback(wait)
    connection, failed = connect(), []
    ask(connection, "in turn")

    def slow():
        mine = connection if mode == "broken" else connect()
        ask(mine, "slow")

    thread = threading.Thread(target=slow, name="slow")
    if mode == "fixed":
        refused.set()  # nobody has to wait for anybody
    thread.start()
    asked.wait()
    try:
        ask(connection, "at the same time")
    except psycopg2.Error as error:
        print(error, file=sys.stderr, flush=True)
        failed.append(error)
    refused.set()
    thread.join()
    connection.close()
    sys.exit(len(failed))


if __name__ == "__main__":
    main(sys.argv[1])
