"""memcached's protocol, compared with memcached itself, request by request."""

import contextlib
import random
import re
import shutil
import socket
import subprocess
import time

from server import free_port

LIMIT_S = 30
ROUNDS = 3000
KEYS = [b"a", b"b", b"c", b"other"]
# Only these keys are counted. memcached may leave blanks behind a number that became shorter, and keeps or drops its flags
# and the new TTL, depending on whether it counted in place.
NUMBERS = [b"n", b"m"]
ALL = b"get %s\r\n" % b" ".join(KEYS + NUMBERS)
# Intended differences: counts of items differ, and sizes and access times are specific to each server.
NOISE = re.compile(rb"(?<= [cst])\d+|(?<=VALUE [nm] 0 )\d+|(?<=VALUE [nm] 7 )\d+|(?<=VA )\d+|(?<=\d) +(?=\r\n)")


class Line:
    """A connection that sends requests and reads the replies up to that of a final `mn`."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)

    def ask(self, *requests: bytes) -> bytes:
        self.socket.sendall(b"".join(requests) + b"mn\r\n")
        answer = b""
        while not answer.endswith(b"MN\r\n"):
            piece = self.socket.recv(1 << 16)
            if not piece:
                return answer + b"<closed>"
            answer += piece
        return answer[: -len(b"MN\r\n")]


@contextlib.contextmanager
def memcached():
    """memcached on a free port; None if it is not installed."""
    path = shutil.which("memcached")
    if path is None:
        yield None
        return
    port = free_port()
    process = subprocess.Popen([path, "-l", "127.0.0.1", "-p", str(port), "-u", "nobody", "-U", "0"])
    try:
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                Line(port)
                break
            except OSError:
                assert time.monotonic() < end, "memcached does not listen"
                time.sleep(0.01)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def ours(bench, *options: str):
    """Port of a Mayfly server with the memcached protocol."""
    port = free_port()
    server = bench.start("--memcached", str(port), *options)
    try:
        yield server, port
    finally:
        server.end()


DIGITS = [b"0", b"1", b"10", b"9", b"18446744073709551615"]


def value(chance: random.Random) -> bytes:
    return chance.choice([b"", b"1", b"10", b"9", b"18446744073709551615", b"text", b"x" * 300, b"a\r\nb", b"\xff\x00"])


def text_request(chance: random.Random) -> bytes:
    key, number = chance.choice(KEYS), chance.choice(NUMBERS)
    quiet = chance.choice([b"", b"", b"", b" noreply"])
    data = value(chance)
    match chance.randrange(13):
        case 12:
            data = chance.choice(DIGITS)
            return b"%s %s %d 0 %d%s\r\n%s\r\n" % (chance.choice([b"set", b"add", b"replace"]), number, chance.choice([0, 7]), len(data), quiet, data)
        case 0 | 1 | 2:
            verb = chance.choice([b"set", b"add", b"replace", b"append", b"prepend"])
            life = chance.choice([b"0", b"0", b"100", b"-1", b"2000000000", b"2592001"])
            return b"%s %s %d %s %d%s\r\n%s\r\n" % (verb, key, chance.randrange(99), life, len(data), quiet, data)
        case 3 | 4 | 5:
            return b"get %s\r\n" % b" ".join(chance.sample(KEYS + NUMBERS, chance.randrange(1, 4)))
        case 6:
            return b"%s %s %d%s\r\n" % (chance.choice([b"incr", b"decr"]), chance.choice([number, number, b"nosuch"]), chance.choice([0, 1, 7, 1 << 63]), quiet)
        case 7:
            return b"delete %s%s\r\n" % (key, quiet)
        case 8:
            return b"touch %s %d%s\r\n" % (key, chance.choice([0, 100, -1]), quiet)
        case 9:
            return b"gat %d %s\r\n" % (chance.choice([0, 100, -1]), key)
        case 10:
            return chance.choice([b"get\r\n", b"set a 0 0 x\r\n", b"incr a x\r\n", b"bogus\r\n", b"delete a 5\r\n", b"touch a\r\n", b"set a 0 0 1\r\nabc\r\n"])
        case _:
            return chance.choice([b"verbosity 1\r\n", b"flush_all\r\n"]) if chance.random() < 0.2 else b"cas %s 0 0 1 0\r\nx\r\n" % key


def meta_request(chance: random.Random) -> bytes:
    key = chance.choice(KEYS)

    def flags(letters: str, most: int = 5) -> bytes:
        words = []
        for letter in chance.sample(letters, chance.randrange(min(most, len(letters)) + 1)):
            match letter:
                case "T" | "N":
                    words.append(f"{letter}{chance.choice([0, 30, 100, 5000])}")
                case "R":
                    # Far apart, because the segment engine rounds TTLs down, here by up to twice 8 and 128 seconds.
                    words.append(f"{letter}{chance.choice([0, 10, 50, 1000])}")
                case "F" | "D" | "J":
                    words.append(f"{letter}{chance.choice([0, 1, 7, 1000])}")
                case "C":
                    words.append("C999999")
                case "O":
                    words.append("Oabc")
                case _:
                    words.append(letter)
        return "".join(" " + word for word in words).encode()

    data = value(chance)
    match chance.randrange(9):
        case 8:
            return b"mg %s%s\r\n" % (chance.choice(NUMBERS), flags("vfkOqst"))
        case 0 | 1 | 2:
            return b"mg %s%s\r\n" % (key, flags("vfkOqstchNRT"))
        case 3 | 4:
            mode = chance.choice([b"", b"", b" ME", b" MR", b" MA", b" MP", b" MS"])
            return b"ms %s %d%s%s\r\n%s\r\n" % (key, len(data), flags("kOqTFcIC"), mode, data)
        case 5:
            return b"md %s%s\r\n" % (key, flags("kOqITC"))
        case 6:
            return b"ma %s%s%s\r\n" % (chance.choice(NUMBERS), flags("NJDOqtcvkC", 6), chance.choice([b"", b" MD", b" MI"]))
        case _:
            return chance.choice([b"mg\r\n", b"mg a !\r\n", b"mg a v v\r\n", b"ms a x\r\n", b"ms a 1 MQ\r\nx\r\n", b"mg a Tx\r\n", b"ma a MX\r\n", b"me nosuch\r\n"])


ENGINES = {"slab": (), "segment": ("--engine", "segment")}


def compare(bench, request, seed: int, *options: str) -> None:
    with memcached() as peer, ours(bench, *options) as (_, port):
        if peer is None:
            print("     skipped: memcached is not installed")
            return
        chance = random.Random(seed)
        mine, theirs = Line(port), Line(peer)
        history = []
        for _ in range(ROUNDS):
            one = request(chance)
            history = [*history[-60:], one[:60]]
            wanted, answer = theirs.ask(one), mine.ask(one)
            assert NOISE.sub(b"", answer) == NOISE.sub(b"", wanted), f"{options} seed {seed}: {history}\nthere {theirs.ask(ALL)}\nwanted {wanted}\n   got {answer}"


def test_text_commands_get_the_replies_of_memcached(bench):
    if not bench.is_redis:
        for options in ENGINES.values():
            for seed in (1, 2):
                compare(bench, text_request, seed, *options)


def test_meta_commands_get_the_replies_of_memcached(bench):
    if not bench.is_redis:
        for options in ENGINES.values():
            for seed in (1, 2):
                compare(bench, meta_request, seed, *options)


def test_memcached_and_redis_clients_share_the_keys(bench):
    if bench.is_redis:
        return
    with ours(bench) as (server, port), server.client() as r:
        line = Line(port)
        assert line.ask(b"set k 7 100 5\r\nhello\r\n") == b"STORED\r\n"
        assert r.get("k") in ("hello", b"hello") and 0 < r.ttl("k") <= 100 and r.strlen("k") == 5
        r.set("plain", "42")
        assert line.ask(b"get plain\r\n") == b"VALUE plain 0 2\r\n42\r\nEND\r\n"
        assert line.ask(b"incr plain 1\r\n") == b"43\r\n" and r.incr("plain") == 44
        before = line.ask(b"gets plain\r\n").split()[4]
        r.set("plain", "43")
        assert line.ask(b"cas plain 0 0 1 %s\r\nx\r\n" % before) == b"EXISTS\r\n"
        r.append("k", "!")
        assert line.ask(b"get k\r\n").startswith(b"VALUE k ")
        r.hset("h", "field", "value")
        assert line.ask(b"get h\r\n") == b"END\r\n"
        assert line.ask(b"append h 0 0 1\r\nx\r\n").startswith(b"SERVER_ERROR") and r.hget("h", "field") in ("value", b"value")
        assert line.ask(b"flush_all\r\n") == b"OK\r\n" and r.dbsize() == 0


def test_memcached_large_values_and_stats(bench):
    if not bench.is_redis:
        for options in ENGINES.values():
            large_values_and_stats(bench, *options)


def large_values_and_stats(bench, *options: str) -> None:
    with ours(bench, "--memcached-item-max", "100kb", *options) as (_, port):
        line = Line(port)
        data = random.Random(3).randbytes(100 << 10)
        assert line.ask(b"set big 0 0 %d\r\n%s\r\n" % (len(data), data)) == b"STORED\r\n"
        assert line.ask(b"get big\r\n") == b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(data), data)
        refused = line.ask(b"set big 0 0 %d\r\n%sx\r\n" % (len(data) + 1, data))
        assert refused == b"SERVER_ERROR object too large for cache\r\n"
        assert line.ask(b"get big\r\n") == b"END\r\n"
        stats = dict(row.split(b" ", 2)[1:] for row in line.ask(b"stats\r\n").splitlines()[:-1])
        assert stats[b"get_hits"] == b"1" and stats[b"get_misses"] == b"1" and stats[b"curr_items"] == b"0"
        for what in (b"settings", b"items", b"slabs", b"sizes", b"conns"):
            assert line.ask(b"stats %s\r\n" % what).endswith(b"END\r\n")


def test_many_memcached_clients_in_deep_pipelines(bench):
    if not bench.is_redis:
        for options in ENGINES.values():
            deep_pipelines(bench, *options)


def deep_pipelines(bench, *options: str) -> None:
    with ours(bench, *options) as (_, port):
        lines = [Line(port) for _ in range(20)]
        for number, line in enumerate(lines):
            line.socket.sendall(b"".join(b"set %d:%d 0 0 3 noreply\r\nabc\r\n" % (number, i) for i in range(500)))
        for number, line in enumerate(lines):
            got = line.ask(*(b"get %d:%d\r\n" % (number, i) for i in range(500)))
            assert got == b"".join(b"VALUE %d:%d 0 3\r\nabc\r\nEND\r\n" % (number, i) for i in range(500))
