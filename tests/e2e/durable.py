"""The append-only file and replication: crashes, damaged files, a full file system, and redis-server on either side."""

import os
import random
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
import tls
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import Server, free_port, within_limit
from snapshots import content, fill

pytestmark = pytest.mark.only_mayfly

# Rounds of kill -9 in the normal run; MAYFLY_KILL_ROUNDS sets another number.
ROUNDS = int(os.environ.get("MAYFLY_KILL_ROUNDS", "4"))


def folder_of(server: Server) -> Path:
    return Path(server.folder.name) / "appendonlydir"


def again(bench, folder: str, *options: str) -> Server:
    """A server that starts with the files of another one."""
    return bench.start("--dir", folder, "--appendonly", "yes", *options)


def rewritten(r: redis.Redis) -> None:
    for _ in within_limit():
        info = r.info("persistence")
        if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
            return


def linked(r: redis.Redis) -> None:
    for _ in within_limit():
        if r.info("replication").get("master_link_status") == "up":
            return


def equal(first: redis.Redis, second: redis.Redis) -> None:
    """Waits until two servers have the same keys."""
    for _ in within_limit():
        if content(first) == content(second):
            return
    raise AssertionError("the servers differ")


def test_a_rewrite_without_an_append_only_file_writes_one(bench):
    """BGREWRITEAOF while appendonly is no, after which the file is closed. The next start with appendonly yes loads it."""
    with bench.start() as server:
        r = server.client()
        r.config_set("repl-backlog-size", 1)
        r.set("before", 1)
        r.bgrewriteaof()
        manifest = Path(server.folder.name) / "appendonlydir" / "appendonly.aof.manifest"
        for _ in within_limit():
            if manifest.exists() and not r.info("persistence")["aof_enabled"]:
                break
        r.set("behind", 1)
        r.shutdown(nosave=True)
        server.wait()
        with bench.start("--dir", server.folder.name, "--appendonly", "yes") as loaded:
            c = loaded.client()
            for _ in within_limit():
                if not c.info("persistence")["loading"]:
                    break
            assert c.keys() == [b"before"]


def test_keys_of_all_types_are_there_after_a_crash(bench):
    server = bench.start("--appendonly", "yes", "--appendfsync", "always")
    r = server.client()
    fill(r)
    # With such values the base is in Mayfly's own version.
    r.sadd("deadlines", "stays", "expires")
    assert r.execute_command("SEXPIRE", "deadlines", 3600, "MEMBERS", 1, "expires") == [1]
    before = content(r)
    r.bgrewriteaof()
    rewritten(r)
    r.set("later", 1)
    before[0, b"later"] = (b"1", -1)
    server.kill()
    second = again(bench, server.folder.name)
    assert content(second.client()) == before
    second.end()
    server.end()


def test_a_file_that_cannot_be_created_is_refused(bench):
    with bench.start() as server:
        folder_of(server).write_text("a file in place of the folder")
        r = server.client()
        try:
            r.config_set("appendonly", "yes")
            raise AssertionError("it is accepted")
        except redis.ResponseError as error:
            assert "appendonlydir" in str(error), error
        assert r.config_get("appendonly") == {"appendonly": "no"}


def test_redis_starts_with_the_folder_and_back(bench):
    server = bench.start("--appendonly", "yes")
    r = server.client()
    fill(r)
    r.spop("integers", 7)
    r.set("expires", 1, px=50)
    r.eval("redis.call('set', 'e1', 1) redis.call('incr', 'e2')", 0)
    for _ in within_limit():
        if not r.exists("expires"):
            break
    before = content(r)
    server.process.terminate()
    server.process.wait()
    there = Server("redis-server", "--dir", server.folder.name, "--appendonly", "yes")
    t = there.client()
    for _ in within_limit():
        if not t.info("persistence")["loading"]:
            break
    assert content(t) == before
    t.set("of redis", 1)
    t.bgrewriteaof()
    rewritten(t)
    t.incr("of redis")
    before = content(t)
    there.process.terminate()
    there.process.wait()
    back = again(bench, server.folder.name)
    assert content(back.client()) == before
    for one in (back, there, server):
        one.end()


