"""Streams as applications use them, and random commands compared with Redis.

`REDIS_PEER=path/to/redis-server` selects another Redis than Debian's. Commands that it lacks are left out.
"""

import os
import random
import threading

import pytest
import redis
from clients import raises
from peer import Peer, shown
from server import LIMIT_S, Server, within_limit

SEEDS = 4
STEPS = 3_000
KEYS = ["a", "b"]
GROUPS = ["g", "h"]
CONSUMERS = ["x", "y", "z"]
PEER = os.environ.get("REDIS_PEER", "redis-server")
END = "18446744073709551615"


def test_streams(r):
    ids = [r.xadd("s", {"field": number, "other": "x"}, id=f"{number}-1") for number in range(1, 6)]
    assert ids[0] == "1-1" and r.xlen("s") == 5 and r.type("s") == "stream" and r.object("encoding", "s") == "stream"
    assert r.xrange("s", "2", "3") == [("2-1", {"field": "2", "other": "x"}), ("3-1", {"field": "3", "other": "x"})]
    assert [id for id, _ in r.xrevrange("s", "+", "(3-1")] == ["5-1", "4-1"]
    assert "equal or smaller" in raises(redis.ResponseError, r.xadd, "s", {"a": "b"}, id="5-1")
    assert r.xdel("s", "2-1", "9-9") == 1 and r.xtrim("s", maxlen=3, approximate=False) == 1 and r.xinfo_stream("s")["length"] == 3
    assert r.xgroup_create("s", "g", "0") and r.xreadgroup("g", "one", {"s": ">"}, count=2)
    assert r.xpending("s", "g")["pending"] == 2 and r.xack("s", "g", "3-1") == 1
    assert r.xautoclaim("s", "g", "two", 0)[1] == [("4-1", {"field": "4", "other": "x"})]
    assert r.xinfo_consumers("s", "g")[1]["pending"] == 1 and r.xinfo_groups("s")[0]["lag"] == 1
    assert r.copy("s", "t") and r.restore("u", 0, r.dump("t")) and r.xinfo_groups("u") == r.xinfo_groups("t")
    assert r.xgroup_destroy("s", "g") == 1 and r.xlen("u") == 3


def test_a_client_blocks_for_a_stream(bench, r):
    got = []

    def wait() -> None:
        options = r.connection_pool.connection_kwargs
        with bench.server.client(protocol=options["protocol"], decode_responses=True) as waiting:
            got.append(waiting.xread({"s": "$", "t": "$"}, block=int(LIMIT_S * 1000)))
            got.append(waiting.xreadgroup("g", "c", {"s": ">"}, block=int(LIMIT_S * 1000)))
            for name in ("s", "expires"):
                try:
                    waiting.xreadgroup("g", "c", {name: ">"}, block=int(LIMIT_S * 1000))
                except redis.ResponseError as error:
                    got.append(str(error))

    r.xadd("s", {"old": 1}, id="1-1")
    r.xgroup_create("s", "g", "5")
    r.xgroup_create("expires", "g", "$", mkstream=True)
    thread = threading.Thread(target=wait)
    thread.start()
    changes = (lambda: r.xadd("s", {"new": 2}, id="2-1"), lambda: r.xadd("s", {"new": 6}, id="6-1"), lambda: r.delete("s"), lambda: r.pexpire("expires", 20))
    for change in changes:
        for _ in within_limit():
            if r.info("clients")["blocked_clients"] == 1:
                break
        change()
    thread.join(LIMIT_S)
    entries = [dict(reply) if isinstance(reply, dict) else {name: of for name, of in reply} for reply in got[:2]]
    flat = [of if isinstance(of[0], tuple) else of[0] for of in (entry["s"] for entry in entries)]
    assert flat == [[("2-1", {"new": "2"})], [("6-1", {"new": "6"})]], got
    assert len(got) == 4, got
    assert all("NOGROUP" in one or "no longer exists" in one for one in got[2:]), got


@pytest.mark.only_mayfly
def test_entries_expire_by_the_clock(bench):
    with bench.server.client(decode_responses=True) as r:
        r.config_set("notify-keyspace-events", "Et")
        with r.pubsub() as heard:
            heard.psubscribe("__keyevent@0__:xexpired")
            for number in range(500):
                r.execute_command("XADD", "own", "PX", 60, "*", "f", number)
                r.execute_command("XADD", "aged", "MAXAGE", 60, "*", "f", number)
            last = r.xadd("own", {"f": "stays"})
            r.xgroup_create("own", "g", "0")
            r.xreadgroup("g", "c", {"own": ">"})
            wanted = {"own", "aged"}
            while wanted:
                message = heard.get_message(timeout=LIMIT_S)
                assert message is not None, wanted
                if message["type"] == "pmessage":
                    wanted.discard(message["data"])
            for _ in within_limit():
                if r.xlen("own") == 1 and r.xlen("aged") == 0:
                    break
        assert [id for id, _ in r.xrange("own")] == [last] and r.xpending("own", "g")["pending"] == 1
        assert r.execute_command("XPEXPIRE", "own", 1, "IDS", 1, last) == [1]
        for _ in within_limit():
            if r.xlen("own") == 0:
                break
        assert r.exists("own") == 1 and r.xpending("own", "g")["pending"] == 0 and r.xinfo_stream("own")["entries-added"] == 501


