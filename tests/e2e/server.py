"""Starts one server on a free loopback port and ends it again."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import redis

START_LIMIT_S = 20.0
END_LIMIT_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server. `binary` is a path of mayfly, or `redis` for Debian's redis-server."""

    def __init__(self, binary: str, *options: str, environment: dict[str, str] | None = None):
        self.is_redis = binary == "redis"
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-e2e-")
        self.log_path = Path(self.folder.name) / "log"
        self.log = self.log_path.open("wb")
        if self.is_redis:
            command = ["redis-server", "--save", "", "--appendonly", "no"]
        else:
            command = [str(Path(binary).resolve()), "serve"]
        command += ["--port", str(self.port), "--bind", "127.0.0.1", *options]
        self.process = subprocess.Popen(
            command,
            cwd=self.folder.name,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        self._await_start(command)

    def _await_start(self, command: list[str]) -> None:
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            if self.process.poll() is not None:
                raise RuntimeError(f"{command} ended with {self.process.returncode}:\n{self.log_text()}")
            try:
                self.raw().close()
                return
            except OSError:
                # Nothing tells when a process begins to listen: ask again.
                time.sleep(0.01)
        self.end()
        raise RuntimeError(f"{command} does not listen after {START_LIMIT_S} s:\n{self.log_text()}")

    def client(self, **options) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=20, **options)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace")

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, once it ends by itself."""
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


def run_to_end(binary: str, *options: str, limit_s: float = 20) -> tuple[int, str]:
    """Starts a server that is expected to refuse; its exit code and output."""
    command = ["redis-server"] if binary == "redis" else [str(Path(binary).resolve()), "serve"]
    done = subprocess.run(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")