def test_kill_in_a_loop_loses_nothing_that_was_acknowledged(bench):
    """A client counts what was acknowledged; with `always` every start must have it."""
    server = bench.start("--appendonly", "yes", "--appendfsync", "always")
    rng = random.Random(bench.seed)
    home = server.folder.name
    acked = {}
    current = server
    for round_ in range(ROUNDS):
        stops = threading.Event()

        def load(worker: int, port: int) -> None:
            # By itself the client would try again for seconds after each kill.
            r = redis.Redis(port=port, retry=Retry(NoBackoff(), 0))
            number = acked.get(worker, 0)
            try:
                while not stops.is_set():
                    r.set(f"worker:{worker}", number + 1)
                    number += 1
                    acked[worker] = number
            except (redis.ConnectionError, redis.TimeoutError):
                pass

        threads = [threading.Thread(target=load, args=(worker, current.port)) for worker in range(8)]
        for thread in threads:
            thread.start()
        if round_ % 2:
            redis.Redis(port=current.port).bgrewriteaof()
        time.sleep(rng.random() / 4)
        current.kill()
        stops.set()
        for thread in threads:
            thread.join()
        successor = again(bench, home, "--appendfsync", "always")
        if current is not server:
            current.end()
        current = successor
        r = current.client()
        for _ in within_limit():
            try:
                r.get("x")
                break
            except redis.exceptions.BusyLoadingError:
                pass
        for worker, number in acked.items():
            found = int(r.get(f"worker:{worker}") or 0)
            assert number <= found <= number + 1, (round_, worker, number, found)
            acked[worker] = found
    current.end()
    server.end()


def test_a_truncated_increment_is_cut_and_other_damage_is_refused(bench):
    server = bench.start("--appendonly", "yes", "--appendfsync", "always")
    r = server.client()
    r.set("a", 1)
    r.set("b", 2)
    server.kill()
    increment = folder_of(server) / "appendonly.aof.1.incr.aof"
    whole = increment.read_bytes()
    increment.write_bytes(whole + b"*3\r\n$3\r\nSET\r\n$1\r\nc")
    second = again(bench, server.folder.name)
    assert second.client().dbsize() == 2
    assert "offset" in second.log_text()
    second.kill()
    assert increment.read_bytes() == whole
    increment.write_bytes(whole.replace(b"$1\r\na", b"$1\r\nab"))
    try:
        # It may listen before it has read the damaged place.
        third = again(bench, server.folder.name)
        assert third.wait() != 0, "a damaged file was loaded"
        text = third.log_text()
    except RuntimeError as error:
        text = str(error)
    assert "offset" in text and "appendonly.aof.1.incr.aof" in text, text
    second.end()
    server.end()


def test_a_full_file_refuses_writes_until_there_is_space(bench):
    """The maximum size of a file stands for a full disk."""
    server = bench.start("--appendonly", "yes", "--appendfsync", "everysec", ignores_file_size=True)
    r = server.client()
    pid = server.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (64 << 10, hard))
    refused = False
    for number in range(100_000):
        try:
            r.set(f"key:{number}", "v" * 1000)
        except redis.ResponseError as error:
            assert "MISCONF" in str(error), error
            refused = True
            break
    assert refused and r.get("key:0") is not None
    assert r.info("persistence")["aof_last_write_status"] == "err"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    for _ in within_limit():
        try:
            r.set("after", 1)
            break
        except redis.ResponseError:
            pass
    before = content(r)
    assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
    server.kill()
    second = again(bench, server.folder.name)
    assert content(second.client()) == before
    second.end()
    server.end()


def test_a_redis_replica_follows_and_is_followed(bench):
    server, there = bench.start(), Server("redis-server")
    r, t = server.client(), there.client()
    fill(r)
    t.execute_command("REPLICAOF", "127.0.0.1", server.port)
    linked(t)
    r.set("later", 1, px=3_600_000)
    r.spop("integers", 5)
    r.lmpop(1, "list:small", direction="LEFT", count=2)
    r.xadd("stream", {"f": "v"}, id="1000-1")
    r.eval("redis.call('set', 'e1', 1) redis.call('incr', 'e2')", 0)
    equal(r, t)
    r.set("short", 1, px=30)
    for _ in within_limit():
        if not r.exists("short"):
            break
    equal(r, t)
    t.execute_command("REPLICAOF", "NO", "ONE")
    t.set("of redis", 1)
    r.execute_command("REPLICAOF", "127.0.0.1", there.port)
    linked(r)
    t.incrbyfloat("f", 1.5)
    equal(r, t)
    try:
        r.set("x", 1)
        raise AssertionError("a replica was written")
    except redis.exceptions.ReadOnlyError:
        pass
    server.end()
    there.end()


