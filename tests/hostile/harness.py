"""Servers under limits, connections on plain sockets, and probes of latency."""

import array
import contextlib
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30
# Address space of a server, unless a check needs another limit.
ADDRESS_SPACE_BYTES = 3 * GIB
# Limits that distinguish a server that hangs from a busy machine.
START_LIMIT_S = 30.0
LIMIT_S = 60.0
END_LIMIT_S = 20.0
# Last message in the log when a server has started.
LISTENS = ("serves on", "Ready to accept connections")
# Number of ports to try: another process may take one between the choice and the bind.
PORTS_MAX = 5
# Sent behind a command whose reply is read without being parsed.
MARKER = b"end-of-the-reply"


class Refusal(str):
    """An error reply."""


def encoded(*words) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    """A connection in RESP2, or in any protocol through `socket`."""

    def __init__(self, port: int, limit_s: float = LIMIT_S, source: str = ""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=limit_s, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def say(self, *words):
        """Returns the reply to one command; an error reply is a `Refusal`."""
        self.socket.sendall(encoded(*words))
        return self.reply()

    def must(self, *words):
        """Returns the reply to one command, which must not be an error."""
        reply = self.say(*words)
        assert not isinstance(reply, Refusal), f"{' '.join(str(word)[:40] for word in words)[:200]}: {reply}"
        return reply

    def say_all(self, commands: list) -> list:
        self.socket.sendall(b"".join(encoded(*words) for words in commands))
        return [self.reply() for _ in commands]

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind in b"*>~":
            size = int(rest)
            return None if size < 0 else [self.reply() for _ in range(size)]
        if kind == b"%":
            return [self.reply() for _ in range(2 * int(rest))]
        if kind == b":":
            return int(rest)
        return Refusal(rest.decode(errors="replace")) if kind == b"-" else rest.decode(errors="replace")

    def drain(self, *words) -> bytes:
        """Sends one command and reads its reply without parsing it. Returns the reply's first bytes."""
        self.socket.sendall(encoded(*words) + encoded("ECHO", MARKER))
        buffer, end, first = bytearray(MIB), b"", b""
        wanted = b"$%d\r\n%b\r\n" % (len(MARKER), MARKER)
        while not end.endswith(wanted):
            size = self.socket.recv_into(buffer)
            if size == 0:
                raise ConnectionError("the server closed the connection")
            first = first or bytes(buffer[: min(size, 100)])
            end = (end + bytes(buffer[max(0, size - len(wanted)) : size]))[-len(wanted) :]
        return first

    def line(self) -> bytes:
        """One line of a text protocol, without its end."""
        return self.file.readline().removesuffix(b"\r\n")

    def ask(self, text: bytes) -> bytes:
        """Sends a line of a text protocol and returns the first line of the reply."""
        self.socket.sendall(text + b"\r\n")
        return self.line()

    def is_closed(self, limit_s: float = LIMIT_S) -> bool:
        """Whether the server closes the connection within the limit; what it still sends is dropped."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            try:
                self.socket.settimeout(max(0.01, end - time.monotonic()))
                if not self.socket.recv(MIB):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True
        return False


def free_ports() -> tuple[int, int]:
    """Two ports that are not in use, and not the same."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


class Server:
    """A running server on loopback. `binary` is a path of mayfly, redis-server, valkey-server or memcached."""

    def __init__(self, binary: str, *options: str, address_space: int = ADDRESS_SPACE_BYTES):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-hostile-")
        self.log_path = Path(self.folder.name) / "log"
        self.address_space = address_space
        self.name = Path(binary).name
        self.is_peer = self.name in ("redis-server", "valkey-server", "memcached")
        for _ in range(PORTS_MAX):
            self.port, self.memcached_port = free_ports()
            if self._start(self._command(binary, options)):
                return
        raise RuntimeError(f"{binary} finds all ports in use:\n{self.log_text()}")

    def _command(self, binary: str, options: tuple) -> list[str]:
        if self.name == "memcached":
            return [binary, "-u", "root", "-l", "127.0.0.1", "-p", str(self.memcached_port)]
        if self.is_peer:
            return [binary, "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no", *options]
        ports = ["--port", str(self.port), "--memcached", str(self.memcached_port)]
        return [str(Path(binary).resolve()), "serve", "--bind", "127.0.0.1", *ports, *options]

    def _limit(self) -> None:
        """Runs in the child before the server."""
        restore_priority()
        resource.setrlimit(resource.RLIMIT_AS, (self.address_space, self.address_space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def _start(self, command: list[str]) -> bool:
        """Starts it and waits until it listens. Returns False if a port was taken."""
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=self._limit
            )
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            text = self.log_text()
            if self.process.poll() is not None:
                if "in use" in text:
                    return False
                raise RuntimeError(f"{' '.join(command[1:])} ended with {self.process.returncode}: {text.strip()[-500:]}")
            if any(word in text for word in LISTENS) or self.name == "memcached" and self._accepts():
                return True
            time.sleep(0.01)
        self.end()
        raise RuntimeError(f"{command} does not listen after {START_LIMIT_S} s:\n{self.log_text()}")

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.memcached_port), timeout=1).close()
            return True
        except OSError:
            return False

    def connect(self, limit_s: float = LIMIT_S, source: str = "") -> Connection:
        return Connection(self.port, limit_s, source)

    def memcached(self, limit_s: float = LIMIT_S) -> Connection:
        return Connection(self.memcached_port, limit_s)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.process.poll() is None

    def assert_running(self) -> None:
        assert self.is_running(), f"the server ended with {self.process.returncode}: {self.log_text().strip()[-300:]}"

    def _status(self, name: str) -> int:
        """A figure of /proc/PID/status in bytes."""
        self.assert_running()
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(found.group(1)) * 1024 if found else 0

    def times_of_data_threads(self) -> list[str]:
        """Files with the processor time of each data thread, if the system counts it."""
        files = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            # A thread for long work may end meanwhile.
            with contextlib.suppress(OSError):
                if task.name == str(self.process.pid) if self.is_peer else (task / "comm").read_text().startswith("worker-"):
                    files.append(task / "schedstat")
        return [str(file) for file in files if file.exists()]

    def resident(self) -> int:
        return self._status("VmRSS")

    def peak(self) -> int:
        """Largest resident size since the start or since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def info(self) -> dict[str, str]:
        with self.connect() as client:
            text = client.must("INFO", "everything").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def end(self) -> int:
        """Stops the server by its process and returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def seconds_to_end(self, limit_s: float) -> float:
        """Sends SIGTERM and returns the seconds until the process has ended, or infinity."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(limit_s)
            return time.monotonic() - started
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return float("inf")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind=None, error=None, _=None) -> None:
        if isinstance(error, OSError):
            # The connection ends before the process does.
            becomes(lambda: not self.is_running(), 1)
        has_ended, code, text = not self.is_running(), self.process.returncode, self.log_text()
        self.end()
        self.folder.cleanup()
        if has_ended and isinstance(error, OSError):
            words = [line for line in text.splitlines() if "alloc" in line or "panic" in line]
            raise AssertionError(f"the server ended with {code}: {' '.join(words)[:300] or text[-300:]}") from error


def within(limit_s: float = LIMIT_S, pause_s: float = 0.02) -> Iterator[None]:
    """Repeats a loop until the loop ends it. The limit fails the check."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        yield
        time.sleep(pause_s)
    raise AssertionError(f"not within {limit_s} s")


