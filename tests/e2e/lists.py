"""Lists as applications use them, and blocked clients compared with Redis."""

import random
import threading

import redis
from clients import raises
from server import LIMIT_S, Server, within_limit

SEEDS = 4
STEPS = 1_500
CONNECTIONS = 6
KEYS = ["a", "b", "c", "d"]
# Sometimes holds a string. No client waits for it together with other keys, because Redis's versions differ there.
OTHER = "s"


def test_lists(r):
    assert r.rpush("l", "b", "c") == 2 and r.lpush("l", "a") == 3 and r.lrange("l", 0, -1) == ["a", "b", "c"]
    assert r.lpushx("none", "x") == 0 and r.rpushx("l", "d") == 4 and r.llen("l") == 4
    assert r.lindex("l", -1) == "d" and r.lset("l", 0, "A") and r.linsert("l", "BEFORE", "c", "x") == 5
    assert r.lpos("l", "x") == 2 and r.lrem("l", 0, "x") == 1 and r.ltrim("l", 0, 2) and r.lrange("l", 0, -1) == ["A", "b", "c"]
    assert r.lmove("l", "m", "LEFT", "RIGHT") == "A" and r.rpoplpush("l", "m") == "c" and r.lrange("m", 0, -1) == ["c", "A"]
    assert r.lpop("m", 2) == ["c", "A"] and r.exists("m") == 0 and r.lpop("m") is None and r.rpop("m", 1) is None
    assert r.lmpop(2, "none", "l", direction="RIGHT", count=5) == ["l", ["b"]] and r.type("l") == "none"
    assert "no such key" in raises(redis.ResponseError, r.lset, "none", 0, "x")
    r.rpush("long", *range(20_000))
    assert r.lindex("long", 12_345) == "12345" and r.lrange("long", 19_998, -1) == ["19998", "19999"]
    assert r.linsert("long", "AFTER", "9999", "between") == 20_001 and r.lpos("long", "between") == 10_000
    assert list(r.sort("long", start=0, num=2, desc=True, alpha=True)) == ["between", "9999"]
    if not r.info("server").get("redis_version", "").startswith("7.0"):
        assert r.object("encoding", "long") == "quicklist"
        r.rpush("short", "x")
        assert r.object("encoding", "short") == "listpack"


def test_a_client_blocks_for_a_list(bench, r):
    got = []

    def wait() -> None:
        options = r.connection_pool.connection_kwargs
        with bench.server.client(protocol=options["protocol"], decode_responses=True) as waiting:
            got.append(waiting.blpop(["none", "k"], timeout=0))
            got.append(waiting.blmove("k", "l", timeout=0, src="LEFT", dest="RIGHT"))
            got.append(waiting.brpop("l", timeout=LIMIT_S))
            got.append(waiting.blpop("none", timeout=0.01))
            got.append(waiting.blmpop(LIMIT_S, 2, "none", "k", direction="LEFT", count=2))
            got.append(waiting.brpoplpush("k", "l", timeout=0.01))

    thread = threading.Thread(target=wait)
    thread.start()
    for push in (["1"], ["2"], ["3", "4", "5"]):
        # Each push serves a waiting client. The last but one has timed out.
        wait_until_blocked(r, 1)
        r.rpush("k", *push)
    thread.join(LIMIT_S)
    assert got == [("k", "1"), "2", ("l", "2"), None, ["k", ["3", "4"]], "5"] or got == [
        ["k", "1"], "2", ["l", "2"], None, ["k", ["3", "4"]], "5"
    ], got


def blocked(r) -> int:
    return r.info("clients")["blocked_clients"]


def wait_until_blocked(r, count: int) -> None:
    for _ in within_limit():
        if blocked(r) == count:
            return


def test_a_blocked_client_is_listed_and_unblocked(bench):
    with bench.server.client(decode_responses=True) as r:
        connection = redis.Connection(port=bench.server.port, socket_timeout=LIMIT_S)
        for how, word in (("TIMEOUT", None), ("ERROR", "UNBLOCKED")):
            connection.send_command("BLPOP", "k", "0")
            wait_until_blocked(r, 1)
            (waiting,) = [c for c in r.client_list() if c["cmd"] == "blpop"]
            assert waiting["flags"] == "b", waiting
            assert r.client_unblock(int(waiting["id"]), error=how == "ERROR") == 1
            try:
                assert connection.read_response() is None and word is None
            except redis.ResponseError as error:
                assert word is not None and word in str(error)
        connection.disconnect()


