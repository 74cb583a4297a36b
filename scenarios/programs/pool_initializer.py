"""A pool of processes whose initializer tidies up what it inherited.

broken: it closes the connection that its parent had opened, which says goodbye
        on the parent's own session.
fixed:  it forgets the connection without closing it.
"""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import psycopg2

connection = None


def forget_or_close(mode):
    global connection
    if mode == "broken":
        connection.close()
    connection = None  # psycopg2 leaves a connection of another process alone


def work(number):
    mine = psycopg2.connect(os.environ["DATABASE_URL"], application_name="pool/worker")
    try:
        with mine.cursor() as cursor:
            cursor.execute("select %s * 2", (number,))
            return cursor.fetchone()[0]
    finally:
        mine.close()


def main(mode, workers=2):
    global connection
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="pool/main")
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(int(workers), mp_context=context, initializer=forget_or_close, initargs=(mode,)) as pool:
        doubled = list(pool.map(work, range(4)))
    with connection.cursor() as cursor:
        cursor.execute("select sum(x) from unnest(%s) as x", (doubled,))
        print("sum", cursor.fetchone()[0])
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