def test_a_replica_continues_after_a_broken_connection_and_a_promotion(bench):
    servers = [bench.start() for _ in range(3)]
    first, second, third = (server.client() for server in servers)
    first.set("a", 1)
    for replica in (second, third):
        replica.execute_command("REPLICAOF", "127.0.0.1", servers[0].port)
        linked(replica)
    first.execute_command("CLIENT", "KILL", "TYPE", "replica")
    first.set("b", 2)
    assert first.wait(2, 10_000) == 2
    second.execute_command("REPLICAOF", "NO", "ONE")
    second.set("c", 3)
    third.execute_command("REPLICAOF", "127.0.0.1", servers[1].port)
    first.execute_command("REPLICAOF", "127.0.0.1", servers[1].port)
    for replica in (first, third):
        for _ in within_limit():
            if replica.get("c") == b"3":
                break
    assert "continues at position" in servers[2].log_text()
    assert "receiving a snapshot" not in servers[0].log_text()
    for server in servers:
        server.end()


def test_an_append_only_file_on_a_replica_has_the_primarys_keys(bench):
    primary, replica = bench.start(), bench.start("--appendonly", "yes")
    p, r = primary.client(db=3), replica.client()
    p.set("three", 1)
    r.execute_command("REPLICAOF", "127.0.0.1", primary.port)
    linked(r)
    rewritten(r)
    p.set("later", 1)
    assert p.wait(1, 10_000) == 1
    for _ in within_limit():
        if r.execute_command("INFO", "persistence") and r.info("persistence")["aof_rewrites"] > 0:
            break
    time.sleep(0.2)
    replica.kill()
    second = again(bench, replica.folder.name)
    # A client that gets LOADING connects again, which would end a SELECT.
    s = second.client(db=3)
    assert s.get("three") == b"1" and s.get("later") == b"1"
    for server in (second, replica, primary):
        server.end()


def test_broken_replicas_and_primaries_do_no_harm(bench):
    """Handshakes that stall, lie about lengths or send other bytes."""
    server = bench.start()
    r = server.client()
    r.set("kept", 1)
    for answer in (b"", b"-ERR no\r\n", b"+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC x\r\n", b"+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " + b"a" * 40 + b" 5\r\n$99999999999\r\nREDIS0009junk", b"\xff" * 10_000):
        listener = socket.create_server(("127.0.0.1", 0))
        r.execute_command("REPLICAOF", "127.0.0.1", listener.getsockname()[1])
        peer, _ = listener.accept()
        peer.sendall(answer)
        time.sleep(0.1)
        peer.close()
        listener.close()
        assert r.get("kept") == b"1"
    r.execute_command("REPLICAOF", "NO", "ONE")
    r.set("kept", 2)
    for request in (b"PSYNC x -1\r\n", b"PSYNC ? -1\r\nGET kept\r\n", b"SYNC\r\n", b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\nzz\r\n"):
        with server.raw() as peer:
            peer.sendall(request)
            time.sleep(0.05)
    assert r.get("kept") == b"2"
    server.end()


def test_sentinels_promote_a_replica(bench):
    """Three sentinels, whose primary is killed."""
    primary, replica = bench.start(), bench.start()
    replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
    linked(replica.client())
    sentinels = []
    for _ in range(3):
        port = free_port()
        file = Path(primary.folder.name) / f"sentinel-{port}.conf"
        file.write_text(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor mayfly 127.0.0.1 {primary.port} 2\n"
            "sentinel down-after-milliseconds mayfly 1000\nsentinel failover-timeout mayfly 5000\n"
        )
        log = file.with_suffix(".log").open("wb")
        sentinels.append((port, subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=log, stderr=subprocess.STDOUT)))
    try:
        asked = redis.sentinel.Sentinel([("127.0.0.1", port) for port, _ in sentinels], socket_timeout=1)
        for _ in within_limit():
            try:
                if asked.discover_slaves("mayfly") and int(asked.sentinels[0].sentinel_master("mayfly")["num-other-sentinels"]) == 2:
                    break
            except (redis.ConnectionError, redis.ResponseError):
                pass
        p = primary.client()
        p.set("acknowledged", 1)
        assert p.wait(1, 5000) == 1
        primary.kill()
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                if asked.discover_master("mayfly")[1] == replica.port:
                    break
            except redis.ConnectionError:
                pass
            time.sleep(0.1)
        r = replica.client()
        for _ in within_limit():
            if r.info("replication")["role"] == "master":
                break
        assert r.get("acknowledged") == b"1"
        r.set("written", 1)
    finally:
        for _, process in sentinels:
            process.kill()
            process.wait()
        replica.end()
        primary.end()


