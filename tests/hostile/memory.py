"""Memory: replies, clients and data stay within their bounds, under a limit on the address space."""

import re
import threading
import time
from pathlib import Path

import pytest
from harness import MIB, Bench, Connection, Refusal, Server, becomes, encoded, mb, send_what_is_taken

# One 1 MB value; the segment engine's largest value is a little smaller.
VALUE = b"x" * 1_000_000
# Peak of resident memory with `maxmemory 100mb` and an output limit of 64 MB.
PEAK_BYTES = 300 * 10**6
LIMITED = ("--maxmemory", "100mb", "--client-output-buffer-limit", "normal 67108864 0 0")
# With these settings resident memory stays below the sum of both and of REST_BYTES.
MAXMEMORY_BYTES, CLIENTS_BYTES, REST_BYTES = 100 * MIB, 64 * MIB, 64 * MIB
COUNTED = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--maxmemory-clients", "64mb")


def is_served(other: Connection) -> None:
    """Another client gets its replies, at the latest after the socket's limit."""
    assert other.must("GET", "other") == b"1"


def start_with_other(bench: Bench, *options: str, **limits) -> tuple[Server, Connection]:
    server = bench.start(*options, **limits)
    other = server.connect()
    other.must("SET", "other", "1")
    return server, other


def bomb(bench: Bench, request: bytes, prepare, *, is_cut_off: bool = True, is_memcached: bool = False) -> None:
    """One request whose reply is larger than memory, by a client that does not read it."""
    policy = ("--maxmemory-policy", "allkeys-lru") if bench.engine == "slab" else ()
    server, other = start_with_other(bench, *LIMITED, *policy)
    with server, other:
        prepare(other)
        used = int(server.info()["used_memory"])
        with server.memcached() if is_memcached else server.connect() as attacker:
            send_what_is_taken(attacker, request)
            cut_off = lambda: int(server.info()["client_output_buffer_limit_disconnections"]) > 0
            end = time.monotonic() + 15
            is_settled = False
            while time.monotonic() < end and not is_settled:
                server.assert_running()
                is_served(other)
                is_settled = cut_off() if is_cut_off else is_steady(server)
            peak = server.peak()
            bench.note("peak resident memory", mb(peak), f"{mb(PEAK_BYTES)} (asserted)")
            assert peak <= PEAK_BYTES, f"peak of resident memory: {mb(peak)}"
            assert is_settled, "the client was not cut off at its output limit of 64 MB"
            if is_cut_off:
                assert re.search("output", server.log_text()), f"no line about the client in the log: {server.log_text()[-300:]}"
        assert becomes(lambda: int(server.info()["used_memory"]) < used + 4 * MIB), f"used_memory stays at {server.info()['used_memory']} after {used}"
        is_served(other)


def is_steady(server: Server) -> bool:
    """Whether resident memory stays the same for a second."""
    size = server.resident()
    time.sleep(1)
    return abs(server.resident() - size) < MIB


def set_value(client: Connection) -> None:
    client.must("SET", "v", VALUE)


@pytest.mark.engines("slab", "segment")
@pytest.mark.only_mayfly
def test_mget_of_5000_large_values(bench):
    """MGET of a 1 MB value 5,000 times cuts off the client, not the server."""
    bomb(bench, encoded("MGET", *["v"] * 5000), set_value)


@pytest.mark.engines("slab", "segment")
@pytest.mark.only_mayfly
def test_memcached_get_of_5000_large_values(bench):
    """memcached's `get v v v …` of a 1 MB value 5,000 times stays within memory."""
    bomb(bench, b"get" + b" v" * 5000 + b"\r\n", set_value, is_cut_off=False, is_memcached=True)


