"""Commands that take long on large collections, and how long another client's GET waits meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness import GIB, Bench, Connection, Latencies, Probe, Refusal, Server, latencies

# Elements per command and commands per pipeline of a fill.
CHUNK = 2000
PIPELINE = 20
# A command that has no reply after this time hangs.
HANG_S = 30.0
# Number of large values, and one of them. None is so large that a look at its length alone makes a command long.
VALUES = 50
VALUE = b"x" * 1_000_000
# Shortest window that is looked at, from the start of the command.
WINDOW_S = 0.5


def fill(client: Connection, command: str, key: str, count: int, words: Callable[[int], bytes], per_element: int) -> None:
    """Adds elements; `words` encodes the words of one element."""
    head = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(command), command.encode(), len(key), key.encode())
    for start in range(0, count, CHUNK * PIPELINE):
        starts = range(start, min(count, start + CHUNK * PIPELINE), CHUNK)
        parts = []
        for first in starts:
            last = min(count, first + CHUNK)
            parts.append(b"*%d\r\n" % (2 + per_element * (last - first)) + head + b"".join(map(words, range(first, last))))
        client.socket.sendall(b"".join(parts))
        for _ in starts:
            reply = client.reply()
            assert not isinstance(reply, Refusal), reply


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def fill_keys(client: Connection, prefix: str, count: int, *more: str) -> None:
    tail = bulk(b"v") + b"".join(bulk(word.encode()) for word in more)
    for start in range(0, count, 20_000):
        end = min(count, start + 20_000)
        client.socket.sendall(b"".join(b"*%d\r\n$3\r\nSET\r\n" % (3 + len(more)) + bulk(b"%b%d" % (prefix.encode(), number)) + tail for number in range(start, end)))
        for _ in range(end - start):
            client.reply()


def fill_groups(client: Connection, count: int) -> None:
    client.must("XADD", "stream", "1-1", "field", "value")
    for start in range(0, count // 5, 5000):
        client.say_all([("XGROUP", "CREATE", "stream", f"group:{number}", "0") for number in range(start, min(count // 5, start + 5000))])


def fill_watch_values(client: Connection) -> None:
    client.must("SET", "lcs1", b"ab" * 5000)
    client.must("SET", "lcs2", b"ba" * 5000)


def fill_values(client: Connection) -> None:
    for number in range(VALUES):
        client.must("SET", f"value:{number}", VALUE)
        client.must("HSET", "fields", f"field:{number}", VALUE)
        client.must("RPUSH", "elements", VALUE)


COLLECTIONS = {
    "set1": lambda client, count: fill(client, "SADD", "set1", count, lambda i: bulk(b"m%d" % i), 1),
    "set2": lambda client, count: fill(client, "SADD", "set2", count, lambda i: bulk(b"m%d" % (2 * i)), 1),
    "hash1": lambda client, count: fill(client, "HSET", "hash1", count, lambda i: bulk(b"f%d" % i) + b"$1\r\nv\r\n", 2),
    "zset1": lambda client, count: fill(client, "ZADD", "zset1", count, lambda i: bulk(b"%d.5" % i) + bulk(b"m%d" % i), 2),
    "list1": lambda client, count: fill(client, "RPUSH", "list1", count, lambda i: bulk(b"e%d" % i), 1),
    "key:": lambda client, count: fill_keys(client, "key:", count),
    "big": lambda client, count: client.must("SETRANGE", "big", 256 * count - 1, "x"),
    "groups": fill_groups,
    "lcs": lambda client, count: fill_watch_values(client),
    "values": lambda client, count: fill_values(client),
}


@dataclass
class Long:
    """A command that takes long. `{n}`, `{half}`, `{third}` and `{bytes}` in its words depend on the size of collections."""

    name: str
    words: str | Callable[[int], list]
    needs: tuple
    # Commands before each run, for instance a copy of what the command destroys.
    before: tuple = ()
    # The error that the command must have because of a documented limit.
    refusal: str = ""


def many_keys(prefix: str) -> Callable[[int], list]:
    return lambda count: [prefix + str(number) for number in range(count)]


LONG = [
    Long("SUNIONSTORE", "SUNIONSTORE stored set1 set2", ("set1", "set2"), ("DEL stored",)),
    Long("SINTERSTORE", "SINTERSTORE stored set1 set2", ("set1", "set2"), ("DEL stored",)),
    Long("SDIFFSTORE", "SDIFFSTORE stored set1 set2", ("set1", "set2"), ("DEL stored",)),
    Long("SUNION", "SUNION set1 set2", ("set1", "set2")),
    Long("SINTERCARD", "SINTERCARD 2 set1 set2", ("set1", "set2")),
    Long("SMEMBERS", "SMEMBERS set1", ("set1",)),
    Long("SPOP of a half", "SPOP scratch {half}", ("set2",), ("COPY set2 scratch REPLACE",)),
    Long("SRANDMEMBER of a third", "SRANDMEMBER set1 {third}", ("set1",)),
    Long("SSCAN with a large COUNT", "SSCAN set1 0 COUNT 1000000000 MATCH none*", ("set1",)),
    Long("COPY", "COPY set1 copied", ("set1",), ("DEL copied",)),
    Long("DUMP", "DUMP zset1", ("zset1",)),
    Long("RESTORE", "RESTORE", ("zset1",), ("DEL restored",)),
    Long("SORT", "SORT list1 ALPHA STORE sorted", ("list1",), ("DEL sorted",)),
    Long("LRANGE", "LRANGE list1 0 -1", ("list1",)),
    Long("LREM", "LREM list1 0 none", ("list1",)),
    Long("HGETALL", "HGETALL hash1", ("hash1",)),
    Long("ZUNIONSTORE", "ZUNIONSTORE stored 2 zset1 zset1", ("zset1",), ("DEL stored",)),
    Long("ZINTERSTORE", "ZINTERSTORE stored 2 zset1 set1", ("zset1", "set1"), ("DEL stored",)),
    Long("ZRANGESTORE", "ZRANGESTORE stored zset1 0 -1", ("zset1",), ("DEL stored",)),
    Long("ZRANGE", "ZRANGE zset1 0 -1", ("zset1",)),
    Long("ZREMRANGEBYRANK of a half", "ZREMRANGEBYRANK scratch 0 {half}", ("zset1",), ("COPY zset1 scratch REPLACE",)),
    Long("KEYS", "KEYS *", ("key:",)),
    Long("KEYS without a match", "KEYS none*", ("key:",)),
    Long("SCAN with a large COUNT", "SCAN 0 COUNT 1000000000 MATCH none*", ("key:",)),
    Long("DEL of many keys", lambda count: ["DEL", *many_keys("del:")(count)], (), ("keys del:",)),
    Long("DEL of one large value", "DEL copied", ("zset1",), ("COPY zset1 copied REPLACE",)),
    Long("BITOP", "BITOP NOT stored big", ("big",), ("DEL stored",)),
    Long("SETRANGE", "SETRANGE grown {bytes} x", (), ("DEL grown",)),
    Long("LCS", "LCS lcs1 lcs2 LEN", ("lcs",)),
    Long("WATCH", lambda count: ["WATCH", *many_keys("watched:")(count // 5)], (), ("UNWATCH",)),
    Long("XINFO GROUPS", "XINFO GROUPS stream", ("groups",)),
    Long("XINFO STREAM FULL", "XINFO STREAM stream FULL COUNT 0", ("groups",)),
    Long("BLPOP of many keys", lambda count: ["BLPOP", *many_keys("list:")(count // 2), 0], (), (), "at most"),
    Long("XREAD of many streams", lambda count: ["XREAD", "BLOCK", 0, "STREAMS", *many_keys("s:")(count // 5), *["$"] * (count // 5)], (), (), "at most"),
    # Messages of subscriptions in RESP3, so that another command can follow.
    Long("SUBSCRIBE", lambda count: ["SUBSCRIBE", *many_keys("channel:")(count * 3 // 10)], (), ("HELLO 3",)),
    Long("UNSUBSCRIBE", "UNSUBSCRIBE", (), ("HELLO 3", "channels SUBSCRIBE")),
    Long("PSUBSCRIBE", lambda count: ["PSUBSCRIBE", *many_keys("pattern:")(count * 3 // 10)], (), ("HELLO 3",)),
    Long("RESET of many subscriptions", "RESET", (), ("HELLO 3", "channels SSUBSCRIBE")),
    Long("CLIENT TRACKING of many prefixes", lambda count: ["CLIENT", "TRACKING", "ON", "BCAST", *words_of_prefixes(count // 5)], (), (), "at most"),
    Long("COMMAND INFO of many names", lambda count: ["COMMAND", "INFO", *many_keys("name:")(count // 2)], (), (), "at most"),
    Long("MGET of large values", lambda count: ["MGET", *many_names("value:")], ("values",)),
    Long("HMGET of large fields", lambda count: ["HMGET", "fields", *many_names("field:")], ("values",)),
    Long("LRANGE of large elements", "LRANGE elements 0 -1", ("values",)),
    Long("MSET of large values", lambda count: ["MSET", *(word for number in range(VALUES) for word in (f"value:{number}", VALUE))], ("values",)),
    Long("FLUSHALL", "FLUSHALL", ("key:",)),
]


def many_names(prefix: str) -> list:
    """Names of large values, each three times."""
    return [f"{prefix}{number}" for number in range(VALUES)] * 3


def words_of_prefixes(count: int) -> list:
    return [word for number in range(count) for word in ("PREFIX", f"prefix:{number}")]


def words_of(long: Long, client: Connection, count: int) -> list:
    if callable(long.words):
        return long.words(count)
    if long.name == "RESTORE":
        return ["RESTORE", "restored", "0", client.must("DUMP", "zset1")]
    sizes = {"n": count, "half": count // 2, "third": count // 3, "bytes": 536 * count}
    return [word for word in long.words.format(**sizes).split(" ")]


@dataclass
class Stall:
    latencies: Latencies
    command_s: float
    reply: bytes


class Field:
    """A server with the collections that commands need, filled when the first command needs them."""

    def __init__(self, server: Server, count: int, threads: int):
        self.server, self.count, self.threads = server, count, threads
        self.filled: set[str] = set()
        with server.connect() as client:
            client.must("SET", "probe", "x")

    def prepare(self, client: Connection, long: Long) -> None:
        for name in long.needs:
            if name not in self.filled:
                COLLECTIONS[name](client, self.count)
                self.filled.add(name)
        for command in long.before:
            kind, *rest = command.split(" ")
            if kind == "keys":
                fill_keys(client, rest[0], self.count)
            elif kind == "channels":
                client.drain(rest[0], *many_keys("channel:")(self.count * 3 // 10))
            else:
                client.say(kind, *rest)

    def measure(self, long: Long, window_s: float = WINDOW_S) -> Stall:
        """Runs one command once beside probes."""
        with self.server.connect(HANG_S) as client:
            self.prepare(client, long)
            words = words_of(long, client, self.count)
            probes = [Probe(self.server) for _ in range(min(2, self.threads))]
            time.sleep(0.1)
            start = time.monotonic()
            reply, end = b"", float("inf")
            try:
                reply = client.drain(*words)
                end = time.monotonic()
                time.sleep(max(0.0, start + window_s - end))
            finally:
                until = max(end, start + window_s) if reply else float("inf")
                measured = latencies(probes, start, until)
        if long.name == "FLUSHALL":
            self.filled.clear()
            with self.server.connect() as client:
                client.must("SET", "probe", "x")
        expected = reply.startswith(b"-") and long.refusal.encode() in reply if long.refusal else not reply.startswith(b"-")
        assert expected, f"{long.name}: {reply[:80]}"
        return Stall(measured, end - start, reply)


def start_field(bench: Bench, count: int) -> Field:
    """The server that the checks of one run share; a new one if it has ended."""
    field = bench.shared.get("field")
    if field is None or not field.server.is_running():
        # The collections of all commands, of a million elements each, need more than the usual limit.
        server = bench.start("--slowlog-log-slower-than", "10000", address_space=8 * GIB)
        field = Field(server, count, bench.threads)
        bench.shared.update(field=field, server=server)
    return field
