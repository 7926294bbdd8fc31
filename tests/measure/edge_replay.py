#!/usr/bin/env python3
"""Replays a trace at speed through four nodes of `mayfly edge serve`, and compares them with the simulator on the same trace.

    tests/measure/edge_replay.py weights target/release/mayfly
    tests/measure/edge_replay.py origin target/release/mayfly

weights  Write load of each node against its weight. Nodes with the weights 5, 4, 4 and 3 find each other in etcd (Debian: etcd-server) and
         keep (2, 1): with (3, 1), each of four nodes would have exactly one chunk of every object, whatever its weight. Bytes that a node has
         taken are read at the half of the trace and at its end.
origin   Bytes fetched from the origin by nodes with (3, 1), and by the same nodes with two copies of each object, which is (1, 1): both with
         the same memory and disk. Counted from 40 % of the trace on, as in the simulator.

The trace is generated: an hour at 33 requests per second, Zipf's law with exponent 1 over 20,000 objects, sizes by a lognormal distribution
(median 64 KiB, sigma 0.8) within 16 KiB and 256 KiB. With --trace, a CSV file with the columns time, key and size is used instead. All objects
are cut into chunks. Disks and memory of all nodes together are a share of the footprint, by default 18 and 1.8 %. The origin is a process of
this program, and clients are threads of it, each of which sends the next request of the trace to the node that the hash of the key names.
"""

import argparse
import csv
import json
import multiprocessing
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

from edge import free_port, wait_for
from edge_cluster import metric, poll

NODES = 4
CLIENTS = 4
SIZE_MIN, SIZE_MAX = 16 << 10, 256 << 10
REQUESTS, OBJECTS, RATE = 120_000, 20_000, 33
WEIGHTS = [5, 4, 4, 3]
WARMUP = 0.4
# Seconds of a period of --rebalance; 13 of them are the pause after a map.
REBALANCE_S = 1
PATTERN = bytes(index * 31 % 251 for index in range(251)) * (SIZE_MAX // 251 + 2)


def content(key: str, size: int) -> memoryview:
    """Content of an object: the pattern from a place on that depends on the key."""
    start = zlib.crc32(key.encode()) % 251
    return memoryview(PATTERN)[start : start + size]


def serve_origin(listener: socket.socket, sent: "multiprocessing.sharedctypes.Synchronized") -> None:
    """Answers GET /KEY/SIZE, and counts the bytes of content."""

    def connection(client: socket.socket) -> None:
        received = b""
        with client:
            while True:
                head, separator, received = received.partition(b"\r\n\r\n")
                if not separator:
                    more = client.recv(1 << 14)
                    if not more:
                        return
                    received = head + more
                    continue
                _, key, size = head.split(b" ", 2)[1].decode().split("/")
                body = content(key, int(size))
                with sent.get_lock():
                    sent.value += len(body)
                client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: max-age=86400\r\n\r\n".encode())
                client.sendall(body)

    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=connection, args=(client,), daemon=True).start()


