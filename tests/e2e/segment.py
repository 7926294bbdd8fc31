"""The segment engine: Redis's and memcached's clients on it, memory under eviction and after expiry, refusals at start."""

import random
import signal
import tempfile
import threading
from pathlib import Path

import pytest
import redis
from memcached import Line, ours
from server import run_to_end, within_limit

pytestmark = pytest.mark.only_mayfly

ENGINE = ("--engine", "segment")
MEMORY = ("--maxmemory", "24mb")
SMALL = ("--maxmemory", "6mb", "--segment-size", "256kb")


def value_of(key: str, salt: int) -> bytes:
    """Bytes that identify their key, with a length that differs from key to key."""
    return f"{key}/{salt}/".encode() * (1 + (salt * 7 + len(key)) % 200)


def is_value_of(key: str, value: bytes) -> bool:
    name, salt, _ = value.split(b"/", 2)
    return name.decode() == key and value == value_of(key, int(salt))


def info(r: redis.Redis) -> dict:
    return r.info("everything")


def refusal(r: redis.Redis, *words: str) -> str:
    try:
        r.execute_command(*words)
    except redis.ResponseError as error:
        return str(error)
    raise AssertionError(f"{words} is served")


def test_redis_clients_on_the_segment_engine(bench):
    for protocol in (2, 3):
        with bench.start(*ENGINE, *MEMORY) as server, server.client(protocol=protocol, decode_responses=True) as r:
            assert r.set("k", "v", ex=100) and r.get("k") == "v" and 80 <= r.ttl("k") <= 96
            assert r.set("k", "w", nx=True) is None and r.set("k", "w", xx=True, keepttl=True) and 80 <= r.ttl("k") <= 96
            assert r.getex("k", persist=True) == "w" and r.ttl("k") == -1 and r.ttl("none") == -2
            assert r.expire("k", 1000) and not r.expire("k", 10, gt=True) and r.persist("k") and r.append("k", "!") == 2
            assert r.mset({"a": 1, "b": -5}) and r.mget("a", "none", "b") == ["1", None, "-5"]
            assert [r.incr("a"), r.decrby("a", 9), r.incrby("b", 6), r.incr("new")] == [2, -7, 1, 1]
            assert r.getdel("new") == "1" and r.delete("a", "b", "none") == 2 and r.exists("a", "k") == 1
            with r.pipeline(transaction=False) as pipe:
                for number in range(500):
                    pipe.set(f"p:{number}", number).get(f"p:{number}")
                assert pipe.execute()[1::2] == [str(number) for number in range(500)]
            assert r.dbsize() == 501 and r.type("k") == "string" and r.strlen("p:499") == 3
            for words in (["HSET", "h", "f", "v"], ["MULTI"], ["MSETNX", "a", "1"], ["SCAN", "0"], ["EVAL", "x", "0"]):
                said = refusal(r, *words)
                assert "segment engine" in said or "not served" in said, said
            assert "engine" in refusal(r, "CONFIG", "SET", "maxmemory", "1gb")
            assert r.config_get("engine") == {"engine": "segment"} and r.command_count() < 120
            facts = info(r)
            assert facts["engine"] == "segment" and facts["db0"]["keys"] == 501 and facts["used_memory"] <= 25 << 20
            assert r.flushall() and r.dbsize() == 0 and r.get("k") is None


