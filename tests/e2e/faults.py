"""Failing disks and kill -9: what was acknowledged is there after a start, and a start never finds a file that it refuses.

MAYFLY_KILL_ROUNDS sets the number of rounds with kill -9 of each kind [default: 4].
"""

import os
import random
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from durable import rewritten
from server import Server, within_limit

pytestmark = pytest.mark.only_mayfly

ROUNDS = int(os.environ.get("MAYFLY_KILL_ROUNDS", "4"))
SOURCE = Path(__file__).with_name("failing_disk.c")
# Ways in which the disk fails: see failing_disk.c.
FAULTS = {"full": b"s", "device error": b"i", "short write and full": b"h", "failing fsync": b"f"}
CLIENTS = 8
# Longest time between a write and its synchronization with `everysec`: the file is written every 20 ms and synchronized every second.
# Twice that is allowed for a busy machine; Redis's worst case is the same two seconds.
EVERYSEC_LOSS_S = 2.0


@contextmanager
def failing(bench, *options: str):
    """A server, and a function that lets its disk fail in some way or work again."""
    with tempfile.TemporaryDirectory(prefix="mayfly-disk-") as folder:
        library = Path(folder) / "failing_disk.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        control = os.open(Path(folder) / "fault", os.O_RDWR | os.O_CREAT)

        def fault(how: bytes) -> None:
            os.pwrite(control, how + b"\0", 0)
            if how == b"w":
                # The thread of the append-only file synchronizes it, with `everysec` at most a second later.
                server.client().set("waits", 1)
            while how == b"w" and os.pread(control, 1, 1) != b"\1":
                time.sleep(0.01)

        fault(b"\0")
        environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(Path(folder) / "fault")}
        with bench.start(*options, environment=environment) as server:
            yield server, fault
        os.close(control)


class Load:
    """Clients that each count up one key, and remember what was acknowledged and when."""

    def __init__(self, port: int, start: dict[int, int]):
        self.port, self.stops = port, threading.Event()
        self.acked = dict(start)
        self.times: dict[int, list[tuple[float, int]]] = {worker: [] for worker in range(CLIENTS)}
        self.refused = 0
        # A server listens before it has loaded its files.
        for _ in within_limit():
            if not redis.Redis(port=port).info("persistence")["loading"]:
                break
        self.threads = [threading.Thread(target=self.run, args=(worker,)) for worker in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, worker: int) -> None:
        r = redis.Redis(port=self.port, socket_timeout=60, retry=Retry(NoBackoff(), 0))
        number = self.acked.get(worker, 0)
        while not self.stops.is_set():
            try:
                # Both keys change in one step, so that they are equal in every file.
                r.execute_command("MSET", f"worker:{worker}", number + 1, f"twin:{worker}", number + 1)
            except (redis.ConnectionError, redis.TimeoutError):
                return
            except redis.ResponseError as error:
                assert "MISCONF" in str(error), error
                self.refused += 1
                time.sleep(0.01)
                continue
            number += 1
            self.acked[worker] = number
            self.times[worker].append((time.monotonic(), number))

    def end(self) -> None:
        self.stops.set()
        for thread in self.threads:
            thread.join()


def started(bench, folder: str, *options: str) -> Server:
    """A server with the files of another one, when it has loaded them."""
    server = bench.start("--dir", folder, *options)
    r = server.client()
    for _ in within_limit():
        try:
            r.get("x")
            return server
        except redis.exceptions.BusyLoadingError:
            time.sleep(0.01)
    raise AssertionError("it does not load")


def found_in(server: Server) -> dict[int, int]:
    """The numbers after a start; both keys of each worker must be equal."""
    r = server.client()
    found = {}
    for worker in range(CLIENTS):
        number, twin = (int(value or 0) for value in r.mget(f"worker:{worker}", f"twin:{worker}"))
        assert number == twin, (worker, number, twin)
        found[worker] = number
    return found


def check_acknowledged(bench, server: Server, options: tuple[str, ...], load: Load, name: str) -> None:
    """Starts a server in the folder of one that was killed. It has all that was acknowledged."""
    with started(bench, server.folder.name, *options) as second:
        found = found_in(second)
        for worker, number in load.acked.items():
            assert number <= found[worker], (name, worker, number, found[worker])


def test_always_loses_nothing_when_the_disk_fails(bench):
    """Full disks, errors, short writes, failing fsync: MISCONF or waiting, reads go on, and it works again by itself."""
    options = ("--appendonly", "yes", "--appendfsync", "always")
    for name, how in FAULTS.items():
        with failing(bench, *options) as (server, fault):
            load = Load(server.port, {})
            time.sleep(0.1)
            fault(how)
            r = server.client()
            for _ in within_limit():
                if r.info("persistence")["aof_last_write_status"] == "err":
                    break
            refused = None
            for _ in within_limit():
                try:
                    r.set("refused", 1)
                except redis.ResponseError as error:
                    refused = str(error)
                    break
            assert "MISCONF" in refused, (name, refused)
            assert r.get("worker:0") is not None, "reads go on"
            fault(b"\0")
            before = load.acked[0]
            for _ in within_limit():
                if load.acked[0] > before + 10:
                    break
            server.kill()
            load.end()
            check_acknowledged(bench, server, options, load, name)


