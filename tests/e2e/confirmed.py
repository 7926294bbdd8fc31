"""A shard whose replies wait for its replicas: `mayfly cluster set --strength sync`.

etcd is Debian's package etcd-server. The checks of this file use one shard with two replicas, and each leaves it whole.
"""

import json
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from failovers import Etcd
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import LIMIT_S, Server, within_limit

pytestmark = [pytest.mark.only_mayfly, pytest.mark.needs("etcd")]

SYNC_TIMEOUT_MS = 300
LEASE_MS = 1000
WRITERS = 4


class Shard:
    def __init__(self, binary: str) -> None:
        self.binary = str(Path(binary).resolve())
        self.etcd = Etcd()
        words = ("--shards", "1", "--replicas", "2", "--lease-ms", str(LEASE_MS), "--sync-timeout-ms", str(SYNC_TIMEOUT_MS))
        for _ in within_limit():
            done = self.run("init", *words)
            if done.returncode == 0:
                break
            assert self.etcd.process.poll() is None, done.stderr
        options = ("--cluster-enabled", "yes", "--cluster-etcd-endpoints", self.etcd.url, "--io-threads", "2")
        self.nodes = [Server(binary, *options) for _ in range(3)]
        self.await_whole()

    def run(self, *words: str) -> subprocess.CompletedProcess:
        command = [self.binary, "cluster", *words, "--etcd", self.etcd.url]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def roles(self) -> dict[str, list[Server]]:
        """The nodes by their roles in the shard's record."""
        done = self.run("status", "--json")
        # etcd may be starting.
        if done.returncode != 0:
            return {}
        found = {}
        at = {f"127.0.0.1:{node.port}": node for node in self.nodes}
        for node in json.loads(done.stdout)["shards"][0]["nodes"]:
            found.setdefault(node["role"], []).append(at[node["address"]])
        return found

    def await_roles(self, in_sync: int) -> tuple[Server, list[Server]]:
        """The primary and the in-sync replicas, once there are as many as expected."""
        for _ in within_limit():
            found = self.roles()
            if len(found.get("in sync", [])) == in_sync and "primary" in found:
                return found["primary"][0], found["in sync"]

    def await_whole(self) -> tuple[Server, list[Server]]:
        return self.await_roles(2)

    def end(self) -> None:
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.kill()
        self.etcd.kill()


@pytest.fixture(scope="module")
def shard(pytestconfig):
    shard = Shard(pytestconfig.option.server)
    yield shard
    shard.end()


def plain(node: Server) -> redis.Redis:
    """A client that repeats nothing."""
    return node.client(decode_responses=True, retry=Retry(NoBackoff(), 0))


class Writers:
    """Clients that set keys of their own to rising numbers, and remember the last one that was acknowledged."""

    def __init__(self, node: Server) -> None:
        self.node, self.stops = node, threading.Event()
        self.acknowledged = [0] * WRITERS
        self.slowest_s = 0.0
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, number: int) -> None:
        with plain(self.node) as r:
            value = 0
            while not self.stops.is_set():
                value += 1
                begun = time.monotonic()
                try:
                    r.set(f"writer:{number}", value)
                except redis.RedisError:
                    return
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
                self.acknowledged[number] = value

    def end(self) -> None:
        self.stops.set()
        for thread in self.threads:
            thread.join()


def strengths(shard: Shard) -> set[str]:
    found = set()
    for node in shard.nodes:
        with plain(node) as r:
            found.add(r.info("cluster")["strength"])
    return found


def test_the_strength_changes_while_the_cluster_runs(shard):
    assert strengths(shard) == {"async"}
    assert shard.run("set").returncode == 1, "nothing was named to change"
    assert "sync timeout of 5 ms: expected 10" in shard.run("set", "--sync-timeout-ms", "5").stderr
    done = shard.run("set", "--strength", "sync")
    assert done.returncode == 0, done.stderr
    for _ in within_limit():
        if strengths(shard) == {"sync"}:
            break
    assert f"strength sync, sync timeout {SYNC_TIMEOUT_MS} ms" in shard.run("status").stdout
    primary, replicas = shard.await_whole()
    with plain(primary) as r:
        assert "cluster_strength:sync" in r.execute_command("CLUSTER", "INFO", NEVER_DECODE=True).decode()
        for number in range(100):
            assert r.set("key", number)
            assert r.execute_command("WAIT", 2, 60_000) == 2
        found = r.info("cluster")
        assert found["unconfirmed_replies"] == 0 and found["failover_loss_bytes"] >= 0 and found["failover_loss_ms"] >= 0
    for replica in replicas:
        with plain(replica) as r:
            r.execute_command("READONLY")
            assert r.get("key") == "99"


