# One trial: argv is shape, pause before the act, pause after it, in microseconds.
# It confesses on standard output: "opener PID", "actor PID".
# The driver is psycopg2, or the one that TRIAL_DRIVER names.
import ctypes
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

driver = importlib.import_module(os.environ.get("TRIAL_DRIVER", "psycopg2"))

SHAPE, BEFORE, AFTER = sys.argv[1], int(sys.argv[2]) / 1e6, int(sys.argv[3]) / 1e6
X, S = b"X\0\0\0\4", b"S\0\0\0\4"


def say(role):
    os.write(1, f"{role} {os.getpid()}\n".encode())


def connect(url=os.environ["DATABASE_URL"]):
    connection = driver.connect(url)
    connection.autocommit = True
    return connection


def ask(connection):
    cursor = connection.cursor()
    cursor.execute("select 42")
    return cursor.fetchone()


def descend(depth, act):
    """Runs act in a descendant of that depth and waits for it."""
    pid = os.fork()
    if pid > 0:
        os.waitpid(pid, 0)
        return
    if depth > 1:
        descend(depth - 1, act)
        os._exit(0)
    time.sleep(BEFORE)
    act()
    time.sleep(AFTER)
    os._exit(0)


def guilty(act):
    def acts():
        say("actor")
        act()
    return acts


def use_own():
    connection = connect()
    ask(connection)
    connection.close()


def raw(*pieces):
    return lambda: [os.write(connection.fileno(), piece) for piece in pieces]


def duplicate():
    """Writes by another number of the same socket."""
    os.write(os.dup2(connection.fileno(), 200), X)


class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """struct mmsghdr of 64-bit Linux."""
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("parts", ctypes.POINTER(Part)), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int), ("padding", ctypes.c_int), ("sent", ctypes.c_uint)]


def several():
    """Sends two messages of a datagram socket's kind by one call: they follow each other."""
    parts = [Part(S, 5), Part(X, 5)]
    messages = (Message * 2)(*[Message(parts=ctypes.pointer(part), count=1) for part in parts])
    if ctypes.CDLL(None).sendmmsg(connection.fileno(), messages, 2, 0) != 2:
        sys.exit("sendmmsg failed")


def serve(generation, worker, guilty_one):
    """A worker of a prefork server: a connection of its own, some requests, the end."""
    own = connect()
    for _ in range(3):
        ask(own)
    own.close()
    if (generation, worker) == guilty_one:
        say("actor")
        connection.close()
    os._exit(0)


def prefork(guilty_one):
    """Keeps three workers, and replaces each one twice."""
    running = {}
    for generation in range(3):
        for worker in range(3):
            pid = os.fork()
            if pid == 0:
                serve(generation, worker, guilty_one)
            running[pid] = worker
        while running:
            running.pop(os.wait()[0])


def pgbouncer():
    """Forks clients of a pgbouncer that is itself the only client of the server."""
    url = os.environ["DATABASE_URL"]
    account, _, rest = url.partition("://")[2].partition("@")
    user, _, password = account.partition(":")
    server, _, name = rest.partition("?")[0].partition("/")
    host, _, port = server.partition(":")
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    mine = probe.getsockname()[1]
    probe.close()
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    with open(folder + "/pgbouncer.ini", "w") as file:
        file.write(f"[databases]\n{name} = host={host} port={port} user={user} password={password}\n"
                   f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {mine}\nunix_socket_dir =\nauth_type = any\n"
                   f"pool_mode = transaction\nserver_tls_sslmode = {os.environ.get('TRIAL_SSLMODE', 'disable')}\n")
    command = ["pgbouncer", "-q", folder + "/pgbouncer.ini"]
    if os.geteuid() == 0:
        command[1:1] = ["-u", "nobody"]
    bouncer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    through = f"postgres://{user}@127.0.0.1:{mine}/{name}?sslmode=disable"
    for _ in range(600):
        try:
            connect(through).close()
            break
        except driver.Error:
            time.sleep(0.05)
    for _ in range(3):
        if os.fork() == 0:
            client = connect(through)
            ask(client)
            client.close()
            os._exit(0)
    for _ in range(3):
        os.wait()
    bouncer.send_signal(signal.SIGINT)
    bouncer.wait()
    shutil.rmtree(folder)


def passed(pair):
    """Receives the descriptor by a socket, as pools of processes do."""
    _, fds, _, _ = socket.recv_fds(pair, 16, 1)
    say("actor")
    os.write(fds[0], X)


connection = connect()
say("opener")
ask(connection)
time.sleep(BEFORE)

if SHAPE == "child-close":
    descend(1, guilty(connection.close))
elif SHAPE == "grandchild-close":
    descend(3, guilty(connection.close))
elif SHAPE == "glued":
    descend(1, guilty(raw(S + X)))
elif SHAPE == "pieces":
    descend(1, guilty(raw(X[:2], X[2:])))
elif SHAPE == "vector":
    descend(1, guilty(lambda: os.writev(connection.fileno(), [X[:1], X[1:4], X[4:]])))
elif SHAPE == "duplicate":
    descend(1, guilty(duplicate))
elif SHAPE == "several":
    descend(1, guilty(several))
elif SHAPE == "shutdown":
    descend(1, guilty(lambda: socket.socket(fileno=os.dup(connection.fileno())).shutdown(socket.SHUT_RDWR)))
elif SHAPE == "one-of-many":
    crowd = []
    for n in range(5):
        pid = os.fork()
        if pid == 0:
            time.sleep(BEFORE * n)
            if n == int(sys.argv[2]) % 5:
                say("actor")
                connection.close()
            time.sleep(AFTER)
            os._exit(0)
        crowd.append(pid)
    for pid in crowd:
        os.waitpid(pid, 0)
elif SHAPE == "prefork-recycled":
    prefork((int(sys.argv[2]) % 3, int(sys.argv[3]) % 3))
elif SHAPE == "passed":
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.close(connection.fileno())
        passed(theirs)
        os._exit(0)
    socket.send_fds(ours, [b"."], [connection.fileno()])
    os.waitpid(pid, 0)
elif SHAPE == "shared":
    descend(1, guilty(lambda: ask(connection)))
    ask(connection)
elif SHAPE == "opener-left":
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(told, 1)
        time.sleep(AFTER)
        ask(connection)
        os._exit(0)
    say("actor")
    connection.close()
    os.write(tell, b".")
    os.waitpid(pid, 0)
    sys.exit(0)
elif SHAPE == "held":
    if os.fork() == 0:
        time.sleep(0.2 + AFTER)
        say("actor")
        os._exit(0)
    os._exit(0)
# from here on nothing is wrong
elif SHAPE == "forget":
    descend(2, lambda: None)
elif SHAPE == "own":
    descend(1, use_own)
elif SHAPE == "reconnect":
    for _ in range(5):
        connection.close()
        connection = connect()
        ask(connection)
elif SHAPE == "prefork":
    prefork(None)
elif SHAPE == "pgbouncer":
    pgbouncer()
elif SHAPE == "program":
    subprocess.run(["/bin/true"], check=True)
elif SHAPE == "left-open":
    sys.exit(0)
elif SHAPE == "handed-over":
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(told, 1)
        time.sleep(AFTER)
        os.write(connection.fileno(), X)
        os._exit(0)
    os.close(connection.fileno())
    os.write(tell, b".")
    os.waitpid(pid, 0)
    os._exit(0)

try:
    ask(connection)
    connection.close()
except driver.Error:
    sys.exit(1)