def entry_id(chance: random.Random) -> str:
    draw = chance.randrange(40)
    if draw == 0:
        return chance.choice(["0-0", "0", f"{END}-{END}", f"{END}", "x", "-", "+", "1-", "(1", "5-*", f"{END}-*"])
    return f"{chance.randrange(60)}-{chance.randrange(3)}" if draw < 38 else f"{chance.randrange(60)}"


def trim(chance: random.Random, is_new: bool) -> list:
    kind = chance.choice(["MAXLEN", "MINID"])
    # Without ~, because blocks have other sizes than Redis's nodes.
    sign = chance.choice([[], ["="]])
    references = chance.choice([[], [], ["KEEPREF"], ["DELREF"], ["ACKED"]]) if is_new else []
    return [kind, *sign, chance.randrange(40) if kind == "MAXLEN" else entry_id(chance), *references]


def fields(chance: random.Random) -> list:
    names = chance.choice([["f"], ["f"], ["f"], ["f", "g"], ["other"]])
    return [word for name in names for word in (name, "v" * chance.choice([0, 1, 3, 300]))]


class Caller:
    """Random commands. Added IDs ascend, so that most additions succeed."""

    def __init__(self, seed: int, is_new: bool):
        self.chance, self.is_new, self.next = random.Random(seed), is_new, 0

    def add(self) -> list:
        chance = self.chance
        self.next += chance.choice([0, 0, 1, 1, 2])
        id = chance.choice([f"{self.next}-*", f"{self.next}-*", f"{self.next}-{chance.randrange(4)}"])
        options = chance.choice([[], [], [], ["NOMKSTREAM"], trim(chance, self.is_new)])
        return ["XADD", chance.choice(KEYS), *options, id if chance.random() < 0.95 else entry_id(chance), *fields(chance)]

    def command(self) -> list:
        chance = self.chance
        key, group, consumer = chance.choice(KEYS), chance.choice(GROUPS), chance.choice(CONSUMERS)
        id, ids = entry_id(chance), [entry_id(chance) for _ in range(chance.randint(1, 4))]
        if chance.random() < 0.005:
            self.next = 0
            return ["DEL", *KEYS]
        count = chance.choice([[], ["COUNT", chance.randrange(-1, 8)]])
        draws = {
            "XLEN": lambda: [key],
            "XRANGE": lambda: [key, chance.choice(["-", id, f"({id}"]), chance.choice(["+", entry_id(chance), f"({id}"]), *count],
            "XREVRANGE": lambda: [key, chance.choice(["+", id, f"({id}"]), chance.choice(["-", entry_id(chance), f"({id}"]), *count],
            "XDEL": lambda: [key, *ids],
            "XTRIM": lambda: [key, *trim(chance, self.is_new)],
            "XREAD": lambda: [*count, "STREAMS", "a", "b", *(word if self.is_new or word != "+" else "0" for word in (chance.choice([id, "$", "+", "0"]), entry_id(chance)))],
            "XREADGROUP": lambda: self.read_group(group, consumer, count),
            "XACK": lambda: [key, group, *ids],
            "XPENDING": lambda: [key, group] if chance.random() < 0.5 else self.pending(key, group, consumer),
            "XCLAIM": lambda: self.claim(key, group, consumer, ids),
            "XAUTOCLAIM": lambda: [key, group, consumer, chance.choice([0, 10**9]), chance.choice(["-", id, f"({id}"]), *chance.choice([[], ["COUNT", chance.randrange(5)]]), *chance.choice([[], ["JUSTID"]])],
            "XGROUP": lambda: self.group(key, group, consumer),
            "XSETID": lambda: [key, id, *chance.choice([[], ["ENTRIESADDED", chance.randrange(90), "MAXDELETEDID", entry_id(chance)]])],
            "XINFO": lambda: chance.choice([["GROUPS", key], ["CONSUMERS", key, group], ["NONE", key], *([["HELP"], ["STREAM", key]] if self.is_new else [])]),
            "COPY": lambda: [*KEYS, "REPLACE"],
        }
        weights = {"XREADGROUP": 6, "XACK": 3, "XGROUP": 2, "XCLAIM": 2, "COPY": 0.1, "XTRIM": 0.4, "XDEL": 2}
        if self.is_new:
            mode = chance.choice([[], ["KEEPREF"], ["DELREF"], ["ACKED"]])
            draws["XDELEX"] = lambda: [key, *mode, "IDS", len(ids), *ids]
            draws["XACKDEL"] = lambda: [key, group, *mode, "IDS", len(ids), *ids]
        else:
            # Versions before 7.2 accept an ID below that of a deleted entry.
            del draws["XSETID"]
        if chance.random() < 0.3:
            return self.add()
        name = chance.choices(list(draws), [weights.get(name, 1) for name in draws])[0]
        return [name, *draws[name]()]

    def read_group(self, group: str, consumer: str, count: list) -> list:
        chance = self.chance
        keys = chance.choice([["a"], ["b"], ["a", "b"]])
        wanted = [chance.choice([">", ">", ">", "0", entry_id(chance)]) for _ in keys]
        claim = ["CLAIM", 10**9] if self.is_new and chance.random() < 0.1 else []
        return ["GROUP", group, consumer, *count, *chance.choice([[], [], ["NOACK"]]), *claim, "STREAMS", *keys, *wanted]

    def pending(self, key: str, group: str, consumer: str) -> list:
        chance = self.chance
        idle = chance.choice([[], [], ["IDLE", 10**9]])
        who = chance.choice([[], [consumer]])
        return [key, group, *idle, chance.choice(["-", entry_id(chance)]), chance.choice(["+", f"({entry_id(chance)}"]), chance.randrange(-1, 9), *who]

    def claim(self, key: str, group: str, consumer: str, ids: list) -> list:
        options = [["FORCE"], ["JUSTID"], ["RETRYCOUNT", 7], ["TIME", 1000], ["IDLE", 10**6], ["LASTID", entry_id(self.chance)], ["NONE"]]
        chosen = [word for option in self.chance.sample(options[:6], self.chance.randrange(3)) for word in option]
        return [key, group, consumer, self.chance.choice([0, 0, 10**9]), *ids, *chosen]

    def group(self, key: str, group: str, consumer: str) -> list:
        chance = self.chance
        id, read = chance.choice(["0", "$", entry_id(chance)]), chance.choice([[], [], ["ENTRIESREAD", chance.randrange(-2, 50)]])
        return chance.choice([
            ["CREATE", key, group, id, *read],
            ["CREATE", key, group, id, "MKSTREAM", *read],
            ["SETID", key, group, id, *read],
            # Versions before 7.2 do not create the consumer of an XREADGROUP that finds nothing.
            *([["CREATECONSUMER", key, group, consumer]] if self.is_new else []),
            ["DELCONSUMER", key, group, consumer],
            *([["DESTROY", key, group]] if chance.random() < 0.3 else []),
        ])