def test_values_are_intact_under_eviction_by_several_clients(bench):
    for eviction in ("merge", "s3fifo"):
        with ours(bench, *ENGINE, *SMALL, "--segment-eviction", eviction) as (server, port):
            wrong, done = [], []

            def redis_client(seed: int) -> None:
                chance = random.Random(seed)
                with server.client() as r:
                    for _ in range(60):
                        keys = [f"key:{int(60_000 ** chance.random())}" for _ in range(200)]
                        with r.pipeline(transaction=False) as pipe:
                            for key in keys:
                                pipe.get(key)
                            found = pipe.execute()
                            wrong.extend(key for key, value in zip(keys, found) if value is not None and not is_value_of(key, value))
                            for key, value in zip(keys, found):
                                if value is None:
                                    pipe.set(key, value_of(key, chance.randrange(99)), ex=chance.choice([None, 20, 900]))
                            pipe.execute()
                done.append(seed)

            def memcached_client(seed: int) -> None:
                chance, line = random.Random(seed), Line(port)
                for _ in range(60):
                    keys = [f"key:{int(60_000 ** chance.random())}" for _ in range(200)]
                    sets = []
                    for key in keys:
                        value = value_of(key, chance.randrange(99))
                        sets.append(b"set %s 0 %d %d noreply\r\n%s\r\n" % (key.encode(), chance.choice([0, 20, 900]), len(value), value))
                    line.ask(*sets)
                    rows = line.ask(b"get %s\r\n" % " ".join(keys).encode()).split(b"\r\n")[:-2]
                    for head, value in zip(rows[::2], rows[1::2]):
                        key = head.split()[1].decode()
                        if not is_value_of(key, value):
                            wrong.append(key)
                done.append(seed)

            clients = [threading.Thread(target=redis_client, args=(seed,)) for seed in (1, 2)]
            clients += [threading.Thread(target=memcached_client, args=(seed,)) for seed in (3, 4)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            assert sorted(done) == [1, 2, 3, 4] and wrong == []
            with server.client() as r:
                facts = info(r)
            assert facts["evicted_keys"] > 0 and facts["taken_bytes"] <= 6 << 20, facts


def test_memory_of_expired_objects_is_freed(bench):
    with bench.start(*ENGINE, *MEMORY) as server, server.client() as r:
        free = info(r)["segments_free"]
        with r.pipeline(transaction=False) as pipe:
            for number in range(20_000):
                pipe.set(f"k:{number}", b"v" * 200, px=700)
            pipe.execute()
        assert info(r)["segments_free"] < free
        for _ in within_limit():
            facts = info(r)
            if facts["expired_keys"] == 20_000:
                break
        assert facts["expired_backlog_keys"] == 0 and facts["segments_free"] >= free - 1 and r.dbsize() == 0
        # The keyspace is scanned by heads of chains, which are far fewer than the objects.
        assert 0 < facts["expiry_heads_read"] < 2_000, facts["expiry_heads_read"]


def test_incompatible_settings_are_refused_at_start(bench):
    for options, words in (
        (["--maxmemory", "5mb", "--threads", "4"], "is too little for 4 data threads"),
        (["--maxmemory-policy", "allkeys-lru"], "segment-eviction"),
        (["--segment-size", "3000"], "between 4096"),
        (["--segment-size", "12345"], "power of two"),
        (["--segment-eviction", "lru"], "must be one of"),
        (["--notify-keyspace-events", "KEA"], "no event"),
    ):
        code, text = run_to_end(bench.binary, *ENGINE, "--port", "0", *options)
        assert code != 0 and words in text, text


def test_bad_input_in_memcacheds_protocol_on_the_segment_engine(bench):
    with ours(bench, *ENGINE, *MEMORY, "--memcached-item-max", "4mb") as (_, port):
        line = Line(port)
        long = b"k" * 251
        bad = b"CLIENT_ERROR bad command line format\r\n"
        for request, wanted in (
            (b"get %s\r\n" % long, b"CLIENT_ERROR"),
            (b"set %s 0 0 1\r\nx\r\n" % long, b"CLIENT_ERROR"),
            (b"set k 0 0 -1\r\n", bad),
            (b"set k 0 0 x\r\n", bad),
            (b"set k 0 0 2\r\nabcd\r\n", b"CLIENT_ERROR bad data chunk"),
            (b"set n 0 0 1\r\nx\r\n", b"STORED"),
            (b"incr n 1\r\n", b"CLIENT_ERROR cannot increment"),
            (b"incr n -1\r\n", b"CLIENT_ERROR invalid numeric delta"),
            (b"incr n 18446744073709551616\r\n", b"CLIENT_ERROR invalid numeric delta"),
            (b"set n 0 0 20\r\n18446744073709551615\r\n", b"STORED"),
            (b"incr n 1\r\n", b"0\r\n"),
            (b"cas n 0 0 1 x\r\ny\r\n", bad),
        ):
            got = line.ask(request)
            assert got.startswith(wanted), (request[:40], got)
        # As long as a segment, and therefore larger than what fits into one.
        large = b"v" * (1 << 20)
        assert line.ask(b"set big 0 0 3\r\nabc\r\n") == b"STORED\r\n"
        assert line.ask(b"set big 0 0 %d\r\n%s\r\n" % (len(large), large)) == b"SERVER_ERROR object too large for cache\r\n"
        assert line.ask(b"get big\r\n") == b"END\r\n"
        assert line.ask(b"set big 0 0 %d\r\n%s\r\n" % (len(large) - 99, large[99:])) == b"STORED\r\n"
        assert line.ask(b"append big 0 0 99\r\n%s\r\n" % large[:99]) == b"SERVER_ERROR object too large for cache\r\n"


def test_one_of_several_cas_requests_succeeds(bench):
    """A cas is atomic between threads: of several that read the same CAS number, one stores."""
    with ours(bench, *ENGINE, *MEMORY) as (_, port):
        Line(port).ask(b"set sum 0 0 1\r\n0\r\nset count 0 0 1\r\n0\r\n")

        def add() -> None:
            line, left = Line(port), 100
            while left > 0:
                head, value = line.ask(b"gets sum\r\n").split(b"\r\n")[:2]
                new = b"%d" % (int(value) + 1)
                stored = line.ask(b"cas sum 0 0 %d %s\r\n%s\r\nincr count 1\r\n" % (len(new), head.split()[4], new))
                left -= stored.startswith(b"STORED")

        clients = [threading.Thread(target=add) for _ in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        found = Line(port).ask(b"get sum count\r\n").split(b"\r\n")
        assert found[1] == b"400" and int(found[3]) >= 400, found


def stored(r: redis.Redis, names: list[str]) -> dict:
    """Value and deadline of each key that is there."""
    values = r.mget(names)
    with r.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.pexpiretime(name)
        return {name: (value, at) for name, value, at in zip(names, values, pipe.execute()) if value is not None}


def test_a_restart_continues_with_the_segments_in_the_file(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        path = Path(folder, "segments")
        options = (*ENGINE, *SMALL, "--segment-file", str(path))
        names = [f"k:{number}" for number in range(20_000)]
        with bench.start(*options) as server:
            for round_number in range(4):
                with server.client() as r:
                    with r.pipeline(transaction=False) as pipe:
                        for name in names[round_number::3]:
                            pipe.set(name, value_of(name, round_number)[:300], ex=random.choice([None, 1000, 100_000]))
                        pipe.execute()
                    for name in names[::7]:
                        r.delete(name)
                    r.incr("counter")
                    before, count = stored(r, names), int(r.get("counter"))
                assert len(before) > 1000
                server.signal(signal.SIGTERM)
                assert server.wait() == 0
                server.restart()
                with server.client() as r:
                    after = stored(r, names)
                    # An eviction that was in progress is finished at the stop.
                    assert set(after) <= set(before) and len(after) > 0.8 * len(before), (len(after), len(before))
                    assert all(before[name] == found for name, found in after.items())
                    assert int(r.get("counter")) == count and "are there again" in server.log_text()
            code, text = run_to_end(bench.binary, *options, "--port", "0")
            assert code != 0 and "another process uses it" in text, text
            server.signal(signal.SIGKILL)
            server.wait()
            server.restart()
            with server.client() as r:
                assert r.dbsize() == 0 and "starts empty: the server that used it has not stopped" in server.log_text()
                r.set("k", "v")
        with bench.start(*ENGINE, "--maxmemory", "7mb", "--segment-size", "256kb", "--segment-file", str(path)) as server, server.client() as r:
            assert r.dbsize() == 0 and "other sizes" in server.log_text()
        assert path.stat().st_mode & 0o777 == 0o600
        path.write_bytes(b"a letter")
        code, text = run_to_end(bench.binary, *options, "--port", "0")
        assert code != 0 and "not one of segments" in text and path.read_bytes() == b"a letter", text