def test_a_replica_frees_on_time_what_redis_has_not_deleted(bench):
    """The primary does not expire by itself, and sends a deletion only when a client accesses the key."""
    with Server("redis-server", "--enable-debug-command", "yes") as there, bench.start() as server:
        t, r = there.client(), server.client()
        t.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        r.execute_command("REPLICAOF", "127.0.0.1", there.port)
        linked(r)
        for number in range(500):
            t.set(f"key:{number}", number, px=300)
        t.set("kept", 1, px=300)
        t.persist("kept")
        assert t.wait(1, 10_000) == 1
        for _ in within_limit():
            if r.info("stats")["expired_keys"] == 500:
                break
        assert r.get("kept") == b"1"
        # The late deletions and new values change nothing else.
        for number in range(500):
            t.incr(f"key:{number}")
        equal(r, t)
        assert r.get("key:7") == b"1" and r.ttl("key:7") == -1


def test_failover_exchanges_the_roles_without_a_loss(bench):
    with bench.start() as first, bench.start() as second:
        one, two = first.client(), second.client()
        two.execute_command("REPLICAOF", "127.0.0.1", first.port)
        linked(two)
        for words, text in (
            (("ABORT",), "No failover"),
            (("TO", "127.0.0.1", 1), "not a replica"),
            (("TO", "127.0.0.1", second.port, "FORCE"), "requires both"),
            (("TIMEOUT", 0), "greater than 0"),
            (("SOON",), "syntax"),
        ):
            try:
                one.execute_command("FAILOVER", *words)
                raise AssertionError(words)
            except redis.ResponseError as error:
                assert text in str(error), (words, error)
        acked = {}
        ports = [first.port, second.port]
        stops = threading.Event()

        def load(worker: int) -> None:
            """Counts up at whichever server accepts writes."""
            number, at = 0, 0
            r = [redis.Redis(port=port) for port in ports]
            while not stops.is_set():
                try:
                    r[at].set(f"worker:{worker}", number + 1)
                    number += 1
                    acked[worker] = number
                except redis.exceptions.ReadOnlyError:
                    at = 1 - at

        threads = [threading.Thread(target=load, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for round_ in range(4):
            primary, other, at = (one, two, second) if round_ % 2 == 0 else (two, one, first)
            time.sleep(0.2)
            primary.execute_command("FAILOVER", "TO", "127.0.0.1", at.port, "TIMEOUT", 20_000)
            for _ in within_limit():
                if other.info("replication")["role"] == "master" and primary.info("replication").get("master_link_status") == "up":
                    break
            assert primary.info("replication")["master_failover_state"] == "no-failover"
        time.sleep(0.2)
        stops.set()
        for thread in threads:
            thread.join()
        for worker, number in acked.items():
            assert number > 10 and int(one.get(f"worker:{worker}")) == number, (worker, number)
        equal(one, two)
        assert "receiving a snapshot" not in first.log_text()
        # The other side does not answer: the roles stay.
        second.process.send_signal(signal.SIGSTOP)
        # The signal stops the process when one of its threads runs, which takes a while on a busy machine.
        for _ in within_limit():
            if Path(f"/proc/{second.process.pid}/stat").read_text().rsplit(") ", 1)[1].startswith("T"):
                break
        one.set("not received", 1)
        one.execute_command("FAILOVER", "TIMEOUT", 300)
        for _ in within_limit():
            if one.info("replication")["master_failover_state"] == "no-failover":
                break
        one.set("written", 1)
        one.execute_command("FAILOVER")
        one.execute_command("FAILOVER", "ABORT")
        one.set("written", 2)
        # With FORCE the change goes on after the time, and the other side does not answer then either.
        one.execute_command("FAILOVER", "TO", "127.0.0.1", second.port, "TIMEOUT", 100, "FORCE")
        for _ in within_limit():
            if one.info("replication")["master_failover_state"] == "failover-in-progress":
                break
        assert one.info("replication")["role"] == "slave"
        one.execute_command("FAILOVER", "ABORT")
        assert one.info("replication")["role"] == "master"
        one.set("written", 3)
        second.process.send_signal(signal.SIGCONT)
        linked(two)
        equal(one, two)


def test_failover_with_redis_as_the_other_side(bench):
    with bench.start() as server, Server("redis-server") as there:
        r, t = server.client(), there.client()
        r.set("a", 1)
        t.execute_command("REPLICAOF", "127.0.0.1", server.port)
        linked(t)
        r.execute_command("FAILOVER", "TO", "127.0.0.1", there.port)
        linked(r)
        t.set("b", 1)
        equal(r, t)
        t.execute_command("FAILOVER", "TO", "127.0.0.1", server.port)
        linked(t)
        r.set("c", 1)
        equal(r, t)


def test_messages_reach_subscribers_of_replicas(bench):
    with bench.start() as server, bench.start() as replica, Server("redis-server") as there:
        for one in (replica, there):
            one.client().execute_command("REPLICAOF", "127.0.0.1", server.port)
            linked(one.client())
        for one in (replica, there):
            with one.client().pubsub() as listener:
                listener.subscribe("news")
                assert listener.get_message(timeout=10)["type"] == "subscribe"
                server.client().publish("news", "text")
                assert listener.get_message(timeout=10)["data"] == b"text"


def test_loaded_keys_are_no_changes_and_bytes_of_replication_are_counted(bench):
    with bench.start() as server, bench.start() as replica:
        r = server.client()
        for number in range(100):
            r.set(f"key:{number}", 1)
        r.execute_command("SAVE")
        with bench.start("--dir", server.folder.name) as second:
            s = second.client()
            for _ in within_limit():
                if not s.info("persistence")["loading"]:
                    break
            assert s.dbsize() == 100 and s.info("persistence")["rdb_changes_since_last_save"] == 0
            s.set("one", 1)
            assert s.info("persistence")["rdb_changes_since_last_save"] == 1
        p = replica.client()
        p.execute_command("REPLICAOF", "127.0.0.1", server.port)
        linked(p)
        assert r.info("stats")["total_net_repl_output_bytes"] > 1000
        assert p.info("stats")["total_net_repl_input_bytes"] > 1000


def test_a_replica_connects_by_tls(bench):
    """As a replica of Mayfly and, where it has TLS, of Redis; a primary that nobody has certified is refused."""
    authority, stranger = tls.Authority(), tls.Authority("stranger")
    with tls.Secure(bench, authority, clients="yes") as secure:
        r = secure.server.client()
        r.set("a", 1)
        certificate, key = authority.sign("replica", "/CN=replica")
        options = ("--tls-replication", "yes", "--tls-cert-file", certificate, "--tls-key-file", key)
        with bench.start(*options, "--tls-ca-cert-file", authority.file) as replica:
            p = replica.client()
            p.execute_command("REPLICAOF", "127.0.0.1", secure.tls_port)
            linked(p)
            r.set("b", 2)
            equal(r, p)
        with bench.start(*options, "--tls-ca-cert-file", stranger.file) as replica:
            replica.client().execute_command("REPLICAOF", "127.0.0.1", secure.tls_port)
            for _ in within_limit():
                if "UnknownIssuer" in replica.log_text():
                    break
            assert replica.client().get("a") is None
