"""A cluster of three primaries and a replica on etcd: redirections, failovers, and etcd that goes away.

etcd is Debian's package etcd-server. The checks of this file use one cluster, and each leaves it whole.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from server import LIMIT_S, Server, free_port, within_limit

pytestmark = [pytest.mark.only_mayfly, pytest.mark.needs("etcd")]

KEYS = 300
# The default lease time of primaries.
LEASE_S = 2.0


class Etcd:
    scheme = "http"

    def __init__(self) -> None:
        # In memory, because etcd synchronizes each write, which takes seconds on a busy disk.
        memory = Path("/dev/shm")
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.url, self.peer = f"{self.scheme}://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self.start()

    def options(self) -> list[str]:
        return []

    def start(self) -> None:
        words = ["etcd", *self.options(), "--data-dir", self.folder.name, "--logger", "zap", "--log-level", "error"]
        # One member needs no patience for the others.
        words += ["--heartbeat-interval", "20", "--election-timeout", "200"]
        words += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        words += ["--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"]
        # Debian's service is configured by variables, which would change this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        self.process = subprocess.Popen(words, env=environment)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Cluster:
    """A cluster of which one shard has a replica."""

    shard_count, node_count = 3, 4

    def __init__(self, binary: str) -> None:
        self.binary = str(Path(binary).resolve())
        self.etcd = self.make_etcd()
        for _ in within_limit():
            done = self.run("init", "--shards", str(self.shard_count), "--replicas", "1")
            if done.returncode == 0:
                break
            assert self.etcd.process.poll() is None, done.stderr
        self.nodes = [Server(binary, "--cluster", f"etcd={self.etcd.url}", *self.options()) for _ in range(self.node_count)]
        for _ in within_limit():
            if self.is_whole():
                break
        [shard] = [shard for shard in self.shards() if len(shard["nodes"]) == 2]
        self.shard = shard["id"]

    def make_etcd(self) -> Etcd:
        return Etcd()

    def access(self) -> list[str]:
        """Options of `mayfly cluster` for etcd, besides its address."""
        return []

    def options(self) -> list[str]:
        """Options of a node."""
        return []

    def run(self, *words: str, access: list[str] | None = None) -> subprocess.CompletedProcess:
        command = [self.binary, "cluster", *words, "--etcd", self.etcd.url, *(self.access() if access is None else access)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def shards(self) -> list[dict]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["shards"]

    def is_whole(self) -> bool:
        """Whether each shard has a primary, and one of them an in-sync replica, and all nodes serve."""
        roles = sorted(node["role"] for shard in self.shards() for node in shard["nodes"])
        return roles == ["in sync", *["primary"] * self.shard_count] and all(self.is_served(node) for node in self.nodes)

    def is_served(self, node: Server) -> bool:
        with node.client(decode_responses=True) as r:
            return "cluster_state:ok" in r.execute_command("CLUSTER", "INFO", NEVER_DECODE=True).decode()

    def inside_port(self, node: Server) -> int:
        """The port for other nodes."""
        return node.port

    def pair(self) -> tuple[Server, Server]:
        """The primary and the replica of the shard that has one."""
        [shard] = [shard for shard in self.shards() if shard["id"] == self.shard]
        found = {node["role"]: int(node["address"].rsplit(":", 1)[1]) for node in shard["nodes"]}
        at = {self.inside_port(node): node for node in self.nodes}
        return at[found["primary"]], at[found["in sync"]]

    def client(self) -> RedisCluster:
        retry = Retry(ConstantBackoff(0.05), 200)
        return RedisCluster(host="127.0.0.1", port=self.nodes[0].port, decode_responses=True, retry=retry, socket_timeout=LIMIT_S)

    def end(self) -> None:
        for node in self.nodes:
            node.kill()
        self.etcd.kill()


@pytest.fixture(scope="module")
def cluster(pytestconfig):
    cluster = Cluster(pytestconfig.option.server)
    yield cluster
    cluster.end()


def patiently(call):
    """The result of a call, which is repeated while a shard has no primary: the client repeats it without a pause, a limited number of times."""
    for _ in within_limit():
        try:
            return call()
        except (redis.ConnectionError, redis.exceptions.ClusterDownError, redis.exceptions.RedisClusterException):
            time.sleep(0.05)


def key_of(c: RedisCluster, node: Server) -> str:
    """A key of the shard whose primary is a node."""
    return next(key for key in (f"key:{number}" for number in range(KEYS)) if c.get_node_from_key(key).port == node.port)


def test_a_cluster_client_is_redirected(cluster):
    with cluster.client() as c:
        for number in range(KEYS):
            c.set(f"key:{number}", number)
        assert [c.get(f"key:{number}") for number in range(KEYS)] == [str(number) for number in range(KEYS)]
        ports = {node.port for node in c.get_primaries()}
        assert len(ports) == 3
        primary, _ = cluster.pair()
        key = key_of(c, primary)
        other = next(node for node in cluster.nodes if node.port in ports and node is not primary)
        with other.client() as r, pytest.raises(redis.exceptions.MovedError, match=rf"127\.0\.0\.1:{primary.port}$"):
            r.get(key)
    assert cluster.run("init").returncode == 1, "a second cluster of this name was created"


def test_a_planned_failover_loses_no_write(cluster):
    primary, replica = cluster.pair()
    with cluster.client() as c:
        written, stops = 0, threading.Event()
        key = f"{{{key_of(c, primary)}}}counter"

        def write() -> None:
            nonlocal written
            while not stops.is_set():
                patiently(lambda: c.incr(key))
                written += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for target in (replica, primary):
                for _ in within_limit():
                    done = cluster.run("failover", f"127.0.0.1:{target.port}")
                    if done.returncode == 0:
                        break
                print(done.stdout.strip())
        finally:
            stops.set()
            thread.join()
        # A command whose connection was closed before its reply is sent again.
        assert int(c.get(key)) >= written > 0
    for node in (primary, replica):
        with node.client(decode_responses=True) as r:
            assert r.info("cluster")["lost_writes"] == 0
    assert cluster.pair() == (primary, replica)


def test_without_etcd_all_commands_succeed(cluster):
    # Without retries of errors, except for redirections.
    with RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port, decode_responses=True, socket_timeout=LIMIT_S, retry=Retry(NoBackoff(), 0)) as c:
        cluster.etcd.kill()
        # Longer than the fence of any primary lasts after its last beat.
        end = time.monotonic() + 1.5 * LEASE_S
        while time.monotonic() < end:
            for number in range(KEYS):
                assert c.set(f"key:{number}", number)
        for node in cluster.nodes:
            with node.client(decode_responses=True) as r:
                assert r.info("cluster")["etcd_connected"] == 0
        cluster.etcd.start()
        for _ in within_limit():
            for number in range(KEYS):
                assert c.get(f"key:{number}") == str(number)
            if cluster.run("status").returncode == 0 and cluster.is_whole():
                break


def test_a_replica_replaces_a_primary_that_is_killed(cluster):
    primary, replica = cluster.pair()
    with cluster.client() as c:
        key = key_of(c, primary)
        c.set(key, "before")
        c.wait(1, 0, target_nodes=c.get_node_from_key(key))
        primary.kill()
        assert patiently(lambda: c.get(key)) == "before" and c.set(key, "after")
    primary.restart()
    for _ in within_limit():
        if cluster.is_whole():
            break
    assert cluster.pair() == (replica, primary)
    with primary.client(decode_responses=True) as r:
        r.execute_command("READONLY")
        assert r.get(key) == "after"
    assert cluster.run("check").stdout.count("0 of 1 replicas are in sync") == 2


def test_a_former_primary_reports_what_it_drops(cluster):
    primary, replica = cluster.pair()
    value, count = b"x" * (1 << 20), 40
    with cluster.client() as c:
        key = key_of(c, primary)
    with primary.client() as r:
        # More than the sockets hold, so that the replica gets only a part of it.
        replica.signal(signal.SIGSTOP)
        for _ in range(count):
            r.append(key, value)
        primary.signal(signal.SIGSTOP)
        replica.signal(signal.SIGCONT)
    with replica.client(decode_responses=True) as r:
        for _ in within_limit():
            try:
                received = r.strlen(key) // len(value)
                break
            except (redis.exceptions.MovedError, redis.exceptions.ClusterDownError):
                pass
    primary.signal(signal.SIGCONT)
    with primary.client(decode_responses=True) as r:
        for _ in within_limit():
            if r.role()[0] == "slave":
                break
        lost = r.info("cluster")["lost_writes"]
    assert 0 < lost <= count and received < count, f"{lost} lost, {received} received"
    for _ in within_limit():
        if cluster.is_whole():
            break


def test_the_demo_ends_what_it_has_started(pytestconfig):
    for _ in within_limit():
        # The node's port and the next two, which are etcd's; another program may use one of these.
        port = free_port()
        if port > 65_000:
            continue
        command = [Path(pytestconfig.option.server).resolve(), "cluster", "demo", "--nodes", "1", "--replicas", "0", "--port", str(port)]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if line.startswith("the cluster ends"):
                break
        if lines:
            break
        assert demo.wait(LIMIT_S) != 0
    try:
        assert f"node      127.0.0.1:{port}\n" in lines
        with redis.Redis(port=port, socket_timeout=LIMIT_S) as r:
            assert patiently(lambda: r.set("key", "value")) and r.get("key") == b"value"
        demo.send_signal(signal.SIGINT)
        assert demo.wait(LIMIT_S) == 0
    finally:
        # Unlike SIGKILL, this ends its processes as well.
        demo.terminate()
        demo.wait(LIMIT_S)
        demo.stdout.close()
    with pytest.raises(redis.ConnectionError), redis.Redis(port=port) as r:
        r.ping()


def test_bench_counts_what_clients_see(pytestconfig):
    """Planned failovers and moves lose nothing; what a kill loses depends on the moment."""
    command = [Path(pytestconfig.option.server).resolve(), "bench", "cluster", "--rounds", "1", "--keys", "500", "--span", "1s", "--bytes", "100kb", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S * 5)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    kill, failover, move = report["trials"]
    assert (kill["trial"], failover["trial"], move["trial"]) == ("kill -9", "planned failover", "move")
    # Events that the killed node had not yet written are lost with it.
    assert kill["seconds"] > 0 and kill["late_reads"] == 0 and kill["lateness"]["count"] > 0
    for trial in (failover, move):
        assert (trial["lost_writes"], trial["late_reads"], trial["missing"]) == (0, 0, 0), trial
        assert trial["writes"] > 0 and trial["reads"] > 0 and trial["lateness"]["count"] == 500
    assert move["duplicates"] == 0
    (moved,) = report["moves"]
    assert moved["lost_keys"] == 0 and moved["writes_per_second"] > 0
