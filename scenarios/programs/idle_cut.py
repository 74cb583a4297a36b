"""A program whose session is forgotten by a box on the way while it is idle.

broken: it sends its next statement into the session and waits.
fixed:  it gives the first statement after a pause a short deadline, and connects anew.
"""

import os
import select
import sys

import psycopg2
import psycopg2.extensions

PAUSE = 0.2  # seconds; longer than the box remembers
DEADLINE = 1.0  # seconds for one answer


def wait(connection):
    while (state := connection.poll()) != psycopg2.extensions.POLL_OK:
        reading = [connection] if state == psycopg2.extensions.POLL_READ else []
        writing = [connection] if state == psycopg2.extensions.POLL_WRITE else []
        if not any(select.select(reading, writing, [], DEADLINE)):
            raise TimeoutError("no answer")


def connect():
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="patient/main", async_=True)
    wait(connection)
    return connection


def ask(connection):
    cursor = connection.cursor()
    cursor.execute("select 'served'")
    wait(connection)
    return cursor.fetchone()[0]


def until_forgotten(connection):
    """Pauses and asks, until a question stays without an answer."""
    while True:
        select.select([], [], [], PAUSE)
        ask(connection)


def main(mode):
    connection = connect()
    try:
        until_forgotten(connection)
    except TimeoutError:
        if mode == "broken":
            raise
    for _ in range(20):  # a busy machine may make us slow enough to be forgotten again
        try:
            connection = connect()
            print(ask(connection))
            return
        except TimeoutError:
            continue
    raise SystemExit("no session lives long enough")


if __name__ == "__main__":
    main(sys.argv[1])
