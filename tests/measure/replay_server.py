#!/usr/bin/env python3
"""Miss ratio of a server and of the simulator, with the same trace, policy and number of entries.

    tests/measure/replay_server.py target/release/mayfly TRACE... [--policies lru,s3fifo-w,sieve] [--share 10] [--requests 200000]

Each request is a GET; a miss is followed by a SET, as in the simulator. Keys are numbers of ten digits and all values have the same length, so that all
entries weigh the same. `maxmemory` bounds bytes with all overhead, so the number of entries cannot be given: the server runs first, the mean number of
entries that it holds while it is full is read by DBSIZE, and the simulator replays the same requests with that size in objects. The difference of the two
miss ratios is printed in points. The server has one data thread, because each shard evicts from its own entries.
"""

import argparse
import csv
import io
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

START_LIMIT_S = 60.0
VALUE = b"v" * 1000
# Bytes of an entry, about: key, value, header and table.
ENTRY_BYTES = 1050
# Requests between two readings of the number of entries.
STRIDE = 1000


def encoded(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Server:
    def __init__(self, binary: str, folder: str, *options: str):
        self.path = str(Path(folder) / "socket")
        command = [binary, "serve", "--port", "0", "--unixsocket", self.path, "--threads", "1", "--dir", folder, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(self.path)
                break
            except OSError:
                assert self.process.poll() is None and time.monotonic() < limit, f"{command} does not serve"
                time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    def call(self, *words: bytes):
        self.socket.sendall(encoded(*words))
        line = self.file.readline()
        assert line[:1] != b"-", line
        if line[:1] == b"$":
            length = int(line[1:])
            return None if length < 0 else self.file.read(length + 2)[:-2]
        return line[1:-2]

    def used_bytes(self) -> int:
        text = self.call(b"INFO", b"memory").decode()
        return int(text.split("used_memory:")[1].split("\r\n")[0])

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()


def ids_of(binary: str, trace: str, count: int) -> list[int]:
    """Dense ids of the first requests."""
    command = [binary, "trace", "cut", trace, "-", "--requests", f"..{count}", "--to", "txt"]
    keys = subprocess.run(command, check=True, capture_output=True).stdout.split()
    known: dict[bytes, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def in_server(binary: str, ids: list[int], policy: str, entries: int) -> tuple[float, float, int]:
    """Returns the miss ratio, the mean number of entries while full, and the evictions."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder, "--maxmemory-policy", f"allkeys-{policy}")
        try:
            limit = server.used_bytes() + entries * ENTRY_BYTES
            server.call(b"CONFIG", b"SET", b"maxmemory", str(limit).encode())
            misses, held = 0, []
            for number, id in enumerate(ids):
                key = b"%010d" % id
                if server.call(b"GET", key) is None:
                    misses += 1
                    server.call(b"SET", key, VALUE)
                if number % STRIDE == 0:
                    held.append(int(server.call(b"DBSIZE")))
            evicted = server.call(b"INFO", b"stats").decode().split("evicted_keys:")[1].split("\r\n")[0]
            full = [count for count in held if count >= 0.9 * max(held)]
            return misses / len(ids), sum(full) / len(full), int(evicted)
        finally:
            server.close()


def in_simulator(binary: str, ids: list[int], policy: str, entries: int) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as trace:
        trace.write("".join(f"{id}\n" for id in ids))
        trace.flush()
        command = [binary, "sim", trace.name, "--policy", policy, "--size", str(entries), "--ignore-size", "--csv"]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(next(csv.DictReader(io.StringIO(table)))["miss_ratio"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--policies", default="lru,s3fifo-w,sieve")
    parser.add_argument("--share", type=float, default=10.0, help="about this share of the objects is held, in percent")
    parser.add_argument("--requests", type=int, default=200_000)
    arguments = parser.parse_args()
    print("| trace | policy | entries | evictions | server | simulator | difference, points |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for trace in arguments.traces:
        ids = ids_of(arguments.binary, trace, arguments.requests)
        entries = int((max(ids) + 1) * arguments.share / 100)
        for policy in arguments.policies.split(","):
            served, held, evicted = in_server(arguments.binary, ids, policy, entries)
            simulated = in_simulator(arguments.binary, ids, policy, round(held))
            name = os.path.basename(trace).split(".")[0]
            difference = 100 * (served - simulated)
            print(f"| {name} | {policy} | {held:.0f} | {evicted:,} | {served:.4f} | {simulated:.4f} | {difference:+.2f} |", flush=True)


if __name__ == "__main__":
    main()
