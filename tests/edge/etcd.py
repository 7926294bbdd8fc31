"""Starts etcd, four nodes of `mayfly edge serve` that find each other there, and an origin on loopback. Ends and revives
nodes and etcd under load, and checks every byte, every status, and the versions of the map. Before that, other four nodes get
writes that leave out one of them.

    python3 tests/edge/etcd.py --mayfly target/release/mayfly

etcd and etcdctl are Debian's packages etcd-server and etcd-client. openssl makes the certificates.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from cluster import HANG_SECONDS, NODES, Cluster, Load, Origin, certificates, free_ports, load_objects, poll, wait_for

# Longer than etcd takes to answer on a busy machine.
LEASE_SECONDS = 10
PREFIX = "/test/edge"
PASSWORD = "a password for tests"
# Objects that are written again and again, and their chunks: few servers have no choice with (3, 1).
DRIFTING = 6
DRIFT_LINES = ["data 2", "parity 1", "buckets 100", "etcd-rebalance 1 test"]
LINES = ["data 3", "parity 1", "buckets 100"]


class Etcd:
    """An etcd with TLS, a user and a folder of its own."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data = folder, data
        self.port, self.peer_port = free_ports(2)
        self.url = f"https://127.0.0.1:{self.port}"
        self.process: subprocess.Popen | None = None
        self.user: list[str] = []

    def start(self) -> None:
        words = ["etcd", "--data-dir", self.data, "--log-level", "error", "--logger", "zap"]
        # Each command of etcdctl presents the password, whose check takes seconds on a busy machine at the usual cost.
        words += ["--bcrypt-cost", "4"]
        words += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        words += ["--cert-file", self.folder / "node.pem", "--key-file", self.folder / "node.key"]
        peer = f"http://127.0.0.1:{self.peer_port}"
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        # Debian's service is configured by variables, which would change this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        self.process = subprocess.Popen(words, env=environment)
        wait_for(self.port, self.process)
        poll(lambda: self.try_control("endpoint", "health").returncode == 0)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def try_control(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess:
        fixed = ["etcdctl", "--endpoints", self.url, "--command-timeout", f"{HANG_SECONDS}s", "--dial-timeout", f"{HANG_SECONDS}s", "--cacert", str(self.folder / "ca.pem"), *self.user]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run([*fixed, *words], env=environment, input=text, capture_output=True, text=True)

    def control(self, *words: str, text: str | None = None) -> str:
        done = self.try_control(*words, text=text)
        assert done.returncode == 0, f"etcdctl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def protect(self) -> None:
        """Makes a user that may use the values of the cluster and nothing else."""
        self.control("user", "add", f"root:{PASSWORD}")
        self.control("user", "add", f"mayfly:{PASSWORD}")
        self.control("role", "add", "edge")
        self.control("role", "grant-permission", "edge", "readwrite", "--prefix=true", f"{PREFIX}/")
        self.control("user", "grant-role", "mayfly", "edge")
        self.control("user", "grant-role", "root", "root")
        self.control("auth", "enable")
        self.user = ["--user", f"root:{PASSWORD}"]

    def map(self) -> tuple[dict, int]:
        """Returns the map and the number of times that its value was written."""
        found = json.loads(self.control("get", f"{PREFIX}/map", "-w", "json"))
        if not found.get("kvs"):
            return {"version": 0}, 0
        value = self.control("get", f"{PREFIX}/map", "--print-value-only")
        title, text = value.split("\n", 1)
        assert title.startswith("mayfly-edge-map 1 "), title
        return json.loads(text), int(found["kvs"][0]["version"])

    def version(self) -> int:
        return self.map()[0]["version"]

    def up(self) -> list[int]:
        return [server["id"] for server in self.map()[0]["servers"] if server["is_up"]]


class EtcdCluster(Cluster):
    """Nodes that find each other in etcd."""

    def __init__(self, mayfly: Path, folder: Path, origin: Origin, etcd: Etcd, lines: list[str]) -> None:
        super().__init__(mayfly, folder, origin)
        self.etcd = etcd
        (folder / "password").write_text(PASSWORD + "\n")
        lines = [*lines, f"etcd {etcd.url}", f"etcd-prefix {PREFIX}", f"etcd-lease {LEASE_SECONDS}"]
        lines += [f"etcd-ca {folder / 'ca.pem'}", f"etcd-cert {folder / 'node.pem'} {folder / 'node.key'}"]
        lines += [f"etcd-user mayfly {folder / 'password'}"]
        (folder / "cluster").write_text("\n".join(lines) + "\n")

    def words(self, number: int) -> list:
        return [*super().words(number), "--peer-address", f"127.0.0.1:{self.peers[number]}"]

    def versions(self) -> set[int]:
        return set(self.metrics("cluster_map_version").values())

    def wait_version(self, version: int) -> None:
        """Waits until all nodes that are up have a version of the map and follow etcd."""
        poll(lambda: self.versions() == {version})
        poll(lambda: set(self.metrics("etcd_connected").values()) == {1})
        found, writes = self.etcd.map()
        assert found["version"] == version, f"map {found['version']} in etcd, and {version} in the nodes"
        self.check_writes(writes, version)

    def check_writes(self, writes: int, version: int) -> None:
        assert writes == version + self.restored, f"{writes} writes for {version} versions"

    restored = 0


def kill_under_load(cluster: EtcdCluster) -> None:
    """Ends the coordinator and another node under load and revives them. Each change is one version."""
    etcd = cluster.etcd
    replies = fetches = 0
    for victim in (0, 2):
        version = etcd.version()
        paths = load_objects(cluster, f"etcd-kill{victim}-")
        before = cluster.origin.total()
        load = Load(cluster, [number for number in range(NODES) if number != victim], paths)
        load.wait(40)
        cluster.kill(victim)
        load.wait(40)
        cluster.wait_version(version + 1)
        assert victim not in etcd.up(), f"the map has the node {victim}"
        load.wait(80)
        cluster.start(victim)
        cluster.wait_version(version + 2)
        assert len(etcd.up()) == NODES
        load.wait(80)
        replies += load.stop()
        for path in paths:
            cluster.check(victim, path)
        fetches += cluster.origin.total() - before
    assert fetches == 0, f"{fetches} fetches from the origin"
    assert any(chunk for chunk, _ in etcd.map()[0]["loads"]), "no loads were recorded"
    print(f"two of four nodes killed and revived: {replies} replies, no failure, no fetch from the origin, one version a change")


def drift(cluster: EtcdCluster) -> None:
    """Objects whose chunks are all on the same three of four nodes are written again and again: one map places parity on the fourth."""
    version = cluster.etcd.version()
    by_idle: dict[int, list[str]] = {number: [] for number in range(NODES)}
    number = 0
    while max(map(len, by_idle.values())) < DRIFTING:
        path = f"/drift{number}/150000"
        coded, before = cluster.metric("cluster_objects_coded_total"), cluster.metrics("cluster_taken_bytes_total")
        cluster.check(0, path)
        poll(lambda: cluster.metric("cluster_objects_coded_total") == coded + 1)
        after = cluster.metrics("cluster_taken_bytes_total")
        idle = [node for node in range(NODES) if after[node] == before[node]]
        assert len(idle) == 1, f"{path}: not on the nodes {idle}"
        by_idle[idle[0]].append(path)
        number += 1
    idle, paths = max(by_idle.items(), key=lambda item: len(item[1]))

    def write() -> bool:
        coded = cluster.metric("cluster_objects_coded_total")
        for path in paths:
            cluster.purge(0, f"url=http://site.example{path}")
            cluster.check(1, path)
        poll(lambda: cluster.metric("cluster_objects_coded_total") == coded + len(paths))
        return cluster.etcd.version() > version

    poll(write)
    cluster.wait_version(version + 1)
    assert cluster.metric("etcd_maps_rebalanced_total") == 1
    before = cluster.metrics("cluster_taken_bytes_total")[idle]
    write()
    taken = cluster.metrics("cluster_taken_bytes_total")[idle] - before
    assert taken > 0, f"the node {idle} takes nothing under the new map"
    print(f"writes that left out a node: one map for {len(paths)} objects, of which it has {taken} bytes now")


def without_etcd(cluster: EtcdCluster) -> None:
    """Without etcd the nodes serve on, also one that is started then. Later changes are seen."""
    etcd = cluster.etcd
    version = etcd.version()
    paths = load_objects(cluster, "etcd-gone")
    before = cluster.origin.total()
    load = Load(cluster, [0, 1, 2], paths)
    load.wait(40)
    etcd.stop()
    poll(lambda: set(cluster.metrics("etcd_connected").values()) == {0})
    load.wait(80)
    # A node that starts has the copy of the map on its disk.
    cluster.kill(3)
    load.wait(40)
    cluster.start(3)
    poll(lambda: cluster.metric("cluster_nodes_down") == 0)
    assert cluster.versions() == {version}, cluster.versions()
    for path in paths:
        cluster.check(3, path)
    load.wait(80)
    etcd.start()
    cluster.wait_version(version)
    replies = load.stop()
    assert cluster.origin.total() == before, f"{cluster.origin.total() - before} fetches from the origin"
    cluster.kill(1)
    cluster.wait_version(version + 1)
    cluster.start(1)
    cluster.wait_version(version + 2)
    print(f"etcd stopped and started: {replies} replies, no failure, no fetch from the origin; later changes were seen")


def damaged_value(cluster: EtcdCluster) -> None:
    """A value that no node has written is refused, and replaced by the last good one."""
    etcd = cluster.etcd
    good, _ = etcd.map()
    paths = load_objects(cluster, "etcd-damaged")
    load = Load(cluster, list(range(NODES)), paths)
    refused = cluster.metric("etcd_refused_total")
    value = etcd.control("get", f"{PREFIX}/map", "--print-value-only")
    etcd.control("put", f"{PREFIX}/map", text=value.replace('"version":', '"version":9'))
    poll(lambda: cluster.metric("etcd_refused_total") >= refused + NODES)
    poll(lambda: etcd.map()[0] == good)
    cluster.restored += 2
    load.wait(40)
    cluster.wait_version(good["version"])
    replies = load.stop()
    print(f"a damaged map: refused by {NODES} nodes and replaced; {replies} replies, no failure")


def paused_and_compacted(cluster: EtcdCluster) -> None:
    """A node that does not run for longer than its lease has missed changes, which etcd has compacted meanwhile."""
    etcd = cluster.etcd
    version = etcd.version()
    paths = load_objects(cluster, "etcd-paused")
    load = Load(cluster, [0, 1, 2], paths)
    paused = cluster.processes.pop(3)
    paused.send_signal(signal.SIGSTOP)
    try:
        cluster.wait_version(version + 1)
        revision = json.loads(etcd.control("get", f"{PREFIX}/map", "-w", "json"))["header"]["revision"]
        etcd.control("compact", str(revision))
        load.wait(40)
    finally:
        paused.send_signal(signal.SIGCONT)
        cluster.processes[3] = paused
    cluster.wait_version(version + 2)
    replies = load.stop()
    for path in paths:
        cluster.check(3, path)
    print(f"a node that did not run for its lease, and a compaction: {replies} replies, no failure")


def leave(cluster: EtcdCluster) -> None:
    """A node that is not registered is forgotten if the operator says so; four servers are the fewest for (3, 1)."""
    etcd = cluster.etcd
    version = etcd.version()
    cluster.peers.append(free_ports(1)[0])
    cluster.ports.append(free_ports(1)[0])
    cluster.admins.append(free_ports(1)[0])
    cluster.start(NODES)
    cluster.wait_version(version + 1)
    cluster.kill(NODES)
    cluster.wait_version(version + 2)
    etcd.control("put", f"{PREFIX}/leave/{NODES}", "")
    cluster.wait_version(version + 3)
    assert len(etcd.map()[0]["servers"]) == NODES
    assert not etcd.control("get", "--prefix", f"{PREFIX}/leave/").strip()
    status = subprocess.run(
        [cluster.mayfly, "edge", "status", "--admin", f"127.0.0.1:{cluster.admins[0]}"], capture_output=True, text=True, check=True
    ).stdout
    for part in (f"etcd at {etcd.url}", "version of the map", str(version + 3), "this node", "node that makes the next map"):
        assert part in status, f"'{part}' is not in the status:\n{status}"
    print("a fifth node joined, left, and was forgotten")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", type=Path, required=True)
    arguments = parser.parse_args()
    origin = Origin()
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    # In memory, because etcd synchronizes each write, which takes seconds on a busy disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as data:
        certificates(Path(folder))
        etcd = Etcd(Path(folder), Path(data))
        drifting = Path(folder) / "drift"
        drifting.mkdir()
        for file in filter(Path.is_file, Path(folder).iterdir()):
            shutil.copy(file, drifting)
        first = EtcdCluster(arguments.mayfly.resolve(), drifting, origin, etcd, DRIFT_LINES)
        cluster = EtcdCluster(arguments.mayfly.resolve(), Path(folder), origin, etcd, LINES)
        try:
            etcd.start()
            etcd.protect()
            for number in range(NODES):
                first.start(number)
            first.wait_version(1)
            drift(first)
            first.stop()
            etcd.control("del", "--prefix", f"{PREFIX}/")
            for number in range(NODES):
                cluster.start(number)
            cluster.wait_version(1)
            checks = (kill_under_load, without_etcd, damaged_value, paused_and_compacted, leave)
            for check in checks:
                check(cluster)
        finally:
            first.stop()
            cluster.stop()
            etcd.stop()
    # `drift` is one more.
    print(f"{1 + len(checks)} passed, 0 failed")


if __name__ == "__main__":
    main()
