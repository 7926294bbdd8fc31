"""Sends random commands of all types to Mayfly and to Redis or Valkey and compares replies, contents and dumps.

    .venv/bin/python tests/hostile/differential.py --server target/release/mayfly --peer redis-server --commands 1000000

Commands are drawn from the templates below: short and strange arguments, wrong types, transactions, deadlines. Every few
thousand commands all keys are compared, and values move to the other server and back by DUMP and RESTORE. Known differences
stand in `KNOWN`, each with its reason, and docs/reference/differences.md describes them; any other difference is printed with
examples, and the exit code is 1. Equal seeds give equal commands.
"""

import argparse
import collections
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import Connection, Refusal, Server

# Commands sent at a time before replies are compared.
BATCH = 100
# All keys are compared after this many commands, and after each difference.
COMPARE_EVERY = 3000
# Times of two servers differ by the time between the two batches.
SLACK = {"TTL": 3, "PTTL": 3000, "EXPIRETIME": 2, "PEXPIRETIME": 3000, "HTTL": 3, "HPTTL": 3000, "HPEXPIRETIME": 3000, "HEXPIRETIME": 2}

# A template: words, {placeholders}, [optional parts], (alternatives | separated by bars), and + for one to four of an item.
# A number in front is a weight.
TEMPLATES = """
4 SET {s} {v} [NX | XX | GET | KEEPTTL | NX GET | XX GET] [EX {ttl} | PX {ttlms} | EXAT {at} | PXAT {atms} | KEEPTTL | {strange}]
2 GET {s}
GETSET {s} {v}
GETDEL {s}
GETEX {s} [EX {ttl} | PX {ttlms} | EXAT {at} | PXAT {atms} | PERSIST | PERSIST EX 5 | {strange}]
SETNX {s} {v}
SETEX {s} {ttl} {v}
PSETEX {s} {ttlms} {v}
MSET ({s} {v})+
MSETNX ({s} {v})+
MGET {s}+
APPEND {s} {v}
STRLEN {s}
INCR {s}
DECR {s}
INCRBY {s} {i}
DECRBY {s} {i}
INCRBYFLOAT {s} {f}
SETRANGE {s} {offset} {v}
GETRANGE {s} {i} {i}
SUBSTR {s} {i} {i}
LCS {s} {s} [LEN | IDX] [MINMATCHLEN {i}] [WITHMATCHLEN]
2 SETBIT {b} {bit} (0 | 1 | 0 | 1 | 2)
GETBIT {b} {bit}
BITCOUNT {b} [{i} {i} | {i} {i} BIT | {i} {i} BYTE | {i}]
BITPOS {b} (0 | 1 | 2) [{i} | {i} {i} | {i} {i} BIT | {i} {i} BYTE]
BITOP (AND | OR | XOR) {b} {b}+
BITOP NOT {b} {b}
BITFIELD {b} (GET {width} {place} | SET {width} {place} {i} | INCRBY {width} {place} {i} | OVERFLOW (WRAP | SAT | FAIL))+
BITFIELD_RO {b} (GET {width} {place})+
2 LPUSH {l} {v}+
3 RPUSH {l} {v}+
RPUSH {l} {many}
LPUSHX {l} {v}
RPUSHX {l} {v}+
LPOP {l} [{i}]
RPOP {l} [{i}]
LLEN {l}
LRANGE {l} {i} {i}
LINDEX {l} {i}
LSET {l} {i} {v}
LINSERT {l} (BEFORE | AFTER) {v} {v}
LREM {l} {i} {v}
LTRIM {l} {i} {i}
LMOVE {l} {l} (LEFT | RIGHT) (LEFT | RIGHT)
RPOPLPUSH {l} {l}
LPOS {l} {v} [RANK {i}] [COUNT {i}] [MAXLEN {i}]
LMPOP {nl} (LEFT | RIGHT) [COUNT {i}]
3 HSET {h} ({v} {v})+
HSET {h} {many} x
HMSET {h} ({v} {v})+
HSETNX {h} {v} {v}
HGET {h} {v}
HMGET {h} {v}+
HDEL {h} {v}+
HLEN {h}
HEXISTS {h} {v}
HSTRLEN {h} {v}
HGETALL {h}
HKEYS {h}
HVALS {h}
HINCRBY {h} {v} {i}
HINCRBYFLOAT {h} {v} {f}
HRANDFIELD {h} [{few} | {few} WITHVALUES]
HSCAN {h} 0 COUNT 100000 [MATCH {glob}]
HEXPIRE {h} {ttl} [NX | XX | GT | LT] FIELDS {nv}
HPEXPIRE {h} {ttlms} [NX | XX | GT | LT] FIELDS {nv}
HEXPIREAT {h} {at} [NX | XX | GT | LT] FIELDS {nv}
HPEXPIREAT {h} {atms} FIELDS {nv}
HTTL {h} FIELDS {nv}
HPTTL {h} FIELDS {nv}
HPEXPIRETIME {h} FIELDS {nv}
HPERSIST {h} FIELDS {nv}
HGETDEL {h} FIELDS {nv}
HGETEX {h} [EX {ttl} | PX {ttlms} | EXAT {at} | PERSIST] FIELDS {nv}
HSETEX {h} [FNX | FXX] [EX {ttl} | PX {ttlms} | PXAT {atms} | KEEPTTL] FIELDS 1 {v} {v}
3 SADD {e} {v}+
SADD {e} {many}
SREM {e} {v}+
SCARD {e}
SISMEMBER {e} {v}
SMISMEMBER {e} {v}+
SMEMBERS {e}
SMOVE {e} {e} {v}
SINTER {e}+
SUNION {e}+
SDIFF {e}+
SINTERSTORE {e} {e}+
SUNIONSTORE {e} {e}+
SDIFFSTORE {e} {e}+
SINTERCARD {ne} [LIMIT {i}]
SRANDMEMBER {e} [{few}]
SPOP {e} 100000
SSCAN {e} 0 COUNT 100000 [MATCH {glob}]
3 ZADD {z} [NX | XX | GT | LT | CH | XX GT | LT CH | NX CH | {strange}] ({f} {v})+
ZADD {z} [NX | XX | GT | LT] INCR {f} {v}
ZADD {z} {scored}
ZREM {z} {v}+
ZCARD {z}
ZSCORE {z} {v}
ZMSCORE {z} {v}+
ZINCRBY {z} {f} {v}
(ZRANK | ZREVRANK) {z} {v} [WITHSCORE]
ZRANGE {z} {i} {i} [REV] [WITHSCORES] [LIMIT {i} {i}]
ZRANGE {z} {score} {score} BYSCORE [REV] [LIMIT {i} {i}] [WITHSCORES]
ZRANGE {y} {lex} {lex} BYLEX [REV] [LIMIT {i} {i}]
ZRANGESTORE {z} {z} {i} {i} [REV]
ZRANGESTORE {z} {z} {score} {score} BYSCORE [REV] [LIMIT {i} {i}]
ZREVRANGE {z} {i} {i} [WITHSCORES]
ZRANGEBYSCORE {z} {score} {score} [WITHSCORES] [LIMIT {i} {i}]
ZREVRANGEBYSCORE {z} {score} {score} [WITHSCORES] [LIMIT {i} {i}]
ZADD {y} (0 {v})+
ZRANGEBYLEX {y} {lex} {lex} [LIMIT {i} {i}]
ZREVRANGEBYLEX {y} {lex} {lex} [LIMIT {i} {i}]
ZLEXCOUNT {y} {lex} {lex}
ZREMRANGEBYLEX {y} {lex} {lex}
ZCOUNT {z} {score} {score}
ZREMRANGEBYSCORE {z} {score} {score}
ZREMRANGEBYRANK {z} {i} {i}
ZPOPMIN {z} [{i}]
ZPOPMAX {z} [{i}]
ZMPOP {nz} (MIN | MAX) [COUNT {i}]
ZRANDMEMBER {z} [{few} | {few} WITHSCORES]
(ZUNION | ZINTER) {nz} [WEIGHTS {i}+] [AGGREGATE (SUM | MIN | MAX)] [WITHSCORES]
(ZUNIONSTORE | ZINTERSTORE) {z} {nz} [WEIGHTS {f}+] [AGGREGATE (SUM | MIN | MAX)]
(ZUNIONSTORE | ZINTERSTORE) {z} {ne} [AGGREGATE (SUM | MIN | MAX)]
ZDIFF {nz} [WITHSCORES]
ZDIFFSTORE {z} {nz}
ZINTERCARD {nz} [LIMIT {i}]
ZSCAN {z} 0 COUNT 100000 [MATCH {glob}]
PFADD {p} {v}+
PFADD {p} {many}
PFCOUNT {p}+
PFMERGE {p} {p}+
GEOADD {g} [NX | XX | CH] ({lon} {lat} {v})+
GEODIST {g} {v} {v} [m | km | ft | mi | {strange}]
GEOPOS {g} {v}+
GEOHASH {g} {v}+
GEOSEARCH {g} (FROMLONLAT {lon} {lat} | FROMMEMBER {v}) (BYRADIUS {radius} km | BYBOX {radius} {radius} km) (ASC | DESC) [COUNT {i}] [WITHCOORD] [WITHDIST] [WITHHASH]
GEOSEARCHSTORE {z} {g} FROMLONLAT {lon} {lat} BYRADIUS {radius} km ASC [COUNT {i}] [STOREDIST]
2 XADD {x} [NOMKSTREAM] [MAXLEN {i} | MAXLEN = {i} | MINID = {xid} | {strange}] {xid} ({v} {v})+
XLEN {x}
XRANGE {x} {xedge} {xedge} [COUNT {i}]
XREVRANGE {x} {xedge} {xedge} [COUNT {i}]
XDEL {x} {xid}+
XTRIM {x} (MAXLEN {i} | MAXLEN = {i} | MINID = {xid})
XSETID {x} {xid}
XREAD [COUNT {i}] STREAMS {x} {xid}
XGROUP CREATE {x} {group} ({xid} | $ | 0) [MKSTREAM] [ENTRIESREAD {i}]
XGROUP DESTROY {x} {group}
XGROUP SETID {x} {group} ({xid} | $)
XGROUP CREATECONSUMER {x} {group} {consumer}
XGROUP DELCONSUMER {x} {group} {consumer}
2 XREADGROUP GROUP {group} {consumer} [COUNT {i}] [NOACK] STREAMS {x} (> | {xid})
XACK {x} {group} {xid}+
XPENDING {x} {group}
XCLAIM {x} {group} {consumer} 0 {xid}+ [JUSTID] [FORCE] [RETRYCOUNT {i}]
XAUTOCLAIM {x} {group} {consumer} 0 {xid} [COUNT {i}] [JUSTID]
XINFO STREAM {x}
0.5 DEL {k}+
0.5 UNLINK {k}
EXISTS {k}+
TYPE {k}
TOUCH {k}+
EXPIRE {k} {ttl} [NX | XX | GT | LT | XX GT | {strange}]
PEXPIRE {k} {ttlms} [NX | XX | GT | LT]
EXPIREAT {k} {at} [NX | XX | GT | LT]
PEXPIREAT {k} {atms} [NX | XX | GT | LT]
TTL {k}
PTTL {k}
EXPIRETIME {k}
PEXPIRETIME {k}
PERSIST {k}
RENAME {k} {k}
RENAMENX {k} {k}
COPY {k} {k} [REPLACE] [DB (0 | 1 | 15 | 99 | {strange})]
MOVE {k} (0 | 1 | 99 | {strange})
0.3 KEYS {glob}
0.3 DBSIZE
0.3 SCAN 0 COUNT 100000 [MATCH {glob}] [TYPE (string | hash | list | set | zset)]
0.3 SELECT (0 | 0 | 99 | {strange})
SORT {l} [LIMIT {i} {i}] [ASC | DESC] [ALPHA] [GET # | GET s*]
SORT {e} [LIMIT {i} {i}] [ASC | DESC] ALPHA [STORE {l}]
SORT_RO {z} [LIMIT {i} {i}] [DESC] ALPHA
0.3 OBJECT ENCODING {k}
ECHO {v}
PING [{v}]
0.2 {strange} {v}
"""

