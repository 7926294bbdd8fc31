#!/usr/bin/env python3
"""Costs of snapshots and of the append-only file, beside other servers.

    tests/measure/durability.py save-load target/release/mayfly PATH/redis-server PATH/valkey-server [--keys 5000000] [--rounds 3]
    tests/measure/durability.py aof       target/release/mayfly PATH/redis-server … [--requests 1000000]
    tests/measure/durability.py during    target/release/mayfly PATH/redis-server … [--keys 5000000]

save-load  Processor time of loading and of saving, in user and kernel mode and with child processes, so that a machine that does something else
           meanwhile hardly matters. The first server, a Mayfly, makes the files in the lowest version of RDB; each server loads the same file and
           saves what it has loaded, in turns; the figures are medians, in keys per processor second. Compression is off for all.
aof        Processor time per SET without a file, and with `everysec`; requests per second of 50 clients with `always`, in turns.
during     Latency of a client that reads, while 5 M keys are saved and another process reads and writes in equal parts; and the highest memory
           during the save beyond that before it. Only an idle machine with more than two cores gives a meaningful latency. The further columns are
           without the time for which the server's thread or the probe waited for a core, which the thread that saves causes as well.
"""

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

START_LIMIT_S = 600.0
TICK = os.sysconf("SC_CLK_TCK")
FIELDS = 50
HOUR_MS = 3_600_000