def test_replies_of_all_kinds_wait_and_keep_their_order(shard):
    primary, _ = shard.await_whole()
    with plain(primary) as r, plain(primary) as other, plain(primary) as monitor:
        with monitor.monitor() as lines, r.pipeline(transaction=True) as p:
            p.set("{a}1", "x")
            p.incr("{a}2")
            p.get("{a}1")
            assert p.execute()[::2] == [True, "x"]
            for _ in within_limit():
                if lines.next_command()["command"] == "MULTI":
                    break
        assert r.eval("redis.call('set', KEYS[1], 'y') return redis.call('get', KEYS[1])", 1, "{a}1") == "y"
        popped = []
        thread = threading.Thread(target=lambda: popped.append(other.blpop("list", LIMIT_S)))
        thread.start()
        for _ in within_limit():
            if r.info("clients")["blocked_clients"]:
                break
        assert r.rpush("list", "element") == 1
        thread.join()
        assert popped == [("list", "element")]
        with r.pipeline(transaction=False) as p:
            for number in range(1000):
                p.set("order", number)
                p.get("order")
            assert p.execute()[1::2] == [str(number) for number in range(1000)]
        r.set("short", 1, px=20)
        for _ in within_limit():
            if r.get("short") is None:
                break
        r.execute_command("CLIENT", "PAUSE", 100, "WRITE")
        assert r.set("paused", 1) and r.execute_command("WAIT", 2, 60_000) == 2
    with socket.create_connection(("127.0.0.1", primary.port), timeout=LIMIT_S) as raw:
        # A client that closes its side gets the replies to what it has sent.
        raw.sendall(b"SET last 1\r\nGET last\r\n")
        raw.shutdown(socket.SHUT_WR)
        found = b""
        while part := raw.recv(4096):
            found += part
        assert found == b"+OK\r\n$1\r\n1\r\n"


def test_a_replica_that_stops_leaves_before_clients_get_replies(shard):
    primary, [replica, _] = shard.await_whole()
    writers = Writers(primary)
    with plain(primary) as r:
        replica.signal(signal.SIGSTOP)
        shard.await_roles(1)
        before = sum(writers.acknowledged)
        for _ in within_limit():
            if sum(writers.acknowledged) > before + 100:
                break
        replica.signal(signal.SIGCONT)
        # It enters again although clients write without a pause.
        shard.await_whole()
        assert r.info("cluster")["unconfirmed_replies"] == 0
    writers.end()
    assert all(writers.acknowledged) and writers.slowest_s >= SYNC_TIMEOUT_MS / 1000


def test_without_etcd_a_write_that_one_replica_lacks_fails(shard):
    primary, [replica, _] = shard.await_whole()
    with plain(primary) as r, plain(primary) as other:
        assert r.set("key", "before")
        shard.etcd.kill()
        assert r.set("key", "during"), "all members have it"
        replica.signal(signal.SIGSTOP)
        failures = []

        def write() -> None:
            with pytest.raises(redis.ResponseError, match="^UNCONFIRMED ") as failure:
                r.set("key", "after")
            failures.append(failure)

        thread = threading.Thread(target=write)
        thread.start()
        while thread.is_alive():
            # Other clients are served meanwhile.
            assert other.ping()
            time.sleep(0.05)
        thread.join()
        assert failures and other.info("cluster")["unconfirmed_replies"] == 1
        replica.signal(signal.SIGCONT)
        shard.etcd.start()
    shard.await_whole()
    for _ in within_limit():
        try:
            with plain(shard.await_whole()[0]) as r:
                assert r.get("key") in {"during", "after"}
            break
        except redis.exceptions.ClusterDownError:
            pass


def test_a_primary_that_is_killed_has_lost_no_acknowledged_write(shard):
    primary, replicas = shard.await_whole()
    writers = Writers(primary)
    for _ in within_limit():
        if sum(writers.acknowledged) > 1000:
            break
    primary.kill()
    writers.end()
    for _ in within_limit():
        [found] = shard.roles()["primary"]
        if found is not primary:
            break
    with plain(found) as r:
        for _ in within_limit():
            try:
                values = [int(r.get(f"writer:{number}")) for number in range(WRITERS)]
                break
            except redis.exceptions.ClusterDownError:
                pass
    assert found in replicas
    assert all(value >= known for value, known in zip(values, writers.acknowledged, strict=True)), f"{values} {writers.acknowledged}"
    primary.restart()
    shard.await_whole()