def becomes(condition: Callable[[], bool], limit_s: float = LIMIT_S, pause_s: float = 0.02) -> bool:
    """Whether a condition holds at some moment within the limit."""
    limit = time.monotonic() + limit_s
    while True:
        if condition():
            return True
        if time.monotonic() >= limit:
            return False
        time.sleep(pause_s)


def send_what_is_taken(connection: Connection, data: bytes, limit_s: float = 5.0) -> int:
    """Sends until the server stops reading for half a second, cuts off, or all is sent. Returns the number of bytes sent."""
    view, sent, end = memoryview(data), 0, time.monotonic() + limit_s
    connection.socket.setblocking(False)
    try:
        while sent < len(data) and time.monotonic() < end:
            if not select.select([], [connection.socket], [], 0.5)[1]:
                break
            sent += connection.socket.send(view[sent : sent + MIB])
    except OSError:
        pass
    finally:
        connection.socket.settimeout(limit_s)
    return sent


@dataclass
class Latencies:
    """Latencies of a probe's requests, in milliseconds. A request that waited long stands for the requests that were not
    sent meanwhile, so that a long stall weighs as much as it lasted.

    `used_max` is the longest time for which the server's data threads worked during one request, all together: what the
    request can have waited for the server. The rest is the wait for a core of a busy machine. NaN if the system does not count it."""

    values: list[float]
    used_max: float = float("nan")

    def at(self, part: float) -> float:
        return self.values[min(len(self.values) - 1, int(len(self.values) * part))] if self.values else float("inf")

    @property
    def p999(self) -> float:
        return self.at(0.999)

    @property
    def max(self) -> float:
        return self.values[-1] if self.values else float("inf")