@pytest.mark.engines("slab", "segment")
@pytest.mark.only_mayfly
def test_memcached_quiet_gets_of_5000_large_values(bench):
    """5,000 pipelined quiet gets of a 1 MB value in memcached's binary protocol stay within memory."""
    # The request `getkq` with the key `v`: a header of 24 bytes and the key.
    quiet_get = b"\x80\x0d\x00\x01" + bytes(4) + b"\x00\x00\x00\x01" + bytes(12) + b"v"
    bomb(bench, quiet_get * 5000, set_value, is_cut_off=False, is_memcached=True)


@pytest.mark.only_mayfly
def test_exec_of_4000_large_gets(bench):
    """EXEC of 4,000 GETs of a 1 MB value cuts off the client during the transaction."""
    bomb(bench, encoded("MULTI") + encoded("GET", "v") * 4000 + encoded("EXEC"), set_value)


@pytest.mark.only_mayfly
def test_hrandfield_with_a_count_of_16_million(bench):
    """HRANDFIELD with a count of −16,777,216 and values of 5 KB cuts off the client."""
    bomb(bench, encoded("HRANDFIELD", "h", "-16777216", "WITHVALUES"), lambda client: client.must("HSET", "h", "f", b"x" * 5000))


@pytest.mark.only_mayfly
def test_srandmember_with_a_count_of_16_million(bench):
    """SRANDMEMBER and ZRANDMEMBER with large negative counts cut off the client."""
    for name, make in (("SRANDMEMBER", ("SADD", "k", b"x" * 5000)), ("ZRANDMEMBER", ("ZADD", "k", "1", b"x" * 5000))):
        bomb(bench, encoded(name, "k", "-16777216"), lambda client, make=make: client.must(*make))


@pytest.mark.only_mayfly
def test_sort_with_60000_patterns(bench):
    """SORT_RO of 60,000 elements with 60,000 times `GET #` cuts off the client."""

    def prepare(client: Connection) -> None:
        for start in range(0, 60_000, 2000):
            client.must("RPUSH", "l", *range(start, start + 2000))

    bomb(bench, encoded("SORT_RO", "l", *["GET", "#"] * 60_000), prepare)


def fill_collections(client: Connection, count: int, size: int) -> None:
    """A list, a set, a hash, a sorted set, each with `count` elements of `size` bytes."""
    for start in range(0, count, 500):
        names = [b"%08d" % index + b"m" * (size - 8) for index in range(start, min(count, start + 500))]
        client.must("RPUSH", "list", *names)
        client.must("SADD", "set", *names)
        client.must("HSET", "hash", *[word for index, name in enumerate(names) for word in (b"%d" % (start + index), name)])
        client.must("ZADD", "zset", *[word for index, name in enumerate(names) for word in (b"%d" % (start + index), name)])


READS = [
    ("LRANGE", "list", "0", "-1"), ("SORT_RO", "list", "ALPHA"), ("LPOS", "list", "x", "COUNT", "0"), ("SMEMBERS", "set"), ("SUNION", "set", "none"),
    ("SINTER", "set", "set"), ("SDIFF", "set", "none"), ("SRANDMEMBER", "set", "-8000"), ("SRANDMEMBER", "set", "7999"), ("SSCAN", "set", "0", "COUNT", "100000"),
    ("HGETALL", "hash"), ("HVALS", "hash"), ("HSCAN", "hash", "0", "COUNT", "100000"), ("HRANDFIELD", "hash", "-8000", "WITHVALUES"),
    ("HMGET", "hash", *range(8000)), ("ZRANGE", "zset", "0", "-1"), ("ZRANGE", "zset", "0", "-1", "WITHSCORES"), ("ZREVRANGE", "zset", "0", "-1"),
    ("ZRANGEBYSCORE", "zset", "-inf", "+inf"), ("ZRANGEBYLEX", "zset", "-", "+"), ("ZUNION", "1", "zset"), ("ZINTER", "2", "zset", "zset"),
    ("ZDIFF", "1", "zset"), ("ZMSCORE", "zset", *[b"%08d" % index + b"m" * 992 for index in range(4000)]), ("ZRANDMEMBER", "zset", "-8000"),
    ("ZSCAN", "zset", "0", "COUNT", "100000"), ("DUMP", "list"), ("MGET", *["text"] * 8), ("GETRANGE", "text", "0", "-1"), ("LCS", "text", "text"),
]