def test_a_client_that_disconnects_while_blocked_takes_nothing(bench):
    with bench.server.client(decode_responses=True) as r:
        for _ in range(20):
            dying, living = (redis.Connection(port=bench.server.port, socket_timeout=LIMIT_S) for _ in range(2))
            dying.send_command("BLPOP", "j", "k", "0")
            wait_until_blocked(r, 1)
            living.send_command("BLPOP", "k", "0")
            wait_until_blocked(r, 2)
            dying.disconnect()
            wait_until_blocked(r, 1)
            r.rpush("k", "x")
            assert living.read_response() == [b"k", b"x"]
            living.disconnect()


def test_a_server_stops_while_clients_are_blocked(bench):
    with bench.start() as server:
        connection = redis.Connection(port=server.port, socket_timeout=LIMIT_S)
        connection.send_command("BLPOP", "k", "0")
        with server.client() as r:
            wait_until_blocked(r, 1)
        server.process.terminate()
        assert server.wait() == 0
        raises(redis.ConnectionError, connection.read_response)


class Side:
    """A server, its connections, and which of them are blocked."""

    def __init__(self, server: Server):
        self.admin = server.client(decode_responses=True)
        self.admin.flushall()
        self.connections = [redis.Connection(port=server.port, socket_timeout=LIMIT_S) for _ in range(CONNECTIONS)]
        self.ids = []
        for connection in self.connections:
            connection.send_command("CLIENT", "ID")
            self.ids.append(connection.read_response())
        self.waiting: set[int] = set()

    def read(self, number: int):
        try:
            return self.connections[number].read_response()
        except redis.ResponseError as error:
            return f"{type(error).__name__} {error}"

    def say(self, number: int, commands: list[list[str]]) -> list:
        """Replies of the connection and of the blocked ones, each with its number."""
        heard = []
        for command in commands:
            words = [str(self.ids[int(word[1:])]) if word.startswith("@") else word for word in command]
            self.connections[number].send_command(*words)
            for _ in within_limit():
                if self.connections[number].can_read(0):
                    heard.append((number, self.read(number)))
                    break
                if blocked(self.admin) > len(self.waiting):
                    self.waiting.add(number)
                    break
            heard += self.served()
        return heard

    def served(self) -> list:
        """Replies of the connections that were blocked."""
        heard = []
        for _ in within_limit():
            if blocked(self.admin) == len(self.waiting):
                break
            for number in sorted(self.waiting):
                if self.connections[number].can_read(0):
                    self.waiting.discard(number)
                    heard.append((number, self.read(number)))
        return sorted(heard, key=lambda pair: pair[0])

    def end(self) -> None:
        for connection in self.connections:
            connection.disconnect()
        self.admin.close()


def random_commands(chance: random.Random, waiting: set[int]) -> list[list[str]]:
    key = lambda: chance.choice(KEYS)
    end = lambda: chance.choice(["LEFT", "RIGHT"])
    element = lambda: str(chance.randrange(1000))
    draw = chance.randrange(20)
    if draw < 5:
        return [[chance.choice(["LPUSH", "RPUSH"]), key(), *(element() for _ in range(chance.randint(1, 3)))]]
    if draw < 8:
        return [[chance.choice(["BLPOP", "BRPOP"]), *(key() for _ in range(chance.randint(1, 3))), "0"]]
    if draw < 10:
        source = chance.choice([*KEYS, *KEYS, OTHER])
        return [["BLMOVE", source, chance.choice([*KEYS, OTHER]), end(), end(), "0"]]
    if draw == 10:
        return [["BRPOPLPUSH", key(), key(), "0"]]
    if draw == 11:
        keys = [key() for _ in range(chance.randint(1, 3))]
        return [["BLMPOP", "0", str(len(keys)), *keys, end(), "COUNT", str(chance.randint(1, 3))]]
    if draw == 12:
        return [["LMOVE", key(), key(), end(), end()]]
    if draw == 13:
        return [[chance.choice(["LPOP", "RPOP"]), key(), str(chance.randint(0, 3))]]
    if draw == 14:
        return [["DEL", key(), key()]]
    if draw == 15:
        return [chance.choice([["SET", OTHER, "x"], ["DEL", OTHER], ["RPUSH", OTHER, element()]])]
    if draw == 16:
        return [chance.choice([["RENAME", key(), key()], ["COPY", key(), key(), "REPLACE"]])]
    if draw < 19 and waiting:
        return [["CLIENT", "UNBLOCK", f"@{chance.choice(sorted(waiting))}", chance.choice(["TIMEOUT", "ERROR"])]]
    name = key()
    within = [["RPUSH", name, element(), element()], ["LPOP", name], ["BLPOP", name, "0"], ["DEL", name], ["LLEN", name]]
    return [["MULTI"], *(chance.choice(within) for _ in range(chance.randint(1, 4))), ["EXEC"]]