class Client:
    """Connections to all nodes, which are kept."""

    def __init__(self, ports: list[int]) -> None:
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
        self.buffer = bytearray(SIZE_MAX + (1 << 14))

    def get(self, key: str, size: int) -> None:
        """Requests an object from a node, and compares every byte."""
        node = self.sockets[zlib.crc32(b"node" + key.encode()) % len(self.sockets)]
        node.sendall(f"GET /{key}/{size} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        view, filled, end = memoryview(self.buffer), 0, -1
        while end < 0 or filled < end:
            count = node.recv_into(view[filled:])
            if count == 0:
                sys.exit(f"{key}: the connection ended early")
            filled += count
            if end < 0:
                head = self.buffer.find(b"\r\n\r\n", 0, filled)
                if head >= 0:
                    if not self.buffer.startswith(b"HTTP/1.1 200"):
                        sys.exit(f"{key}: {bytes(self.buffer[:80])!r}")
                    start, end = head + 4, head + 4 + size
        if filled != end or view[start:end] != content(key, size):
            sys.exit(f"{key}: another content")


class Cluster:
    """Four nodes and what they need."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, code: tuple[int, int], footprint: int, weights: list[int] | None) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        folder.mkdir()
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.sent = multiprocessing.get_context("fork").Value("Q", 0)
        self.origin = multiprocessing.get_context("fork").Process(target=serve_origin, args=(listener, self.sent), daemon=True)
        self.origin.start()
        peers, self.ports, self.admins = ([free_port() for _ in range(NODES)] for _ in range(3))
        lines = [f"data {code[0]}", f"parity {code[1]}", f"buckets {arguments.buckets}"]
        if weights is None:
            lines += [f"server {number} 127.0.0.1:{port}" for number, port in enumerate(peers)]
        else:
            lines += [f"etcd {self.start_etcd()}", f"etcd-rebalance {arguments.rebalance} test"]
        (folder / "cluster").write_text("\n".join(lines) + "\n")
        each = int(footprint / NODES)
        disk, memory = int(each * arguments.disk), max(int(each * arguments.memory), 16 * SIZE_MAX + (1 << 18))
        self.sizes = disk, memory
        for number in range(NODES):
            words = [arguments.mayfly, "edge", "serve", "--origin", f"http://127.0.0.1:{listener.getsockname()[1]}", "--threads", "1"]
            words += ["--loglevel", "warning", "--memory", str(memory), "--max-object", str(SIZE_MAX), "--policy", "fifo"]
            words += ["--disk", folder / f"disk-{number}", "--disk-size", str(disk), "--scrub-rate", "0"]
            words += ["--listen", f"127.0.0.1:{self.ports[number]}", "--admin", f"127.0.0.1:{self.admins[number]}", "--peer-plain"]
            words += ["--cluster", folder / "cluster", "--cluster-id", str(number), "--coded-min-size", str(SIZE_MIN)]
            if weights is not None:
                words += ["--peer-address", f"127.0.0.1:{peers[number]}", "--peer-weight", str(weights[number])]
            self.processes.append(subprocess.Popen(words))
        for port, process in zip(self.ports, self.processes[-NODES:]):
            wait_for(port, process)
        poll(lambda: all(metric(admin, "cluster_map_version") == 1 and metric(admin, "cluster_nodes_down") == 0 for admin in self.admins))

    def start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        words = ["etcd", "--data-dir", self.folder / "etcd", "--log-level", "error", "--logger", "zap", "--unsafe-no-fsync", "--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self.processes.append(subprocess.Popen(words))
        wait_for(int(client.rsplit(":", 1)[1]), self.processes[-1])
        return client

    def metrics(self, name: str) -> list[int]:
        return [metric(admin, name) for admin in self.admins]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
        for process in self.processes:
            process.wait()
        self.origin.terminate()
        self.origin.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def replay(self, requests: list[tuple[str, int]]) -> None:
        """Sends requests in the order of the trace, a few at a time."""
        numbers = iter(range(len(requests)))
        lock = threading.Lock()
        failures: list[str] = []

        def client() -> None:
            try:
                connection = Client(self.ports)
                while not failures:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    connection.get(*requests[number])
            except (SystemExit, OSError) as failure:
                failures.append(str(failure))

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            sys.exit(failures[0])


def trace(arguments: argparse.Namespace, folder: Path) -> tuple[Path, list[tuple[str, int]]]:
    """Writes the trace for the simulator, and returns the requests. An object has its first size throughout."""
    source = arguments.trace
    if source is None:
        source = folder / "generated.csv"
        words = ["--requests", str(arguments.requests), "--objects", str(OBJECTS), "--pattern", "zipf:1", "--size", "lognormal:65536:0.8"]
        words += ["--request-rate", str(RATE), "--to-columns", "time,key,size"]
        subprocess.run([arguments.mayfly, "trace", "generate", *words, source], check=True, capture_output=True)
    sizes: dict[str, int] = {}
    requests, rows = [], []
    with open(source, newline="") as file:
        for row in csv.DictReader(file):
            size = sizes.setdefault(row["key"], min(max(int(float(row["size"])), SIZE_MIN), SIZE_MAX))
            requests.append((row["key"], size))
            rows.append((row["time"], row["key"], size))
    written = folder / "trace.csv"
    with open(written, "w", newline="") as file:
        csv.writer(file).writerows([("time", "key", "size"), *rows])
    return written, requests


def simulated(arguments: argparse.Namespace, path: Path, schemes: str, *words: str) -> list[dict]:
    fixed = ["edge", "simulate", path, "--sweep-only", "--json", "--scheme", schemes, "--size", f"{arguments.disk * 100:g}%", "--min-coded-size", str(SIZE_MIN)]
    fixed += ["--memory-share", f"{arguments.memory / arguments.disk * 100:g}%", "--buckets", str(arguments.buckets), "--policy", "fifo"]
    done = subprocess.run([arguments.mayfly, *fixed, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    size = f"{arguments.disk * 100:g}%"
    return [run for run in json.loads(done.stdout)["sweep"] if run["size"] == size]


def spread(values: list[float]) -> str:
    mean = sum(values) / len(values)
    return ", ".join(f"{(value / mean - 1) * 100:+.1f} %" for value in values)


def weights(arguments: argparse.Namespace, folder: Path, path: Path, requests: list[tuple[str, int]], footprint: int) -> None:
    half = len(requests) // 2
    cluster = Cluster(arguments, folder / "weights", (2, 1), footprint, WEIGHTS)
    try:
        seen = [cluster.metrics("cluster_taken_bytes_total")]
        versions = []
        for part in (requests[:half], requests[half:]):
            cluster.replay(part)
            seen.append(cluster.metrics("cluster_taken_bytes_total"))
            versions.append(metric(cluster.admins[0], "cluster_map_version"))
        coded, whole = (sum(cluster.metrics(f"cluster_objects_{kind}_total")) for kind in ("coded", "whole"))
        print(f"  {coded} objects cut, {whole} stayed whole; version of the map {versions[0]} at the half, {versions[1]} at the end")
        for name, before, after in (("first half", 0, 1), ("second half", 1, 2), ("all", 0, 2)):
            taken = [b - a for a, b in zip(seen[before], seen[after])]
            shares = [count / weight for count, weight in zip(taken, WEIGHTS)]
            print(f"  {name:12} MiB taken {[count >> 20 for count in taken]}, by weight against the mean: {spread(shares)}")
    finally:
        cluster.stop()
    interval = arguments.simulated_interval
    found = simulated(arguments, path, "c2dn:2:1", "--server-weights", ",".join(map(str, WEIGHTS)), "--rebalance-interval", interval, "--warmup-share", "50%")
    for run in found:
        shares = [count / weight for count, weight in zip(run["written_bytes"], run["weights"])]
        print(f"  simulator, second half, parity placed every {interval}: {spread(shares)}")


def origin(arguments: argparse.Namespace, folder: Path, path: Path, requests: list[tuple[str, int]], footprint: int) -> None:
    start = int(len(requests) * WARMUP)
    requested = sum(size for _, size in requests[start:])
    fetched = {}
    for name, code in (("(3, 1)", (3, 1)), ("two copies", (1, 1))):
        cluster = Cluster(arguments, folder / "origin", code, footprint, None)
        try:
            cluster.replay(requests[:start])
            before = cluster.sent.value
            cluster.replay(requests[start:])
            fetched[name] = cluster.sent.value - before
            whole, dropped = sum(cluster.metrics("cluster_objects_whole_total")), sum(cluster.metrics("disk_dropped_total"))
            print(f"  {name:10} {fetched[name] / 1e6:.1f} MB from the origin, {fetched[name] / requested:.3f} of the bytes requested; {whole} objects stayed whole, {dropped} not written")
        finally:
            cluster.stop()
    print(f"  (3, 1) fetches {(1 - fetched['(3, 1)'] / fetched['two copies']) * 100:.1f} % less; {NODES} nodes with disk and memory of {cluster.sizes} bytes each")
    found = simulated(arguments, path, "replicas:2,c2dn:3:1", "--servers", str(NODES))
    by_scheme = {run["scheme"]: run["total"]["origin_bytes"] / run["total"]["bytes"] for run in found}
    saved = 1 - by_scheme["c2dn:3:1"] / by_scheme["replicas:2"]
    print(f"  simulator: (3, 1) {by_scheme['c2dn:3:1']:.3f}, two copies {by_scheme['replicas:2']:.3f}: {saved * 100:.1f} % less")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["weights", "origin"])
    parser.add_argument("mayfly", type=Path)
    parser.add_argument("--trace", type=Path, help="CSV file with the columns time, key and size")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--disk", type=float, default=0.18, help="disks of all nodes, as a share of the footprint")
    parser.add_argument("--memory", type=float, default=0.018, help="memory of all nodes, as a share of the footprint")
    parser.add_argument("--buckets", type=int, default=200)
    parser.add_argument("--rebalance", type=int, default=REBALANCE_S, help="seconds of etcd-rebalance")
    parser.add_argument("--simulated-interval", default="15m")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="edge-replay-"))
    try:
        path, requests = trace(arguments, folder)
        footprint = sum(dict(requests).values())
        print(f"{arguments.kind}: {len(requests)} requests, {len(dict(requests))} objects of {footprint / 1e6:.0f} MB, {sum(size for _, size in requests) / 1e6:.0f} MB requested")
        {"weights": weights, "origin": origin}[arguments.kind](arguments, folder, path, requests, footprint)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
