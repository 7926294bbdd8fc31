#!/usr/bin/env python3
"""Measures requests for /metrics of a server with many keys and clients, and how long other clients wait meanwhile.

    tests/measure/scrape.py target/release/mayfly [--keys 1000000] [--clients 1000] [--scrapes 200]
"""

import argparse
import http.client
import resource
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from start import first_reply, processor_ns

BATCH = 1000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fill(port: int, keys: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        replies = connection.makefile("rb")
        for first in range(0, keys, BATCH):
            connection.sendall(b"".join(b"SET key:%012d xxx PX %d\r\n" % (number, 3_600_000 + number) for number in range(first, first + BATCH)))
            for _ in range(BATCH):
                assert replies.readline() == b"+OK\r\n"


def shown(values: list[float]) -> str:
    values = sorted(values)
    return f"p50 {statistics.median(values):.3f} ms, p99 {values[len(values) * 99 // 100]:.3f} ms, max {values[-1]:.3f} ms"


class Pings(threading.Thread):
    """A client that sends one PING after the other, and the times of the replies in milliseconds."""

    def __init__(self, port: int):
        super().__init__()
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.times: list[float] = []
        self.is_on = True

    def run(self) -> None:
        while self.is_on:
            begin = time.perf_counter()
            self.connection.sendall(b"PING\r\n")
            assert self.connection.recv(100) == b"+PONG\r\n"
            self.times.append((time.perf_counter() - begin) * 1e3)
            time.sleep(0.0002)

    def end(self) -> list[float]:
        self.is_on = False
        self.join()
        return self.times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--keys", default=1_000_000, type=int)
    parser.add_argument("--clients", default=1000, type=int)
    parser.add_argument("--scrapes", default=200, type=int)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, options.clients + 1000), limit))
    port, web = free_port(), free_port()
    command = [str(Path(options.program).resolve()), "--port", str(port), "--http", f"127.0.0.1:{web}", "--threads", "1"]
    with tempfile.TemporaryDirectory(prefix="mayfly-scrape-") as folder:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            first_reply(port)
            fill(port, options.keys)
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(options.clients)]
            for client in clients:
                client.sendall(b"PING\r\n")
                client.recv(100)
            quiet = Pings(port)
            quiet.start()
            time.sleep(2)
            print("PING without scrapes:", shown(quiet.end()))
            others = Pings(port)
            others.start()
            walls, processors = [], []
            for _ in range(options.scrapes):
                connection = http.client.HTTPConnection("127.0.0.1", web)
                before, begin = processor_ns(server.pid), time.perf_counter()
                connection.request("GET", "/metrics")
                body = connection.getresponse().read()
                walls.append((time.perf_counter() - begin) * 1e3)
                processors.append((processor_ns(server.pid) - before) / 1e6)
                connection.close()
                assert b"mayfly_" in body
                time.sleep(0.01)
            print("PING beside scrapes: ", shown(others.end()))
            print(f"/metrics, {len(body)} bytes:", shown(walls))
            print("processor time of the server meanwhile:", shown(processors))
            for client in clients:
                client.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
