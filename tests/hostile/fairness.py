"""Fairness: what one client runs does not delay the others."""

import resource
import socket
import threading
import time

import pytest
from harness import GIB, MIB, Bench, Connection, Latencies, Probe, Refusal, Server, becomes, encoded, latencies, mb, usual_priority
from stalls import LONG, VALUE, VALUES, Field, Long, fill_keys, many_names, start_field, words_of

pytestmark = pytest.mark.only_mayfly

# Bounds for another client on an idle machine, in milliseconds.
P999_MS, MAX_MS = 2.0, 10.0
# Without --full, latencies are printed, and what is asserted is the time for which the data threads worked during a request,
# in the best of TRIES runs: a busy machine changes it little. LOADED_MS bounds latencies where that is not known.
LOADED_MS, STALL_MS = 500.0, 25.0
TRIES = 5
# A reply or an end later than this is a hang.
HANG_S = 5.0


def assert_fair(bench: Bench, what: str, measure, p999_ms: float = P999_MS, max_ms: float = MAX_MS) -> None:
    """Measures up to TRIES times, because other processes delay a probe too, and asserts on the best."""
    best = None
    for _ in range(TRIES):
        measured = measure()
        if best is None or (measured.used_max, measured.max) < (best.used_max, best.max):
            best = measured
        if best.max <= max_ms and best.p999 <= p999_ms:
            break
        if not bench.is_full and (best.max <= STALL_MS or best.used_max <= max_ms):
            break
    bench.note(what, f"p99.9 {best.p999:.1f} ms, max {best.max:.1f} ms, data threads {best.used_max:.1f} ms", f"p99.9 {p999_ms:.0f} ms, max {max_ms:.0f} ms")
    if bench.is_full:
        assert best.max <= max_ms and best.p999 <= p999_ms, f"p99.9 {best.p999:.1f} ms, max {best.max:.1f} ms"
    else:
        is_fair = best.max <= STALL_MS or best.used_max <= STALL_MS or best.used_max != best.used_max and best.max <= LOADED_MS
        assert is_fair, f"another client waited {best.max:.0f} ms, {best.used_max:.0f} ms of them for the data threads; asserted: {STALL_MS:.0f} ms"


def latencies_during(bench: Bench, server: Server, client: Connection, words: list) -> Latencies:
    """Latencies of other clients from the start of a command to the end of its reply."""
    probes = bench.probes(server)
    time.sleep(0.1)
    start = time.monotonic()
    client.drain(*words)
    return latencies(probes, start, time.monotonic())


@pytest.mark.parametrize("long", LONG, ids=[one.name.lower().replace(" ", "_") for one in LONG])
def test_during(bench, long: Long):
    """A command on large collections does not delay another client's GET."""
    field = start_field(bench, bench.size(200_000, 1_000_000))
    try:
        assert_fair(bench, f"GET during {long.name}", lambda: field.measure(long).latencies)
    except BaseException:
        # A server that still works on this command would make the next check fail.
        field.server.process.kill()
        field.server.process.wait()
        raise


@pytest.mark.engines("segment")
def test_commands_on_large_values_of_the_segment_engine(bench):
    """MGET and MSET of a few large values do not delay another client's GET."""
    # A segment must be larger than a value with its key.
    with bench.start("--maxmemory", "200mb", "--segment-size", "2mb") as server, server.connect() as client:
        client.must("SET", "probe", "x")
        pairs = [word for number in range(VALUES) for word in (f"value:{number}", VALUE)]
        for words in (["MSET", *pairs], ["MGET", *many_names("value:")]):
            assert_fair(bench, f"GET during {words[0]} of large values", lambda words=words: latencies_during(bench, server, client, words))


