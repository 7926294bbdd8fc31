"""memcached's protocol, compared with memcached itself, request by request."""

import contextlib
import random
import re
import socket
import struct
import subprocess
import tempfile
import time

import pytest
from server import free_port

pytestmark = pytest.mark.only_mayfly

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
    """memcached on a free port."""
    port = free_port()
    process = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(port), "-u", "nobody", "-U", "0"])
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
            life = chance.choice([b"0", b"0", b"100", b"-1", b"2000000000", b"2592001", b"4294967295", b"2147483648", b"4294967396"])
            return b"%s %s %d %s %d%s\r\n%s\r\n" % (verb, key, chance.randrange(99), life, len(data), quiet, data)
        case 3 | 4 | 5:
            return b"get %s\r\n" % b" ".join(chance.sample(KEYS + NUMBERS, chance.randrange(1, 4)))
        case 6:
            return b"%s %s %d%s\r\n" % (chance.choice([b"incr", b"decr"]), chance.choice([number, number, b"nosuch"]), chance.choice([0, 1, 7, 1 << 63]), quiet)
        case 7:
            return b"delete %s%s\r\n" % (key, quiet)
        case 8:
            return b"touch %s %d%s\r\n" % (key, chance.choice([0, 100, -1, 4294967295]), quiet)
        case 9:
            return b"gat %d %s\r\n" % (chance.choice([0, 100, -1, 4294967295]), key)
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
            return b"mg %s%s\r\n" % (key, flags("vfkOqstchNRTuJF"))
        case 3 | 4:
            mode = chance.choice([b"", b"", b" ME", b" MR", b" MA", b" MP", b" MS"])
            return b"ms %s %d%s%s\r\n%s\r\n" % (key, len(data), flags("kOqTFcIC"), mode, data)
        case 5:
            return b"md %s%s\r\n" % (key, flags("kOqITCsvfh"))
        case 6:
            return b"ma %s%s%s\r\n" % (chance.choice(NUMBERS), flags("NJDOqtcvkC", 6), chance.choice([b"", b" MD", b" MI"]))
        case _:
            return chance.choice([b"mg\r\n", b"mg a !\r\n", b"mg a v v\r\n", b"ms a x\r\n", b"ms a 1 MQ\r\nx\r\n", b"mg a Tx\r\n", b"ma a MX\r\n", b"me nosuch\r\n"])


HEADER = struct.Struct(">BBHBBHIIQ")
LAST = 0x7FFFFFFF


def packet(opcode: int, key: bytes = b"", data: bytes = b"", extras: bytes = b"", cas: int = 0, opaque: int = 7) -> bytes:
    body = extras + key + data
    return HEADER.pack(0x80, opcode, len(key), len(extras), 0, 0, len(body), opaque, cas) + body


