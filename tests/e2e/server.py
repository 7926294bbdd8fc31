"""Starts a server on a free loopback port and stops it again."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import redis

# Limits that distinguish a server that hangs from a busy machine; no check measures time.
START_LIMIT_S = 60.0
END_LIMIT_S = 60.0
LIMIT_S = 60.0
# Last message in the log when a server has started.
LISTENS = ("serves on", "Ready to accept connections")
# Programs that are started with the options of Redis.
PEERS = ("redis-server", "valkey-server")
# Number of ports to try: another process may take one between the choice and the bind.
PORTS_MAX = 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_of(binary: str) -> list[str]:
    return [binary] if Path(binary).name in PEERS else [str(Path(binary).resolve()), "serve"]


class Server:
    """A running server. `binary` is a path of mayfly, or a name or path of redis-server or valkey-server."""

    # All that were started since the list was last emptied, so that a failure shows their logs.
    started: list["Server"] = []

    def __init__(self, binary: str, *options: str, environment: dict[str, str] | None = None, ignores_file_size: bool = False):
        # Whether a write beyond the maximum size of a file fails instead of ending the process.
        self.ignores_file_size = ignores_file_size
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-e2e-")
        self.log_path = Path(self.folder.name) / "log"
        # A synchronization waits by default for five seconds for further replicas.
        save = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0") if Path(binary).name in PEERS else ()
        command = [*command_of(binary), *save, "--bind", "127.0.0.1", *options]
        self.ended_log: str | None = None
        for _ in range(PORTS_MAX):
            self.port = free_port()
            self.command = [*command, "--port", str(self.port)]
            self.environment = {**os.environ, **(environment or {})}
            if self._start(self.command, self.environment):
                Server.started.append(self)
                return
        raise RuntimeError(f"{command} finds all ports in use:\n{self.log_text()}")

    def _start(self, command: list[str], environment: dict[str, str]) -> bool:
        """Starts it and waits until it listens. Returns False if its port was taken."""
        self.log = self.log_path.open("wb")
        if self.ignores_file_size:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.process = subprocess.Popen(
            command, restore_signals=not self.ignores_file_size, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, env=environment
        )
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            has_ended = self.process.poll() is not None
            text = self.log_text()
            if has_ended:
                self.log.close()
                if "in use" in text:
                    return False
                raise RuntimeError(f"{command} ended with {self.process.returncode}:\n{text}")
            # Its log, not a connection: another process could accept that.
            if any(word in text for word in LISTENS):
                return True
            # Nothing notifies of a growing file, so it is read again.
            time.sleep(0.01)
        self.end()
        raise RuntimeError(f"{command} does not listen after {START_LIMIT_S} s:\n{self.log_text()}")

    def restart(self) -> None:
        """Starts it again, after it has ended, on the same port."""
        self.log.close()
        assert self._start(self.command, self.environment), f"port {self.port} was taken meanwhile"

    def client(self, **options) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=LIMIT_S, **options)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    def log_text(self) -> str:
        """The log, also after the folder was removed."""
        return self.log_path.read_text(errors="replace") if self.ended_log is None else self.ended_log

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """The exit code, after it stopped by itself."""
        return self.process.wait(END_LIMIT_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.end()
        self.ended_log = self.log_text()
        self.folder.cleanup()


def within_limit():
    """Repeats a loop until the loop ends it. The limit fails the check."""
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        yield
    raise AssertionError(f"not within {LIMIT_S} s")


def run_to_end(binary: str, *options: str) -> tuple[int, str]:
    """Starts a server that is expected to refuse. Returns its exit code and output."""
    done = subprocess.run(
        [*command_of(binary), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=END_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")
