"""Nodes of a cluster that reach etcd and each other by TLS and passwords: messages of PUBLISH, and everything that others may send or write by mistake.

etcd and etcdctl are Debian's packages etcd-server and etcd-client. The checks of this file use one cluster, and each leaves it whole.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import redis
from failovers import Cluster, Etcd
from redis.cluster import RedisCluster
from server import LIMIT_S, Server, free_port, run_to_end, within_limit
from tls import Authority

pytestmark = [pytest.mark.only_mayfly, pytest.mark.needs("etcd", "etcdctl", "openssl")]

PASSWORD = "a password for tests"
PREFIX = "/mayfly/cluster/default"
STRANGER = "5" * 40


class SecureEtcd(Etcd):
    """An etcd with TLS, and with a user that may use the records of the cluster and nothing else."""

    scheme = "https"

    def __init__(self, authority: Authority) -> None:
        self.authority, self.user = authority, []
        self.certificate, self.key = authority.sign("etcd", "/CN=etcd")
        super().__init__()
        for _ in within_limit():
            if self.try_control("endpoint", "health").returncode == 0:
                break
        for words in (
            ["user", "add", f"root:{PASSWORD}"],
            ["user", "add", f"mayfly:{PASSWORD}"],
            ["role", "add", "cluster"],
            ["role", "grant-permission", "cluster", "readwrite", "--prefix=true", f"{PREFIX}/"],
            ["user", "grant-role", "mayfly", "cluster"],
            ["user", "grant-role", "root", "root"],
            ["auth", "enable"],
        ):
            self.control(*words)
        self.user = ["--user", f"root:{PASSWORD}"]

    def options(self) -> list[str]:
        # Each use of the password takes seconds on a busy machine at the usual cost.
        return ["--bcrypt-cost", "4", "--cert-file", self.certificate, "--key-file", self.key]

    def try_control(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess:
        fixed = ["etcdctl", "--endpoints", self.url, "--cacert", self.authority.file, *self.user]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run([*fixed, *words], env=environment, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def control(self, *words: str, text: str | None = None) -> str:
        done = self.try_control(*words, text=text)
        assert done.returncode == 0, f"etcdctl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def get(self, key: str) -> str:
        return self.control("get", f"{PREFIX}/{key}", "--print-value-only").removesuffix("\n")

    def put(self, key: str, text: str) -> None:
        self.control("put", f"{PREFIX}/{key}", text=text)


class SecureCluster(Cluster):
    """Two shards, one of which has a replica."""

    shard_count, node_count = 2, 3

    def __init__(self, binary: str) -> None:
        self.authority = Authority()
        self.files = self.authority.sign("node", "/CN=node")
        self.secret = self.authority.path / "password"
        self.secret.write_text(PASSWORD + "\n")
        super().__init__(binary)

    def make_etcd(self) -> Etcd:
        return SecureEtcd(self.authority)

    def inside_port(self, node: Server) -> int:
        return int(node.command[node.command.index("--tls-port") + 1])

    def lonely(self) -> str:
        """The shard without a replica."""
        [shard] = [shard["id"] for shard in self.shards() if shard["id"] != self.shard]
        return shard

    def access(self, authority: str | None = None, secret: Path | None = None) -> list[str]:
        found = ["--etcd-ca", authority or self.authority.file, "--etcd-cert", self.files[0], "--etcd-key", self.files[1]]
        return [*found, "--etcd-user", "mayfly", "--etcd-password-file", str(secret or self.secret)]

    def options(self) -> list[str]:
        access = self.access()
        found = [word.replace("--etcd", "--cluster-etcd") for word in access[::2]]
        found = [word for pair in zip(found, access[1::2], strict=True) for word in pair]
        found += ["--tls-port", str(free_port()), "--tls-replication", "yes", "--tls-auth-clients", "no", "--tls-ca-cert-file", self.authority.file]
        found += ["--tls-cert-file", self.files[0], "--tls-key-file", self.files[1], "--repl-timeout", "5"]
        # Nodes that may do nothing but replicate.
        return [*found, "--masteruser", "node", "--masterauth", "secret", "--user", "node on >secret +psync +replconf +ping"]


@pytest.fixture(scope="module")
def cluster(pytestconfig):
    cluster = SecureCluster(pytestconfig.option.server)
    yield cluster
    cluster.end()


def info(node: Server) -> dict:
    with node.client(decode_responses=True) as r:
        return r.info("cluster")


def linked(cluster: SecureCluster) -> None:
    """Waits until all nodes are linked."""
    for node in cluster.nodes:
        for _ in within_limit():
            if info(node)["cluster_links"] == info(node)["cluster_links_wanted"] == len(cluster.nodes) - 1:
                break


def logged(node: Server, text: str) -> None:
    """Waits for a text in the log of a node."""
    for _ in within_limit():
        if text in node.log_text():
            return


def test_messages_reach_the_subscribers_of_all_nodes(cluster):
    linked(cluster)
    clients = [node.client(decode_responses=True, protocol=2 + at % 2) for at, node in enumerate(cluster.nodes)]
    subscribers = [client.pubsub() for client in clients]
    for client, subscriber in zip(clients, subscribers, strict=True):
        client.config_set("notify-keyspace-events", "KEA")
        subscriber.subscribe("news", "__keyevent@0__:set")
        subscriber.psubscribe("n?ws")
        assert [subscriber.get_message(timeout=LIMIT_S)["type"] for _ in range(3)] == ["subscribe", "subscribe", "psubscribe"]
    expected = []
    for at, client in enumerate(clients):
        # The reply counts the subscribers of this node, as in Redis Cluster.
        assert client.publish("news", f"plain {at}") == 2
        with client.pipeline(transaction=True) as pipe:
            pipe.publish("news", f"transaction {at}")
            assert pipe.execute() == [2]
        assert client.execute_command("EVAL", "return redis.call('publish', 'news', ARGV[1])", 0, f"script {at}") == 2
        expected += [f"plain {at}", f"transaction {at}", f"script {at}"]
        for subscriber in subscribers:
            received = [(message["type"], message["data"]) for message in (subscriber.get_message(timeout=LIMIT_S) for _ in range(6))]
            assert received == [(kind, text) for text in expected[-3:] for kind in ("message", "pmessage")]
    # Notifications stay on the node of the key, and there are no further messages.
    slots = [(first, last, port) for first, last, (_, port, *_), *_ in clients[0].execute_command("CLUSTER", "SLOTS")]
    owner = next(at for at, node in enumerate(cluster.nodes) if node.port == slots[0][2])
    key = next(key for key in map(str, range(1000)) if slots[0][0] <= clients[0].cluster("KEYSLOT", key) <= slots[0][1])
    clients[owner].set(key, 1)
    assert subscribers[owner].get_message(timeout=LIMIT_S)["data"] == key
    for client in clients:
        client.publish("news", "end")
        client.config_set("notify-keyspace-events", "")
    for at, subscriber in enumerate(subscribers):
        texts = {subscriber.get_message(timeout=LIMIT_S)["data"] for _ in range(6)}
        # The shard's replica has the event as well, because it executes the same command.
        assert texts <= {"end", key} and (at != owner or texts == {"end"}), texts
        subscriber.close()
    for client in clients:
        users = [one["user"] for one in client.client_list()]
        assert users.count("node") >= 2, users
        client.close()


class Stranger:
    """A registered node that is none: it accepts connections with TLS and answers each with the next of some texts, then with silence."""

    def __init__(self, cluster: SecureCluster, *replies: bytes) -> None:
        self.cluster, self.replies, self.connections = cluster, replies, []
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(*cluster.files)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def accept(self) -> None:
        while True:
            try:
                connection = self.context.wrap_socket(self.listener.accept()[0], server_side=True)
                self.connections.append(connection)
                for reply in self.replies:
                    connection.recv(4096)
                    connection.sendall(reply)
            except ssl.SSLError:
                continue
            except OSError:
                return

    def __enter__(self) -> "Stranger":
        self.thread.start()
        name = json.loads(self.cluster.etcd.get("config"))["cluster"]
        text = {"format": 1, "cluster": name, "ip": "127.0.0.1", "port": self.port, "tls_port": 0, "inside": f"127.0.0.1:{self.port}", "shard": None, "run": "x"}
        self.cluster.etcd.put(f"nodes/{STRANGER}", json.dumps(text))
        return self

    def __exit__(self, *_) -> None:
        self.cluster.etcd.control("del", f"{PREFIX}/nodes/{STRANGER}")
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            connection.close()
        linked(self.cluster)


def test_a_link_to_something_else_is_closed(cluster):
    for replies, expected in (
        ([b"HTTP/1.1 400 Bad Request\r\n"], "it has sent 'HTTP/1.1 400 Bad Request': expected the replies of a node"),
        ([b"-WRONGPASS secret\r\n"], "AUTH was refused: WRONGPASS"),
        ([b"+OK\r\n", b"-ERR this is node b\r\n"], "REPLCONF was refused: ERR this is node b"),
        ([b"+OK\r\n", b"+OK\r\n+OK\r\n"], "it has sent '+OK': expected the replies of a node"),
    ):
        with Stranger(cluster, *replies) as stranger:
            for node in cluster.nodes:
                logged(node, f"link to node {STRANGER} at 127.0.0.1:{stranger.port}: {expected}")
    # The other direction: a client that is no node.
    node = cluster.nodes[0]
    with node.client() as r:
        name = r.execute_command("CLUSTER", "MYID").decode()
        for words, expected in (
            (["CLUSTER-MESSAGE", "news", "text"], "a message without REPLCONF CLUSTER-PEER before"),
            (["CLUSTER-PEER", "a" * 40, name], f"node {'a' * 40} is not another node of this cluster"),
            (["CLUSTER-PEER", name, "a" * 40], f"this is node {name}, not {'a' * 40}"),
        ):
            with pytest.raises(redis.ResponseError, match=expected):
                r.execute_command("REPLCONF", *words)
            logged(node, f"is closed: {expected}")


def test_a_node_that_takes_nothing_delays_no_publisher(cluster):
    node, text = cluster.nodes[0], b"x" * (1 << 20)
    with Stranger(cluster, b"+OK\r\n", b"+OK\r\n"), node.client() as r:
        for _ in within_limit():
            if info(node)["cluster_links"] == len(cluster.nodes):
                break
        # More than the queue and the sockets hold.
        for _ in range(80):
            r.publish("news", text)
        for _ in within_limit():
            if f"messages of PUBLISH to node {STRANGER} were dropped" in node.log_text():
                break
        assert info(node)["cluster_link_dropped_messages"] > 0 and info(node)["cluster_link_queue_bytes"] <= 64 << 20
        # The connection ends after repl-timeout, because nothing was taken.
        logged(node, f"link to node {STRANGER}")
    assert r.ping()


def serves(c: RedisCluster) -> None:
    """Writes and reads keys of both shards."""
    for number in range(20):
        assert c.set(f"key:{number}", number) and c.get(f"key:{number}") == str(number)


def test_records_that_cannot_be_used_change_nothing(cluster):
    etcd, c = cluster.etcd, cluster.client()
    good = {key: etcd.get(key) for key in ("map", "config")}
    name = json.loads(good["config"])["cluster"]
    slots = json.loads(good["map"])["slots"]
    shard = slots[0][2]

    def with_slots(*ranges: list) -> str:
        return json.dumps({**json.loads(good["map"]), "slots": ranges})

    for key, text, expected in (
        ("map", good["map"][: len(good["map"]) // 2], "record map is not used: damaged: EOF"),
        ("map", "slots: all", "record map is not used: damaged: expected value"),
        ("map", good["map"].replace('"format":1', '"format":2'), "record map is not used: format 2: expected 1"),
        ("map", good["map"].replace(name, "7" * 40), f"record map is not used: it belongs to another cluster, {'7' * 40}"),
        ("map", with_slots([0, 16384, shard]), "slots 0-16384: expected 0 <= first <= last < 16384"),
        ("map", with_slots([0, 99, shard], [99, 200, shard]), "slots 99-200: expected 100 <= first"),
        ("map", with_slots([0, 16383, "8" * 40]), f"record map is not used: slots 0-16383: shard {'8' * 40} has no record"),
        ("config", good["config"].replace(name, "7" * 40), f"record config is not used: it belongs to another cluster, {'7' * 40}"),
        ("nodes/abc", "{}", "record nodes/abc is not used: expected 40 hexadecimal digits in its name"),
    ):
        etcd.put(key, text)
        for node in cluster.nodes:
            logged(node, expected)
        serves(c)
    for key, text in good.items():
        etcd.put(key, text)
    etcd.control("del", f"{PREFIX}/nodes/abc")
    for _ in within_limit():
        if cluster.run("check").stdout.splitlines() == [f"shard {cluster.lonely()}: 0 of 1 replicas are in sync"]:
            break
    serves(c)
    c.close()
    assert all(info(node)["refused_records"] >= 8 for node in cluster.nodes)


def test_a_node_starts_without_etcd_from_its_copy(cluster):
    _, replica = cluster.pair()
    state = Path(replica.folder.name) / "cluster.state"
    cluster.etcd.kill()
    replica.kill()
    good = state.read_text()
    # A damaged copy is refused, and so is one of another version.
    for text, expected in ((good[:-9], "line 2"), (good.replace(" 1 ", " 2 ", 1), "format '2': expected 1"), ("x", "expected two lines")):
        state.write_text(text)
        words = [word for word in replica.command[2:] if word not in ("--bind", "127.0.0.1")]
        code, output = run_to_end(cluster.binary, "--bind", "127.0.0.1", "--dir", replica.folder.name, *words)
        assert code != 0 and f"cluster.state: {expected}" in output and "the node starts as a new one" in output, output
    state.write_text(good)
    replica.restart()
    logged(replica, "from the last run")
    with replica.client(decode_responses=True) as r, pytest.raises((redis.exceptions.MovedError, redis.exceptions.ClusterDownError)):
        r.set("key", "value")
    assert "cluster: etcd: " in replica.log_text()
    cluster.etcd.start()
    for _ in within_limit():
        if cluster.run("status").returncode == 0 and cluster.is_whole():
            break
    linked(cluster)


def test_a_second_node_with_the_name_of_another_waits(cluster, tmp_path):
    """The copy of the records names the node, so that a node with the file of another one has its name."""
    first, _ = cluster.pair()
    shutil.copy(Path(first.folder.name) / "cluster.state", tmp_path)
    with Server(cluster.binary, "--dir", str(tmp_path), "--cluster", f"etcd={cluster.etcd.url}", *cluster.options()) as second:
        logged(second, f"is registered at 127.0.0.1:{cluster.inside_port(first)}: this node waits")
        with cluster.client() as c:
            serves(c)
        with second.client() as r, pytest.raises((redis.exceptions.MovedError, redis.exceptions.ClusterDownError)):
            r.set("key", "value")
        assert cluster.is_whole() and cluster.pair()[0] is first


def test_access_to_etcd_that_is_wrong_is_refused(cluster, tmp_path):
    other = Authority("other")
    (tmp_path / "password").write_text("another password\n")
    for access, expected in (
        (cluster.access(authority=other.file), "certificate"),
        (cluster.access(secret=tmp_path / "password"), "authentication failed"),
        (cluster.access(secret=tmp_path / "none"), "No such file"),
        (cluster.access()[:6], "user name is empty"),
    ):
        done = cluster.run("status", access=access)
        assert done.returncode == 1 and expected in done.stderr, done.stderr
