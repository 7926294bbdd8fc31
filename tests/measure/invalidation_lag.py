#!/usr/bin/env python3
"""Measures how late CLIENT TRACKING invalidates keys and elements that expire.

A client in RESP3 tracks keys that have a deadline, and hashes that have a field with one, beside a
million other keys with TTLs. Each invalidation's arrival is compared with the deadline. A thread of
its own that sleeps until the same deadlines shows how late the machine is by itself.

    tests/measure/invalidation_lag.py target/release/mayfly [--others 1000000] [--probes 1000]
"""

import argparse
import random
import socket
import subprocess
import threading
import time


def command(*words):
    """Encodes a command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    """A connection that reads replies and pushes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def fill(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self.buffer += data

    def value(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind in b"$=":
            if int(rest) < 0:
                return None
            while len(self.buffer) < int(rest) + 2:
                self.fill()
            text, self.buffer = self.buffer[: int(rest)], self.buffer[int(rest) + 2 :]
            return text
        if kind in b"*>~":
            return [self.value() for _ in range(int(rest))]
        if kind == b"%":
            return [(self.value(), self.value()) for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest

    def send_all(self, commands, batch=500):
        """Sends commands in batches and reads their replies."""
        for start in range(0, len(commands), batch):
            part = commands[start : start + batch]
            self.socket.sendall(b"".join(part))
            for _ in part:
                self.value()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(binary, port):
    server = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--loglevel", "warning"]
    )
    while True:
        try:
            return server, Client(port)
        except ConnectionRefusedError:
            if server.poll() is not None:
                raise SystemExit("the server has ended")
            time.sleep(0.05)


def machine_lag(deadlines_ms, lags):
    """Sleeps until each deadline and records how late it wakes, in milliseconds."""
    for deadline in sorted(deadlines_ms):
        time.sleep(max(0, deadline / 1000 - time.time()))
        lags.append(time.time() * 1000 - deadline)


def measure(port, kind, count):
    """Returns the lags of invalidations and of the machine, in milliseconds."""
    writer, reader = Client(port), Client(port)
    start_ms = int(time.time() * 1000)
    deadlines = {
        b"probe:%s:%d" % (kind.encode(), number): start_ms + 2000 + random.randrange(3000)
        for number in range(count)
    }
    writes = []
    for key, deadline in deadlines.items():
        if kind == "keys":
            writes.append(command("SET", key, "v", "PXAT", deadline))
        else:
            writes.append(command("HSET", key, "f", "v", "g", "w"))
            writes.append(command("HPEXPIREAT", key, deadline, "FIELDS", 1, "f"))
    writer.send_all(writes)
    reader.send_all([command("HELLO", 3), command("CLIENT", "TRACKING", "ON")])
    read = "GET" if kind == "keys" else "HGETALL"
    reader.send_all([command(read, key) for key in deadlines])
    machine = []
    thread = threading.Thread(target=machine_lag, args=(deadlines.values(), machine))
    thread.start()
    lags = []
    while len(lags) < count:
        push = reader.value()
        arrived = time.time() * 1000
        if not isinstance(push, list) or push[0] != b"invalidate":
            raise RuntimeError(f"expected an invalidation, got {push!r}")
        lags.extend(arrived - deadlines[key] for key in push[1])
    thread.join()
    return lags, machine


def shown(lags):
    lags = sorted(lags)
    at = lambda share: lags[min(len(lags) - 1, int(len(lags) * share))]
    return f"p50 {at(0.5):.2f}  p99 {at(0.99):.2f}  max {lags[-1]:.2f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=1000)
    options = parser.parse_args()
    port = free_port()
    server, client = start(options.binary, port)
    try:
        for first in range(0, options.others, 10_000):
            last = min(first + 10_000, options.others)
            client.send_all([command("SET", f"other:{n}", "v", "EX", 3600) for n in range(first, last)])
        for kind in ("keys", "fields"):
            lags, machine = measure(port, kind, options.probes)
            print(f"{kind:8} {len(lags)} invalidations: {shown(lags)}   machine: {shown(machine)}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
