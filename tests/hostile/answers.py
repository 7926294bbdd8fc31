"""Replies, counters and states that Redis's clients and tools rely on."""

import threading
import time

import pytest
from harness import MIB, Connection, Refusal, becomes, encoded, send_what_is_taken

PING = b"*1\r\n$4\r\nPING\r\n"


def figures(client: Connection, section: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in client.must("INFO", section).decode().split("\r\n") if ":" in line)


def statistics(client: Connection, command: str) -> dict[str, int]:
    """Counters of one command in INFO commandstats."""
    text = figures(client, "commandstats").get(f"cmdstat_{command}", "")
    return {name: int(float(value)) for name, value in (part.split("=") for part in text.split(",") if part)}


def slow(client: Connection) -> list[tuple[int, list[bytes]]]:
    """Durations in microseconds and words of the entries in SLOWLOG, the latest first."""
    return [(entry[2], entry[3]) for entry in client.must("SLOWLOG", "GET", "-1")]


WAITS = {
    "BLPOP": ("BLPOP", "q", "0"), "BRPOP": ("BRPOP", "q", "0"), "BLMOVE": ("BLMOVE", "q", "q2", "LEFT", "LEFT", "0"),
    "BRPOPLPUSH": ("BRPOPLPUSH", "q", "q2", "0"), "BLMPOP": ("BLMPOP", "0", "1", "q", "LEFT"),
}