class Probe:
    """Another process that sends GET of one key again and again."""

    INTERVAL_MS = 1.0

    def __init__(self, server: Server, key: str = "probe"):
        script = str(Path(__file__).with_name("probe.py"))
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", script, str(server.port), key, *server.times_of_data_threads()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=restore_priority,
        )
        self.process.stdout.read(1)

    def end(self) -> list[tuple[float, float, float]]:
        """Stops it. Returns the start, the duration and the time of the data threads of each request, in seconds."""
        output, _ = self.process.communicate(timeout=LIMIT_S + 60)
        numbers = array.array("d")
        numbers.frombytes(output)
        return list(zip(numbers[::3], numbers[1::3], numbers[2::3]))


def latencies(probes: list[Probe], since: float = 0.0, until: float = float("inf")) -> Latencies:
    """Ends the probes. Latencies of the requests that were under way between two instants."""
    values, used_max = [], 0.0
    for probe in probes:
        for start, duration, used in probe.end():
            if start + duration < since or start > until:
                continue
            # A NaN remains.
            used_max = used_max if used_max >= used * 1000 else used * 1000
            ms = duration * 1000
            values.append(ms)
            while ms > 2 * Probe.INTERVAL_MS and len(values) < 1_000_000:
                ms -= Probe.INTERVAL_MS
                values.append(ms)
    return Latencies(sorted(values), used_max)


@dataclass
class Figure:
    """A measured value, the bound of the final machine, and the bound that is asserted."""

    check: str
    what: str
    measured: str
    bound: str


@dataclass
class Bench:
    """Environment of a check: starts servers with the options of this run and collects measured figures."""

    binary: str
    threads: int
    is_full: bool
    engine: str = "slab"
    name: str = ""
    figures: list[Figure] = field(default_factory=list)
    shared: dict = field(default_factory=dict)

    @property
    def is_peer(self) -> bool:
        return Path(self.binary).name in ("redis-server", "valkey-server", "memcached")

    def start(self, *options: str, address_space: int = ADDRESS_SPACE_BYTES) -> Server:
        if not self.is_peer:
            threads = () if "--threads" in options else ("--threads", str(self.threads))
            options = (*threads, "--engine", self.engine, *options)
        return Server(self.binary, *options, address_space=address_space)

    def note(self, what: str, measured: str, bound: str) -> None:
        self.figures.append(Figure(self.name, what, measured, bound))

    def probes(self, server: Server) -> list[Probe]:
        """One probe, or two where two data threads serve the connections."""
        return [Probe(server) for _ in range(min(2, self.threads))]

    def size(self, small: int, full: int) -> int:
        return full if self.is_full else small

    def finish(self) -> None:
        """Ends what checks share."""
        for server in [value for value in self.shared.values() if isinstance(value, Server)]:
            server.__exit__()
        self.shared.clear()


def mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


# Lowers the priority and raises it again, which not every root may do.
PRIORITIES = "import os; [os.sched_setscheduler(0, policy, os.sched_param(0)) for policy in (os.SCHED_IDLE, os.SCHED_OTHER)]"


def lower_priority() -> bool:
    """Gives this process the lowest priority: in production the client of a long command runs on another machine, so here it must not take
    a core from the server. Returns False, without a change, if the server could not get the usual priority again."""
    may_restore = subprocess.run([sys.executable, "-c", PRIORITIES], capture_output=True).returncode == 0
    if may_restore:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return may_restore


def restore_priority() -> None:
    """Gives the calling process or thread the usual priority if lower_priority has lowered it, also in its parent."""
    if os.sched_getscheduler(0) == os.SCHED_IDLE:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def usual_priority() -> Iterator[None]:
    """Restores the priority where this process takes part in what is measured. During a mass expiry, a subscriber of the lowest priority
    delayed other clients of a server with two data threads by up to 64 ms, and one of the usual priority by less than 5 ms."""
    is_lowered = os.sched_getscheduler(0) == os.SCHED_IDLE
    restore_priority()
    try:
        yield
    finally:
        if is_lowered:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
