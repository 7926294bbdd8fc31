#!/usr/bin/env python3
"""First byte of a response in chunks beside a local hit, and the share of processor time that coding takes.

    tests/measure/edge_cluster.py target/release/mayfly [--size BYTES] [--requests COUNT] [--perf perf]

Four nodes of `mayfly edge serve` with three data chunks and one parity chunk on loopback without TLS, and a node of its own that has the same
objects whole in memory. One client requests the objects in turn over one connection each, the cluster's nodes one after the other; the time
from the request to the first byte of content is compared. Then a node is stopped, and the times are measured again: three of four objects have
a data chunk on it and are decoded.

With perf, the share of samples in the code's and checksums' functions is printed for a load of whole reads (4 connections), without and with
a node down. Functions are recognised by their names in the program's symbols.
"""

import argparse
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from edge import free_port, origin, wait_for

NODES = 4
OBJECTS = 40
LOAD_S = 5
WAIT_S = 60.0
# Parts of names: the code, the checksums of sub-chunks, the hash of the whole content, checksums of the disk tier.
CODING = re.compile(r"edge::|node::coded|encode_stripe|StripeDecoder|xxhash|XxHash|xxh3|Xxh3|twox_hash|reconstruct")


class Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path: str) -> tuple[float, float]:
        """Requests a path. Returns the seconds until the first byte of content and until the last."""
        start = time.perf_counter()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        received = b""
        while True:
            received += self.socket.recv(1 << 16)
            head, separator, content = received.partition(b"\r\n\r\n")
            if separator and content:
                break
        first = time.perf_counter() - start
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"{path}: {head[:80]!r}")
        left = int(re.search(rb"content-length: (\d+)", head.lower())[1]) - len(content)
        while left > 0:
            received = self.socket.recv(1 << 18)
            if not received:
                sys.exit(f"{path}: the content ended early")
            left -= len(received)
        return first, time.perf_counter() - start


def metric(port: int, name: str) -> int:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
    return int(re.search(rf"^mayfly_edge_{name} (\d+)$", text, re.MULTILINE)[1])


def poll(is_so) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit("what was waited for did not happen")
        time.sleep(0.05)


def times(ports: list[int], requests: int) -> list[tuple[float, float]]:
    clients = [Client(port) for port in ports]
    for client in clients:
        client.get("/0")
    return [clients[number % len(clients)].get(f"/{number % OBJECTS}") for number in range(requests)]


def show(name: str, found: list[tuple[float, float]]) -> float:
    firsts, wholes = sorted(first for first, _ in found), sorted(whole for _, whole in found)
    columns = [values[int(len(values) * share)] * 1e6 for values in (firsts, wholes) for share in (0.5, 0.99)]
    print(f"  {name:34} " + " ".join(f"{us:8.0f}" for us in columns))
    return statistics.median(firsts)


def coding_share(perf: str, processes: list[subprocess.Popen], ports: list[int], folder: Path) -> tuple[float, list[str]]:
    """Returns the share of samples in functions of the code and of checksums, and the largest of all functions."""
    is_stopped = threading.Event()

    def load(seed: int) -> None:
        clients = [Client(port) for port in ports]
        number = seed * 7
        while not is_stopped.is_set():
            clients[number % len(clients)].get(f"/{number % OBJECTS}")
            number += 1

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    data = folder / "perf.data"
    pids = ",".join(str(process.pid) for process in processes)
    command = [perf, "record", "-q", "-e", "cpu-clock", "-F", "499", "-o", str(data), "-p", pids, "--", "sleep", str(LOAD_S)]
    subprocess.run(command, check=True, capture_output=True)
    is_stopped.set()
    for thread in threads:
        thread.join()
    report = subprocess.run([perf, "report", "-i", str(data), "--stdio", "--no-children", "-s", "symbol"], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*([\d.]+)%\s+\[(.)\]\s+(.+)$", report, re.MULTILINE)
    coding = sum(float(share) for share, _, name in rows if CODING.search(name))
    return coding, [f"{share} % {name.strip()}" for share, _, name in rows[:12]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mayfly", type=Path)
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--perf", default=shutil.which("perf"))
    arguments = parser.parse_args()
    source = origin(arguments.size)
    folder = Path(tempfile.mkdtemp(prefix="edge-cluster-"))
    peers, ports, admins = ([free_port() for _ in range(NODES)] for _ in range(3))
    alone = free_port()
    lines = ["data 3", "parity 1"] + [f"server {number} 127.0.0.1:{port}" for number, port in enumerate(peers)]
    (folder / "cluster").write_text("\n".join(lines) + "\n")
    shared = [arguments.mayfly, "edge", "serve", "--origin", f"http://127.0.0.1:{source.server_port}", "--memory", "512mb", "--threads", "1", "--loglevel", "warning"]
    processes = [subprocess.Popen([*shared, "--listen", f"127.0.0.1:{alone}"])]
    for number in range(NODES):
        own = ["--listen", f"127.0.0.1:{ports[number]}", "--admin", f"127.0.0.1:{admins[number]}", "--cluster", folder / "cluster"]
        processes.append(subprocess.Popen([*shared, *own, "--cluster-id", str(number), "--peer-plain", "--repair-rate", "0"]))
    try:
        for port, process in zip([alone, *ports], processes):
            wait_for(port, process)
        poll(lambda: all(metric(admin, "cluster_nodes_down") == 0 for admin in admins))
        times([alone], OBJECTS)
        times(ports[:1], OBJECTS)
        poll(lambda: sum(metric(admin, "cluster_objects_coded_total") for admin in admins) == OBJECTS)
        # Each node has the heads.
        for port in ports:
            times([port], OBJECTS)
        print(f"{OBJECTS} responses of {arguments.size} bytes, {arguments.requests} requests; µs to the first byte of content (median, 99th percentile), to the last")
        local = show("whole, in memory of one node", times([alone], arguments.requests))
        coded = show("in chunks, all nodes up", times(ports, arguments.requests))
        if arguments.perf:
            share, rows = coding_share(arguments.perf, processes[1:], ports, folder)
            print(f"  coding and checksums: {share:.1f} % of processor time of the nodes\n    " + "\n    ".join(rows))
        processes[NODES].kill()
        processes[NODES].wait()
        poll(lambda: all(metric(admin, "cluster_nodes_down") == 1 for admin in admins[:-1]))
        before = sum(metric(admin, "cluster_stripes_decoded_total") for admin in admins[:-1])
        lost = show("in chunks, a node down", times(ports[:-1], arguments.requests))
        decoded = sum(metric(admin, "cluster_stripes_decoded_total") for admin in admins[:-1]) - before
        if arguments.perf:
            share, _ = coding_share(arguments.perf, processes[1:-1], ports[:-1], folder)
            print(f"  coding and checksums: {share:.1f} % of processor time of the nodes")
        print(f"  first byte after a local hit's: {(coded - local) * 1e6:.0f} µs, with a node down {(lost - local) * 1e6:.0f} µs; {decoded} stripes decoded")
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
