"""Sorted sets as applications use them, and random commands compared with Redis."""

import random
import threading

import pytest
import redis
from clients import raises
from server import LIMIT_S, Server, within_limit

SEEDS = 4
STEPS = 3_000
KEYS = ["a", "b", "c", "d"]


def pairs(reply) -> list:
    """Members and scores, whatever the nesting of the protocol."""
    return [(member, float(score)) for member, score in reply]


def test_sorted_sets(r):
    assert r.zadd("z", {"a": 1, "b": 2, "c": 3}) == 3 and r.zadd("z", {"a": 5}, nx=True) == 0
    assert r.zadd("z", {"a": 4, "d": 4}, ch=True) == 2 and r.zadd("z", {"b": 1}, gt=True, ch=True) == 0
    assert r.zincrby("z", 0.5, "b") == 2.5 and r.zscore("z", "b") == 2.5 and r.zmscore("z", ["b", "x"]) == [2.5, None]
    assert r.zcard("z") == 4 and r.zcount("z", "(2.5", 4) == 3 and r.zrank("z", "c") == 1 and r.zrevrank("z", "c") == 2
    assert r.zrange("z", 0, -1) == ["b", "c", "a", "d"] and r.zrevrange("z", 0, 1) == ["d", "a"]
    assert pairs(r.zrange("z", 0, 1, withscores=True)) == [("b", 2.5), ("c", 3.0)]
    assert r.zrangebyscore("z", 3, "inf", start=1, num=2) == ["a", "d"] and r.zrange("z", 9, 3, byscore=True, desc=True) == ["d", "a", "c"]
    assert r.zrangestore("y", "z", 1, 2) == 2 and r.zrange("y", 0, -1) == ["c", "a"]
    assert r.zunion(["z", "y"]) and pairs(r.zinter(["z", "y"], withscores=True)) == [("c", 6.0), ("a", 8.0)]
    assert r.zdiff(["z", "y"]) == ["b", "d"] and r.zunionstore("x", {"z": 1, "y": 10}, aggregate="MAX") == 4
    assert r.zscore("x", "a") == 40 and r.zintercard(2, ["z", "y"]) == 2
    assert r.zrem("z", "a", "none") == 1 and r.zremrangebyrank("z", 0, 0) == 1 and r.zremrangebyscore("z", 3, 3) == 1
    assert pairs(r.zpopmin("z", 1)) == [("d", 4.0)] and r.exists("z") == 0 and r.zpopmax("z") == []
    r.zadd("l", {word: 0 for word in ("a", "b", "c")})
    assert r.zrangebylex("l", "[a", "(c") == ["a", "b"] and r.zlexcount("l", "-", "+") == 3 and r.zremrangebylex("l", "(a", "+") == 2
    assert "not a valid float" in raises(redis.ResponseError, r.execute_command, "ZADD", "l", "x", "m")
    r.zadd("large", {f"member:{i}": i % 100 for i in range(20_000)})
    assert r.zrank("large", "member:9999") == 19_999 and r.zcount("large", 7, 7) == 200
    assert dict(r.zscan_iter("large", match="member:1999*")) == {f"member:1999{i}": 90.0 + i for i in range(10)} | {"member:1999": 99.0}
    assert len(set(r.zrandmember("large", 50))) == 50 and r.zremrangebyrank("large", 10, -1) == 19_990
    assert r.object("encoding", "large") == "skiplist" and r.object("encoding", "l") == "listpack"


def test_a_client_blocks_for_a_sorted_set(bench, r):
    got = []

    def wait() -> None:
        options = r.connection_pool.connection_kwargs
        with bench.server.client(protocol=options["protocol"], decode_responses=True) as waiting:
            got.append(waiting.bzpopmin(["none", "z"], timeout=0))
            got.append(waiting.bzpopmax("z", timeout=LIMIT_S))
            got.append(waiting.bzpopmin("none", timeout=0.01))
            got.append(waiting.bzmpop(LIMIT_S, 2, ["none", "y"], min=True, count=2))

    thread = threading.Thread(target=wait)
    thread.start()
    for key, members in (("z", {"a": 1}), ("z", {"b": 1, "c": 2}), ("y", {"d": 4, "e": 5, "f": 6})):
        for _ in within_limit():
            if r.info("clients")["blocked_clients"] == 1:
                break
        if key == "z":
            r.set(key, "a string wakes nobody")
            r.delete(key)
        r.zadd(key, members)
    thread.join(LIMIT_S)
    assert [list(got[0]), list(got[1]), got[2]] == [["z", "a", 1.0], ["z", "c", 2.0], None], got
    assert got[3][0] == "y" and pairs(got[3][1]) == [("d", 4.0), ("e", 5.0)], got
    assert r.zrange("z", 0, -1) == ["b"] and r.zrange("y", 0, -1) == ["f"]


