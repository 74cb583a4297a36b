"""A program that is killed while its statement waits on the server.

broken: the server is left to find out when it next writes to the socket.
fixed:  the server looks at the socket from time to time (PostgreSQL 14 or later), or
        at least does not wait for ever.
"""

import os
import sys

import psycopg2


def main(mode):
    connection = psycopg2.connect(os.environ["DATABASE_URL"], application_name="gone/coordinator")
    connection.autocommit = True
    with connection.cursor() as cursor:
        if mode == "fixed" and connection.server_version >= 140000:
            cursor.execute("set client_connection_check_interval = '50ms'")
        elif mode == "fixed":
            cursor.execute("set lock_timeout = '2s'")
        cursor.execute("select pg_advisory_lock(7)")
        cursor.execute("create table busy (n int)")
        print("ready", flush=True)
        while True:  # until the table is locked, and then until we are killed
            cursor.execute("select n from busy")


if __name__ == "__main__":
    main(sys.argv[1])