@pytest.mark.only_mayfly
def test_output_limit_holds_during_each_command(bench):
    """The output limit of 4 MB cuts off a client during EXEC of eight commands whose replies have 8 MB each."""
    # LCS compares all bytes with all bytes, and names and scores in ZMSCORE are short replies: neither exceeds a limit.
    long = [words for words in READS if words[0] not in ("LCS", "ZMSCORE", "LPOS", "GETRANGE", "DUMP")]
    server, other = start_with_other(bench, "--maxmemory", "100mb", "--client-output-buffer-limit", "normal 4194304 0 0")
    problems = []
    with server, other:
        with server.connect() as client:
            fill_collections(client, 8000, 1000)
            client.must("SET", "text", b"t" * MIB)
        base, largest = server.resident(), 0
        for words in long:
            cut_off = int(server.info()["client_output_buffer_limit_disconnections"])
            server.forget_peak()
            before = server.resident()
            with server.connect() as attacker:
                send_what_is_taken(attacker, encoded("MULTI") + encoded(*words) * 8 + encoded("EXEC"))
                if not becomes(lambda: int(server.info()["client_output_buffer_limit_disconnections"]) > cut_off, 5):
                    problems.append(f"{words[0]} is not cut off")
            growth = server.peak() - before
            largest = max(largest, growth)
            # One result of 8 MB is built in memory by set operations; eight are not.
            if growth > 32 * MIB:
                problems.append(f"{words[0]} grows by {mb(growth)}")
            is_served(other)
        bench.note("largest growth of resident memory by one transaction", mb(largest), f"{mb(32 * MIB)} (asserted)")
        assert not problems, "; ".join(problems)
        assert becomes(lambda: server.resident() < base + 32 * MIB), f"resident memory stays at {mb(server.resident())} after {mb(base)}"


def crowd(bench: Bench, server: Server, attackers: list[Connection], act) -> None:
    """Many clients that use memory together; their sum is bounded and small clients are served."""
    with server.connect() as other:
        other.must("SET", "other", "1")
        threads = [threading.Thread(target=act, args=(one, index), daemon=True) for index, one in enumerate(attackers)]
        for thread in threads:
            thread.start()
        peak = 0
        while any(thread.is_alive() for thread in threads):
            server.assert_running()
            is_served(other)
            peak = max(peak, server.resident())
            time.sleep(0.02)
        time.sleep(0.5)
        is_served(other)
        peak = max(server.peak(), peak)
        bound = MAXMEMORY_BYTES + CLIENTS_BYTES + REST_BYTES
        bench.note("peak resident memory", mb(peak), f"{mb(bound)} (asserted)")
        assert peak <= bound, f"peak of resident memory: {mb(peak)}, bound: {mb(bound)}"
        for one in attackers:
            one.close()
        assert becomes(lambda: int(server.info()["connected_clients"]) <= 3)
        is_served(other)


@pytest.mark.only_mayfly
def test_sixty_slow_readers(bench):
    """60 clients that request a 10 MB value again and again and do not read stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        with server.connect() as client:
            client.must("SET", "v", b"x" * 10_000_000)
        attackers = [server.connect() for _ in range(60)]
        crowd(bench, server, attackers, lambda one, _: send_what_is_taken(one, encoded("GET", "v") * 20))


@pytest.mark.only_mayfly
def test_sixty_slow_readers_of_lists(bench):
    """60 clients that request a list of 10 MB and do not read stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        with server.connect() as client:
            fill_collections(client, 10_000, 1000)
        attackers = [server.connect() for _ in range(60)]
        crowd(bench, server, attackers, lambda one, _: send_what_is_taken(one, encoded("LRANGE", "list", "0", "-1") * 20))


