"""Keys go when their deadline passes, and events say so.

Redis passes with a wide margin for lateness: it promises none.
"""

import time

LATE_S = {True: 2.0, False: 0.1}


def events(r, count: int, pattern: str = "__keyevent@0__:*") -> list[tuple[str, str]]:
    """The next `count` events as (event, key)."""
    got = []
    while len(got) < count:
        message = r.get_message(ignore_subscribe_messages=True, timeout=10)
        assert message is not None, f"only {len(got)} of {count} events: {got[-3:]}"
        got.append((message["channel"].decode().split(":", 1)[1], message["data"].decode()))
    return got


def subscribed(client):
    client.config_set("notify-keyspace-events", "KEA")
    listener = client.pubsub()
    listener.psubscribe("__keyevent@0__:*")
    assert listener.get_message(timeout=5)["type"] == "psubscribe"
    return listener


def test_an_expired_event_comes_in_time(bench):
    for protocol in (2, 3):
        with bench.server.client(protocol=protocol) as r, subscribed(r) as listener:
            r.set("a", "1", px=100)
            due = time.monotonic() + 0.1
            assert events(listener, 3)[-1] == ("expired", "a")
            late = time.monotonic() - due
            assert -0.02 <= late < LATE_S[bench.is_redis], late
            assert r.get("a") is None and r.dbsize() == 0


def test_a_deadline_moved_earlier_by_another_client_wakes_the_server(bench):
    with bench.server.client() as r, subscribed(r) as listener, bench.server.client() as other:
        r.set("a", "1", ex=3600)
        other.pexpire("a", 50)
        due = time.monotonic() + 0.05
        got = events(listener, 4)
        assert [name for name, _ in got] == ["set", "expire", "expire", "expired"], got
        assert time.monotonic() - due < LATE_S[bench.is_redis]


def test_many_keys_on_one_deadline_go_at_once(bench):
    count = 20_000
    with bench.server.client() as r:
        r.set("stays", "x", ex=3600)
        deadline = int(time.time() * 1000) + 1500
        for start in range(0, count, 1000):
            with r.pipeline(transaction=False) as p:
                for i in range(start, start + 1000):
                    p.set(f"k{i}", "x", pxat=deadline)
                p.execute()
        assert r.dbsize() == count + 1
        limit = deadline / 1000 + (30 if bench.is_redis else 0.5)
        while r.dbsize() > 1 and time.time() < limit:
            pass
        assert r.dbsize() == 1, r.dbsize()
        assert time.time() >= deadline / 1000
        assert r.info("stats")["expired_keys"] >= count


def test_events_come_in_the_order_of_deadlines(bench):
    if bench.is_redis:
        return
    with bench.start("--threads", "1") as server, server.client() as r, subscribed(r) as listener:
        now = int(time.time() * 1000)
        keys = {f"k{i}": now + 300 + (i * 7919) % 200 for i in range(500)}
        with r.pipeline(transaction=False) as p:
            for key, deadline in keys.items():
                p.set(key, "x", pxat=deadline)
            p.execute()
        expired = [key for name, key in events(listener, 1500) if name == "expired"]
        assert len(expired) == 500
        # Shards are emptied one after the other, within one pass of the worker.
        late = max(keys[a] - keys[b] for a, b in zip(expired, expired[1:]))
        assert late <= 20, late


def test_a_dead_key_is_never_seen(bench):
    with bench.server.client() as r:
        for i in range(200):
            r.set("a", i, px=1)
            gone = time.monotonic() + 0.003
            while time.monotonic() < gone:
                pass
            with r.pipeline() as p:
                p.get("a").exists("a").ttl("a").type("a").keys("a").mget("a").scan().randomkey()
                got = p.execute()
            assert got[:6] == [None, 0, -2, b"none", [], [None]] and got[6][1] == [] and got[7] is None, got


def test_deadlines_in_the_past_and_at_the_ends(bench):
    with bench.server.client() as r:
        ends = (0, 1, -1, -(2**63))
        with subscribed(r) as listener:
            for deadline in ends:
                r.set("a", "1")
                assert r.execute_command("PEXPIREAT", "a", deadline) == 1 and r.exists("a") == 0
            names = [name for name, _ in events(listener, 3 * len(ends) - len(ends))]
            # Redis before 8 says `del` here, Valkey and we say `expired`.
            assert names == ["set", "del" if bench.is_redis else "expired"] * len(ends), names
        for command in (["SET", "a", "1", "PX"], ["PEXPIRE", "b"], ["EXPIRE", "b"], ["SET", "a", "1", "EX"]):
            r.set("b", "1")
            for span in (2**63 - 1, 2**63, "1.5", "x"):
                try:
                    r.execute_command(*command, span)
                    raise AssertionError(f"{command} {span} was taken")
                except Exception as error:
                    assert "invalid expire time" in str(error) or "not an integer" in str(error), error
            assert r.ttl("b") == -1
        r.execute_command("SET", "far", "1", "PXAT", 2**62)
        assert r.pttl("far") > 2**40


# Each index, and the granularity that INFO tells of it.
INDEXES = {
    "wheel": "0",
    "sampled": "unbounded",
    "sampled:release=5": "unbounded",
    "buckets:120x1000": "unbounded",
    "crawler:1": "1000",
    "lazy": "unbounded",
    "ordered": "0",
}


def test_every_index_serves(bench):
    if bench.is_redis:
        return
    count = 500
    for index, granularity in INDEXES.items():
        with bench.start("--expiry", index) as server, server.client() as r:
            with r.pipeline(transaction=False) as p:
                for i in range(count):
                    p.set(f"k{i}", "x", px=200 + i % 50)
                    p.set(f"moved{i}", "x", ex=3600).pexpire(f"moved{i}", 250)
                p.execute()
            told = r.info("expiry")
            assert str(told["expiry_granularity_ms"]) == granularity, (index, told)
            due = time.time() + 0.25
            while r.dbsize() > 0 and time.time() < due + (0.5 if index == "lazy" else 10):
                time.sleep(0.01)
            if index == "lazy":
                assert r.dbsize() == 2 * count, "nothing goes by itself"
                assert not any(r.mget([f"{name}{i}" for i in range(count) for name in ("k", "moved")]))
            assert r.dbsize() == 0, (index, r.dbsize(), r.info("expiry"))
            assert time.time() >= due - 0.06, index


def test_a_ring_without_buckets_is_refused(bench):
    if bench.is_redis:
        return
    for size in ("0x1000", "120x0", "65536x18446744073709551615"):
        try:
            bench.start("--expiry", f"buckets:{size}").end()
        except RuntimeError as error:
            assert "NUM_BUCKETSxBASE" in str(error), error
        else:
            raise AssertionError(f"{size} was taken")
