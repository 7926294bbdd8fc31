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
LIMIT_S = 20.0
# Last message in the log when a server has started.
LISTENS = ("serves on", "Ready to accept connections")
# Number of ports to try: another process may take one between the choice and the bind.
PORTS_MAX = 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server. `binary` is a path of mayfly, `redis` for Debian's redis-server, or a path of valkey-server or redis-server."""

    def __init__(self, binary: str, *options: str, environment: dict[str, str] | None = None, ignores_file_size: bool = False):
        # Whether a write beyond the maximum size of a file fails instead of ending the process.
        self.ignores_file_size = ignores_file_size
        self.is_redis = binary == "redis"
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-e2e-")
        self.log_path = Path(self.folder.name) / "log"
        if self.is_redis or binary.endswith(("valkey-server", "redis-server")):
            command = ["redis-server" if self.is_redis else binary, "--save", "", "--appendonly", "no"]
        else:
            command = [str(Path(binary).resolve()), "serve"]
        command += ["--bind", "127.0.0.1", *options]
        for _ in range(PORTS_MAX):
            self.port = free_port()
            self.command = [*command, "--port", str(self.port)]
            self.environment = {**os.environ, **(environment or {})}
            if self._start(self.command, self.environment):
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
        return self.log_path.read_text(errors="replace")

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, after it stopped by itself."""
        return self.process.wait(END_LIMIT_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.end()
        self.folder.cleanup()


def within_limit():
    """Repeats a loop until the loop ends it. The limit fails the check."""
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        yield
    raise AssertionError(f"not within {LIMIT_S} s")


def run_to_end(binary: str, *options: str) -> tuple[int, str]:
    """Starts a server that is expected to refuse. Returns its exit code and output."""
    command = ["redis-server"] if binary == "redis" else [str(Path(binary).resolve()), "serve"]
    done = subprocess.run(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=END_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")