@pytest.mark.only_mayfly
def test_members_expire_by_the_clock(bench):
    with bench.server.client(decode_responses=True) as r:
        r.config_set("notify-keyspace-events", "Ezg")
        with r.pubsub() as heard:
            heard.psubscribe("__keyevent@0__:*")
            r.zadd("small", {"a": 1, "b": 2})
            r.zadd("large", {f"m{i}": i for i in range(1000)})
            for key, count in (("small", 1), ("large", 999)):
                names = ["b"] if key == "small" else [f"m{i}" for i in range(999)]
                assert r.execute_command("ZPEXPIRE", key, 50, "MEMBERS", count, *names) == [1] * count
            wanted = {("zexpired", "small"), ("zexpired", "large")}
            while wanted:
                message = heard.get_message(timeout=LIMIT_S)
                assert message is not None, wanted
                if message["type"] == "pmessage":
                    wanted.discard((message["channel"].split(":")[-1], message["data"]))
            assert r.zrange("small", 0, -1) == ["a"]
            for _ in within_limit():
                if r.zcard("large") == 1:
                    break
            assert r.zrank("large", "m999") == 0
            r.execute_command("ZPEXPIRE", "large", 1, "MEMBERS", 1, "m999")
            while (message := heard.get_message(timeout=LIMIT_S))["data"] != "large" or not message["channel"].endswith(":del"):
                pass
        assert r.exists("large") == 0


def random_command(chance: random.Random) -> list:
    key = lambda: chance.choice(KEYS)
    member = lambda: f"m{chance.randrange(300)}"
    # Quarters, because Redis 7.0 prints other fractions with more digits than needed.
    score = lambda: (chance.randrange(80) - 40) / 4 or 0
    rank = lambda: chance.randrange(200) - 100
    edge = lambda: chance.choice(["", "", "("]) + str(score())
    draw = chance.randrange(24)
    if draw < 8:
        flags = chance.choice([[], [], ["NX"], ["XX"], ["GT"], ["LT", "CH"]])
        return ["ZADD", key(), *flags, *(word for _ in range(chance.randint(1, 40)) for word in (score(), member()))]
    several = [chance.choice(KEYS) for _ in range(chance.randint(1, 3))]
    return {
        8: ["ZINCRBY", key(), score(), member()],
        9: ["ZREM", key(), member(), member(), member()],
        10: ["ZRANK", key(), member()],
        11: ["ZREVRANK", key(), member()],
        12: ["ZRANGE", key(), rank(), rank(), "WITHSCORES"],
        13: ["ZRANGE", key(), edge(), edge(), "BYSCORE", "LIMIT", chance.randrange(5), chance.randrange(20)],
        14: ["ZREVRANGEBYSCORE", key(), edge(), edge(), "WITHSCORES"],
        15: ["ZCOUNT", key(), edge(), edge()],
        16: ["ZREMRANGEBYRANK", key(), rank(), rank()] if chance.random() < 0.3 else ["ZCARD", key()],
        17: ["ZREMRANGEBYSCORE", key(), edge(), edge()] if chance.random() < 0.3 else ["ZMSCORE", key(), member(), member()],
        18: [chance.choice(["ZPOPMIN", "ZPOPMAX"]), key(), chance.randrange(6)],
        19: [chance.choice(["ZUNION", "ZINTER", "ZDIFF"]), len(several), *several, "WITHSCORES"],
        20: [chance.choice(["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]), key(), len(several), *several],
        21: ["ZMPOP", len(several), *several, chance.choice(["MIN", "MAX"]), "COUNT", chance.randint(1, 5)],
        22: ["ZRANGESTORE", key(), key(), rank(), rank()],
        23: ["OBJECT", "ENCODING", key()],
    }[draw]


def say(connection: redis.Connection, command: list):
    connection.send_command(*command)
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return f"{type(error).__name__} {error}"


@pytest.mark.only_mayfly
@pytest.mark.needs("redis-server")
def test_random_commands_get_the_replies_of_redis(bench):
    with Server("redis-server") as original:
        for seed in range(SEEDS):
            chance = random.Random(seed)
            protocol = 2 + seed % 2
            sides = [redis.Connection(port=s.port, protocol=protocol, socket_timeout=LIMIT_S) for s in (bench.server, original)]
            for side in sides:
                say(side, ["FLUSHALL"])
            said = []
            for step in range(STEPS):
                said.append(random_command(chance))
                ours, theirs = (say(side, said[-1]) for side in sides)
                assert ours == theirs, f"seed {seed}, step {step}: {said[-20:]}\n{ours}\n{theirs}"
            for side in sides:
                side.disconnect()