def test_sigterm_ends_the_server_during_long_commands(bench):
    """SIGTERM ends the server at any moment of a long command."""
    problems, names = [], ("ZUNIONSTORE", "SORT", "WATCH", "KEYS", "DEL of many keys", "SMEMBERS")
    for long in [one for one in LONG if one.name in names]:
        count = bench.size(200_000, 1_000_000)
        if long.name == "WATCH":
            count *= 5
        with bench.start() as server, server.connect() as client:
            field = Field(server, count, 1)
            field.prepare(client, long)
            client.socket.sendall(encoded(*words_of(long, client, count)))
            time.sleep(0.1)
            seconds = server.seconds_to_end(HANG_S)
            bench.note(f"end after SIGTERM during {long.name}", f"{seconds:.2f} s", "1 s")
            if seconds > (1.0 if bench.is_full else HANG_S):
                problems.append(f"{long.name}: {seconds:.1f} s")
    assert not problems, "; ".join(problems)


def threads_of_clients(client: Connection) -> dict[str, str]:
    """The data thread of each connection that has a name."""
    lines = client.must("CLIENT", "LIST").decode().splitlines()
    fields = [dict(part.split("=", 1) for part in line.split(" ") if "=" in part) for line in lines]
    return {one["name"]: one["io-thread"] for one in fields if one["name"]}


