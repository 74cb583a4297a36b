"""A pool of connections that a background thread fills, and a child that was forked
after it was opened.

broken: the child asks the inherited pool. Its data came along, its thread did not,
        so nobody will ever bring a connection.
fixed:  the child opens a pool of its own.
"""

import os
import queue
import sys
import threading

import psycopg2

PATIENCE = 4  # seconds


class Pool:
    """Opens connections in a thread of its own, when somebody asks for one."""

    def __init__(self, name):
        self.name, self.wanted, self.ready = name, queue.Queue(), queue.Queue()
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self):
        while True:
            self.wanted.get()
            connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name=self.name)
            connection.autocommit = True
            self.ready.put(connection)

    def borrow(self):
        self.wanted.put(None)
        return self.ready.get(timeout=PATIENCE)


def ask(pool, question):
    connection = pool.borrow()
    with connection.cursor() as cursor:
        cursor.execute("select %s", (question,))
        print(cursor.fetchone()[0], flush=True)
    return connection


def child(pool, mode):
    if mode == "fixed":
        pool = Pool("threads/child")
    try:
        ask(pool, "asked by the child").close()
    except queue.Empty:
        print("no connection came", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def main(mode):
    pool = Pool("threads/parent")
    connection = ask(pool, "asked by the parent")
    pid = os.fork()
    if pid == 0:
        child(pool, mode)
    _, status = os.waitpid(pid, 0)
    connection.close()
    sys.exit(status != 0)


if __name__ == "__main__":
    main(sys.argv[1])