@pytest.mark.only_mayfly
def test_eight_unfinished_arguments_of_200_mb(bench):
    """Eight clients that each send 200 MB of an argument without its end stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        attackers = [server.connect() for _ in range(8)]
        data = b"*2\r\n$3\r\nGET\r\n$400000000\r\n" + b"x" * bench.size(100_000_000, 200_000_000)
        crowd(bench, server, attackers, lambda one, _: send_what_is_taken(one, data, 15))


def of_large_names(*head: str):
    def act(one: Connection, index: int) -> None:
        names = [b"%d-%d-" % (index, number) + b"n" * 100_000 for number in range(100)]
        send_what_is_taken(one, encoded(*head, *names))

    return act


@pytest.mark.only_mayfly
def test_channels_with_names_of_100_kb(bench):
    """40 clients with 100 channels each, whose names have 100 KB, stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        crowd(bench, server, [server.connect() for _ in range(40)], of_large_names("SUBSCRIBE"))


@pytest.mark.only_mayfly
def test_patterns_with_names_of_100_kb(bench):
    """40 clients with 100 patterns each, which have 100 KB, stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        crowd(bench, server, [server.connect() for _ in range(40)], of_large_names("PSUBSCRIBE"))


@pytest.mark.only_mayfly
def test_watched_names_of_100_kb(bench):
    """40 clients that watch 100 keys each, whose names have 100 KB, stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        crowd(bench, server, [server.connect() for _ in range(40)], of_large_names("WATCH"))


@pytest.mark.only_mayfly
def test_queued_transactions_of_20_mb(bench):
    """40 clients that queue 20 MB each stay within maxmemory-clients."""
    with bench.start(*COUNTED) as server:
        request = encoded("MULTI") + encoded("SET", "k", b"q" * MIB) * 20
        crowd(bench, server, [server.connect() for _ in range(40)], lambda one, _: send_what_is_taken(one, request))


def client_fields(server: Server, name: str) -> dict[str, str]:
    """The line of CLIENT LIST about the client with this name."""
    with server.connect() as client:
        for line in client.must("CLIENT", "LIST").decode().splitlines():
            fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
            if fields.get("name") == name:
                return fields
    return {}


def test_client_list_counts_buffers(bench):
    """CLIENT LIST and INFO report buffers, pending replies, queued transactions and subscriptions as they are."""
    with bench.start() as server, server.connect() as client:
        fill_collections(client, 10_000, 1000)
        cases = {
            "half": (b"*2\r\n$3\r\nGET\r\n$40000000\r\n" + b"x" * 20_000_000, lambda f: int(f["qbuf"]) + int(f["qbuf-free"]) >= 19_000_000),
            "reader": (encoded("LRANGE", "list", "0", "-1") * 3, lambda f: int(f["omem"]) >= 2_000_000),
            "queue": (encoded("MULTI") + encoded("SET", "k", b"q" * MIB) * 10, lambda f: int(f.get("multi-mem", 0)) >= 10 * MIB),
            "channels": (encoded("SUBSCRIBE", *[b"%03d" % number + b"c" * 100_000 for number in range(100)]), lambda f: int(f["sub"]) == 100),
        }
        problems, opened = [], []
        for name, (request, is_counted) in cases.items():
            one = server.connect()
            opened.append(one)
            one.must("CLIENT", "SETNAME", name)
            before = int(client_fields(server, name)["tot-mem"])
            send_what_is_taken(one, request)
            if not becomes(lambda: is_counted(client_fields(server, name)), 3):
                problems.append(f"{name}: {client_fields(server, name)}")
            if name != "channels" and int(client_fields(server, name)["tot-mem"]) < before + 2_000_000:
                problems.append(f"{name}: tot-mem={client_fields(server, name)['tot-mem']}")
        clients = int(server.info()["mem_clients_normal"])
        if clients < 20_000_000:
            problems.append(f"mem_clients_normal:{clients}")
        for one in opened:
            one.close()
        assert not problems, "; ".join(problems)