def test_background_work_does_not_wait_for_a_shard(bench):
    """While one thread holds shards during a transaction, the clients of the other thread are served."""
    rounds = []
    with bench.start("--threads", str(max(2, bench.threads))) as server, server.connect() as client:
        client.must("SET", "probe", "x")
        for number in range(10):
            # Two keys of 64 shards, so that the probe's key is seldom in a shard that is held: GET then waits, and its thread too.
            batch = encoded("APPEND", f"key{number}", "x" * 100) * 4 + encoded("APPEND", f"other{number}", "x" * 100) * 4
            with server.connect() as holder:
                holder.must("CLIENT", "SETNAME", "holder")
                holder.must("MULTI")
                for _ in range(20):
                    holder.socket.sendall(batch * 1000)
                    for _ in range(8000):
                        holder.file.readline()
                probe = probe_of_the_other_thread(server, client)
                time.sleep(0.1)
                start = time.monotonic()
                holder.drain("EXEC")
                end = time.monotonic()
                rounds.append(((end - start) * 1000, latencies([probe], start, end).max))
    whole, wait = sorted(rounds, key=lambda one: one[1])[len(rounds) // 2]
    bench.note("GET on the other thread during a transaction of 160,000 commands", f"median {wait:.0f} ms of {whole:.0f} ms", f"{MAX_MS:.0f} ms")
    least_ms, part = (STALL_MS, 1 / 3) if bench.is_full else (LOADED_MS, 0.9)
    stalled = [f"{wait:.0f} of {whole:.0f} ms" for whole, wait in rounds if wait > max(least_ms, whole * part)]
    assert len(stalled) <= 2, f"the other thread did not serve its clients in {len(stalled)} of {len(rounds)} rounds: {', '.join(stalled)}"


def probe_of_the_other_thread(server: Server, client: Connection) -> Probe:
    """A probe that another data thread serves than the connection named holder."""
    for _ in range(20):
        probe = Probe(server)
        threads = threads_of_clients(client)
        if threads["probe"] != threads["holder"]:
            return probe
        probe.end()
        assert becomes(lambda: "probe" not in threads_of_clients(client))
    raise AssertionError("one thread serves all connections")


def test_keys_with_one_deadline(bench):
    """Many keys expire at one deadline: a subscriber gets all events soon, slices are short, other clients are served."""
    count = bench.size(500_000, 1_000_000)
    with usual_priority(), bench.start() as server, server.connect() as client, server.connect(60) as subscriber:
        client.must("SET", "probe", "x")
        client.must("CONFIG", "SET", "notify-keyspace-events", "Ex")
        subscriber.must("SUBSCRIBE", "__keyevent@0__:expired")
        events, done = [0], threading.Event()

        def read() -> None:
            rest = b""
            while events[0] < count:
                data = subscriber.socket.recv(1 << 20)
                if not data:
                    break
                rest += data
                # A message ends with the name of its key, so its head is counted.
                events[0] += rest.count(b"$7\r\nmessage\r\n")
                rest = rest[-12:] if not rest.endswith(b"$7\r\nmessage\r\n") else b""
            done.set()

        for span_s in (2 + count // 100_000, 10 + count // 20_000, 60 + count // 10_000):
            deadline = time.time() + span_s
            fill_keys(client, "a-key-with-a-name-of-some-length-", count, "PXAT", str(int(deadline * 1000)))
            if client.must("DBSIZE") == count + 1:
                break
            time.sleep(2)
            events[0] = 0
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        probes = bench.probes(server)
        is_complete = done.wait(span_s + 30)
        info = server.info()
        measured = latencies(probes)
        subscriber.socket.close()
    p50, last, slice_us = (int(info.get(name, 0)) / 1000 for name in ("expiry_lag_us_p50", "expiry_lag_us_max", "expiry_slice_us_max"))
    bench.note("expiry lag", f"p50 {p50:.0f} ms, max {last:.0f} ms", "p50 300 ms, max 700 ms")
    bench.note("longest slice of expiry", f"{slice_us:.1f} ms", "2 ms")
    bench.note("GET meanwhile", f"p99.9 {measured.p999:.1f} ms, max {measured.max:.1f} ms", "max 5 ms")
    assert is_complete, f"{events[0]} of {count} events"
    # The time of a slice includes other processes, to which the machine gave the core meanwhile.
    assert slice_us <= (2 if bench.is_full else LOADED_MS), f"a slice of expiry lasted {slice_us:.1f} ms"
    assert measured.max <= (5 if bench.is_full else LOADED_MS), f"another client waited {measured.max:.0f} ms"
    if bench.is_full:
        assert p50 <= 300 and last <= 700, f"lag p50 {p50:.0f} ms, max {last:.0f} ms"


def test_connections_that_close_at_once(bench):
    """Thousands of connections that close at once do not delay another client."""
    count = most_connections(bench.size(8000, 9000))
    with bench.start("--maxclients", "20000") as server:
        with server.connect() as client:
            client.must("SET", "probe", "x")

        def measure() -> Latencies:
            opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
            for one in opened:
                one.sendall(b"PING\r\n")
            for one in opened:
                one.recv(16)
            probes = bench.probes(server)
            time.sleep(0.1)
            start = time.monotonic()
            for one in opened:
                one.close()
            assert becomes(lambda: int(server.info()["connected_clients"]) <= 4, 10)
            return latencies(probes, start, time.monotonic())

        assert_fair(bench, f"GET while {count} connections close", measure)


def test_twenty_slow_subscribers_to_everything(bench):
    """20 subscribers of every event that do not read do not delay another client."""
    with bench.start("--notify-keyspace-events", "AKE") as server, server.connect() as client:
        client.must("SET", "probe", "x")
        slow = [server.connect() for _ in range(20)]
        for one in slow:
            one.must("PSUBSCRIBE", "*")

        def measure() -> Latencies:
            probes = bench.probes(server)
            time.sleep(0.1)
            start = time.monotonic()
            # Short batches, so that the commands themselves delay nobody.
            while time.monotonic() < start + 2:
                client.say_all([("SET", "other", "x")] * 50)
            return latencies(probes, start, time.monotonic())

        assert_fair(bench, "GET while 20 slow subscribers fill", measure)
        for one in slow:
            one.close()


def test_a_client_with_many_subscriptions_that_closes(bench):
    """The end of a client with 300,000 subscriptions does not delay another client."""
    count = bench.size(60_000, 300_000)
    with bench.start() as server, server.connect() as client:
        client.must("SET", "probe", "x")

        def measure() -> Latencies:
            with server.connect(HANG_S * 4) as other:
                other.must("HELLO", "3")
                other.drain("SUBSCRIBE", *[f"channel:{number}" for number in range(count)])
                other.drain("PSUBSCRIBE", *[f"pattern:{number}" for number in range(count // 10)])
                probes = bench.probes(server)
                time.sleep(0.1)
                start = time.monotonic()
            assert becomes(lambda: client.must("PUBSUB", "NUMPAT") == 0, 20)
            assert becomes(lambda: not client.must("PUBSUB", "CHANNELS", "channel:99"), 20)
            return latencies(probes, start, time.monotonic())

        assert_fair(bench, f"GET while a client of {count} subscriptions closes", measure)


@pytest.mark.engines("segment")
def test_many_values_on_segments(bench):
    """MSET and MGET of 300,000 keys on the segment engine do not delay another client."""
    names = [f"key:{number}" for number in range(bench.size(100_000, 300_000))]
    commands = {"MSET": ["MSET", *[word for name in names for word in (name, "value")]], "MGET": ["MGET", *names]}
    with bench.start("--maxmemory", "256mb") as server, server.connect(HANG_S * 4) as client:
        client.must("SET", "probe", "x")
        for name, words in commands.items():
            assert_fair(bench, f"GET during {name} on the segment engine", lambda words=words: latencies_during(bench, server, client, words))
        assert client.must("MGET", names[0], names[-1]) == [b"value", b"value"]


def test_one_large_value(bench):
    """SET and GET of a value of 400 MB do not delay another client: buffers of that size grow without being copied."""
    value = b"x" * bench.size(50_000_000, 400_000_000)
    with bench.start(address_space=8 * GIB) as server, server.connect(HANG_S * 4) as client:
        client.must("SET", "probe", "x")
        for words in (["SET", "large", value], ["GET", "large"]):
            assert_fair(bench, f"GET during {words[0]} of {mb(len(value))}", lambda words=words: latencies_during(bench, server, client, words))


def test_watch_is_linear(bench):
    """WATCH of 60,000 keys takes about six times as long as WATCH of 10,000."""
    with bench.start() as server:
        seconds = []
        for count in (10_000, 60_000):
            with server.connect(60) as client:
                words = ["WATCH", *[f"w{count}-{number}" for number in range(count)]]
                start = time.monotonic()
                client.must(*words)
                seconds.append(time.monotonic() - start)
        bench.note("WATCH of 10,000 and of 60,000 keys", f"{seconds[0] * 1000:.0f} and {seconds[1] * 1000:.0f} ms", "six times")
        # A quadratic implementation needs more than two seconds.
        assert seconds[1] <= (1.0 if bench.is_full else HANG_S), f"{seconds[1]:.2f} s for 60,000 keys, {seconds[0]:.2f} s for 10,000"


def test_patterns_cost_no_product_of_lengths(bench):
    """A pattern of 50,000 bytes on a key of 100,000 bytes is matched or refused within a bounded number of steps."""
    patterns = {"one star": "*" + "a" * 50_000 + "b", "many stars": "*a" * 25_000 + "b", "questions": "*" + "?" * 50_000 + "b"}
    problems = []
    with bench.start() as server:
        for name, pattern in patterns.items():
            with server.connect(HANG_S) as client:
                client.must("SET", "a" * 100_000, "x")
                for words in (("KEYS", pattern), ("SCAN", "0", "COUNT", "100", "MATCH", pattern)):
                    start = time.monotonic()
                    try:
                        client.say(*words)
                    except TimeoutError:
                        server.process.kill()
                        raise AssertionError(f"{words[0]} with {name}: no reply within {HANG_S} s") from None
                    seconds = time.monotonic() - start
                    bench.note(f"{words[0]} with {name}", f"{seconds * 1000:.0f} ms", f"{MAX_MS:.0f} ms")
                    if seconds > (0.5 if bench.is_full else HANG_S / 2):
                        problems.append(f"{words[0]} with {name}: {seconds:.1f} s")
        with server.connect() as listener, server.connect() as client:
            listener.must("PSUBSCRIBE", patterns["one star"])
            start = time.monotonic()
            client.say("PUBLISH", "a" * 100_000, "x")
            if time.monotonic() - start > (0.5 if bench.is_full else HANG_S / 2):
                problems.append(f"PUBLISH: {time.monotonic() - start:.1f} s")
    assert not problems, "; ".join(problems)


def test_messages_beside_many_patterns(bench):
    """PUBLISH beside many patterns that begin otherwise than its channel costs nothing; beside as many that begin alike, it is measured."""
    count, messages = bench.size(60_000, 300_000), 20
    with usual_priority(), bench.start() as server, server.connect(HANG_S) as listener, server.connect(HANG_S) as client:
        for what, pattern, max_ms in (("otherwise", "user:{}:*", MAX_MS), ("alike", "user:*:{}", float("inf"))):
            for first in range(0, count, 1000):
                listener.socket.sendall(encoded("PSUBSCRIBE", *(pattern.format(number) for number in range(first, first + 1000))))
                for _ in range(1000):
                    listener.reply()
            start = time.monotonic()
            receivers = client.say_all([("PUBLISH", "user:77:x", "message")] * messages)
            ms = (time.monotonic() - start) * 1000 / messages
            assert receivers == [1] * messages, receivers
            bench.note(f"PUBLISH beside {count:,} patterns that begin {what}", f"{ms:.2f} ms", f"{max_ms:.0f} ms" if what == "otherwise" else "none")
            assert ms <= (max_ms if bench.is_full else max(max_ms, LOADED_MS)), f"patterns that begin {what}: {ms:.0f} ms"


def test_messages_of_long_names_beside_patterns(bench):
    """PUBLISH to a channel of 8 MB, and a write of a key of 8 MB with events, beside 500 patterns cost no product of both."""
    name = b"x" * (8 * MIB)
    with bench.start("--notify-keyspace-events", "KEA") as server, server.connect() as listener, server.connect(HANG_S) as client:
        for pattern in ("*-{}-*y", "__key*@0__:*-{}-*y"):
            listener.socket.sendall(encoded("PSUBSCRIBE", *(pattern.format(number) for number in range(500))))
            for _ in range(500):
                listener.reply()
        start = time.monotonic()
        assert isinstance(client.say("PUBLISH", name, "message"), Refusal), "PUBLISH was not refused"
        assert client.must("PUBLISH", "x-7-y", "message") == 1
        client.must("SET", name, "value")
        seconds = time.monotonic() - start
        bench.note("both", f"{seconds * 1000:.0f} ms", "none")
        assert seconds < (0.5 if bench.is_full else HANG_S / 2), f"{seconds:.1f} s"


def test_pause_is_linear_in_held_clients(bench):
    """Thousands of clients held by CLIENT PAUSE continue, or close, in linear time."""
    seconds, many = {}, most_connections(bench.size(8000, 9000))
    with bench.start("--maxclients", "20000") as server, server.connect() as client:
        for count in (1000, many):
            held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
            for way in ("continue", "close"):
                client.must("CLIENT", "PAUSE", "60000", "WRITE")
                for one in held:
                    one.sendall(b"SET k v\r\n")
                time.sleep(0.2)
                start = time.monotonic()
                if way == "close":
                    for one in held:
                        one.close()
                client.must("CLIENT", "UNPAUSE")
                if way == "continue":
                    assert all(one.recv(16) == b"+OK\r\n" for one in held)
                else:
                    assert becomes(lambda: int(server.info()["connected_clients"]) <= 2, 30), "clients that have closed stay connected"
                seconds[way, count] = time.monotonic() - start
    for way in ("continue", "close"):
        bench.note(f"{way}: 1,000 and {many} held clients", f"{seconds[way, 1000] * 1000:.0f} and {seconds[way, many] * 1000:.0f} ms", f"{many / 1000:.0f} times")
        assert seconds[way, many] < HANG_S, f"{way}, {many} held clients: {seconds[way, many]:.1f} s"


def most_connections(wanted: int) -> int:
    """As many connections as the limit on open files permits, of the number wanted."""
    return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
