"""Cluster clients against one server that answers as a cluster of one node (`cluster-enabled emulated`), and against a cluster of three."""

import random
import socket
import subprocess
from pathlib import Path

import pytest
import redis
from durable import linked
from redis.cluster import LoadBalancingStrategy, RedisCluster
from server import LIMIT_S, run_to_end, within_limit
from tls import Authority, Secure

pytestmark = pytest.mark.only_mayfly

EMULATED = ("--cluster-enabled", "emulated")
SLOTS = 16_384


def cluster_client(server, **options) -> RedisCluster:
    return RedisCluster(host="127.0.0.1", port=server.port, decode_responses=True, **options)


def plain_client(server, **options) -> redis.Redis:
    return server.client(decode_responses=True, protocol=2, **options)


# The words are separate, so that redis-py returns the replies as they are.
def identifier(r: redis.Redis) -> str:
    return r.execute_command("CLUSTER", "MYID")


def endpoints(r: redis.Redis) -> list[tuple[str, int, str]]:
    """Host, port and identifier of the nodes, the primary first."""
    [[first, last, *nodes]] = r.execute_command("CLUSTER", "SLOTS")
    assert (first, last) == (0, SLOTS - 1)
    return [(host, port, name) for host, port, name, _ in nodes]


@pytest.mark.parametrize("protocol", (2, 3))
def test_a_cluster_client_uses_one_server(bench, protocol):
    server = bench.start(*EMULATED)
    with cluster_client(server, protocol=protocol) as c:
        assert [node.port for node in c.get_nodes()] == [server.port] and c.get_primaries() == c.get_nodes()
        for number in range(200):
            c.set(f"key:{number}", number, ex=3600)
        assert [c.get(f"key:{number}") for number in range(200)] == [str(number) for number in range(200)]
        assert c.mget_nonatomic("key:1", "key:2", "none") == ["1", "2", None]
        assert c.mset({"{a}x": "1", "{a}y": "2"}) and c.mget("{a}x", "{a}y") == ["1", "2"]
        assert c.eval("return redis.call('get', KEYS[1])", 1, "{a}x") == "1"
        with c.pipeline() as pipeline:
            for number in range(10):
                pipeline.incr(f"counter:{number}")
            assert pipeline.execute() == [1] * 10
        assert c.dbsize() == 212 and len(list(c.scan_iter("key:*"))) == 200
        slot = c.keyslot("{a}x")
        assert c.cluster_keyslot("{a}x") == slot and c.cluster_countkeysinslot(slot) == 2
        assert sorted(c.cluster_get_keys_in_slot(slot, 10)) == ["{a}x", "{a}y"]
        assert c.cluster_info(target_nodes=c.get_random_node())["cluster_state"] == "ok"
        assert c.flushall() and c.dbsize() == 0


def test_messages_of_shards_reach_a_cluster_client(bench):
    server = bench.start(*EMULATED)
    with cluster_client(server) as c:
        subscriber = c.pubsub()
        subscriber.ssubscribe("news")

        def received() -> dict:
            for _ in within_limit():
                if message := subscriber.get_sharded_message(timeout=1):
                    return message

        assert received()["type"] == "ssubscribe"
        assert c.spublish("news", "first") == 1
        assert received()["data"] == "first"
        subscriber.close()


