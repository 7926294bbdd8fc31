"""Parts of the checks of Python programs: the server, a wait with a limit, and worker processes."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import redis

PORT = int(os.environ["PORT"])
# Separates a program that hangs from a slow machine.
LIMIT_S = 60.0

Value = TypeVar("Value")


def client(database: int = 0, **options) -> redis.Redis:
    return redis.Redis(port=PORT, db=database, decode_responses=True, **options)


def url(database: int) -> str:
    return f"redis://127.0.0.1:{PORT}/{database}"


def until(what: str, condition: Callable[[], Value]) -> Value:
    """Evaluates `condition` until it is true, and returns its value."""
    limit = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < limit, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.02)
    return value


def hold_the_first_time(name: str) -> None:
    """Body of a job whose first run never ends, so that its worker can be killed in the middle of it."""
    with client() as server:
        if server.incr(f"runs:{name}") == 1:
            server.blpop(["never"])


def is_held(name: str) -> bool:
    with client() as server:
        return server.exists(f"runs:{name}") == 1


class Worker:
    """A worker process. `kill` ends it as a crash does, its children first."""

    def __init__(self, *command: str):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, cwd=Path(__file__).parent, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT
        )

    def kill(self) -> None:
        for pid in [*descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.process.wait()

    def terminate(self) -> None:
        """Ends it as an orderly shutdown does."""
        self.process.terminate()
        self.process.wait(LIMIT_S)

    def print_output(self) -> None:
        self.output.seek(0)
        sys.stdout.write(self.output.read().decode(errors="replace"))


@contextmanager
def worker(*command: str) -> Iterator[Worker]:
    """A worker process for the length of a block, killed at its end. Its output is printed if the block fails."""
    started = Worker(*command)
    try:
        yield started
    except BaseException:
        started.print_output()
        raise
    finally:
        started.kill()


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [below for child in children for below in [*descendants(child), child]]