def test_maxmemory_clients_evicts_the_largest(bench):
    """maxmemory-clients ends the largest client, counts it, and spares a client with NO-EVICT."""
    with bench.start("--maxmemory", "100mb") as server, server.connect() as client:
        client.must("CONFIG", "SET", "maxmemory-clients", "20%")
        assert client.must("CONFIG", "GET", "maxmemory-clients") == [b"maxmemory-clients", b"20%"]
        client.must("CONFIG", "SET", "maxmemory-clients", "20mb")
        large, small, spared = server.connect(), server.connect(), server.connect()
        spared.must("CLIENT", "NO-EVICT", "ON")
        for one, name, size in ((spared, "spared", 11_000_000), (small, "small", 2_000_000), (large, "large", 18_000_000)):
            one.must("CLIENT", "SETNAME", name)
            send_what_is_taken(one, b"*2\r\n$3\r\nGET\r\n$%d\r\n" % (size + 1000) + b"x" * size)
        assert large.is_closed(5), "the largest client is still connected"
        assert client_fields(server, "small"), "a small client was disconnected"
        assert client_fields(server, "spared"), "a client with NO-EVICT was disconnected"
        assert int(server.info()["evicted_clients"]) == 1, server.info()["evicted_clients"]
        for one in (large, small, spared):
            one.close()