def test_a_waiting_client_that_vanishes_is_noticed(bench):
    """A client that waits and closes its connection is noticed, whatever it had sent; no element is popped for it."""
    problems = []
    with bench.start() as server, server.connect() as client:
        for name, words in WAITS.items():
            # Beyond what the server and the socket buffers take without reading.
            for extra in (0, 3 * MIB):
                client.must("DEL", "q")
                gone = server.connect()
                gone.socket.sendall(encoded(*words))
                assert becomes(lambda: figures(client, "clients")["blocked_clients"] == "1", 5), f"{name} does not wait"
                sent = send_what_is_taken(gone, PING * (extra // len(PING)), 1)
                gone.close()
                is_noticed = becomes(lambda: figures(client, "clients")["blocked_clients"] == "0", 3)
                pushed, left = client.must("RPUSH", "q", "job"), client.must("LLEN", "q")
                if not is_noticed or (pushed, left) != (1, 1):
                    problems.append(f"{name} and {sent} bytes: noticed {is_noticed}, {left} of {pushed} elements left")
    assert not problems, "; ".join(problems)


def test_slowlog_contains_every_command(bench):
    """With a threshold of 0 all commands enter SLOWLOG; short arguments and fast commands are no exception."""
    with bench.start("--slowlog-log-slower-than", "0", "--slowlog-max-len", "1000") as server, server.connect() as client:
        commands = [("SET", "k", "v"), ("GET", "k"), ("SETRANGE", "r", "1000", "x"), ("APPEND", "k", "v"), ("STRLEN", "k"), ("INCR", "n"),
                    ("SETBIT", "b", "7", "1"), ("HSET", "h", "f", "v"), ("HGET", "h", "f"), ("LPUSH", "l", "e"), ("SADD", "s", "m"), ("ZADD", "z", "1", "m"),
                    ("TTL", "k"), ("PING",), ("MGET", "k", "k"), ("DEL", "k"), ("EXPIRE", "h", "100")]
        client.say_all(commands)
        seen = {words[0].upper() for _, words in slow(client)}
        missing = [words[0] for words in commands if words[0].encode() not in seen]
        assert not missing, f"not in SLOWLOG: {' '.join(missing)}"
        client.must("CONFIG", "SET", "slowlog-log-slower-than", "1000")
        client.must("SLOWLOG", "RESET")
        # Clearing 100 MB takes longer than a millisecond.
        client.must("SETRANGE", "a", "100000000", "x")
        assert becomes(lambda: any(words[0] == b"SETRANGE" for _, words in slow(client)), 2), "SETRANGE of 100 MB is not in SLOWLOG"


def test_a_blocked_command_enters_slowlog_with_its_own_time(bench):
    """A command that waits enters SLOWLOG once it is done, with the time that it ran, not the time that it waited."""
    with bench.start("--slowlog-log-slower-than", "0") as server, server.connect() as client, server.connect() as waiter:
        waiter.socket.sendall(encoded("BLPOP", "q", "0"))
        assert becomes(lambda: figures(client, "clients")["blocked_clients"] == "1", 5)
        waits_logged = sum(words[0] == b"BLPOP" for _, words in slow(client))
        time.sleep(0.3)
        client.must("RPUSH", "q", "job")
        assert waiter.reply() == [b"q", b"job"]
        # The entry is written when the command is done, which may be just behind the reply.
        becomes(lambda: any(words[0] == b"BLPOP" for _, words in slow(client)), 1)
        entries = [spent for spent, words in slow(client) if words[0] == b"BLPOP"]
        assert waits_logged == 0, "BLPOP was in SLOWLOG while it waited"
        assert len(entries) == 1 and entries[0] < 250_000, f"entries of BLPOP: {entries} us"
        calls = statistics(client, "blpop")
        assert calls["calls"] == 1 and calls["usec"] < 250_000, calls


def test_debug_needs_a_setting(bench):
    """DEBUG is refused unless enable-debug-command is set, which CONFIG SET cannot do."""
    with bench.start() as server, server.connect() as client:
        reply = client.say("DEBUG", "SLEEP", "0")
        assert isinstance(reply, Refusal) and "DEBUG command not allowed" in reply, reply
        assert client.must("CONFIG", "GET", "enable-debug-command") == [b"enable-debug-command", b"no"]
        assert isinstance(client.say("CONFIG", "SET", "enable-debug-command", "yes"), Refusal)
    for value in ("yes", "local"):
        with bench.start("--enable-debug-command", value) as server, server.connect() as client:
            client.must("DEBUG", "SLEEP", "0")


@pytest.mark.only_mayfly
def test_failures_of_auth_are_slowed_per_address(bench):
    """Wrong passwords from one address are answered slowly, on any number of its connections; another address is not."""
    with bench.start("--requirepass", "secret") as server:
        count, stop = [0], time.monotonic() + 2

        def guess() -> None:
            try:
                with server.connect(10, source="127.0.0.2") as client:
                    while time.monotonic() < stop:
                        # A reply that comes as an end of the connection is as good as a slow one.
                        client.socket.sendall(encoded("AUTH", "wrong") * 100)
                        for _ in range(100):
                            client.reply()
                            count[0] += 1
                            if time.monotonic() > stop:
                                return
            except OSError:
                pass

        threads = [threading.Thread(target=guess, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        with server.connect() as client:
            start = time.monotonic()
            client.must("AUTH", "secret")
            other_s = time.monotonic() - start
        for thread in threads:
            thread.join(12)
        bench.note("guesses of one address in 2 s", str(count[0]), "2,000 (asserted)")
        assert count[0] <= 2000, f"{count[0]} guesses in 2 s"
        assert other_s < (1 if bench.is_full else 5), f"AUTH from another address took {other_s:.1f} s"
        with server.connect(source="127.0.0.2") as client:
            client.must("AUTH", "secret")


def answers_within(connection: Connection, limit_s: float):
    """The next reply, or None after the limit."""
    connection.socket.settimeout(limit_s)
    try:
        return connection.reply()
    except TimeoutError:
        # A file that timed out cannot be read again.
        connection.file = connection.socket.makefile("rb")
        return None
    finally:
        connection.socket.settimeout(20)


def test_a_pause_of_writes_lets_reads_through(bench):
    """Under CLIENT PAUSE WRITE transactions that read, and writes that are malformed, are answered; writes wait and are counted."""
    with bench.start() as server, server.connect() as client, server.connect() as one:
        client.must("SET", "k", "v")
        client.must("CLIENT", "PAUSE", "60000", "WRITE")
        one.socket.sendall(encoded("MULTI") + encoded("GET", "k") + encoded("EXEC"))
        assert [answers_within(one, 3) for _ in range(3)] == ["OK", "QUEUED", [b"v"]], "EXEC of a read waits"
        one.socket.sendall(encoded("SET", "k"))
        assert isinstance(answers_within(one, 3), Refusal), "SET with a missing argument waits"
        one.socket.sendall(encoded("SET", "k", "new"))
        assert answers_within(one, 0.3) is None, "SET is not held"
        assert figures(client, "clients")["blocked_clients"] == "1", figures(client, "clients")["blocked_clients"]
        client.must("CLIENT", "UNPAUSE")
        assert answers_within(one, 3) == "OK"
        assert figures(client, "clients")["blocked_clients"] == "0"


def test_a_weaker_pause_does_not_end_a_stronger_one(bench):
    """A later CLIENT PAUSE of writes only, or with an earlier end, leaves a pause of all commands as it is."""
    problems = []
    for first, second in ((("2000", "ALL"), ("50", "WRITE")), (("2000", "ALL"), ("60000", "WRITE")), (("60000", "WRITE"), ("50", "WRITE"))):
        with bench.start() as server, server.connect() as client, server.connect() as reader, server.connect() as writer:
            client.must("SET", "k", "v")
            # In a transaction, because a pause of all commands holds its own client too.
            done = client.say_all([("MULTI",), ("CLIENT", "PAUSE", *first), ("CLIENT", "PAUSE", *second), ("EXEC",)])[-1]
            assert done == ["OK", "OK"], done
            time.sleep(0.2)
            reader.socket.sendall(encoded("GET", "k"))
            writer.socket.sendall(encoded("SET", "k", "v"))
            if first[1] == "ALL" and answers_within(reader, 0.3) is not None:
                problems.append(f"{' '.join(second)} ends {' '.join(first)} for reads")
            if answers_within(writer, 0.3) is not None:
                problems.append(f"{' '.join(second)} ends {' '.join(first)} for writes")
    assert not problems, "; ".join(problems)


def test_keys_do_not_expire_during_a_pause(bench):
    """Keys whose deadline passes during CLIENT PAUSE are deleted after it."""
    with bench.start() as server, server.connect() as client:
        client.say_all([("SET", f"k{number}", "v", "PX", "100") for number in range(100)])
        client.must("CLIENT", "PAUSE", "60000", "WRITE")
        time.sleep(0.5)
        before = client.must("DBSIZE"), figures(client, "stats")["expired_keys"]
        client.must("CLIENT", "UNPAUSE")
        assert before == (100, "0"), f"{before[0]} keys are left and {before[1]} have expired during the pause"
        assert becomes(lambda: client.must("DBSIZE") == 0, 10), "keys do not expire after the pause"


def test_a_held_client_that_vanishes_is_noticed(bench):
    """A client that is held by CLIENT PAUSE and closes its connection is removed; its command has no effect."""
    with bench.start() as server, server.connect() as client:
        client.must("CLIENT", "PAUSE", "60000", "WRITE")
        one = server.connect()
        one.socket.sendall(encoded("SET", "k", "v"))
        time.sleep(0.1)
        one.close()
        assert becomes(lambda: figures(client, "clients")["connected_clients"] == "1", 3), "the client is still connected"
        client.must("CLIENT", "UNPAUSE")
        assert client.must("EXISTS", "k") == 0


def test_confirmations_pass_client_reply_off(bench):
    """CLIENT REPLY OFF and SKIP let confirmations of subscriptions through."""
    with bench.start() as server, server.connect() as one:
        one.socket.sendall(encoded("CLIENT", "REPLY", "OFF") + encoded("SUBSCRIBE", "a") + encoded("UNSUBSCRIBE", "a") + encoded("CLIENT", "REPLY", "ON"))
        got = [answers_within(one, 3) for _ in range(3)]
        assert got == [[b"subscribe", b"a", 1], [b"unsubscribe", b"a", 0], "OK"], got
    with bench.start() as server, server.connect() as one:
        one.socket.sendall(encoded("CLIENT", "REPLY", "SKIP") + encoded("SUBSCRIBE", "a") + encoded("PING"))
        assert answers_within(one, 3) == [b"subscribe", b"a", 1]


def test_out_of_memory_is_answered_when_queued(bench):
    """A write in MULTI is refused at once when memory is full, and EXEC is aborted."""
    with bench.start() as server, server.connect() as client:
        client.must("SET", "large", b"v" * 20_000_000)
        client.must("CONFIG", "SET", "maxmemory", "10mb")
        client.must("MULTI")
        queued = client.say("SET", "k", "v")
        assert isinstance(queued, Refusal) and queued.startswith("OOM "), queued
        done = client.say("EXEC")
        assert isinstance(done, Refusal) and done.startswith("EXECABORT"), done


def test_scan_of_few_keys_ends_in_one_call(bench):
    """SCAN of three keys returns cursor 0 at once, and SCAN with an unknown type returns nothing or an error."""
    with bench.start() as server, server.connect() as client:
        client.say_all([("SET", key, "v") for key in "abc"])
        cursor, keys = client.must("SCAN", "0")
        assert (cursor, sorted(keys)) == (b"0", [b"a", b"b", b"c"]), (cursor, keys)
        reply = client.say("SCAN", "0", "TYPE", "nosuch")
        assert reply == [b"0", []], reply
        for count in (1000, 20_000):
            client.say_all([("SET", f"k{number}", "v") for number in range(count)])
            seen, cursor, calls = set(), b"0", 0
            while calls < count:
                cursor, keys = client.must("SCAN", cursor, "COUNT", "100")
                seen.update(keys)
                calls += 1
                if cursor == b"0":
                    break
            assert len(seen) == count + 3 and calls <= count // 20, f"{len(seen)} of {count + 3} keys in {calls} calls"


def test_memory_usage_is_the_cost_of_the_key(bench):
    """MEMORY USAGE of a small key does not contain shares of tables, in an empty server as in a full one."""
    with bench.start() as server, server.connect() as client:
        client.must("SET", "k", "v")
        first = client.must("MEMORY", "USAGE", "k")
        client.say_all([("SET", f"k{number}", "v") for number in range(5000)])
        second = client.must("MEMORY", "USAGE", "k")
        client.must("SET", "large", b"x" * 100_000)
        large = client.must("MEMORY", "USAGE", "large")
        assert 16 <= first <= 200 and abs(first - second) <= 64, f"{first} bytes in an empty server, {second} with 5,000 keys"
        assert 100_000 <= large <= 140_000, large


# Replies of Redis 8.6.
KEYS_AND_FLAGS = [
    ("SET a b", "a: OW update"),
    ("GET a", "a: RO access"),
    ("DEL a b", "a: RM delete, b: RM delete"),
    ("LMOVE a b LEFT LEFT", "a: RW access delete, b: RW insert"),
    ("ZADD z 1 a", "z: RW update"),
    ("SORT a STORE b", "a: RO access, b: OW update"),
    ("MSET a 1 b 2", "a: OW update, b: OW update"),
]
KEYS_OF = [
    (("ZUNIONSTORE", "d", "2", "a", "b"), [b"d", b"a", b"b"]), (("SORT", "a", "STORE", "b"), [b"a", b"b"]), (("MEMORY", "USAGE", "k"), [b"k"]),
    (("OBJECT", "ENCODING", "k"), [b"k"]), (("MSET", "a", "1", "b", "2"), [b"a", b"b"]),
]


def test_command_describes_keys_and_subcommands(bench):
    """COMMAND GETKEYS, GETKEYSANDFLAGS, INFO and LIST answer as Redis does, subcommands included."""
    with bench.start() as server, server.connect() as client:
        problems = []
        for line, wanted in KEYS_AND_FLAGS:
            reply = client.say("COMMAND", "GETKEYSANDFLAGS", *line.split(" "))
            shown = reply if isinstance(reply, str) else ", ".join(f"{key.decode()}: {' '.join(map(str, flags))}" for key, flags in reply)
            if shown != wanted:
                problems.append(f"GETKEYSANDFLAGS {line}: {shown}")
        problems += [f"GETKEYS {' '.join(words)}: {reply}" for words, wanted in KEYS_OF if (reply := client.say("COMMAND", "GETKEYS", *words)) != wanted]
        described = client.say("COMMAND", "INFO", "config|get", "config|nosuch")
        if not described[0] or described[0][:2] != [b"config|get", -3] or described[1] is not None:
            problems.append(f"INFO config|get: {str(described)[:80]}")
        names = client.must("COMMAND", "LIST", "FILTERBY", "PATTERN", "config*")
        if not {b"config", b"config|get", b"config|set", b"config|resetstat"} <= set(names):
            problems.append(f"LIST FILTERBY PATTERN config*: {names}")
        assert not problems, "; ".join(problems)


def test_statistics_count_subcommands_failures_and_rejections(bench):
    """INFO commandstats counts subcommands by their names, failed calls, and calls that were rejected before they ran."""
    with bench.start() as server, server.connect() as client:
        client.must("SET", "s", "text")
        for words in (("CONFIG", "GET", "port"), ("CLIENT", "ID"), ("LPUSH", "s", "x"), ("INCR", "s"), ("GET",), ("GET", "a", "b")):
            client.say(*words)
        names = figures(client, "commandstats")
        missing = [name for name in ("cmdstat_config|get", "cmdstat_client|id") if name not in names]
        assert not missing, f"missing: {missing} of {sorted(names)}"
        assert statistics(client, "lpush").get("failed_calls") == 1, names["cmdstat_lpush"]
        assert statistics(client, "incr").get("failed_calls") == 1, names["cmdstat_incr"]
        assert statistics(client, "get").get("rejected_calls") == 2, names.get("cmdstat_get")
        errors = figures(client, "errorstats")
        assert "errorstat_WRONGTYPE" in errors and "errorstat_ERR" in errors, errors


@pytest.mark.only_mayfly
def test_lrm_evicts_the_least_recently_modified(bench):
    """With allkeys-lrm a read does not keep a key, and a write does."""
    with bench.start("--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lrm") as server, server.connect() as client:
        value = b"v" * 1000
        client.say_all([("SET", f"read{number}", value) for number in range(1000)] + [("SET", f"written{number}", value) for number in range(1000)])
        number = 0
        while int(figures(client, "stats")["evicted_keys"]) < 3000 and number < 40_000:
            client.say_all([("SET", f"new{number + index}", value) for index in range(500)])
            client.say_all([("GET", f"read{index}") for index in range(1000)])
            client.say_all([("APPEND", f"written{index}", "") if index % 2 else ("SETRANGE", f"written{index}", "0", "w") for index in range(1000)])
            number += 500
        left = lambda prefix: sum(client.say_all([("EXISTS", f"{prefix}{index}") for index in range(1000)]))
        read, written = left("read"), left("written")
        assert read < 250 and written > 500, f"{read} of 1,000 keys that were read are left, {written} of 1,000 that were written"


def test_the_number_of_databases_can_be_set(bench):
    """`databases` sets the number of databases, above and below 16."""
    for count in (1, 4, 64):
        with bench.start("--databases", str(count)) as server, server.connect() as client:
            assert client.must("SELECT", str(count - 1)) == "OK"
            client.must("SET", "k", "v")
            reply = client.say("SELECT", str(count))
            assert isinstance(reply, Refusal) and "out of range" in reply, reply
            assert client.must("CONFIG", "GET", "databases") == [b"databases", str(count).encode()]
            assert f"db{count - 1}" in figures(client, "keyspace")


@pytest.mark.engines("segment")
@pytest.mark.only_mayfly
def test_select_on_segments(bench):
    """The segment engine accepts the numbers of databases, or the error of SELECT says what to change."""
    with bench.start() as server, server.connect() as client:
        reply = client.say("SELECT", "1")
        assert reply == "OK" or "engine slab" in reply or "--engine" in reply, reply
