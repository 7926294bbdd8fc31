"""Moves of slots between the two shards of a cluster on etcd, while clients use their keys.

One shard has an in-sync replica. The checks of this file use one cluster.
"""

import json
import os
import signal
import threading
import time

import pytest
import redis
from failovers import Cluster, patiently
from server import within_limit

pytestmark = [pytest.mark.only_mayfly, pytest.mark.needs("etcd")]

# The slot of these keys moves to and fro.
TAG = "{moving}"
SLOT = 14_604


class Pair(Cluster):
    shard_count, node_count = 2, 3


@pytest.fixture(scope="module")
def cluster(pytestconfig):
    cluster = Pair(pytestconfig.option.server)
    yield cluster
    cluster.end()


def owner(cluster: Cluster, slot: int) -> str:
    """The shard that has a slot."""
    for shard in cluster.shards():
        for text in shard["ranges"].split():
            first, last = map(int, text.split("-"))
            if first <= slot <= last:
                return shard["id"]
    raise AssertionError(f"slot {slot} has no owner")


def other(cluster: Cluster, shard: str) -> str:
    return next(one["id"] for one in cluster.shards() if one["id"] != shard)


def primary(cluster: Cluster, shard: str):
    """The node that is the primary of a shard."""
    [found] = [one for one in cluster.shards() if one["id"] == shard]
    address = next(node["address"] for node in found["nodes"] if node["role"] == "primary")
    return next(node for node in cluster.nodes if address.endswith(f":{node.port}"))


def move(cluster: Cluster, slots: str, *words: str) -> list[dict]:
    """Moves slots to the other shard, and waits."""
    to = other(cluster, owner(cluster, int(slots.split("-")[0])))
    done = cluster.run("move", slots, "--to", to, "--json", *words)
    assert done.returncode == 0, done.stderr + done.stdout
    # The nodes read the outcome at the same time as the command.
    with primary(cluster, to).client() as r:
        for _ in within_limit():
            try:
                r.get(TAG)
                break
            except redis.exceptions.MovedError:
                time.sleep(0.01)
    return json.loads(done.stdout)["moves"]


def test_keys_of_all_kinds_move_with_deadlines_tags_and_databases(cluster):
    source = primary(cluster, owner(cluster, SLOT))
    later = int(time.time() * 1000) + 3_600_000
    with source.client(decode_responses=True) as r, source.client(decode_responses=True, db=3) as third:
        assert r.execute_command("CLUSTER", "KEYSLOT", TAG) == SLOT
        r.set(f"{TAG}text", "value", pxat=later)
        r.execute_command("SET", f"{TAG}tagged", "1", "TAGS", 2, "red", "blue")
        r.rpush(f"{TAG}list", *range(500))
        r.hset(f"{TAG}hash", mapping={"a": "1", "b": "2"})
        r.hpexpireat(f"{TAG}hash", later, "b")
        r.sadd(f"{TAG}set", "x", "y")
        r.execute_command("SPEXPIREAT", f"{TAG}set", later, "MEMBERS", 1, "y")
        r.zadd(f"{TAG}scores", {"m": 1.5})
        r.xadd(f"{TAG}stream", {"f": "v"}, id="1-1")
        r.xgroup_create(f"{TAG}stream", "group", 0)
        third.set(f"{TAG}text", "third")
    [moved] = move(cluster, str(SLOT))
    assert moved["state"] == "done"
    target = primary(cluster, owner(cluster, SLOT))
    assert target is not source
    with target.client(decode_responses=True) as r, target.client(decode_responses=True, db=3) as third:
        assert (r.get(f"{TAG}text"), r.pexpiretime(f"{TAG}text")) == ("value", later)
        assert r.execute_command("TAGS", f"{TAG}tagged") == ["red", "blue"]
        assert r.lrange(f"{TAG}list", 0, -1) == [str(n) for n in range(500)]
        assert r.hgetall(f"{TAG}hash") == {"a": "1", "b": "2"} and r.hpexpiretime(f"{TAG}hash", "a", "b") == [-1, later]
        assert r.smembers(f"{TAG}set") == {"x", "y"} and r.execute_command("SPEXPIRETIME", f"{TAG}set", "MEMBERS", 2, "x", "y") == [-1, later]
        assert r.zscore(f"{TAG}scores", "m") == 1.5
        assert r.xrange(f"{TAG}stream") == [("1-1", {"f": "v"})] and r.xinfo_groups(f"{TAG}stream")[0]["name"] == "group"
        assert third.get(f"{TAG}text") == "third"
        assert r.execute_command("INVALIDATE", 1, "red") == 1 and r.exists(f"{TAG}tagged") == 0
    with source.client(decode_responses=True) as r:
        with pytest.raises(redis.exceptions.MovedError, match=f":{target.port}$"):
            r.get(f"{TAG}text")
        for _ in within_limit():
            if r.dbsize() == 0:
                break
        assert r.execute_command("CLUSTER", "COUNTKEYSINSLOT", SLOT) == 0


