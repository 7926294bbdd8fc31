"""Snapshots: SAVE, BGSAVE, save points and SHUTDOWN, files that redis-server loads, and failures."""

import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis
from server import LIMIT_S, Server, within_limit


def fill(r: redis.Redis) -> None:
    """Values of all types in two databases, small and large, that redis-server 7.0 knows: a consumer of a stream has had two times since 7.2."""
    for db in (0, 5):
        r.execute_command("SELECT", db)
        r.set("string", "value")
        r.set("number", 1234567)
        r.set("ttl", "v", px=3_600_000)
        r.set("large", b"\x00\xff" * 200_000)
        r.set("k" * 300, "a long key")
        for name, count in (("small", 5), ("big", 20_000)):
            r.rpush(f"list:{name}", *(f"element {n}" for n in range(count)))
            r.sadd(f"set:{name}", *(f"member {n}" for n in range(count)))
            r.zadd(f"zset:{name}", {f"member {n}": n / 8 for n in range(count)})
            r.hset(f"hash:{name}", mapping={f"field {n}": f"value {n}" for n in range(count)})
        r.sadd("integers", *range(100))
        for n in range(500):
            r.xadd("stream", {"field": n}, id=f"{n + 1}-1")
        r.xgroup_create("stream", "group", id="10-1")
    r.execute_command("SELECT", 0)


def content(r: redis.Redis) -> dict:
    """Everything that clients can read."""
    readers = {
        b"string": lambda pipe, key: pipe.get(key),
        b"list": lambda pipe, key: pipe.lrange(key, 0, -1),
        b"set": lambda pipe, key: pipe.smembers(key),
        b"zset": lambda pipe, key: pipe.zrange(key, 0, -1, withscores=True),
        b"hash": lambda pipe, key: pipe.hgetall(key),
        b"stream": lambda pipe, key: pipe.xrange(key).xinfo_groups(key),
    }
    found = {}
    # While the server loads a file, the client connects again, which would end a SELECT.
    r.dbsize()
    for db in (0, 5):
        r.execute_command("SELECT", db)
        # Each key once: a scan may return it again.
        keys = list(dict.fromkeys(r.scan_iter(count=1000)))
        for start in range(0, len(keys), 1000):
            some = keys[start : start + 1000]
            pipe = r.pipeline(transaction=False)
            for key in some:
                pipe.type(key).pexpiretime(key)
            facts = pipe.execute()
            for key, kind in zip(some, facts[::2], strict=True):
                readers[kind](pipe, key)
            replies = iter(pipe.execute())
            for key, kind, deadline in zip(some, facts[::2], facts[1::2], strict=True):
                value = next(replies)
                found[db, key] = ((value, next(replies)[0]["last-delivered-id"]) if kind == b"stream" else value, deadline)
    r.execute_command("SELECT", 0)
    return found


def saved(r: redis.Redis) -> None:
    """Waits until the background save has ended."""
    for _ in within_limit():
        if not r.info("persistence")["rdb_bgsave_in_progress"]:
            return


def loaded(server: Server) -> Server:
    """A redis-server that has loaded the file of a server."""
    return Server("redis-server", "--dir", server.folder.name)


def test_redis_loads_what_is_saved(bench):
    with bench.start() as server, server.client() as r:
        fill(r)
        r.save()
        expected = content(r)
        with loaded(server) as peer, peer.client() as p:
            assert content(p) == expected


def test_a_snapshot_is_one_instant_under_writes(bench):
    """Two keys that are always written together are equal in the file."""
    pairs = 20_000
    with bench.start() as server, server.client() as r:
        for n in range(pairs):
            r.execute_command("MSET", f"a:{n}", 0, f"b:{n}", 0)
        r.hset("hash:a", mapping={f"f{n}": 0 for n in range(20_000)})
        ended = threading.Event()

        def write():
            with server.client() as w:
                round_number = 0
                while not ended.is_set():
                    round_number += 1
                    pipe = w.pipeline(transaction=False)
                    for n in range(round_number % 7, pairs, 7):
                        pipe.execute_command("MSET", f"a:{n}", round_number, f"b:{n}", round_number)
                    pipe.execute_command("HSET", "hash:a", "f7", round_number, "f8", round_number)
                    pipe.execute()

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(3):
            r.bgsave()
            saved(r)
            with loaded(server) as peer, peer.client(decode_responses=True) as p:
                assert p.dbsize() == 2 * pairs + 1
                names = range(pairs)
                first, second = (p.mget([f"{of}:{n}" for n in names]) for of in "ab")
                assert first == second
                assert p.hlen("hash:a") == 20_000 and p.hget("hash:a", "f7") == p.hget("hash:a", "f8")
        ended.set()
        writer.join()
        assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"