class Packets:
    """A connection in the binary protocol that sends packets and reads the replies up to that of a final `noop`."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.stream = self.socket.makefile("rb")

    def ask(self, *packets: bytes) -> list[tuple]:
        self.socket.sendall(b"".join(packets) + packet(0x0A, opaque=LAST))
        replies = []
        while True:
            head = self.stream.read(HEADER.size)
            if len(head) < HEADER.size:
                return [*replies, "closed"]
            magic, opcode, key, extras, _, status, body, opaque, cas = HEADER.unpack(head)
            data = self.stream.read(body)
            if opaque == LAST:
                return replies
            replies.append((magic, opcode, status, opaque, data[:extras], data[extras : extras + key], data[extras + key :], cas))

    def cas(self, key: bytes) -> int:
        replies = self.ask(packet(0x09, key))
        return replies[0][-1] if replies else 0


def binary_request(chance: random.Random):
    """Key, and a function from its cas number to a packet."""
    key, number = chance.choice(KEYS), chance.choice(NUMBERS)
    quiet = chance.random() < 0.3
    data = value(chance)
    names_cas = chance.choice([lambda now: 0, lambda now: 0, lambda now: now, lambda now: 999_999_999])
    # 0xFFFFFFFF is -1 for clients and for us, and the year 2106 for memcached.
    life = struct.pack(">I", chance.choice([0, 0, 100, 0xFFFFFFFE, 0x80000000, 2_000_000_000, 2_592_001]))
    match chance.randrange(10):
        case 0 | 1 | 2:
            opcode = chance.choice([0x01, 0x02, 0x03]) + 0x10 * quiet
            extras = struct.pack(">I", chance.randrange(99)) + life
            return key, lambda now: packet(opcode, key, data, extras, names_cas(now))
        case 3:
            opcode = chance.choice([0x0E, 0x0F]) + 0x0B * quiet
            return key, lambda now: packet(opcode, key, data, cas=names_cas(now))
        case 4 | 5:
            opcode = chance.choice([0x00, 0x09, 0x0C, 0x0D])
            return key, lambda now: packet(opcode, key)
        case 6:
            opcode = chance.choice([0x05, 0x06]) + 0x10 * quiet
            delta = chance.choice([0, 1, 7, 1 << 63])
            life = struct.pack(">I", chance.choice([0, 100, 0xFFFFFFFF]))
            extras = struct.pack(">QQ", delta, chance.choice([0, 5, 1 << 63])) + life
            return number, lambda now: packet(opcode, number, extras=extras, cas=names_cas(now))
        case 7:
            opcode = 0x04 + 0x10 * quiet
            return key, lambda now: packet(opcode, key, cas=names_cas(now))
        case 8:
            opcode = chance.choice([0x1C, 0x1D, 0x1E, 0x23, 0x24])
            return key, lambda now: packet(opcode, key, extras=life)
        case _:
            odd = [packet(0x0B), packet(0x25), packet(0x20), packet(0x10, b"nosuch"), packet(0x00, b"k" * 250)]
            return key, lambda now, one=chance.choice(odd): one


def binary_differs(mine: list[tuple], theirs: list[tuple]) -> bool:
    """Whether replies differ in more than the cas numbers, of which both are 0 or neither is, and in the version."""
    if len(mine) != len(theirs):
        return True
    return any(a != b and a[1] != 0x0B and (a[:-1] != b[:-1] or (a[-1] == 0) != (b[-1] == 0)) for a, b in zip(mine, theirs))


ENGINES = {"slab": (), "segment": ("--engine", "segment")}


def compare(bench, request, seed: int, *options: str) -> None:
    with memcached() as peer, ours(bench, *options) as (_, port):
        chance = random.Random(seed)
        mine, theirs = Line(port), Line(peer)
        history = []
        for _ in range(ROUNDS):
            one = request(chance)
            history = [*history[-60:], one[:60]]
            wanted, answer = theirs.ask(one), mine.ask(one)
            assert NOISE.sub(b"", answer) == NOISE.sub(b"", wanted), f"{options} seed {seed}: {history}\nthere {theirs.ask(ALL)}\nwanted {wanted}\n   got {answer}"


@pytest.mark.needs("memcached")
def test_text_commands_get_the_replies_of_memcached(bench):
    for options in ENGINES.values():
        for seed in (1, 2):
            compare(bench, text_request, seed, *options)


@pytest.mark.needs("memcached")
def test_meta_commands_get_the_replies_of_memcached(bench):
    for options in ENGINES.values():
        for seed in (1, 2):
            compare(bench, meta_request, seed, *options)


@pytest.mark.needs("memcached")
def test_binary_packets_get_the_replies_of_memcached(bench):
    for engine, options in ENGINES.items():
        with memcached() as peer, ours(bench, *options) as (_, port):
            chance = random.Random(5)
            mine, theirs = Packets(port), Packets(peer)
            history = []
            for _ in range(ROUNDS):
                key, make = binary_request(chance)
                here, there = make(mine.cas(key)), make(theirs.cas(key))
                history = [*history[-40:], here[:60]]
                got, wanted = mine.ask(here), theirs.ask(there)
                # Items that are stored expired have no number on the segment engine.
                if engine == "segment":
                    got, wanted = ([(*row[:-1], 0) for row in rows if rows != "closed"] for rows in (got, wanted))
                assert not binary_differs(got, wanted), f"{engine}: {history}\nwanted {wanted}\n   got {got}"


@pytest.mark.needs("memcached")
def test_bad_binary_packets_are_refused_as_by_memcached(bench):
    bad = [
        packet(0x00, b"k" * 251),
        packet(0x00, b"k", extras=b"1234"),
        packet(0x00),
        packet(0x01, b"k", b"v", b"1234"),
        packet(0x01, b"", b"v", b"12345678"),
        packet(0x0B, b"x"),
        packet(0x08, extras=b"12"),
        packet(0x05, b"n", extras=b"1" * 19),
        HEADER.pack(0x80, 0x01, 9, 8, 0, 0, 10, 7, 0) + b"x" * 10,
        packet(0x0A) + b"get k\r\n" + b" " * 30,
        packet(0x07),
        packet(0x17),
    ]
    with memcached() as peer, ours(bench) as (_, port):
        for one in bad:
            got = Packets(port).ask(one)
            assert got[-1] == "closed", (one, got)
            wanted = Packets(peer).ask(one)
            assert got == wanted, f"{one}\nwanted {wanted}\n   got {got}"
        # A body of 4 GiB is announced and never sent: only its key is kept.
        line = Packets(port)
        line.socket.sendall(HEADER.pack(0x80, 0x01, 1, 8, 0, 0, 0xFFFFFFFF, 7, 0) + b"12345678k" + b"x" * 100)
        head = HEADER.unpack(line.stream.read(HEADER.size))
        assert (head[1], head[5]) == (0x01, 0x03), head


def test_clients_authenticate_in_the_binary_protocol(bench):
    with ours(bench, "--requirepass", "secret") as (_, port):
        assert Line(port).ask(b"get k\r\n").startswith(b"CLIENT_ERROR unauthenticated")
        assert Packets(port).ask(packet(0x00, b"k"))[0][2] == 0x20
        # The `noop` that ends a request is refused, too.
        assert Packets(port).ask(packet(0x20))[0][6] == b"PLAIN"
        assert Packets(port).ask(packet(0x21, b"PLAIN", b"\0default\0wrong"))[0][2] == 0x20
        known = Packets(port)
        assert known.ask(packet(0x21, b"PLAIN", b"\0default\0secret"), packet(0x00, b"k"))[1][2] == 1
        # A value is not read from a client that is not authenticated. Its rest may reset the connection.
        with contextlib.suppress(ConnectionError):
            assert Packets(port).ask(packet(0x01, b"k", b"x" * 100_000, b"12345678"))[-1] == "closed"
        assert known.ask(packet(0x00, b"k"))[0][2] == 1


def test_a_get_line_of_a_megabyte_and_a_reply_that_is_not_read(bench):
    for options in ENGINES.values():
        with ours(bench, *options) as (_, port):
            line = Line(port)
            data = b"x" * 1_000_000
            assert line.ask(b"set v 0 0 %d\r\n%s\r\n" % (len(data), data)) == b"STORED\r\n"
            assert line.ask(b"get %s v\r\n" % b" ".join(b"none%d" % n for n in range(110_000))).startswith(b"VALUE v 0")
            # A terabyte of replies, of which the client reads nothing.
            slow = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
            slow.sendall(b"get" + b" v" * 60_000)
            assert line.ask(b"set k 0 0 1\r\n1\r\n") == b"STORED\r\n"
            part = b"VALUE v 0 %d\r\n%s\r\n" % (len(data), data)
            read = b""
            while len(read) < 5 * len(part):
                read += slow.recv(1 << 20)
            assert read[: 5 * len(part)] == 5 * part
            assert line.ask(b"get k\r\n") == b"VALUE k 0 1\r\n1\r\nEND\r\n"


def test_an_http_request_closes_the_connection_of_memcached(bench):
    with ours(bench) as (_, port):
        for first in (b"GET / HTTP/1.1", b"POST / HTTP/1.1", b"POST /"):
            assert Line(port).ask(first + b"\r\n\r\nset smuggled 0 0 1\r\nx\r\n") == b"<closed>"
        assert Line(port).ask(b"get smuggled\r\n") == b"END\r\n"


@pytest.mark.needs("memcached")
def test_a_line_without_end_closes_the_connection_without_a_reply(bench):
    endless = [b"incr k " + b" " * 2048 + b"k 1", b" " * 4096, b"x" * 2049]
    with memcached() as peer, ours(bench) as (_, port):
        for one in endless:
            for there in (peer, port):
                line = socket.create_connection(("127.0.0.1", there), timeout=LIMIT_S)
                line.sendall(one)
                # Bytes that were not read may reset the connection.
                with contextlib.suppress(ConnectionError):
                    assert line.recv(1 << 16) == b"", (there == port, one)


def test_memcached_and_redis_clients_share_the_keys(bench):
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


@pytest.mark.parametrize("engine", ENGINES)
def test_memcached_large_values_and_stats(bench, engine):
    with ours(bench, "--memcached-item-max", "100kb", *ENGINES[engine]) as (_, port):
        line = Line(port)
        data = random.Random(3).randbytes(100 << 10)
        assert line.ask(b"set big 0 0 %d\r\n%s\r\n" % (len(data), data)) == b"STORED\r\n"
        assert line.ask(b"get big\r\n") == b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (len(data), data)
        refused = line.ask(b"set big 0 0 %d\r\n%sx\r\n" % (len(data) + 1, data))
        assert refused == b"SERVER_ERROR object too large for cache\r\n"
        assert line.ask(b"get big\r\n") == b"END\r\n"
        stats = dict(row.split(b" ", 2)[1:] for row in line.ask(b"stats\r\n").splitlines()[:-1])
        assert stats[b"get_hits"] == b"1" and stats[b"get_misses"] == b"1" and stats[b"curr_items"] == b"0"
        for what in (b"settings", b"items", b"slabs", b"sizes"):
            assert line.ask(b"stats %s\r\n" % what).endswith(b"END\r\n")
        other = Line(port)
        other.socket.sendall(b"set k 0 0 5\r\nab")
        states, end = b"", time.monotonic() + LIMIT_S
        while b":state conn_nread\r\n" not in states:
            assert time.monotonic() < end, states
            states = line.ask(b"stats conns\r\n")
        assert states.count(b":state conn_parse_cmd\r\n") == 1 and states.endswith(b"END\r\n"), states


def test_stats_name_the_path_of_a_local_socket(bench):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/socket"
        with ours(bench, "--memcached-unixsocket", path), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(LIMIT_S)
            line.connect(path)
            line.sendall(b"stats conns\r\n")
            answer = b""
            while not answer.endswith(b"END\r\n"):
                answer += line.recv(1 << 16)
        for row in ("addr", "listen_addr"):
            assert b":%s unix:%s\r\n" % (row.encode(), path.encode()) in answer, answer


@pytest.mark.parametrize("engine", ENGINES)
def test_many_memcached_clients_in_deep_pipelines(bench, engine):
    with ours(bench, *ENGINES[engine]) as (_, port):
        lines = [Line(port) for _ in range(20)]
        for number, line in enumerate(lines):
            line.socket.sendall(b"".join(b"set %d:%d 0 0 3 noreply\r\nabc\r\n" % (number, i) for i in range(500)))
        for number, line in enumerate(lines):
            got = line.ask(*(b"get %d:%d\r\n" % (number, i) for i in range(500)))
            assert got == b"".join(b"VALUE %d:%d 0 3\r\nabc\r\nEND\r\n" % (number, i) for i in range(500))