def test_rewrites_wait_while_the_disk_is_slow(bench):
    """While the file's thread waits for the disk, two rewrites are requested, or the file is ended and begun again. Nothing is lost afterwards."""
    for ends in (False, True):
        with failing(bench, "--appendonly", "yes", "--appendfsync", "everysec") as (server, fault):
            r = server.client()
            rewritten(r)
            for number in range(100):
                r.set(f"key:{number}", number)
            fault(b"w")
            for second in (False, True):
                if ends:
                    r.config_set("appendonly", "no")
                    r.config_set("appendonly", "yes")
                else:
                    r.bgrewriteaof()
                # The second one waits for the first to be in force, unless the server does not notice.
                for _ in range(20 if second else 200):
                    facts = r.info("persistence")
                    if not (facts["aof_rewrite_in_progress"] or facts["aof_rewrite_scheduled"] or facts["rdb_bgsave_in_progress"]):
                        break
                    time.sleep(0.01)
            fault(b"\0")
            rewritten(r)
            for number in range(20):
                r.set(f"later:{number}", number)
            assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
            server.kill()
            with started(bench, server.folder.name, "--appendonly", "yes") as second:
                assert second.client().dbsize() == 121


def test_the_file_is_written_during_a_synchronization(bench):
    """Regression: what was written during a synchronization of 0.9 s was lost by a kill at its end."""
    with failing(bench, "--appendonly", "yes", "--appendfsync", "everysec") as (server, fault):
        r = server.client()
        rewritten(r)
        # From here on a synchronization is in progress.
        fault(b"w")
        r.set("during", 1)
        for _ in within_limit():
            parts = Path(server.folder.name).glob("appendonlydir/*.incr.aof")
            if any(b"during" in part.read_bytes() for part in parts):
                break
            time.sleep(0.01)
        assert r.execute_command("WAITAOF", 1, 0, 100)[0] == 0
        server.kill()
        with started(bench, server.folder.name, "--appendonly", "yes") as second:
            assert second.client().exists("during", "waits") == 2


def test_a_kill_while_the_disk_fails_loses_nothing_acknowledged(bench):
    options = ("--appendonly", "yes", "--appendfsync", "always")
    for name, how in FAULTS.items():
        with failing(bench, *options) as (server, fault):
            load = Load(server.port, {})
            time.sleep(0.1)
            fault(how)
            time.sleep(0.1)
            server.kill()
            load.end()
            check_acknowledged(bench, server, options, load, name)


def test_short_writes_that_succeed_are_continued(bench):
    with failing(bench, "--appendonly", "yes", "--appendfsync", "always", "--save", "3600 1000000") as (server, fault):
        fault(b"p")
        r = server.client()
        for number in range(200):
            r.set(f"key:{number}", "v" * 100)
        r.execute_command("SAVE")
        assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"
        server.kill()
        with started(bench, server.folder.name, "--appendonly", "yes") as second:
            assert second.client().dbsize() == 200
        with started(bench, server.folder.name) as third:
            assert third.client().dbsize() == 200


def test_a_snapshot_fails_and_the_old_one_stays(bench):
    for name, how in FAULTS.items():
        with failing(bench, "--save", "3600 1000000") as (server, fault):
            r = server.client()
            r.set("old", 1)
            r.execute_command("SAVE")
            r.set("new", 1)
            fault(how)
            try:
                r.execute_command("SAVE")
                raise AssertionError(f"{name}: it was saved")
            except redis.ResponseError:
                pass
            assert r.info("persistence")["rdb_last_bgsave_status"] == "err", name
            try:
                r.set("refused", 1)
                raise AssertionError(f"{name}: a write was served")
            except redis.ResponseError as error:
                assert "MISCONF" in str(error), (name, error)
            assert r.get("new") == b"1", "reads go on"
            with started(bench, server.folder.name) as second:
                assert second.client().get("old") == b"1" and second.client().get("new") is None
            fault(b"\0")
            r.execute_command("SAVE")
            r.set("served", 1)
            server.kill()
            with started(bench, server.folder.name) as third:
                assert third.client().get("new") == b"1"
            left = [path.name for path in Path(server.folder.name).iterdir() if path.name.startswith("temp-")]
            assert not left, (name, left)


def rounds(bench, *options: str):
    """Kills a server under load again and again. Yields each load with the time of the kill, and what was found after it."""
    rng = random.Random(bench.seed)
    first = bench.start(*options)
    current, found = first, {}
    for round_ in range(ROUNDS):
        load = Load(current.port, found)
        current.client().execute_command("CLIENT", "NO-EVICT", "on")
        time.sleep(0.05 + rng.random() / 4)
        if round_ % 3 == 1:
            current.client().execute_command("BGREWRITEAOF" if "--appendonly" in options else "BGSAVE")
            time.sleep(rng.random() / 20)
        current.kill()
        killed_at = time.monotonic()
        load.end()
        if current is not first:
            current.end()
        current = started(bench, first.folder.name, *options)
        found = found_in(current)
        yield round_, load, killed_at, found
    current.end()
    first.end()


def test_kill_in_a_loop_with_everysec_loses_little(bench):
    """The kernel keeps what was written, so that kill -9 alone loses less than a crash of the machine; what was acknowledged earlier than the
    limit must be there."""
    for round_, load, killed_at, found in rounds(bench, "--appendonly", "yes", "--appendfsync", "everysec"):
        for worker in range(CLIENTS):
            early = [number for at, number in load.times[worker] if at < killed_at - EVERYSEC_LOSS_S]
            assert not early or found[worker] >= early[-1], (round_, worker, early[-1], found[worker])
            assert found[worker] <= load.acked.get(worker, 0) + 1


def test_kill_in_a_loop_with_snapshots_comes_back_at_one_instant(bench):
    """What is found is what some snapshot has seen: never more than was acknowledged, and never less than the last complete one."""
    least = dict.fromkeys(range(CLIENTS), 0)
    for round_, load, _, found in rounds(bench, "--save", "1 1"):
        for worker in range(CLIENTS):
            assert least[worker] <= found[worker] <= load.acked.get(worker, 0) + 1, (round_, worker)
        least = found
