"""A pool of processes, one of whose jobs kills the worker that runs it.

broken: the job runs in the pool. ProcessPoolExecutor ends all other workers, and
        with them their sessions, and does no more work.
fixed:  what may crash runs in a process of its own, whose death is an answer like
        any other; the pool goes on.
"""

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor

import psycopg2

WORKERS = 3
context = multiprocessing.get_context("fork")
connection = None


def start(all_started):
    global connection
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="pool/worker")
    all_started.wait()  # a worker that is ended in the midst of its start shows nothing


def work(number):
    with connection.cursor() as cursor:
        cursor.execute("select %s * 2", (number,))
        return cursor.fetchone()[0]


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


def main(mode):
    started = context.Barrier(WORKERS)
    with ProcessPoolExecutor(WORKERS, mp_context=context, initializer=start, initargs=(started,)) as pool:
        print("sum", sum(pool.map(work, range(WORKERS))))
        if mode == "broken":
            pool.submit(crash).result()
        else:
            alone = context.Process(target=crash)
            alone.start()
            alone.join()
            print("the job died of signal", -alone.exitcode)
        print("sum", sum(pool.map(work, range(WORKERS))))


if __name__ == "__main__":
    main(sys.argv[1])