def encoded(*words) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class Server:
    """One server on a free port, in a folder."""

    def __init__(self, binary: str, folder: str, *options: str):
        self.is_mayfly = Path(binary).name.startswith("mayfly")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [binary, "serve"] if self.is_mayfly else [binary, "--save", "", "--rdbcompression", "no"]
        if self.is_mayfly:
            options = ("--threads", "1", *options)
        command += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                self.file = self.socket.makefile("rb")
                if b"\r\nloading:0" in self.info("persistence"):
                    return
            except OSError:
                assert self.process.poll() is None, f"{command} ended"
            time.sleep(0.02)
        raise RuntimeError(f"{command} is not ready")

    def ask(self, *words) -> bytes:
        self.socket.sendall(encoded(*words))
        return self.reply()

    def reply(self) -> bytes:
        line = self.file.readline()
        if line[:1] == b"$" and line != b"$-1\r\n":
            return self.file.read(int(line[1:]) + 2)[:-2]
        assert line[:1] != b"-" or line.startswith(b"-LOADING"), line
        return line.strip()

    def info(self, section: str) -> bytes:
        return self.ask("INFO", section)

    def cpu_s(self) -> float:
        """Processor time of the process and of its children that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / TICK

    def memory_bytes(self) -> int:
        """Memory of the process and its children that is not shared with another process, as the kernel attributes it."""
        pids = [str(self.process.pid)]
        try:
            pids += Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except OSError:
            pass
        total = 0
        for pid in pids:
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += 1024 * int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1))
            except (OSError, AttributeError):
                pass
        return total

    def saved(self) -> None:
        while b"rdb_bgsave_in_progress:1" in self.info("persistence"):
            time.sleep(0.01)
        assert b"rdb_last_bgsave_status:ok" in self.info("persistence")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def commands(kind: str, has_expires: bool, keys: int):
    """Commands that make the data, in pieces."""
    now = int(time.time() * 1000)
    deadline = str(now + 24 * HOUR_MS).encode()
    piece = []
    for number in range(keys):
        if kind == "strings":
            key = b"key:%012d" % number
            words = [b"SET", key, b"value:%010d" % number]
            if has_expires:
                words += [b"PXAT", deadline[:-7] + b"%07d" % (number % 10_000_000)]
            piece.append(encoded(*words))
        else:
            key = b"hash:%08d" % number
            words = [b"HSET", key]
            for field in range(FIELDS):
                words += [b"field:%02d" % field, b"value:%08d" % (number + field)]
            piece.append(encoded(*words))
            if has_expires:
                piece.append(encoded(b"PEXPIREAT", key, deadline[:-7] + b"%07d" % number))
        if len(piece) >= 1000:
            yield len(piece), b"".join(piece)
            piece = []
    if piece:
        yield len(piece), b"".join(piece)


def filled(server: Server, kind: str, has_expires: bool, keys: int) -> None:
    for count, piece in commands(kind, has_expires, keys):
        server.socket.sendall(piece)
        for _ in range(count):
            server.file.readline()


def name_of(binary: str) -> str:
    text = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+\.\d+", text)
    return f"{Path(binary).name.removesuffix('-server')} {version.group(0) if version else ''}".strip()


def save_load(chosen) -> None:
    print(f"{'data':24} {'server':20} {'load keys/CPU s':>16} {'save keys/CPU s':>16} {'file MB':>8}")
    for kind, keys in (("strings", chosen.keys), ("hashes", chosen.keys // FIELDS)):
        for has_expires in (False, True):
            with tempfile.TemporaryDirectory(prefix="durability-") as source:
                maker = Server(chosen.servers[0], source)
                filled(maker, kind, has_expires, keys)
                maker.ask("SAVE")
                maker.end()
                measured = {binary: ([], []) for binary in chosen.servers}
                for _ in range(chosen.rounds):
                    for binary in chosen.servers:
                        with tempfile.TemporaryDirectory(prefix="durability-") as folder:
                            empty = Server(binary, folder)
                            start_s = empty.cpu_s()
                            empty.end()
                            shutil.copy(Path(source) / "dump.rdb", folder)
                            server = Server(binary, folder)
                            loaded_s = server.cpu_s()
                            assert server.ask("DBSIZE") == b":%d" % keys, "all keys are loaded"
                            before_s = server.cpu_s()
                            server.ask("BGSAVE")
                            server.saved()
                            time.sleep(0.2)
                            measured[binary][0].append(keys / (loaded_s - start_s))
                            measured[binary][1].append(keys / (server.cpu_s() - before_s))
                            size = (Path(folder) / "dump.rdb").stat().st_size
                            server.end()
                for binary, (loads, saves) in measured.items():
                    data = f"{keys:,} {kind}{' expires' if has_expires else ''}"
                    print(f"{data:24} {name_of(binary):20} {statistics.median(loads):16,.0f} {statistics.median(saves):16,.0f} {size / 1e6:8.0f}", flush=True)


def benchmark(server: Server, *words: str) -> float:
    """Requests per second that redis-benchmark reports."""
    done = subprocess.run(["redis-benchmark", "-p", str(server.port), "--csv", *words], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1].split(",")[1].strip('"'))


def aof(chosen) -> None:
    plain, every, always = ({binary: [] for binary in chosen.servers} for _ in range(3))
    load = ("-t", "set", "-n", str(chosen.requests), "-P", "16", "-c", "20", "-r", "100000", "-d", "64")
    for _ in range(chosen.rounds):
        for binary in chosen.servers:
            for into, options in ((plain, ()), (every, ("--appendonly", "yes", "--appendfsync", "everysec"))):
                with tempfile.TemporaryDirectory(prefix="durability-") as folder:
                    server = Server(binary, folder, *options)
                    before_s = server.cpu_s()
                    benchmark(server, *load)
                    into[binary].append((server.cpu_s() - before_s) / chosen.requests * 1e9)
                    server.end()
            with tempfile.TemporaryDirectory(prefix="durability-", dir=chosen.disk) as folder:
                server = Server(binary, folder, "--appendonly", "yes", "--appendfsync", "always")
                always[binary].append(benchmark(server, "-t", "set", "-n", str(chosen.requests // 20), "-c", "50", "-r", "100000", "-d", "64"))
                server.end()
    print(f"{'server':20} {'SET ns':>8} {'everysec ns':>12} {'ratio':>6} {'always, 50 clients, SET/s':>26}")
    for binary in chosen.servers:
        alone, logged = statistics.median(plain[binary]), statistics.median(every[binary])
        print(f"{name_of(binary):20} {alone:8.0f} {logged:12.0f} {logged / alone:6.2f} {statistics.median(always[binary]):26,.0f}")


def serving_thread(server: Server) -> int:
    """The thread that serves clients."""
    for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
        if (thread / "comm").read_text().startswith("worker"):
            return int(thread.name)
    return server.process.pid


def waited_s(schedstat: int) -> float:
    """Time for which a thread was ready to run and had no core."""
    return int(os.pread(schedstat, 100, 0).split()[1]) / 1e9


def probe(server: Server, times: list, stops: threading.Event) -> None:
    """Adds the time of each request, and that time without what server and probe have waited for a core."""
    threads = [f"/proc/{server.process.pid}/task/{serving_thread(server)}/schedstat", f"/proc/self/task/{threading.get_native_id()}/schedstat"]
    files = [os.open(thread, os.O_RDONLY) for thread in threads]
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not stops.is_set():
            before = [waited_s(file) for file in files]
            begun = time.perf_counter()
            peer.sendall(b"GET key:000000000001\r\n")
            peer.recv(4096)
            took = time.perf_counter() - begun
            times.append((took, max(took - sum(waited_s(file) - one for file, one in zip(files, before)), 0.0)))
            time.sleep(0.0005)
    for file in files:
        os.close(file)


def during(chosen) -> None:
    print(f"{'':60} {'without waiting for a core':>26}")
    print(f"{'server':20} {'':10} {'requests':>10} {'p50 ms':>8} {'p99.9 ms':>9} {'max ms':>8} {'p99.9 ms':>9} {'max ms':>8} {'extra MB':>9}")
    for binary in chosen.servers:
        with tempfile.TemporaryDirectory(prefix="durability-") as folder:
            server = Server(binary, folder)
            filled(server, "strings", False, chosen.keys)
            load = ["redis-benchmark", "-p", str(server.port), "-q", "-c", "10", "-P", "4", "-r", str(chosen.keys), "-d", "16", "-n", "1000000000"]
            loads = [subprocess.Popen([*load, "-t", test], stdout=subprocess.DEVNULL) for test in ("set", "get")]
            # The benchmark's SET names `key:` with 12 digits, as the keys here.
            time.sleep(2)
            for phase in ("alone", "save"):
                times, stops, peak = [], threading.Event(), 0
                before = server.memory_bytes()
                thread = threading.Thread(target=probe, args=(server, times, stops))
                thread.start()
                if phase == "save":
                    server.ask("BGSAVE")
                end = time.monotonic() + 5
                while True:
                    peak = max(peak, server.memory_bytes())
                    is_saving = phase == "save" and b"rdb_bgsave_in_progress:1" in server.info("persistence")
                    if not is_saving and (phase == "save" or time.monotonic() > end):
                        break
                    time.sleep(0.05)
                stops.set()
                thread.join()
                whole, own = (sorted(column) for column in zip(*times))
                at = lambda column, share: column[min(len(column) - 1, int(len(column) * share))] * 1e3
                figures = f"{at(whole, 0.5):8.2f} {at(whole, 0.999):9.2f} {at(whole, 1):8.2f} {at(own, 0.999):9.2f} {at(own, 1):8.2f}"
                print(f"{name_of(binary):20} {phase:10} {len(whole):10} {figures} {(peak - before) / 1e6:9.1f}", flush=True)
            for one in loads:
                one.kill()
                one.wait()
            server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("save-load", "aof", "during"))
    parser.add_argument("servers", nargs="+", help="paths of programs; the first one is a Mayfly")
    parser.add_argument("--keys", type=int, default=5_000_000, help="number of strings; a fiftieth of it is the number of hashes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--disk", help="folder on the disk that `always` synchronizes [default: the system's for temporary files]")
    chosen = parser.parse_args()
    chosen.servers = [str(Path(binary).resolve()) for binary in chosen.servers]
    {"save-load": save_load, "aof": aof, "during": during}[chosen.what](chosen)


if __name__ == "__main__":
    main()
