"""Keys are removed when their deadline passes, and events report it.

No check measures the delay, because a busy machine is late. The checks are that no key expires early, that every key
expires without being accessed, and the order.
"""

import time

import pytest
from server import LIMIT_S, within_limit


def events(r, count: int, pattern: str = "__keyevent@0__:*") -> list[tuple[str, str]]:
    """Returns the next `count` events as (event, key)."""
    got = []
    while len(got) < count:
        message = r.get_message(ignore_subscribe_messages=True, timeout=LIMIT_S)
        assert message is not None, f"only {len(got)} of {count} events: {got[-3:]}"
        got.append((message["channel"].decode().split(":", 1)[1], message["data"].decode()))
    return got


def subscribed(client):
    client.config_set("notify-keyspace-events", "KEA")
    listener = client.pubsub()
    listener.psubscribe("__keyevent@0__:*")
    assert listener.get_message(timeout=LIMIT_S)["type"] == "psubscribe"
    return listener


def before_deadline(r, count: int, spread_ms: int, prefix: str) -> dict[str, int]:
    """Sets keys with deadlines from one instant on. Repeats it with a later instant if the machine was too slow."""
    lead_ms = 1000
    while lead_ms < 1000 * LIMIT_S:
        start = int(time.time() * 1000) + lead_ms
        keys = {f"{prefix}{lead_ms}:{i}": start + (i * 7919) % spread_ms for i in range(count)}
        names = list(keys)
        for at in range(0, count, 1000):
            with r.pipeline(transaction=False) as p:
                for key in names[at : at + 1000]:
                    p.set(key, "x", pxat=keys[key])
                p.execute()
        held = r.exists(*names)
        if time.time() * 1000 < start:
            assert held == count, (held, count)
            return keys
        lead_ms *= 4
    raise AssertionError(f"{count} keys take more than {LIMIT_S} s")


def expired_ms(listener, keys: dict[str, int]) -> dict[str, int]:
    """Waits until all keys have expired. Returns the times of their events in order."""
    came = {}
    while not keys.keys() <= came.keys():
        ((name, key),) = events(listener, 1)
        if name == "expired":
            came[key] = time.time() * 1000
    return {key: at for key, at in came.items() if key in keys}


def test_an_expired_event_follows_the_deadline_without_access(bench):
    for protocol in (2, 3):
        with bench.server.client(protocol=protocol) as r, subscribed(r) as listener:
            keys = before_deadline(r, 1, 1, "a")
            came = expired_ms(listener, keys)
            assert all(came[key] > deadline for key, deadline in keys.items()), (came, keys)
            assert r.dbsize() == 0


def test_a_deadline_moved_earlier_by_another_client_wakes_the_server(bench):
    with bench.server.client() as r, subscribed(r) as listener, bench.server.client() as other:
        r.set("a", "1", ex=3600)
        other.pexpire("a", 50)
        got = events(listener, 4)
        assert [name for name, _ in got] == ["set", "expire", "expire", "expired"], got


def test_many_keys_with_one_deadline_expire(bench):
    with bench.server.client() as r:
        r.set("stays", "x", ex=3600)
        expired = r.info("stats")["expired_keys"]
        keys = before_deadline(r, 20_000, 1, "k")
        for _ in within_limit():
            if r.dbsize() == 1:
                break
        assert time.time() * 1000 > next(iter(keys.values()))
        assert r.info("stats")["expired_keys"] >= expired + len(keys)


@pytest.mark.only_mayfly
def test_events_come_in_the_order_of_deadlines(bench):
    with bench.start("--threads", "1") as server, server.client() as r, subscribed(r) as listener:
        keys = before_deadline(r, 500, 200, "k")
        came = list(expired_ms(listener, keys))
        assert len(came) == 500
        # Shards are processed one after the other: events are out of order by no more than the server's delay.
        passed_ms = max(keys[a] - keys[b] for a, b in zip(came, came[1:]))
        assert passed_ms <= r.execute_command("INFO", "expiry")["expiry_lag_us_max"] / 1000 + 1


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
            # Redis before 8 reports `del` here, Valkey and Mayfly report `expired`.
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


# Each index, with the granularity that INFO reports for it.
INDEXES = {
    "wheel": "0",
    "sampled": "unbounded",
    "sampled:release=5": "unbounded",
    "sampled-5": "unbounded",
    "buckets:120x1000": "unbounded",
    "buckets-auto": "unbounded",
    "radix": "0",
    "radix-capped": "unbounded",
    "ebuckets": "0",
    "crawler:1": "1000",
    "lazy": "unbounded",
    "ordered": "0",
}


@pytest.mark.only_mayfly
def test_every_index_serves(bench):
    count = 500
    for index, granularity in INDEXES.items():
        with bench.start("--expiry", index) as server, server.client() as r:
            with r.pipeline(transaction=False) as p:
                for i in range(count):
                    p.set(f"k{i}", "x", px=200 + i % 50)
                    p.set(f"moved{i}", "x", ex=3600).pexpire(f"moved{i}", 250)
                # No key expires before this; on a busy machine the replies alone may take longer than a deadline.
                due = time.time() + 0.25
                p.execute()
            facts = r.info("expiry")
            assert str(facts["expiry_granularity_ms"]) == granularity, (index, facts)
            limit = time.time() + (0.75 if index == "lazy" else 10)
            while r.dbsize() > 0 and time.time() < limit:
                time.sleep(0.01)
            if index == "lazy":
                assert r.dbsize() == 2 * count, "nothing goes by itself"
                assert not any(r.mget([f"{name}{i}" for i in range(count) for name in ("k", "moved")]))
            assert r.dbsize() == 0, (index, r.dbsize(), r.info("expiry"))
            assert time.time() >= due - 0.06, index


@pytest.mark.only_mayfly
def test_every_index_expires_many_keys_with_one_deadline(bench):
    count = 20_000
    for index in INDEXES:
        # Ten passes of twenty looks in a tenth of a second are two thousand a second.
        crowd = count // 4 if index == "sampled-5" else count
        with bench.start("--expiry", index) as server, server.client() as r:
            r.set("stays", "x", ex=3600)
            keys = before_deadline(r, crowd, 1, "a")
            for _ in within_limit():
                if r.info("expiry")["expired_backlog_keys"] > 0 or r.dbsize() == 1:
                    break
            if index == "lazy":
                for _ in within_limit():
                    if r.exists(*keys) == 0:
                        break
            for _ in within_limit():
                if r.dbsize() == 1:
                    break
            assert r.dbsize() == 1 and r.get("stays") == b"x", (index, r.info("expiry"))
            # More than once, if this machine was too slow to set all keys in time.
            assert r.info("stats")["expired_keys"] >= crowd, index


@pytest.mark.only_mayfly
def test_a_ring_without_buckets_is_refused(bench):
    for size in ("0x1000", "120x0", "65536x18446744073709551615"):
        try:
            bench.start("--expiry", f"buckets:{size}").end()
        except RuntimeError as error:
            assert "NUM_BUCKETSxBASE" in str(error), error
        else:
            raise AssertionError(f"{size} was taken")