def test_commands_and_facts(bench):
    with bench.start() as server, server.client() as r:
        started = r.lastsave()
        assert r.info("persistence")["rdb_changes_since_last_save"] == 0
        r.set("k", "v")
        r.delete("k", "none")
        assert r.info("persistence")["rdb_changes_since_last_save"] == 2
        assert r.execute_command("BGSAVE") in (True, b"Background saving started")
        saved(r)
        facts = r.info("persistence")
        assert facts["rdb_changes_since_last_save"] == 0 and facts["rdb_last_bgsave_status"] == "ok"
        assert r.lastsave() >= started
        assert Path(server.folder.name, "dump.rdb").exists()
        assert not list(Path(server.folder.name).glob("temp-*"))
        for words in ("BGSAVE NOW", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW"):
            try:
                r.execute_command(words)
                raise AssertionError(words)
            except redis.ResponseError as error:
                assert "syntax" in str(error), error
        try:
            r.execute_command("SHUTDOWN ABORT")
            raise AssertionError
        except redis.ResponseError as error:
            assert "No shutdown in progress" in str(error)


def test_save_points_and_signals(bench):
    with bench.start("--save", "1 10") as server, server.client() as r:
        for n in range(20):
            r.set(f"k{n}", n)
        path = Path(server.folder.name, "dump.rdb")
        for _ in within_limit():
            if path.exists():
                break
            time.sleep(0.02)
        r.set("last", 1)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        with loaded(server) as peer, peer.client() as p:
            assert p.dbsize() == 21
    with bench.start() as server, server.client() as r:
        r.set("k", "v")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0 and not Path(server.folder.name, "dump.rdb").exists()
    with bench.start() as server, server.client() as r, server.raw() as s:
        r.set("k", "v")
        s.sendall(b"SHUTDOWN SAVE\r\n")
        assert s.recv(100) == b"" and server.wait() == 0
        with loaded(server) as peer, peer.client() as p:
            assert p.get("k") == b"v"


@pytest.mark.only_mayfly
def test_a_failed_save_is_reported_and_refuses_writes(bench):
    with bench.start() as probe:
        folder = Path(probe.folder.name, "files")
        folder.mkdir()
        with bench.start("--dir", str(folder), "--save", "3600 1000000") as server, server.client() as r:
            r.set("k", "v")
            r.save()
            kept = folder.rename(folder.with_name("kept"))
            for command in (r.bgsave, r.save):
                try:
                    command()
                except redis.ResponseError:
                    pass
                saved(r)
                assert r.info("persistence")["rdb_last_bgsave_status"] == "err"
            try:
                r.set("k", "w")
                raise AssertionError("it was written")
            except redis.ResponseError as error:
                assert "MISCONF" in str(error), error
            assert r.get("k") == b"v"
            with server.raw() as s:
                s.sendall(b"SHUTDOWN\r\n")
                assert b"Errors trying to SHUTDOWN" in s.recv(200)
            assert (kept / "dump.rdb").exists()
            r.config_set("stop-writes-on-bgsave-error", "no")
            r.set("k", "w")
            kept.rename(folder)
            r.save()
            assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"
            r.config_set("stop-writes-on-bgsave-error", "yes")
            r.set("k", "x")


def test_kill_during_a_save_leaves_a_whole_file(bench):
    """A killed server leaves the old file or the new one."""
    for round_number in range(4):
        with bench.start() as server:
            with server.client() as r:
                r.set("round", "old")
                r.save()
                pipe = r.pipeline(transaction=False)
                for n in range(100_000):
                    pipe.set(f"key:{n}", "v" * 20)
                pipe.set("round", "new")
                pipe.execute()
                r.bgsave()
                time.sleep(0.01 * round_number)
            server.signal(signal.SIGKILL)
            server.wait()
            with loaded(server) as peer, peer.client() as p:
                assert (p.get("round"), p.dbsize()) in [(b"old", 1), (b"new", 100_001)]


@pytest.mark.only_mayfly
def test_check_reports_what_a_load_refuses(bench):
    header, end = b"REDIS0011", b"\xff" + bytes(8)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "dump.rdb"
        for body, expected in (
            (b"\xfe\x00\x00\x01k\x01v", "the file is not damaged\n"),
            (b"\xfe\x14\x00\x01k\x01v", "does not load it: offset 9: database 20: there are 16 (databases)"),
            (b"\xfe\x00\x02\x01s\x02\x01a\x01a", "expected distinct elements, found two of one name, in the value of key 's'"),
            (b"\xf5\x04junk", "does not load it: offset 9: "),
        ):
            path.write_bytes(header + body + end)
            done = subprocess.run([Path(bench.binary).resolve(), "check", path], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert expected in done.stdout + done.stderr and (done.returncode == 0) == (body == b"\xfe\x00\x00\x01k\x01v"), done


@pytest.mark.only_mayfly
def test_debug_reload_keeps_all_keys(bench):
    server = bench.start("--enable-debug-command", "yes")
    r = server.client()
    fill(r)
    before = content(r)
    assert r.execute_command("DEBUG", "RELOAD") in (b"OK", True)
    assert content(r) == before
    r.set("added", 1)
    r.execute_command("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE")
    assert r.get("added") == b"1"
    r.execute_command("DEBUG", "RELOAD", "NOSAVE")
    assert content(r) == before
    try:
        r.execute_command("DEBUG", "RELOAD", "NONSENSE")
        raise AssertionError("an unknown option was accepted")
    except redis.ResponseError:
        pass
    server.end()