def test_a_walk_in_steps_finds_each_key_of_a_slot_once(bench):
    server = bench.start(*EMULATED)
    keys = [f"{{{number % 7}}}:{number}" for number in range(20_000)]
    with plain_client(server) as r, cluster_client(server) as c:
        r.mset(dict.fromkeys(keys, ""))
        for threshold in (0, 10_000, -1):
            r.config_set("long-command-threshold", threshold)
            for tag in range(7):
                expected = sorted(key for key in keys if key.startswith(f"{{{tag}}}"))
                slot = c.keyslot(str(tag))
                assert r.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot) == len(expected)
                assert sorted(r.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10**18)) == expected
                assert len(r.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 5)) == 5
            stats = r.execute_command("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 0, SLOTS - 1)
            assert [slot for slot, _ in stats] == list(range(SLOTS))
            assert sum(count for _, (_, count) in stats) == len(keys)


def test_clients_get_the_address_to_connect_to(bench, tmp_path):
    path = tmp_path / "socket"
    server = bench.start("--unixsocket", str(path), *EMULATED)
    with plain_client(server) as r, redis.Redis(unix_socket_path=str(path), decode_responses=True, protocol=2) as local:
        name = identifier(r)
        assert endpoints(r) == endpoints(local) == [("127.0.0.1", server.port, name)]
        r.config_set("cluster-announce-ip", "192.0.2.1")
        r.config_set("cluster-announce-port", 7)
        assert endpoints(r) == endpoints(local) == [("192.0.2.1", 7, name)]
        assert r.execute_command("CLUSTER", "NODES") == f"{name} 192.0.2.1:7@0 myself,master - 0 0 1 connected 0-{SLOTS - 1}\n"
    server.end()
    server.restart()
    with plain_client(server) as r:
        assert identifier(r) == name and len(name) == 40, "the identifier is the same after a restart"


@pytest.mark.needs("openssl")
def test_a_client_with_tls_gets_the_port_of_tls(bench):
    with Secure(bench, Authority(), *EMULATED) as secure:
        with secure.client(decode_responses=True, protocol=2) as r, plain_client(secure.server) as plain:
            assert [port for _, port, _ in endpoints(r)] == [secure.tls_port]
            assert [port for _, port, _ in endpoints(plain)] == [secure.server.port]
            [[_, _, _, [node]]] = r.execute_command("CLUSTER", "SHARDS")
            facts = dict(zip(node[::2], node[1::2], strict=True))
            assert (facts["port"], facts["tls-port"], facts["role"]) == (secure.server.port, secure.tls_port, "master")
        options = {"ssl": True, "ssl_ca_certs": secure.authority.file}
        with RedisCluster(host="127.0.0.1", port=secure.tls_port, **options) as c:
            assert c.set("a", "1") and c.get("a") == b"1"


def test_replicas_are_nodes_that_answer_reads(bench):
    primary = bench.start(*EMULATED)
    replica = bench.start(*EMULATED, "--replicaof", f"127.0.0.1 {primary.port}")
    with plain_client(primary) as p, plain_client(replica) as r:
        linked(r)
        for _ in within_limit():
            if len(endpoints(p)) == 2:
                break
        names = [identifier(p), identifier(r)]
        expected = list(zip(["127.0.0.1"] * 2, [primary.port, replica.port], names, strict=True))
        assert endpoints(p) == endpoints(r) == expected and names[0] != names[1]
        assert p.execute_command("CLUSTER", "MYSHARDID") == r.execute_command("CLUSTER", "MYSHARDID")
        [line] = p.execute_command("CLUSTER", "REPLICAS", names[0])
        assert line == f"{names[1]} 127.0.0.1:{replica.port}@0 slave {names[0]} 0 0 1 connected"
        assert f"{names[1]} 127.0.0.1:{replica.port}@0 myself,slave {names[0]}" in r.execute_command("CLUSTER", "NODES")
        with cluster_client(primary, load_balancing_strategy=LoadBalancingStrategy.ROUND_ROBIN) as c:
            assert c.set("a", "1") and p.wait(1, 0) == 1
            assert [c.get("a") for _ in range(4)] == ["1"] * 4
            assert len(c.get_replicas()) == 1
        assert r.get("a") == "1", "a client without READONLY reads, too"
        with pytest.raises(redis.ResponseError, match=f"^{p.execute_command('CLUSTER', 'KEYSLOT', 'a')} 127.0.0.1:{primary.port}$"):
            r.set("a", "2")

        # A client whose topology is out of date follows the roles.
        with cluster_client(primary) as c:
            assert c.set("a", "2")
            p.execute_command("FAILOVER")
            for _ in within_limit():
                if r.role()[0] == "master" and p.role()[0] == "slave":
                    break
            assert c.set("a", "3") and r.get("a") == "3"


@pytest.mark.needs("redis-cli")
def test_tools_find_a_whole_cluster(bench):
    server = bench.start(*EMULATED)
    port = str(server.port)

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("redis-cli", "-c", "-p", port, "set", "a", "1") == "OK\n"
    assert "[OK] All 16384 slots covered." in run("redis-cli", "--cluster", "check", f"127.0.0.1:{port}")
    assert "1 keys" in run("redis-cli", "--cluster", "info", f"127.0.0.1:{port}")


def test_without_the_setting_there_is_no_cluster(bench):
    with plain_client(bench.server) as r:
        for words in (["CLUSTER", "SLOTS"], ["CLUSTER", "KEYSLOT", "a"], ["READONLY"], ["ASKING"]):
            with pytest.raises(redis.ResponseError, match="cluster support disabled"):
                r.execute_command(*words)
        assert r.info("server")["redis_mode"] == "standalone" and r.info("cluster")["cluster_enabled"] == 0
    with plain_client(bench.start(*EMULATED)) as r:
        assert r.info("server")["redis_mode"] == "cluster" and r.info("cluster")["cluster_enabled"] == 1
        hello = r.execute_command("HELLO")
        assert dict(zip(hello[::2], hello[1::2], strict=True))["mode"] == "cluster"


def test_a_node_without_a_topology_serves_no_keys(bench):
    # Nothing listens on the port of etcd.
    node = ("--cluster-enabled", "yes", "--cluster-etcd-endpoints", "http://127.0.0.1:1")
    with plain_client(bench.start(*node)) as r:
        with pytest.raises(redis.ResponseError, match="The cluster is down"):
            r.get("a")
        assert r.ping() and r.execute_command("CLUSTER", "SLOTS") == [] and r.info("cluster")["cluster_down_replies"] == 1
        assert "cluster_state:fail" in r.execute_command("CLUSTER", "INFO")
    code, output = run_to_end(bench.binary, "--port", "0", *node, "--engine", "segment")
    assert code != 0 and "expected engine slab" in output, output


def free_ports(count: int) -> int:
    """The first of some consecutive ports on which nothing listens."""
    for _ in within_limit():
        first = random.randrange(20_000, 32_000)
        try:
            for port in range(first, first + count):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return first


@pytest.mark.needs("etcd")
def test_a_cluster_client_uses_three_nodes(bench, tmp_path):
    # Three nodes, and two ports of etcd.
    port = free_ports(5)
    options = ("--nodes", "3", "--replicas", "0", "--port", str(port), "--dir", str(tmp_path / "demo"))
    with (tmp_path / "log").open("w") as log:
        demo = subprocess.Popen([str(Path(bench.binary).resolve()), "cluster", "demo", *options], stdout=log, stderr=log)
    try:
        nodes = [redis.Redis(port=port + number, decode_responses=True, protocol=2) for number in range(3)]
        for _ in within_limit():
            assert demo.poll() is None, (tmp_path / "log").read_text()
            try:
                if all("cluster_state:ok" in r.execute_command("CLUSTER", "INFO") for r in nodes):
                    break
            except redis.ConnectionError:
                pass
        with RedisCluster(host="127.0.0.1", port=port, decode_responses=True) as c:
            assert sorted(node.port for node in c.get_primaries()) == [port, port + 1, port + 2]
            for number in range(100):
                c.set(f"key:{number}", number)
            assert [c.get(f"key:{number}") for number in range(100)] == [str(number) for number in range(100)]
            assert c.dbsize(target_nodes=RedisCluster.PRIMARIES) == 100
        assert all(0 < r.dbsize() < 100 for r in nodes)
        slot = nodes[0].execute_command("CLUSTER", "KEYSLOT", "key:1")
        [owner] = [r for r in nodes if r.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot)]
        for r in nodes:
            with pytest.raises(redis.ResponseError, match="don't hash to the same slot"):
                r.mget("key:1", "key:2")
            if r is not owner:
                expected = f"{slot} 127.0.0.1:{owner.connection_pool.connection_kwargs['port']}"
                with pytest.raises(redis.ResponseError, match=f"^{expected}$"):
                    r.get("key:1")
    finally:
        demo.terminate()
        demo.wait(LIMIT_S)
