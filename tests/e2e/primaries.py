"""Replication where something is wrong: primaries in a ring, clocks that differ by an hour, damaged streams."""

import contextlib
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis
from clock import HOUR_S, SLACK_S, SOURCE
from durable import again, equal, folder_of, linked, rewritten
from server import Server, within_limit
from snapshots import content

pytestmark = pytest.mark.only_mayfly

# Number of damaged streams that a replica receives.
STREAMS = 60
SEED = 0x5EED_0011


def position(r: redis.Redis) -> int:
    facts = r.info("replication")
    return max(facts.get("slave_repl_offset", 0), facts.get("master_repl_offset", 0))


def processor_s(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_primaries_in_a_ring_send_nothing_in_circles(bench):
    """Two and three servers, each a replica of the next. They keep their keys, and one that becomes a primary is followed."""
    for count in (2, 3):
        servers = [bench.start() for _ in range(count)]
        clients = [server.client() for server in servers]
        for number, r in enumerate(clients):
            r.set(f"of:{number}", number)
        for number in range(1, count):
            clients[number].execute_command("REPLICAOF", "127.0.0.1", servers[0].port)
            linked(clients[number])
        clients[0].set("shared", 1)
        assert clients[0].wait(count - 1, 10_000) == count - 1
        # The replicas follow the first server, which now follows the last one; each of the others follows the one before it.
        for number in range(2, count):
            clients[number].execute_command("REPLICAOF", "127.0.0.1", servers[number - 1].port)
        clients[0].execute_command("REPLICAOF", "127.0.0.1", servers[-1].port)
        before = [position(r) for r in clients]
        begun_s = [processor_s(server) for server in servers]
        # The time in which a command that went in circles would be counted.
        time.sleep(2)
        for server, r, old, begun in zip(servers, clients, before, begun_s, strict=True):
            assert r.info("replication")["role"] == "slave" and r.get("shared") == b"1"
            assert position(r) - old < 10_000, "bytes go in circles"
            assert processor_s(server) - begun < 1, "the attempts to connect do not pause"
            try:
                r.set("x", 1)
                raise AssertionError("a replica was written")
            except redis.exceptions.ReadOnlyError:
                pass
        clients[0].execute_command("REPLICAOF", "NO", "ONE")
        clients[0].set("after", 2)
        for r in clients[1:]:
            for _ in within_limit():
                if r.get("after") == b"2":
                    break
            equal(clients[0], r)
        for server in servers:
            server.end()


def test_a_replica_of_itself_serves_its_keys(bench):
    server = bench.start()
    r = server.client()
    r.set("kept", 1)
    r.execute_command("REPLICAOF", "127.0.0.1", server.port)
    time.sleep(1)
    assert r.get("kept") == b"1"
    r.execute_command("REPLICAOF", "NO", "ONE")
    r.set("kept", 2)
    assert r.get("kept") == b"2"
    server.end()


def test_deadlines_are_instants_when_clocks_differ_by_an_hour(bench):
    """Each deadline is the same instant on both sides. Each server applies it by its own clock, and the primary's deletion is final."""
    with tempfile.TemporaryDirectory(prefix="mayfly-skew-") as folder:
        library, offset = Path(folder) / "shifted_clock.so", Path(folder) / "offset"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(offset)}
        for skew_s in (HOUR_S, -HOUR_S):
            offset.write_bytes(struct.pack("=q", skew_s))
            primary, replica = bench.start(), bench.start(environment=environment)
            p, r = primary.client(), replica.client()
            p.set("before", 1, ex=2 * HOUR_S)
            r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
            linked(r)
            p.set("far", 1, ex=2 * HOUR_S)
            p.hset("hash", "f", "v")
            p.execute_command("HPEXPIRE", "hash", 2 * HOUR_S * 1000, "FIELDS", 1, "f")
            p.set("between", 1, ex=HOUR_S // 2)
            p.set("soon", 1, px=200)
            p.set("plain", 1)
            assert p.wait(1, 10_000) == 1
            for name in ("before", "far"):
                assert r.pexpiretime(name) == p.pexpiretime(name), "deadlines are instants"
                assert abs(r.ttl(name) - (2 * HOUR_S - skew_s)) < SLACK_S
            assert r.execute_command("HPEXPIRETIME", "hash", "FIELDS", 1, "f") == p.execute_command("HPEXPIRETIME", "hash", "FIELDS", 1, "f")
            assert p.get("between") == b"1"
            # For a replica whose clock is ahead it has expired, for one behind it has not.
            assert r.get("between") == (None if skew_s > 0 else b"1")
            for _ in within_limit():
                if p.exists("soon") == 0 and r.exists("soon") == 0:
                    break
            assert r.get("plain") == b"1"
            # A new value of a key that only the replica's clock has expired arrives.
            p.set("between", 2)
            p.incr("plain")
            assert p.wait(1, 10_000) == 1
            assert r.get("between") == b"2" and r.get("plain") == b"2"
            r.execute_command("REPLICAOF", "NO", "ONE")
            assert r.get("far") == b"1" and r.pexpiretime("far") == p.pexpiretime("far")
            primary.end()
            replica.end()


def encoded(*words) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


STREAM = b"".join(
    [
        encoded("SELECT", 0),
        encoded("SET", "a", 1, "PXAT", 1_900_000_000_000),
        encoded("MULTI"),
        encoded("HSET", "h", "f", "v"),
        encoded("RPUSH", "l", 1, 2, 3),
        encoded("EXEC"),
        encoded("REPLCONF", "GETACK", "*"),
        encoded("PING"),
        b"\r\n",
        encoded("XADD", "s", "1-1", "f", "v"),
        encoded("DEL", "a"),
    ]
)
PARTS = (b"*1\r\n$4\r\nEXEC\r\n", b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$8\r\nSHUTDOWN\r\n", b"$99999999999\r\n", b"*1048577\r\n", b"-ERR x\r\n", b"*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n", b"*2\r\n$6\r\nSELECT\r\n$2\r\n99\r\n")


def damaged(rng: random.Random, stream: bytes) -> bytes:
    stream = bytearray(stream)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(stream) + 1)
        choice = rng.randrange(4)
        if choice == 0 and stream:
            stream[at % len(stream)] ^= 1 << rng.randrange(8)
        elif choice == 1:
            del stream[at:]
        elif choice == 2:
            stream[at:at] = rng.choice(PARTS)
        else:
            del stream[at : at + rng.randrange(20)]
    return bytes(stream)


def lines_of(peer: socket.socket):
    """The commands of the replica, until it has requested a synchronization."""
    received = b""
    while b"\r\nPSYNC\r\n" not in received.upper() or not received.endswith(b"\r\n"):
        piece = peer.recv(4096)
        if not piece:
            return
        received += piece
        yield piece


def request(peer: socket.socket, answer: bytes) -> tuple[bytes, int]:
    """Greets a replica and answers its request for synchronization. Returns the history and the position that it requested."""
    for piece in lines_of(peer):
        words = piece.upper()
        if b"\r\nPSYNC\r\n" in words:
            peer.sendall(answer)
            *_, history, _, position, _ = piece.split(b"\r\n")
            return history, int(position)
        peer.sendall(b"+PONG\r\n" if b"PING" in words else b"+OK\r\n")
    raise AssertionError("the replica has closed the connection")


def requested(peer: socket.socket, answer: bytes) -> int:
    return request(peer, answer)[1]


def whole_snapshot(bench) -> bytes:
    """A snapshot with the key `kept`."""
    with bench.start() as source, source.client() as s:
        s.set("kept", 1)
        s.execute_command("SAVE")
        return (Path(source.folder.name) / "dump.rdb").read_bytes()


def test_a_part_of_a_transaction_is_in_no_feed(bench):
    """A primary vanishes within a transaction. Nothing of it is in a file or at a further replica, and what follows is."""
    snapshot = whole_snapshot(bench)
    full = b"+FULLRESYNC %b 1000\r\n$%d\r\n%b" % (b"a" * 40, len(snapshot), snapshot)
    begin = encoded("SELECT", 0) + encoded("INCR", "a")
    part = encoded("MULTI") + encoded("INCR", "b") + encoded("RPUSH", "c", 1)
    for goes_on in (True, False):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(20)
            server = bench.start("--appendonly", "yes", "--replicaof", f"127.0.0.1 {listener.getsockname()[1]}")
            further = bench.start()
            r, f = server.client(), further.client()
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(20)
                requested(peer, full)
                peer.sendall(begin + part)
                for _ in within_limit():
                    if r.get("a") == b"1":
                        break
                assert position(r) == 1000 + len(begin), "the position precedes the transaction"
                # Both snapshots begin within the transaction.
                f.execute_command("REPLICAOF", "127.0.0.1", server.port)
                linked(f)
                # That after the synchronization may be in progress, or begin now.
                for _ in within_limit():
                    rewritten(r)
                    with contextlib.suppress(redis.ResponseError):
                        r.bgrewriteaof()
                        break
                rewritten(r)
            if goes_on:
                peer, _ = listener.accept()
                with peer:
                    peer.settimeout(20)
                    assert requested(peer, b"+CONTINUE\r\n") == 1000 + len(begin) + 1
                    peer.sendall(part + encoded("EXEC"))
                    for _ in within_limit():
                        if r.get("b") == b"1":
                            break
            r.execute_command("REPLICAOF", "NO", "ONE")
            r.set("later", 1)
            assert r.wait(1, 10_000) == 1 and r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
            expected = {b"kept", b"a", b"later"} | ({b"b", b"c"} if goes_on else set())
            assert set(f.keys()) == expected and f.get("a") == b"1"
            server.kill()
            second = again(bench, server.folder.name)
            assert content(second.client()) == content(f)
            for one in (second, further, server):
                one.end()


def test_a_replica_adds_nothing_of_its_own_to_the_stream(bench):
    """With an append-only file from the start, messages, removals and local writes leave the position that of the primary."""
    primary = bench.start()
    replica = bench.start("--appendonly", "yes", "--replica-read-only", "no", "--replicaof", f"127.0.0.1 {primary.port}")
    p, r = primary.client(), replica.client()
    linked(r)
    rewritten(r)
    p.set("soon", 1, px=50)
    # Sentinel publishes to replicas, too.
    r.publish("__sentinel__:hello", "here")
    r.set("local", 1)
    for _ in within_limit():
        if not r.exists("soon"):
            break
    p.set("early", 1)
    assert p.wait(1, 10_000) == 1
    assert position(r) == position(p)
    p.execute_command("CLIENT", "KILL", "TYPE", "replica")
    for number in range(20):
        p.set(f"key:{number}", number)
    linked(r)
    assert p.wait(1, 10_000) == 1
    r.delete("local")
    equal(p, r)
    replica.end()
    primary.end()


def pair(bench, *options: str) -> tuple[Server, Server, redis.Redis, redis.Redis]:
    """A primary with these options and its replica, with clients of both."""
    primary, replica = bench.start(*options), bench.start()
    p, r = primary.client(), replica.client()
    r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
    linked(r)
    return primary, replica, p, r


def test_a_replica_continues_after_a_stop_of_its_primary_and_not_after_a_crash(bench):
    """The snapshot of SHUTDOWN has the position in the history. After a crash the replica has writes that the snapshot lacks."""
    primary, replica, p, r = pair(bench)
    p.set("k", 1)
    p.set("due", 1, px=1)
    assert p.wait(1, 10_000) == 1
    with contextlib.suppress(redis.ConnectionError):
        p.execute_command("SHUTDOWN", "SAVE")
    primary.wait()
    primary.restart()
    linked(r)
    stats = p.info("stats")
    assert (stats["sync_partial_ok"], stats["sync_full"]) == (1, 0), primary.log_text()
    p.set("later", 1)
    equal(p, r)
    primary.kill()
    primary.restart()
    linked(r)
    stats = p.info("stats")
    assert (stats["sync_partial_ok"], stats["sync_full"]) == (0, 1)
    equal(p, r)
    assert r.get("later") is None
    replica.end()
    primary.end()


def test_a_synchronization_replaces_the_function_libraries(bench):
    """A library of the replica with a function of the same name does not prevent it."""
    primary, replica = bench.start(), bench.start()
    p, r = primary.client(), replica.client()
    code = "#!lua name={}\nredis.register_function('f', function() return '{}' end)"
    p.function_load(code.format("of_primary", 1))
    r.function_load(code.format("of_replica", 2))
    r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
    linked(r)
    assert r.function_list() == p.function_list()
    replica.end()
    primary.end()


def test_restored_elements_that_had_expired_are_at_no_replica(bench):
    """The primary leaves them out of what it restores. Its file and its replica do not find them either."""
    primary, replica, p, r = pair(bench, "--appendonly", "yes")
    rewritten(p)
    p.hset("from", mapping={"f": 5, "g": 1})
    p.execute_command("HPEXPIRE", "from", 50, "FIELDS", 1, "f")
    payload = p.dump("from")
    for _ in within_limit():
        if p.hlen("from") == 1:
            break
    p.restore("to", 0, payload)
    assert p.hincrby("to", "f", 1) == 1
    equal(p, r)
    assert p.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
    primary.kill()
    second = again(bench, primary.folder.name)
    assert second.client().hgetall("to") == {b"f": b"1", b"g": b"1"}
    for one in (second, replica, primary):
        one.end()


def test_a_file_of_another_history_confirms_nothing(bench):
    """A server with a long history of its own becomes a replica. WAITAOF does not count it before its file has the write."""
    primary, replica = bench.start(), bench.start("--appendonly", "yes")
    p, r = primary.client(), replica.client()
    rewritten(r)
    r.set("own", "x" * 100_000)
    assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
    r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
    linked(r)
    p.set("first", 1)
    assert p.execute_command("WAITAOF", 0, 1, 10_000)[1] == 1
    replica.process.send_signal(signal.SIGSTOP)
    p.set("second", 1)
    assert p.execute_command("WAITAOF", 0, 1, 100)[1] == 0
    replica.process.send_signal(signal.SIGCONT)
    assert p.execute_command("WAITAOF", 0, 1, 10_000)[1] == 1
    replica.end()
    primary.end()


def test_a_snapshot_that_cannot_be_loaded_is_not_followed_by_the_old_file(bench):
    """The keys are gone. What is written after the promotion is there after a start, and the old keys are not."""
    server = bench.start("--appendonly", "yes")
    r = server.client()
    rewritten(r)
    r.set("old", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        r.execute_command("REPLICAOF", "127.0.0.1", listener.getsockname()[1])
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(20)
            requested(peer, b"+FULLRESYNC %b 0\r\n$13\r\nREDIS0009\x00abc" % (b"a" * 40))
            for _ in within_limit():
                if not r.exists("old"):
                    break
        r.execute_command("REPLICAOF", "NO", "ONE")
    r.set("new", 1)
    assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
    server.kill()
    second = again(bench, server.folder.name)
    assert second.client().keys() == [b"new"]
    second.end()
    server.end()


def test_the_setting_replicaof_is_the_role_after_a_failover(bench):
    primary, replica, p, r = pair(bench)
    p.set("a", 1)
    assert p.wait(1, 10_000) == 1
    p.execute_command("FAILOVER")
    linked(p)
    assert p.config_get("replicaof") == {"replicaof": f"127.0.0.1 {replica.port}"}
    assert r.config_get("replicaof") == {"replicaof": ""}
    replica.end()
    primary.end()


def test_a_stop_waits_for_a_replica_that_lags(bench):
    """The replica is suspended. A primary that ends sends it what was acknowledged, and does not wait for that after SHUTDOWN NOW."""
    for now in (False, True):
        primary, replica, p, r = pair(bench)
        p.set("first", 1)
        assert p.wait(1, 10_000) == 1
        replica.process.send_signal(signal.SIGSTOP)
        pipe = p.pipeline(transaction=False)
        for number in range(20_000):
            pipe.set(f"key:{number}", "x" * 1000)
        pipe.execute()
        if now:
            with contextlib.suppress(redis.ConnectionError):
                p.execute_command("SHUTDOWN", "NOW")
            primary.process.wait(5)
            replica.process.send_signal(signal.SIGCONT)
        else:
            primary.process.terminate()
            # Longer than a client is waited for that takes nothing.
            time.sleep(1)
            assert primary.process.poll() is None, "it has not waited"
            replica.process.send_signal(signal.SIGCONT)
            primary.process.wait(10)
            # What was sent may still be on its way through the replica.
            for _ in within_limit():
                if r.dbsize() == 20_001:
                    break
        primary.end()
        replica.end()


def test_a_host_that_does_not_answer_does_not_delay_the_next_primary(bench):
    primary, replica = bench.start(), bench.start()
    r = replica.client()
    # A full queue of connections that nobody accepts: further ones get no answer.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(silent.getsockname())
        r.execute_command("REPLICAOF", "127.0.0.1", silent.getsockname()[1])
        time.sleep(0.3)
        r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        linked(r)
        for one in waiting:
            one.close()
    replica.end()
    primary.end()


def test_effects_with_more_names_than_a_command_may_have(bench):
    """SPOP of more members than a client may name reaches the file and the replica."""
    primary, replica, p, r = pair(bench, "--appendonly", "yes")
    rewritten(p)
    count = 1_100_000
    for first in range(0, count, 100_000):
        p.sadd("set", *range(first, first + 100_000))
    assert len(p.spop("set", count - 10)) == count - 10
    p.set("later", 1)
    assert p.wait(1, 20_000) == 1 and p.execute_command("WAITAOF", 1, 0, 20_000)[0] == 1
    assert p.scard("set") == 10 and p.smembers("set") == r.smembers("set")
    left = p.smembers("set")
    primary.kill()
    second = again(bench, primary.folder.name)
    s = second.client()
    for _ in within_limit():
        if not s.info("persistence")["loading"]:
            break
    assert s.smembers("set") == left
    for one in (second, replica, primary):
        one.end()


# Commands with TTLs and automatic IDs as Redis before version 7 sends them, in parts that the replica executes one after the other.
RELATIVE = (
    (("SELECT", 0), ("SETEX", "setex", 1000, "v"), ("SET", "set", "v", "PX", 1_000_000), ("XADD", "stream", "*", "f", "v")),
    (("SET", "expire", 1), ("MULTI",), ("EXPIRE", "expire", 1000), ("EXEC",)),
    (("EVAL", "redis.call('setex', KEYS[1], 1000, 'v')", 1, "script"), ("HSET", "hash", "f", "v"), ("HEXPIRE", "hash", 1000, "FIELDS", 1, "f")),
)


def timed(r: redis.Redis) -> list:
    """The deadlines and the IDs that these commands have set."""
    deadlines = [r.pexpiretime(name) for name in ("setex", "set", "expire", "script")]
    return [*deadlines, r.execute_command("HPEXPIRETIME", "hash", "FIELDS", 1, "f"), r.xrange("stream")]


def test_deadlines_and_ids_of_a_primary_are_the_same_after_a_restart(bench):
    """The file of a replica contains relative TTLs. They count from their first execution when it is loaded."""
    snapshot = whole_snapshot(bench)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        server = bench.start("--replicaof", f"127.0.0.1 {listener.getsockname()[1]}")
        r = server.client()
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(20)
            requested(peer, b"+FULLRESYNC %b 1000\r\n$%d\r\n%b" % (b"a" * 40, len(snapshot), snapshot))
            linked(r)
            r.config_set("appendonly", "yes")
            rewritten(r)
            expected = 1000
            for part in RELATIVE:
                sent = b"".join(encoded(*words) for words in part)
                peer.sendall(sent)
                expected += len(sent)
                for _ in within_limit():
                    if position(r) == expected:
                        break
            r.execute_command("REPLICAOF", "NO", "ONE")
        before = timed(r)
        r.set("later", 1)
        assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
        server.kill()
        assert any(b"SETEX" in path.read_bytes() for path in folder_of(server).glob("*.incr.aof")), "it is in the base"
        second = again(bench, server.folder.name)
        c = second.client()
        assert timed(c) == before
        second.end()
        server.end()


def test_a_refused_command_of_a_primary_leads_to_a_snapshot(bench):
    """The replica claims no position behind it, reports it, pauses for longer than usual, and requests a snapshot."""
    snapshot = whole_snapshot(bench)
    full = b"+FULLRESYNC %b 1000\r\n$%d\r\n%b" % (b"a" * 40, len(snapshot), snapshot)
    begin = encoded("SELECT", 0) + encoded("SET", "before", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        server = bench.start("--appendonly", "yes", "--replicaof", f"127.0.0.1 {listener.getsockname()[1]}")
        r = server.client()
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(20)
            requested(peer, full)
            peer.sendall(begin)
            for _ in within_limit():
                if r.get("before") == b"1":
                    break
            peer.sendall(encoded("NO-SUCH", "x") + encoded("SET", "behind", 1) + encoded("REPLCONF", "GETACK", "*"))
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := peer.recv(4096):
                    received += piece
        closed_at = time.monotonic()
        claimed = [int(number) for number in re.findall(rb"ACK\r\n\$\d+\r\n(\d+)\r\n", received)]
        assert claimed and max(claimed) <= 1000 + len(begin), claimed
        for _ in within_limit():
            facts = r.info("replication")
            if facts["master_link_status"] == "down":
                break
        assert facts["master_link_refused_command"] == "there is no command 'no-such'"
        assert r.info("stats")["unexpected_error_replies"] == 1
        assert r.get("before") == b"1" and r.get("behind") is None, "it serves what it has"
        peer, _ = listener.accept()
        assert time.monotonic() - closed_at > 1.5, "usually it pauses for a second"
        with peer:
            peer.settimeout(20)
            history, _ = request(peer, full)
            assert history != b"a" * 40, "it does not continue the history"
            peer.sendall(encoded("SELECT", 0) + encoded("SET", "after", 1) + encoded("REPLCONF", "GETACK", "*"))
            for _ in within_limit():
                if r.get("after") == b"1":
                    break
            assert sorted(r.keys()) == [b"after", b"kept"]
            facts = r.info("replication")
            assert facts["master_link_status"] == "up" and "master_link_refused_command" not in facts
            assert r.info("stats")["unexpected_error_replies"] == 1
        server.end()


def test_damaged_streams_of_a_primary_do_no_harm(bench):
    """After a valid snapshot, the stream is changed, cut or interleaved with other commands. The replica serves and can be promoted."""
    rng = random.Random(SEED)
    snapshot = whole_snapshot(bench)
    server = bench.start()
    r = server.client()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        for number in range(STREAMS):
            r.execute_command("REPLICAOF", "127.0.0.1", listener.getsockname()[1])
            peer, _ = listener.accept()
            peer.settimeout(20)
            with peer:
                requested(peer, b"+FULLRESYNC %040x 0\r\n$%d\r\n%b" % (number, len(snapshot), snapshot))
                for _ in within_limit():
                    if r.get("kept") == b"1":
                        break
                # The replica closes the connection when it has read the stream to its end or to its damage.
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    peer.sendall(damaged(rng, STREAM))
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(4096):
                        pass
                assert r.ping()
            r.execute_command("REPLICAOF", "NO", "ONE")
            r.set("mine", number)
            assert r.get("mine") == b"%d" % number
            r.flushall()
    assert "panicked" not in server.log_text()
    server.end()
