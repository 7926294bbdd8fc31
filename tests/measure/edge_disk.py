#!/usr/bin/env python3
"""Memory of small objects on disk, and the time of a start with their index.

    cargo build --release -p mayfly-node --example fill_disk
    tests/measure/edge_disk.py target/release/mayfly target/release/examples/fill_disk [--objects 10000000] [--content 100]

The example fills a folder with responses. `mayfly edge serve` then starts with an empty folder and with this one, each time with one thread;
its resident memory and the time until it listens, with that of the processor, are printed, once with the footers of the segments in the page cache and once without.
Random objects are requested afterwards: all must be hits from disk.
"""

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from edge import free_port, processor_seconds, wait_for
from edge_cluster import metric

DISK_BYTES = 16 << 30
SAMPLE = 1_000
STOP_LIMIT_S = 60


def resident(process: int) -> int:
    fields = Path(f"/proc/{process}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def start(mayfly: Path, folder: Path) -> tuple[subprocess.Popen, int, int, str]:
    port, admin = free_port(), free_port()
    words = ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--origin", "http://127.0.0.1:9", "--threads", "1"]
    words += ["--disk", folder, "--disk-size", str(DISK_BYTES), "--scrub-rate", "0", "--loglevel", "warning"]
    began = time.monotonic()
    process = subprocess.Popen([mayfly, "edge", "serve", *words])
    wait_for(port, process)
    seconds = time.monotonic() - began
    return process, port, admin, f"{seconds:.2f} s to the first connection, {processor_seconds(process.pid):.2f} s of processor time"


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    process.wait(STOP_LIMIT_S)


def forget(folder: Path) -> None:
    """Removes the files from the page cache."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fetch(port: int, count: int, size: int) -> None:
    client = socket.create_connection(("127.0.0.1", port))
    numbers = random.Random(1)
    for _ in range(SAMPLE):
        path = f"/{numbers.randrange(count)}"
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        reply = b""
        while not reply.endswith(b"x" * size):
            more = client.recv(1 << 14)
            if not more or len(reply) > size + (1 << 14):
                sys.exit(f"{path}: {reply[:200]!r}")
            reply += more
        if b"mayfly; hit" not in reply:
            sys.exit(f"{path}: {reply[:400]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mayfly", type=Path)
    parser.add_argument("fill", type=Path)
    parser.add_argument("--objects", type=int, default=10_000_000)
    parser.add_argument("--content", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="folder on the device to be measured")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="edge-disk-", dir=arguments.folder))
    full, empty = folder / "full", folder / "empty"
    try:
        began = time.monotonic()
        words = [arguments.fill, full, str(arguments.objects), str(arguments.content), str(DISK_BYTES)]
        filled = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        print(f"{filled}; {time.monotonic() - began:.0f} s to fill")
        process, _, _, seconds = start(arguments.mayfly, empty)
        without = resident(process.pid)
        stop(process)
        print(f"  empty folder: {without / 1e6:.1f} MB resident, {seconds}")
        for is_cold in (False, True):
            if is_cold:
                forget(full)
            process, port, admin, seconds = start(arguments.mayfly, full)
            used, urls, index = resident(process.pid), metric(admin, "disk_urls"), metric(admin, "disk_index_bytes")
            fetch(port, arguments.objects, arguments.content)
            stop(process)
            text = "footers on the device" if is_cold else "footers in the page cache"
            print(
                f"  {urls} URLs, {text}: {used / 1e6:.1f} MB resident, {(used - without) / urls:.1f} bytes a URL more than empty"
                f" (index {index / urls:.1f}); {seconds}"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