class Writer(threading.Thread):
    """Counts up keys of the moving slot, and remembers what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster, self.stops, self.counts, self.longest = cluster, threading.Event(), [0] * 200, 0.0

    def run(self) -> None:
        with self.cluster.client() as c:
            number = 0
            while not self.stops.is_set():
                number = (number + 7) % len(self.counts)
                begun = time.monotonic()
                count = patiently(lambda number=number: c.incr(f"{TAG}count:{number}"))
                self.longest = max(self.longest, time.monotonic() - begun)
                assert count > self.counts[number], f"an acknowledged write was lost: {count} after {self.counts[number]}"
                self.counts[number] = count


def test_a_move_under_writes_loses_none(cluster):
    writers = [Writer(cluster) for _ in range(1)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(4):
            [moved] = move(cluster, f"{SLOT - 50}-{SLOT + 50}")
            assert moved["state"] == "done"
    finally:
        for writer in writers:
            writer.stops.set()
            writer.join()
    with cluster.client() as c:
        for number, count in enumerate(writers[0].counts):
            assert int(c.get(f"{TAG}count:{number}") or 0) == count
    assert sum(writers[0].counts) > 100, writers[0].counts


def test_each_key_that_expires_in_a_move_is_published_once(cluster):
    nodes = [primary(cluster, shard["id"]) for shard in cluster.shards()]
    clients = [node.client(decode_responses=True) for node in nodes]
    subscribers = []
    for r in clients:
        r.config_set("notify-keyspace-events", "Ex")
        subscriber = r.pubsub()
        subscriber.subscribe("__keyevent@0__:expired")
        assert subscriber.get_message(timeout=5)["type"] == "subscribe"
        subscribers.append(subscriber)
    with primary(cluster, owner(cluster, SLOT)).client(decode_responses=True) as r, r.pipeline(transaction=False) as pipe:
        for number in range(400):
            pipe.set(f"{TAG}due:{number}", "1", px=200 + 3 * number)
        pipe.execute()
    move(cluster, str(SLOT))
    seen: list[str] = []
    for _ in within_limit():
        for subscriber in subscribers:
            while message := subscriber.get_message(timeout=0.01):
                seen.append(message["data"])
        if len(seen) >= 400:
            break
    time.sleep(0.1)
    for subscriber in subscribers:
        while message := subscriber.get_message(timeout=0.01):
            seen.append(message["data"])
        subscriber.close()
    assert sorted(seen) == sorted(f"{TAG}due:{number}" for number in range(400))
    for r in clients:
        r.close()


def test_a_blocked_client_is_redirected(cluster):
    source = primary(cluster, owner(cluster, SLOT))
    errors: list[str] = []
    with source.client(decode_responses=True) as r, source.client(decode_responses=True) as watching:
        def block() -> None:
            try:
                r.blpop(f"{TAG}nothing", timeout=30)
            except redis.exceptions.MovedError as error:
                errors.append(str(error))

        thread = threading.Thread(target=block)
        thread.start()
        for _ in within_limit():
            if watching.info("clients")["blocked_clients"] == 1:
                break
        watching.execute_command("WATCH", f"{TAG}text")
        move(cluster, str(SLOT))
        thread.join()
        assert len(errors) == 1
        watching.execute_command("MULTI")
        with pytest.raises(redis.ResponseError):
            watching.execute_command("SET", f"{TAG}text", "1")


def test_a_cancelled_move_leaves_the_slots_where_they_are(cluster):
    shard = owner(cluster, SLOT)
    source, target = primary(cluster, shard), primary(cluster, other(cluster, shard))
    with source.client(decode_responses=True) as r, target.client(decode_responses=True) as t:
        r.config_set("cluster-move-max-rate", 20_000)
        with r.pipeline(transaction=False) as pipe:
            for number in range(300):
                pipe.set(f"{TAG}big:{number}", "x" * 1000)
            pipe.execute()
        assert cluster.run("move", str(SLOT), "--to", other(cluster, shard), "--wait", "0").returncode == 0
        for _ in within_limit():
            if t.dbsize() > 20:
                break
        assert list(t.scan_iter(f"{TAG}*")) == [], "what arrives is hidden"
        done = cluster.run("cancel")
        assert done.returncode == 0 and "is cancelled" in done.stdout, done.stdout + done.stderr
        for _ in within_limit():
            if t.execute_command("CLUSTER", "COUNTKEYSINSLOT", SLOT) == 0:
                break
        assert owner(cluster, SLOT) == shard and r.get(f"{TAG}big:299") == "x" * 1000
        r.config_set("cluster-move-max-rate", 0)


def test_a_value_that_no_command_can_carry_fails_the_move(cluster):
    shard = owner(cluster, SLOT)
    with primary(cluster, shard).client() as r:
        r.config_set("proto-max-bulk-len", "1mb")
        for _ in range(3):
            r.append(f"{TAG}large", os.urandom(500_000))
        done = cluster.run("move", str(SLOT), "--to", other(cluster, shard))
        assert done.returncode != 0 and "larger than proto-max-bulk-len" in done.stdout + done.stderr, done.stdout + done.stderr
        assert owner(cluster, SLOT) == shard and r.strlen(f"{TAG}large") == 1_500_000
        r.delete(f"{TAG}large")
        r.config_set("proto-max-bulk-len", "512mb")


def test_the_commands_of_valkey_and_of_redis_move_slots(cluster):
    shard = owner(cluster, SLOT)
    source, target = primary(cluster, shard), primary(cluster, other(cluster, shard))
    with source.client(protocol=3, decode_responses=True) as s, target.client(protocol=3, decode_responses=True) as t:
        name = t.execute_command("CLUSTER", "MYID")
        for words, error in (
            (("SLOTSRANGE", 5, 4, "NODE", name), "greater than end slot"),
            (("SLOTSRANGE", SLOT, SLOT, "NODE", "x" * 40), "Unknown node"),
            (("SLOTSRANGE", SLOT, SLOT, SLOT, SLOT, "NODE", name), "overlap"),
            (("SLOTSRANGE", SLOT, SLOT, "NODE", s.execute_command("CLUSTER", "MYID")), "owns the slots already"),
        ):
            with pytest.raises(redis.ResponseError, match=error):
                s.execute_command("CLUSTER", "MIGRATESLOTS", *words)
        before = {one["name"] for one in s.execute_command("CLUSTER", "GETSLOTMIGRATIONS")}
        assert s.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", SLOT, SLOT, "NODE", name) == "OK"

        def newest(client: redis.Redis) -> dict:
            # The other node may read the record later.
            found = client.execute_command("CLUSTER", "GETSLOTMIGRATIONS")
            return next((one for one in found if one["name"] not in before), {"state": ""})

        for _ in within_limit():
            if newest(s)["state"] == "success" == newest(t)["state"]:
                break
        assert (newest(s)["operation"], newest(t)["operation"]) == ("EXPORT", "IMPORT")
        assert newest(s)["slot_ranges"] == str(SLOT) and newest(s)["target_node"] == name
        move_id = s.execute_command("CLUSTER", "MIGRATION", "IMPORT", SLOT, SLOT)
        for _ in within_limit():
            [status] = s.execute_command("CLUSTER", "MIGRATION", "STATUS", "ID", move_id)
            if status["state"] == "completed":
                break
        assert (status["operation"], status["slots"], status["source"]) == ("import", str(SLOT), name)
        assert s.execute_command("CLUSTER", "MIGRATION", "CANCEL", "ALL") == 0
        with pytest.raises(redis.ResponseError, match="No migrations ongoing"):
            s.execute_command("CLUSTER", "CANCELSLOTMIGRATIONS")


def test_a_move_ends_with_its_source_and_the_next_one_succeeds(cluster):
    """The shard with a replica gives slots away while its primary is killed: the replica has all acknowledged keys and the slots."""
    source, _ = cluster.pair()
    if owner(cluster, SLOT) != cluster.shard:
        move(cluster, str(SLOT))
    with source.client(decode_responses=True) as r:
        r.config_set("cluster-move-max-rate", 20_000)
        with r.pipeline(transaction=False) as pipe:
            for number in range(200):
                pipe.set(f"{TAG}kept:{number}", "x" * 500)
            pipe.execute()
        assert r.wait(1, 0) == 1
    assert cluster.run("move", str(SLOT), "--to", other(cluster, cluster.shard), "--wait", "0").returncode == 0
    time.sleep(0.3)
    with cluster.client() as c:
        source.process.send_signal(signal.SIGKILL)
        source.process.wait()
        assert patiently(lambda: c.get(f"{TAG}kept:199")) == "x" * 500
    for _ in within_limit():
        moves = json.loads(cluster.run("status", "--json").stdout)["moves"]
        if all(one["state"] != "open" for one in moves):
            break
    assert any(one["why"] == "a shard has failed over" for one in moves)
    source.restart()
    [moved] = move(cluster, str(SLOT))
    assert moved["state"] == "done"
    target = primary(cluster, owner(cluster, SLOT))
    with target.client(decode_responses=True) as r:
        assert all(r.get(f"{TAG}kept:{number}") == "x" * 500 for number in range(200))
    for _ in within_limit():
        if cluster.is_whole():
            break