NAMES = {"s": "s", "l": "l", "h": "h", "e": "e", "z": "z", "y": "y", "b": "b", "p": "p", "g": "g", "x": "x"}
ALL_KEYS = [f"{kind}{number}" for kind in NAMES.values() for number in range(4)]
STRANGE = ["", "x", "nan", "inf", "-inf", "1e400", "+5", " 5", "5 ", "5.0", "01", "-0", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
           "NX", "XX", "COUNT", "4294967296", "-2147483649", "1e3", "0x10", "é", "\0"]
FLOATS = ["0", "1", "-1", "1.5", "3.0e2", "inf", "-inf", "+inf", "0.1", "1e17", "123456789012345678", "1.0000000000000002", "1e-300", "1e300", ".5", "5."]
GLOBS = ["*", "s*", "?0", "[a-h]1", "*[^0]", "s[0-2", "\\s0", "", "**0", "[]", "s\\", "*a*", "m?"]
GEO_WORDS = {"lon": 180, "lat": 85}


class Words:
    """Random words for the placeholders of the templates."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.now = int(time.time())

    def of_kind(self, kind: str) -> str:
        draw = self.chance.random()
        if draw < 0.04:
            return self.chance.choice(ALL_KEYS)
        return "none" if draw < 0.06 else f"{kind}{self.chance.randrange(4)}"

    def numbered(self, kind: str) -> list:
        keys = [self.of_kind(kind) for _ in range(self.chance.randint(1, 3))]
        return [str(len(keys)) if self.chance.random() < 0.95 else self.i(), *keys]

    def k(self) -> str:
        return self.chance.choice(ALL_KEYS)

    def i(self) -> str:
        draw = self.chance.random()
        if draw < 0.7:
            return str(self.chance.randint(-6, 12))
        return str(self.chance.randint(-200, 200)) if draw < 0.93 else self.strange()

    def few(self) -> str:
        """A count that is not so far below zero that a reply has billions of elements."""
        return str(self.chance.randint(-200, 200)) if self.chance.random() < 0.97 else self.chance.choice(["x", "", "9223372036854775808"])

    def f(self) -> str:
        draw = self.chance.random()
        if draw < 0.45:
            return str(self.chance.randint(-5, 9))
        # Eighths are exact.
        return repr(self.chance.randint(-80, 80) / 8) if draw < 0.85 else self.chance.choice(FLOATS if draw < 0.96 else STRANGE)

    def v(self) -> str:
        draw = self.chance.random()
        if draw < 0.5:
            return self.chance.choice("abcdefghijklmnop")
        if draw < 0.7:
            return str(self.chance.randint(-200, 200))
        if draw < 0.8:
            return "".join(chr(self.chance.randrange(256)) for _ in range(self.chance.randint(0, 12)))
        if draw < 0.85:
            return "x" * self.chance.choice([44, 45, 63, 64, 65, 100, 255, 256, 300, 3000]) + self.chance.choice("abc")
        return self.strange() if draw < 0.9 else self.chance.choice("abcdefg") + self.chance.choice("abcdefg")

    def nv(self) -> list:
        values = [self.v() for _ in range(self.chance.randint(1, 3))]
        return [str(len(values)) if self.chance.random() < 0.95 else self.i(), *values]

    def many(self) -> list:
        start = self.chance.randrange(100)
        return [f"m{number}" for number in range(start, start + self.chance.choice([9, 41, 129, 161]))]

    def scored(self) -> list:
        return [word for number in range(self.chance.choice([10, 70, 140])) for word in (str(number % 50), f"m{number}")]

    def strange(self) -> str:
        return self.chance.choice(STRANGE)

    def glob(self) -> str:
        return self.chance.choice(GLOBS)

    # Deadlines are far away, so that nothing expires on one server between two batches; past ones are past on both.
    def ttl(self) -> str:
        return str(self.chance.randint(10_000, 1_000_000)) if self.chance.random() < 0.8 else self.chance.choice(["-5", "0", "-1", "1.5", *STRANGE])

    def ttlms(self) -> str:
        return str(self.chance.randint(10_000_000, 1_000_000_000)) if self.chance.random() < 0.8 else self.chance.choice(["-5", "0", "-1", *STRANGE])

    def at(self) -> str:
        return str(self.now + self.chance.randint(100_000, 1_000_000)) if self.chance.random() < 0.8 else self.chance.choice(["0", "1", "-1", "100", "abc"])

    def atms(self) -> str:
        return str((self.now + self.chance.randint(100_000, 1_000_000)) * 1000) if self.chance.random() < 0.8 else self.chance.choice(["0", "1", "-1", "100", "abc"])

    def offset(self) -> str:
        return str(self.chance.randint(0, 40)) if self.chance.random() < 0.9 else self.chance.choice(["536870912", "-1", "4294967296", "536870911999"])

    def bit(self) -> str:
        return str(self.chance.randint(0, 200)) if self.chance.random() < 0.9 else self.chance.choice(["4294967296", "-1", "x", "4294967295000"])

    def width(self) -> str:
        return self.chance.choice("iu") + self.chance.choice(["1", "2", "5", "8", "16", "31", "32", "63", "64", "65", "0", ""])

    def place(self) -> str:
        return self.chance.choice(["", "#"]) + (str(self.chance.randint(0, 100)) if self.chance.random() < 0.95 else self.strange())

    def score(self) -> str:
        return self.chance.choice(["", "", "", "("]) + self.f()

    def lex(self) -> str:
        return self.chance.choice(["-", "+"]) if self.chance.random() < 0.3 else self.chance.choice(["[", "(", "[", "(", ""]) + self.v()

    def lon(self) -> str:
        return repr(self.chance.randint(-1800, 1800) / 10) if self.chance.random() < 0.97 else self.f()

    def lat(self) -> str:
        return repr(self.chance.randint(-850, 850) / 10) if self.chance.random() < 0.97 else self.f()

    def radius(self) -> str:
        return str(self.chance.choice([0, 100, 1000, 5000, 30_000])) if self.chance.random() < 0.97 else self.f()

    def xid(self) -> str:
        draw = self.chance.random()
        if draw < 0.75:
            return f"{self.chance.randint(1, 60)}-{self.chance.randint(0, 3)}"
        return f"{self.chance.randint(1, 60)}" if draw < 0.9 else self.chance.choice(["0-0", "0-1", "5-*", "18446744073709551615-18446744073709551615", *STRANGE])

    def xedge(self) -> str:
        return self.chance.choice(["-", "+", "-", "+", self.xid(), "(" + self.xid()])

    def group(self) -> str:
        return self.chance.choice(["g1", "g2"])

    def consumer(self) -> str:
        return self.chance.choice(["c1", "c2", "c3"])


Node = Callable[[Words], list]


def parsed(text: str) -> Node:
    """A function that draws the words of one template."""
    tokens = re.findall(r"[\[\]()|]|\+(?=\s|$)|\{\w+\}|[^\s\[\](){}|]+", text.replace(")+", ") +").replace("}+", "} +").replace("]+", "] +"))
    at = 0

    def alternatives(end: str) -> list[Node]:
        nonlocal at
        found = [sequence(end)]
        while at < len(tokens) and tokens[at] == "|":
            at += 1
            found.append(sequence(end))
        at += 1
        return found

    def sequence(end: str) -> Node:
        nonlocal at
        items: list[Node] = []
        while at < len(tokens) and tokens[at] not in (end, "|"):
            token = tokens[at]
            at += 1
            if token == "[":
                items.append(optional(alternatives("]")))
            elif token == "(":
                items.append(choice(alternatives(")")))
            elif token == "+":
                items.append(repeated(items.pop()))
            elif token.startswith("{"):
                items.append(placeholder(token[1:-1]))
            else:
                items.append(lambda words, token=token: [token])
        return lambda words: [word for item in items for word in item(words)]

    return sequence("")


def optional(nodes: list[Node]) -> Node:
    return lambda words: words.chance.choice(nodes)(words) if words.chance.random() < 0.35 else []


def choice(nodes: list[Node]) -> Node:
    return lambda words: words.chance.choice(nodes)(words)


def repeated(node: Node) -> Node:
    return lambda words: [word for _ in range(words.chance.choice([1, 1, 2, 3, 4])) for word in node(words)]


def placeholder(name: str) -> Node:
    if name in NAMES:
        return lambda words: [words.of_kind(name)]
    if len(name) == 2 and name[0] == "n" and name[1] in NAMES:
        return lambda words: words.numbered(name[1])
    draw = getattr(Words, name)
    return lambda words: [drawn] if isinstance(drawn := draw(words), str) else drawn


def templates(is_known: Callable[[str], bool]) -> tuple[list[Node], list[float]]:
    """The templates of commands that both servers have, and their weights."""
    nodes, weights = [], []
    for line in TEMPLATES.strip().splitlines():
        weight, text = re.fullmatch(r"([\d.]+ )?(.*)", line).groups()
        names = re.match(r"\(?([A-Z_| ]+)", text)
        if names is None or all(is_known(name) for name in re.findall(r"[A-Z_]+", names.group(1).split(" ")[0] if text[0] != "(" else names.group(1))):
            nodes.append(parsed(text))
            weights.append(float(weight or 1))
    return nodes, weights


def encoded(words: list) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word.encode("latin1", "replace") if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


def exchange(connection: Connection, commands: list) -> list:
    connection.socket.sendall(b"".join(map(encoded, commands)))
    return [connection.reply() for _ in commands]


UNORDERED = {"SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS", "HKEYS", "HVALS", "SPOP"}
BY_CHANCE = {"HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"}
PAIRED = {"HGETALL"}
SCANS = {"SCAN", "SSCAN", "HSCAN", "ZSCAN"}


def comparable(command: list, reply):
    """A reply without what depends on chance or on the order of a table."""
    if not isinstance(reply, list):
        return None if command[0] in BY_CHANCE and isinstance(reply, bytes) else reply
    name = command[0]
    if name in UNORDERED:
        return sorted(reply, key=repr)
    if name in BY_CHANCE:
        return len(reply)
    if name in PAIRED:
        return sorted(zip(reply[::2], reply[1::2]))
    if name in SCANS and len(reply) == 2 and isinstance(reply[1], list):
        items = reply[1]
        return [reply[0], sorted(items) if name in ("SCAN", "SSCAN") else sorted(zip(items[::2], items[1::2]))]
    if name == "XINFO":
        return dict(zip(reply[::2], reply[1::2])).get(b"length")
    if name == "XPENDING" or name in ("XCLAIM", "XAUTOCLAIM", "XREADGROUP"):
        return reply
    return reply


def is_number(value) -> bool:
    try:
        float(value)
        return isinstance(value, bytes)
    except (TypeError, ValueError):
        return False


def is_close(name: str, mine, other) -> bool:
    """Whether two replies are equal but for clocks and for the digits of equal numbers."""
    if mine == other:
        return True
    if isinstance(mine, list | tuple) and isinstance(other, list | tuple):
        return len(mine) == len(other) and all(is_close(name, one, two) for one, two in zip(mine, other))
    if isinstance(mine, int) and isinstance(other, int) and name in SLACK:
        return min(mine, other) > 0 and abs(mine - other) <= SLACK[name]
    return is_number(mine) and is_number(other) and float(mine) == float(other) and name.startswith(("Z", "GEO"))


def is_error(reply, text: str = "") -> bool:
    return isinstance(reply, Refusal) and text in reply


# Known differences: peers, name, and a function of the command, its words in capitals, and both replies that recognises
# the difference. docs/reference/differences.md describes each under its name.
KNOWN: list[tuple[str, str, Callable]] = []
FIELD_TIMES = {"HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT", "HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME", "HPERSIST", "HGETEX", "HSETEX", "HGETDEL"}


def known(name: str, peers: str = "redis7 redis8 valkey"):
    def register(applies: Callable) -> Callable:
        KNOWN.append((peers, name, applies))
        return applies

    return register


known("random choice")(lambda name, words, mine, other: name == "SPOP")
known("HyperLogLog as a string")(lambda name, words, mine, other: is_same_sketch(mine, other))
known("damaged HyperLogLog")(lambda name, words, mine, other: is_error(mine, "INVALIDOBJ") or is_error(other, "INVALIDOBJ"))
known("deadlines in the past", "redis7 redis8")(lambda name, words, mine, other: name == "DBSIZE" and other > mine)
known("order of SORT ALPHA")(lambda name, words, mine, other: name in ("SORT", "SORT_RO") and isinstance(mine, list) and isinstance(other, list) and sorted(map(repr, mine)) == sorted(map(repr, other)))
known("numbers of SORT")(lambda name, words, mine, other: name in ("SORT", "SORT_RO") and (is_error(mine, "converted into double") or is_error(other, "converted into double")))
known("HSETEX NX and XX", "redis8 valkey")(lambda name, words, mine, other: name == "HSETEX" and ("NX" in words or "XX" in words))
known("conditions behind fields", "valkey")(lambda name, words, mine, other: name in FIELD_TIMES and is_error(other, "numfields") and not is_error(mine))
known("geography of other scores")(lambda name, words, mine, other: name in ("GEOHASH", "GEOPOS", "GEODIST", "GEOSEARCH", "GEOSEARCHSTORE"))
known("encodings")(lambda name, words, mine, other: name == "OBJECT")
known("hexadecimal numbers")(lambda name, words, mine, other: is_error(mine, "float") and any(word.lstrip("([+-").startswith("0X") for word in words[1:]))
known("hexadecimal numbers")(lambda name, words, mine, other: name in ("INCRBYFLOAT", "HINCRBYFLOAT") and is_error(mine, "float") and isinstance(other, bytes))
known("zero bytes in numbers")(lambda name, words, mine, other: is_error(mine) and any("\0" in word for word in words[1:]))
known("blanks before a bound", "redis8 valkey")(lambda name, words, mine, other: name.startswith("Z") and is_error(other, "not a float") and any(word.lstrip("(").startswith(" ") for word in words))
known("indexes beyond 32 bits")(lambda name, words, mine, other: name == "LSET" and is_error(mine, "index out of range"))
known("smallest count", "redis8 valkey")(lambda name, words, mine, other: name == "LREM" and words[2] == "-9223372036854775808")
known("bit offsets that overflow")(lambda name, words, mine, other: name in ("BITFIELD", "BITFIELD_RO") and is_error(mine, "bit offset"))
known("BYLEX with unequal scores")(lambda name, words, mine, other: "LEX" in name or "BYLEX" in words)
known("negative offset of LIMIT", "valkey")(lambda name, words, mine, other: name.startswith("Z") and "LIMIT" in words and words[words.index("LIMIT") + 1].startswith("-"))
known("arguments before keys", "valkey")(lambda name, words, mine, other: name == "GETEX" and mine is None)
known("ZRANK WITHSCORE", "redis7")(lambda name, words, mine, other: name in ("ZRANK", "ZREVRANK") and len(words) > 3)
known("TTL of a member")(lambda name, words, mine, other: name in ("TTL", "PTTL") and len(words) == 3)
known("arguments before keys", "redis7")(lambda name, words, mine, other: name in ("BITCOUNT", "BITPOS", "LPOS") and is_error(mine))
known("BITCOUNT with a start only", "valkey")(lambda name, words, mine, other: name == "BITCOUNT" and len(words) == 3)
known("cursors")(lambda name, words, mine, other: name in SCANS and is_error(mine, "invalid cursor"))
known("numbers in stream IDs")(lambda name, words, mine, other: name.startswith("X") and is_error(mine, "Invalid stream ID") and not is_error(other))
known("numbers in stream IDs")(lambda name, words, mine, other: name == "XCLAIM" and is_error(mine, "Unrecognized XCLAIM option") and not is_error(other))
known("streams of newer versions", "redis7")(lambda name, words, mine, other: name == "RESTORE" and words[-1] == "STREAM" and is_error(other, "DUMP payload version"))
known("streams of newer versions", "redis7")(lambda name, words, mine, other: name == "XSETID" and is_error(mine, "max_deleted_entry_id") and other == "OK")
known("streams of newer versions", "redis7")(lambda name, words, mine, other: name == "XGROUP" and words[1] == "CREATECONSUMER" and (mine, other) == (0, 1))
known("unknown commands")(lambda name, words, mine, other: is_error(mine, "unknown command") and is_error(other, "unknown command"))
known("order of checks")(lambda name, words, mine, other: is_error(mine) and is_error(other))


def is_same_sketch(mine, other) -> bool:
    """Whether both are the same HyperLogLog but for the cached cardinality, which is recomputed at other moments."""
    if isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        return all(one == two or is_same_sketch(one, two) for one, two in zip(mine, other))
    if not isinstance(mine, bytes) or not isinstance(other, bytes) or not mine.startswith(b"HYLL"):
        return False
    return mine[:8] + mine[16:] == other[:8] + other[16:]


def content(connection: Connection, keys: list) -> dict:
    """Type, deadline and elements of each key."""
    kinds = exchange(connection, [["TYPE", key] for key in keys])
    reads = {"string": ["GET"], "list": ["LRANGE", "0", "-1"], "set": ["SMEMBERS"], "hash": ["HGETALL"], "zset": ["ZRANGE", "0", "-1", "WITHSCORES"], "stream": ["XRANGE", "-", "+"]}
    commands = [[reads[kind][0], key, *reads[kind][1:]] for key, kind in zip(keys, kinds)]
    values = exchange(connection, commands)
    deadlines = exchange(connection, [["PEXPIRETIME", key] for key in keys])
    found = {}
    for key, kind, command, value, deadline in zip(keys, kinds, commands, values, deadlines):
        if isinstance(value, bytes) and value.startswith(b"HYLL"):
            # The cached cardinality is recomputed at other moments.
            value = value[:8] + value[16:]
        found[key] = (kind, deadline, comparable(command, value))
    return found


def are_equal(mine, other) -> bool:
    return mine is not None and other is not None and mine[0] == other[0] and is_close("PEXPIRETIME", mine[1], other[1]) and is_close("Z", mine[2], other[2])


class Run:
    def __init__(self, ours: Connection, theirs: Connection, peer: str, seed: int):
        self.sides, self.peer, self.words = (ours, theirs), peer, Words(seed)
        common = set.intersection(*({name.decode().upper() for name in exchange(side, [["COMMAND", "LIST"]])[0]} for side in self.sides))
        self.nodes, self.weights = templates(lambda name: name in common)
        self.count = self.moved = 0
        self.last: list = []
        self.known: collections.Counter = collections.Counter()
        self.unknown: collections.Counter = collections.Counter()
        self.examples: dict[str, list] = collections.defaultdict(list)
        self.empty()

    def empty(self) -> None:
        for side in self.sides:
            exchange(side, [["DISCARD"], ["SELECT", "0"], ["FLUSHALL"]])

    def batch(self) -> list:
        chance, commands = self.words.chance, []
        for node in chance.choices(self.nodes, self.weights, k=BATCH):
            command = node(self.words)
            draw = chance.random()
            # A strange count far below zero would make a reply of gigabytes.
            if command[0] in BY_CHANCE:
                pass
            elif draw < 0.01 and len(command) > 1:
                command.pop()
            elif draw < 0.02 and len(command) > 1:
                command.insert(chance.randrange(1, len(command) + 1), self.words.strange())
            commands.append(command)
        if chance.random() < 0.15:
            start = chance.randrange(len(commands))
            commands.insert(start, ["MULTI"])
            commands.insert(min(len(commands), start + chance.randint(1, 9)), [chance.choice(["EXEC", "EXEC", "DISCARD"])])
        return [*commands, ["DISCARD"], ["SELECT", "0"]]

    def note(self, command: list, mine, other, past: list) -> bool:
        """Counts a difference; returns whether it is a known one."""
        words = [word.upper() for word in command]
        for peers, name, applies in KNOWN:
            if self.peer in peers and applies(words[0], words, mine, other):
                self.known[name] += 1
                return True
        shape = lambda reply: ascii(str(reply))[:90] if isinstance(reply, Refusal) else type(reply).__name__
        title = f"{command[0].upper()}: ours {shape(mine)}, theirs {shape(other)}"
        self.unknown[title] += 1
        if len(self.examples[title]) < 3:
            keys = [word for word in command[1:] if word in ALL_KEYS]
            before = [line for line in past if any(key in line for key in keys)][-6:]
            self.examples[title].append((command, ascii(mine)[:300], ascii(other)[:300], before))
        return False

    def step(self) -> None:
        commands = self.last = self.batch()
        replies = [exchange(side, commands) for side in self.sides]
        self.count += len(commands)
        differs, has_diverged = False, False
        # Commands of a transaction, whose replies are those of EXEC.
        queued: list = []
        for index, (command, mine, other) in enumerate(zip(commands, *replies)):
            name = command[0].upper()
            if mine == "QUEUED" and other == "QUEUED":
                queued.append(command)
                continue
            pairs = [(command, mine, other)]
            if name == "EXEC" and isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other) == len(queued):
                pairs = list(zip(queued, mine, other))
            if name in ("EXEC", "DISCARD", "MULTI"):
                queued = []
            for words, one, two in pairs:
                one, two = comparable(words, one), comparable(words, two)
                if one != two and not is_close(words[0], one, two):
                    self.note(words, one, two, commands[:index])
                    differs = True
                    # From here on the contents differ, and so do later replies of the batch.
                    has_diverged = not (is_error(one) and is_error(two)) or "QUEUED" in (mine, other)
                if has_diverged:
                    break
            if has_diverged:
                break
        if differs or self.count % COMPARE_EVERY < len(commands):
            self.compare(commands, differs)

    def compare(self, commands: list, has_differed: bool) -> None:
        """Compares all keys and moves some of them. Empties both servers if they differ."""
        ours, theirs = self.sides
        keys = [sorted(exchange(side, [["KEYS", "*"]])[0]) for side in self.sides]
        states = [content(side, names) for side, names in zip(self.sides, keys)]
        unequal = [key for key in set(keys[0]) | set(keys[1]) if not are_equal(states[0].get(key), states[1].get(key))]
        for key in unequal:
            if not has_differed:
                mine, other = (state.get(key, ("none", -2, None)) for state in states)
                self.note(["CONTENT", key.decode("latin1"), mine[0], other[0]], mine, other, commands)
        if unequal:
            self.empty()
            return
        for key in self.words.chance.sample(keys[0], min(5, len(keys[0]))):
            self.move(key, ours, theirs)
            self.move(key, theirs, ours)
        if has_differed or self.words.chance.random() < 0.2:
            self.empty()

    def move(self, key: bytes, source: Connection, target: Connection) -> None:
        payload = exchange(source, [["DUMP", key]])[0]
        reply = exchange(target, [["RESTORE", "moved", "0", payload, "REPLACE"]])[0]
        self.moved += 1
        if reply != "OK":
            kind = str(exchange(source, [["TYPE", key]])[0])
            self.note(["RESTORE", key.decode("latin1"), kind], reply if target is self.sides[0] else "OK", reply if target is self.sides[1] else "OK", [])
            return
        kind, _, wanted = content(source, [key])[key]
        got_kind, _, got = content(target, [b"moved"])[b"moved"]
        if kind != got_kind or not is_close("Z", wanted, got):
            self.note(["MOVED", key.decode("latin1"), kind], got, wanted, [])
        exchange(target, [["DEL", "moved"]])

    def report(self, seconds: float) -> int:
        print(f"{self.count} commands of {len(self.nodes)} templates, {self.moved} values moved, {seconds:.0f} s")
        for name, count in self.known.most_common():
            print(f"known {count:8} {name}")
        for title, count in self.unknown.most_common():
            print(f"NEW   {count:8} {title}")
            for command, mine, other, before in self.examples[title]:
                print(f"        {ascii(command)[:300]}\n          ours   {mine}\n          theirs {other}\n          after  {ascii(before)[:500]}")
        print(f"{sum(self.known.values())} known differences of {len(self.known)} kinds, {sum(self.unknown.values())} new ones of {len(self.unknown)} kinds")
        return 1 if self.unknown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/mayfly", help="path of mayfly")
    parser.add_argument("--peer", default="redis-server", help="path of redis-server or valkey-server")
    parser.add_argument("--commands", type=int, default=100_000, help="number of commands [default: 100000]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the commands [default: 1]")
    parser.add_argument("--threads", type=int, default=1, help="data threads of mayfly [default: 1]")
    chosen = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")
    page = (Path(__file__).parents[2] / "docs/reference/differences.md").read_text()
    missing = {name for _, name, _ in KNOWN if f"\n| {name} |" not in page}
    assert not missing, f"docs/reference/differences.md does not describe: {', '.join(missing)}"
    peer = shutil.which(chosen.peer)
    if peer is None:
        print(f"skipped: there is no {chosen.peer}")
        return 0
    with Server(chosen.server, "--threads", str(chosen.threads)) as server, Server(peer) as other, server.connect(120) as ours, other.connect(120) as theirs:
        text = theirs.must("INFO", "server").decode()
        version = (re.search(r"valkey_version:(\S+)", text) or re.search(r"redis_version:(\S+)", text)).group(1)
        name = "valkey" if peer.endswith("valkey-server") else f"redis{version.split('.')[0]}"
        ours.say("CONFIG", "SET", "dump-hash-ttl-format", "valkey" if name == "valkey" else "redis")
        run, started = Run(ours, theirs, name, chosen.seed), time.monotonic()
        while run.count < chosen.commands:
            try:
                run.step()
            except (OSError, AssertionError) as error:
                server.assert_running()
                other.assert_running()
                raise RuntimeError(f"after {run.count} commands: {error}; the batch: {ascii(run.last)}") from error
        print(f"peer: {name} {version}, seed {chosen.seed}")
        return run.report(time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