def test_writes_are_refused_by_the_sum_with_clients(bench):
    """Data and buffers of clients together exceed maxmemory: writes are refused, or keys are evicted, until the client leaves."""
    with bench.start("--maxmemory", "64mb") as server, server.connect() as client:
        for number in range(52):
            client.must("SET", f"k{number}", VALUE)
        with server.connect() as attacker:
            send_what_is_taken(attacker, b"*2\r\n$3\r\nGET\r\n$60000000\r\n" + b"x" * 40_000_000)
            is_refused = lambda: isinstance(client.say("SET", "other", "1"), Refusal)
            assert becomes(is_refused, 3), "SET was not refused"
            client.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            assert becomes(lambda: not is_refused() and int(server.info()["evicted_keys"]) > 0, 3), "no key was evicted"
        client.must("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert becomes(lambda: not is_refused(), 5), "SET is refused after the client has left"


@pytest.mark.only_mayfly
def test_a_request_that_does_not_fit_keeps_most_keys(bench):
    """A request of 20 MB beside maxmemory 10mb evicts a quarter of the keys at most, and a value that does not fit evicts none."""
    large = b"x" * (20 * MIB)
    growth = (
        ("SETRANGE", "grown", str(20 * MIB), "x"),
        ("SETBIT", "grown", str(8 * 20 * MIB), "1"),
        ("EVAL", "return redis.call('SET', KEYS[1], string.rep('x', 20000000))", "1", "grown"),
    )
    with bench.start("--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru") as server, server.connect() as client:
        for number in range(8000):
            client.must("SET", f"k{number}", b"v" * 1000)
        full = client.must("DBSIZE")
        for words in growth:
            assert isinstance(client.say(*words), Refusal), f"{words[0]} was not refused"
            assert client.must("DBSIZE") == full, f"{words[0]} evicted keys"
        assert client.must("GET", large) is None
        assert isinstance(client.say("SET", "large", large), Refusal), "SET was not refused"
        assert isinstance(client.say("HSET", "large", "f", large), Refusal), "HSET was not refused"
        left = client.must("DBSIZE")
        bench.note("keys left", f"{left} of {full}", "70 % (asserted)")
        assert left > 0.7 * full


@pytest.mark.only_mayfly
def test_subscriptions_are_refused_above_maxmemory(bench):
    """Names that the server would keep for a client are refused when data and clients exceed maxmemory; writes go on when the client leaves."""
    for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH"):
        with bench.start("--maxmemory", "5mb") as server, server.connect() as client, server.connect() as attacker:
            replies = [attacker.say(command, b"%d-" % number + b"n" * 100_000) for number in range(100)]
            refused = [reply for reply in replies if isinstance(reply, Refusal) and "OOM" in str(reply)]
            assert len(refused) > 20, f"{command}: {len(refused)} of 100 were refused"
            attacker.close()
            assert becomes(lambda: not isinstance(client.say("SET", "k", "v"), Refusal), 5)


@pytest.mark.only_mayfly
def test_failed_allocation_is_an_error_to_the_client(bench):
    """A value, argument or reply for which there is no address space fails for its client; the server goes on."""
    requests = {
        "SETRANGE": encoded("SETRANGE", "k", "500000000", "x"),
        "SETBIT": encoded("SETBIT", "k", "4294967295", "1"),
        "an argument": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n" + b"x" * 500_000_000 + b"\r\n",
        "MGET": encoded("MGET", *["v"] * 2000),
        "EXEC": encoded("MULTI") + encoded("GET", "v") * 2000 + encoded("EXEC"),
        "BITOP": encoded("BITOP", "NOT", "k", "large") * 4 + encoded("BITOP", "OR", "k2", "large", "k") + encoded("BITOP", "OR", "k3", "large", "k"),
        "COPY": b"".join(encoded("COPY", "large", f"copy{number}") for number in range(10)),
        "APPEND": encoded("APPEND", "v", VALUE) * 500,
    }
    problems = []
    for name, request in requests.items():
        # Stacks and the allocator's arenas of nine threads take 700 MB of addresses, nearly none of it memory.
        server, other = start_with_other(bench, address_space=1000 * MIB)
        with server, other:
            set_value(other)
            if name in ("BITOP", "COPY"):
                other.must("SETRANGE", "large", 100_000_000, "x")
            with server.connect() as attacker:
                send_what_is_taken(attacker, request, 10)
                try:
                    for _ in range(25):
                        is_served(other)
                        time.sleep(0.04)
                except (OSError, AssertionError):
                    server.process.wait(5)
            if not server.is_running():
                problems.append(f"{name}: exit code {server.process.returncode}, {server.log_text().strip().splitlines()[-1][:100]}")
    assert not problems, "; ".join(problems)


@pytest.mark.only_mayfly
def test_limits_of_32_bit_offsets_are_checked(bench):
    """A query buffer above 4 GiB, which 32-bit offsets cannot address, is refused or has no effect on transactions."""
    with bench.start() as server, server.connect() as client:
        reply = client.say("CONFIG", "SET", "client-query-buffer-limit", "16gb")
        kept = int(client.must("CONFIG", "GET", "client-query-buffer-limit")[1])
        assert isinstance(reply, Refusal) and kept <= 4 << 30, f"{reply}, limit {kept}"


def policies(bench: Bench) -> list[str]:
    page = (Path(__file__).parents[2] / "docs/reference/policies.md").read_text()
    names = [f"{scope}-{name}" for name in sorted(set(re.findall(r"^\| `allkeys-([^`]+)` \|", page, re.MULTILINE))) for scope in ("allkeys", "volatile")]
    return ["noeviction", "volatile-ttl", *names] if bench.is_full else ["noeviction", "volatile-ttl", *names[:: len(names) // 8]]


@pytest.mark.only_mayfly
def test_used_memory_rests_below_maxmemory(bench):
    """used_memory rests at or below maxmemory after a fill with mixed sizes, for each policy."""
    limit, problems = 16 * MIB, []
    with bench.start("--maxmemory", str(limit)) as server, server.connect() as client:
        for policy in policies(bench):
            client.must("FLUSHALL")
            if isinstance(client.say("CONFIG", "SET", "maxmemory-policy", policy), Refusal):
                continue
            sizes = (10, 100, 1000, 10_000, 100_000)
            commands = [("SET", f"key:{number}", b"v" * sizes[number % 5 if number % 3 else 1], "PX", "10000000") for number in range(6000)]
            for start in range(0, len(commands), 500):
                client.say_all(commands[start : start + 500])
            used = lambda: int(client_info(client, "memory")["used_memory"])
            # Without eviction the last write that is accepted may exceed the limit.
            bound = limit + (MIB // 8 if policy == "noeviction" else 0)
            if not becomes(lambda: used() <= bound, 2):
                problems.append(f"{policy}: {used()} of {limit}")
    assert not problems, "; ".join(problems)


def client_info(client: Connection, section: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in client.must("INFO", section).decode().split("\r\n") if ":" in line)


@pytest.mark.engines("segment")
@pytest.mark.only_mayfly
def test_used_memory_of_segments_rests_below_maxmemory(bench):
    """used_memory rests at or below maxmemory after a fill with mixed sizes, for each way to choose segments."""
    problems = []
    ways = ("rent", "merge", "fifo", "random", "cte", "util", "s3fifo", "sieve", "none")
    for way in ways if bench.is_full else ("rent", "fifo", "none"):
        with bench.start("--maxmemory", "16mb", "--segment-eviction", way) as server, server.connect() as client:
            for start in range(0, 60_000, 1000):
                client.say_all([("SET", f"key:{number}", b"v" * (10 + number % 3000)) for number in range(start, start + 1000)])
            used = lambda: int(client_info(client, "memory")["used_memory"])
            if not becomes(lambda: used() <= 16 * MIB, 2):
                problems.append(f"{way}: {used()}")
    assert not problems, "; ".join(problems)


@pytest.mark.only_mayfly
def test_memory_returns_after_a_mass_expiry(bench):
    """After nine tenths of the keys have expired, used_memory is within 10 % of what it was."""
    few, many = bench.size(20_000, 100_000), bench.size(180_000, 900_000)

    def fill(client: Connection, prefix: str, count: int, *more) -> None:
        for start in range(0, count, 5000):
            client.say_all([("SET", f"{prefix}{number}", "v", *more) for number in range(start, min(count, start + 5000))])

    with bench.start() as server, server.connect() as client:
        fill(client, "kept", few)
        before = int(client_info(client, "memory")["used_memory"])
        # The deadline must be later than the end of the fill, which a busy machine delays.
        for span_s in (4, 12, 60):
            deadline = int((time.time() + span_s) * 1000)
            fill(client, "dead", many, "PXAT", deadline)
            if client.must("DBSIZE") == few + many:
                break
        assert becomes(lambda: client.must("DBSIZE") == few, 60 + span_s, 0.1), "keys do not expire"
        used = lambda: int(client_info(client, "memory")["used_memory"])
        is_back = becomes(lambda: used() <= before * 1.1, 5, 0.1)
        bench.note("used_memory after the expiry, relative to before", f"{used() / before:.2f}", "1.10 (asserted)")
        assert is_back, f"used_memory: {used()} after {before} before"


def test_eviction_turned_on_when_full_refuses_no_write(bench):
    """A server that is full under noeviction refuses no write from the moment that a policy is set."""
    with bench.start("--maxmemory", "16mb") as server, server.connect() as client:
        number = 0
        for number in range(100_000):
            if isinstance(client.say("SET", f"k{number}", b"v" * 1000), Refusal):
                break
        client.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        replies = [reply for start in range(0, 3000, 50) for reply in client.say_all([("SET", f"n{start + i}", b"v" * 1000) for i in range(50)])]
        refused = sum(isinstance(reply, Refusal) for reply in replies)
        assert refused == 0, f"{refused} of {len(replies)} writes were refused"
