#!/usr/bin/env python3
"""Measures starts of an empty server: time to the first reply, processor time, memory, and processor time while idle.

    tests/measure/start.py target/release/mayfly PATH/redis-server [--starts 30] [--idle 10]

Times of the wall clock depend on what else the machine does; the processor time of all threads is that of the kernel's scheduler, in nanoseconds.
"""

import argparse
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

LIMIT_S = 30.0
# Time between two attempts to connect.
STEP_S = 0.0005


def processor_ns(pid: int) -> int:
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def memory_kb(pid: int) -> tuple[int, int]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["RssAnon"].split()[0])


def first_reply(port: int) -> None:
    limit = time.monotonic() + LIMIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"PING\r\n")
                assert connection.recv(100) == b"+PONG\r\n"
                return
        except ConnectionError:
            # Nothing notifies of a port that is open, so it is tried again.
            assert time.monotonic() < limit, "the server does not listen"
            time.sleep(STEP_S)


class Started:
    """A server in an empty folder, and the wall and processor time in milliseconds until its first reply."""

    def __init__(self, program: str):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-start-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        own = ["--threads", "1"] if "mayfly" in Path(program).name else ["--save", "", "--appendonly", "no"]
        command = [str(Path(program).resolve()), "--bind", "127.0.0.1", "--port", str(port), *own]
        begin = time.monotonic()
        self.process = subprocess.Popen(command, cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first_reply(port)
        self.wall_ms = (time.monotonic() - begin) * 1e3
        self.processor_ms = processor_ns(self.process.pid) / 1e6

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):7.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", help="servers: mayfly, redis-server")
    parser.add_argument("--starts", default=30, type=int)
    parser.add_argument("--idle", default=10.0, type=float, help="seconds without a request")
    options = parser.parse_args()
    print("median (min-max)")
    for program in options.programs:
        walls, processors = [], []
        for _ in range(options.starts):
            server = Started(program)
            walls.append(server.wall_ms)
            processors.append(server.processor_ms)
            server.end()
        server = Started(program)
        time.sleep(1)
        resident, anonymous = memory_kb(server.process.pid)
        before = processor_ns(server.process.pid)
        time.sleep(options.idle)
        idle = (processor_ns(server.process.pid) - before) / 1e9 / options.idle
        server.end()
        print(f"{program}: first reply after {shown(walls)} ms, processor time {shown(processors)} ms")
        print(f"{program}: resident {resident} KiB, anonymous {anonymous} KiB, idle {idle:.4%} of a core", flush=True)


if __name__ == "__main__":
    main()