def masked(command: list, reply: tuple) -> tuple:
    """Replaces what depends on the clock or on the layout of memory."""

    def mask(of: tuple, hide: set) -> tuple:
        kind, value = of
        if not isinstance(value, list):
            return of
        masked_pairs = []
        for index, item in enumerate(value):
            name = value[index - 1][1] if index and isinstance(value[index - 1][1], bytes) else None
            masked_pairs.append((item[0], "…") if name in hide else mask(item, hide))
        return kind, masked_pairs

    if command[0] == "XPENDING" and len(command) > 3 and isinstance(reply[1], list):
        return reply[0], [(kind, [*fields[:2], fields[3]]) for kind, fields in reply[1]]
    if command[0] == "XINFO":
        return mask(reply, {b"idle", b"inactive", b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time"})
    return reply


@pytest.mark.only_mayfly
@pytest.mark.needs(PEER)
def test_random_commands_on_streams_get_the_replies_of_redis(bench):
    with Server(PEER) as original:
        with original.client() as r:
            is_new = tuple(map(int, r.info("server")["redis_version"].split(".")))[:2] >= (8, 6)
        for seed in range(bench.seed, bench.seed + SEEDS):
            with Peer(bench.server.port, 2 + seed % 2) as ours, Peer(original.port, 2 + seed % 2) as theirs:
                caller, said = Caller(seed, is_new), []
                for side in (ours, theirs):
                    side.say("FLUSHALL")
                for step in range(STEPS):
                    said.append(caller.command())
                    got, wanted = (masked(said[-1], side.say(*said[-1])) for side in (ours, theirs))
                    # Older versions count read entries and consumers otherwise.
                    if said[-1][0] == "XINFO" and not is_new:
                        continue
                    assert got == wanted, f"seed {seed}, step {step}: {said[-12:]}\n{shown(got)}\n{shown(wanted)}"