def test_blocked_clients_are_served_as_by_redis(bench):
    with Server("redis-server") as original:
        for seed in range(SEEDS):
            chance = random.Random(seed)
            ours, theirs = Side(bench.server), Side(original)
            past = []
            for step in range(STEPS):
                free = [n for n in range(CONNECTIONS) if n not in theirs.waiting]
                # One connection stays free, to serve the others.
                number = chance.choice(free)
                commands = random_commands(chance, theirs.waiting)
                if len(free) == 1 and commands[0][0].startswith("B"):
                    continue
                past.append((number, commands))
                got, wanted = ours.say(number, commands), theirs.say(number, commands)
                assert got == wanted and ours.waiting == theirs.waiting, (
                    f"seed {seed}, step {step}, after\n" + "\n".join(map(str, past[-25:])) + f"\nredis  {wanted}\nmayfly {got}"
                )
            for key in KEYS:
                assert ours.admin.lrange(key, 0, -1) == theirs.admin.lrange(key, 0, -1), (seed, key)
            ours.end()
            theirs.end()


def test_a_queue_gives_each_job_to_one_worker(bench):
    jobs, workers = 4_000, 8
    done: list[list[bytes]] = [[] for _ in range(workers)]

    def work(mine: list[bytes]) -> None:
        with bench.server.client() as r:
            while (job := r.blmove("jobs", "taken", timeout=0, src="LEFT", dest="RIGHT")) != b"end":
                mine.append(job)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in done]
    for thread in threads:
        thread.start()
    with bench.server.client() as r:
        for first in range(0, jobs, 10):
            r.rpush("jobs", *range(first, first + 10))
        r.rpush("jobs", *["end"] * workers)
        for thread in threads:
            thread.join(LIMIT_S)
        taken = [job for mine in done for job in mine]
        assert sorted(taken, key=int) == [str(job).encode() for job in range(jobs)]
        # They were taken in order.
        assert r.lrange("taken", 0, -1)[:jobs] == [str(job).encode() for job in range(jobs)]


# Rounds of each way in which a blocked client ends.
ENDS = 25


def ends(way: str, r, other, waiting: redis.Connection, number: int) -> None:
    """Ends the connection of a blocked client, and pushes an element at once."""
    if way == "disconnect":
        waiting.disconnect()
        other.rpush("k", "x")
    elif way == "kill":
        assert r.client_kill_filter(_id=number) == 1
        other.rpush("k", "x")
    elif way == "pipeline":
        with r.pipeline(transaction=False) as commands:
            assert commands.client_kill_filter(_id=number).rpush("k", "x").execute() == [1, 1]
    else:
        with r.pipeline() as commands:
            assert commands.rpush("k", "x").client_kill_filter(_id=number).execute() == [1, 1]


def test_no_element_is_popped_for_a_client_that_is_killed_or_gone(bench):
    for options in [()] if bench.is_redis else [("--threads", "1"), ("--threads", "2")]:
        with bench.start(*options) as server, server.client() as r, server.client() as other:
            r.ping(), other.ping()
            for way in ("disconnect", "kill", "pipeline", "transaction"):
                for call in (["BLPOP", "k", "0"], ["BLMOVE", "k", "to", "LEFT", "LEFT", "0"]) * (ENDS // 2):
                    waiting = redis.Connection(port=server.port, socket_timeout=LIMIT_S)
                    waiting.send_command("CLIENT", "ID")
                    number = waiting.read_response()
                    waiting.send_command(*call)
                    wait_until_blocked(r, 1)
                    ends(way, r, other, waiting, number)
                    assert r.lpop("k") == b"x", (options, way, call)
                    waiting.disconnect()
                    wait_until_blocked(r, 0)


def test_nothing_is_served_that_has_expired_during_a_transaction(bench):
    with bench.start("--enable-debug-command", "local") as server, server.client() as r:
        waiting = [redis.Connection(port=server.port, socket_timeout=LIMIT_S, protocol=2) for _ in range(2)]
        waiting[0].send_command("BLPOP", "k", "0")
        waiting[1].send_command("XREAD", "BLOCK", "0", "STREAMS", "s", "0")
        wait_until_blocked(r, 2)
        sleeper = redis.Connection(port=server.port, socket_timeout=LIMIT_S)
        for command in (["MULTI"], ["RPUSH", "k", "x"], ["PEXPIRE", "k", "20"], ["XADD", "s", "1-1", "f", "v"], ["PEXPIRE", "s", "20"], ["DEBUG", "SLEEP", "0.1"], ["EXEC"]):
            sleeper.send_command(*command)
        for _ in range(7):
            sleeper.read_response()
        assert blocked(r) == 2
        r.rpush("k", "y")
        r.xadd("s", {"f": "w"}, id="2-1")
        assert waiting[0].read_response() == [b"k", b"y"]
        assert waiting[1].read_response() == [[b"s", [[b"2-1", [b"f", b"w"]]]]]
