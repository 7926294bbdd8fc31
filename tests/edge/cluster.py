"""Starts four nodes of `mayfly edge serve` with mutual TLS and an origin on loopback, ends and revives nodes under
load, damages and deletes what they have on disk, and checks every byte, every status, and that the origin is used only when it must be.

    python3 tests/edge/cluster.py --mayfly target/release/mayfly

openssl makes the certificates.
"""

import argparse
import http.client
import http.server
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

NODES = 4
SEED = 20261125
OBJECTS = 12
HANG_SECONDS = 60
TOKEN = "0123456789abcdef0123"


def content(path: str, length: int) -> bytes:
    """Returns the content of a path, which differs in every block."""
    block = random.Random(path).randbytes(4093)
    return (block * (length // len(block) + 1))[:length]


def length_of(path: str) -> int:
    return int(path.rsplit("/", 1)[1])


class Origin(http.server.ThreadingHTTPServer):
    """An origin that counts requests by path. Content below /slow arrives in parts that wait for an event."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}
        self.release = threading.Event()

    def count(self, path: str) -> int:
        with self.lock:
            return self.counts.get(path, 0)

    def total(self) -> int:
        with self.lock:
            return sum(self.counts.values())


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.counts[self.path] = self.server.counts.get(self.path, 0) + 1
        body = content(self.path, length_of(self.path))
        start, end = 0, len(body)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found:
            start = int(found[1])
            end = min(end, int(found[2]) + 1) if found[2] else end
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(body)}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("ETag", f'"{len(body)}"')
        self.end_headers()
        try:
            if self.path.startswith("/slow") and not found:
                half = start + (end - start) // 2
                self.wfile.write(body[start:half])
                self.wfile.flush()
                self.server.release.wait(HANG_SECONDS)
                start = half
            self.wfile.write(body[start:end])
        except OSError:
            self.close_connection = True


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def openssl(*words: str, folder: Path) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path) -> None:
    """Makes an authority and a certificate for the address of all nodes."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2", folder=folder)
    openssl("req", *curve, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node", folder=folder)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    openssl("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "node.pem", "-days", "2", "-extfile", "names", folder=folder)


class Cluster:
    """The nodes, by number from 0."""

    def __init__(self, mayfly: Path, folder: Path, origin: Origin) -> None:
        self.mayfly, self.folder, self.origin = mayfly, folder, origin
        ports = free_ports(3 * NODES)
        self.peers, self.ports, self.admins = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
        lines = ["data 3", "parity 1", "buckets 100"]
        lines += [f"server {number} 127.0.0.1:{port}" for number, port in enumerate(self.peers)]
        (folder / "token").write_text(TOKEN)
        (folder / "cluster").write_text("\n".join(lines) + "\n")
        self.processes: dict[int, subprocess.Popen] = {}

    def words(self, number: int) -> list:
        """Returns the command that starts a node."""
        words = [self.mayfly, "edge", "serve", "--origin", f"http://127.0.0.1:{self.origin.server_port}"]
        words += ["--listen", f"127.0.0.1:{self.ports[number]}", "--admin", f"127.0.0.1:{self.admins[number]}"]
        words += ["--cluster", self.folder / "cluster", "--cluster-id", str(number), "--memory", "256mb", "--threads", "2"]
        words += ["--peer-ca", self.folder / "ca.pem", "--peer-cert", self.folder / "node.pem", "--peer-key", self.folder / "node.key"]
        words += ["--purge-token-file", self.folder / "token", "--disk", self.folder / f"disk{number}", "--disk-size", "1gb", "--loglevel", "warning"]
        return words

    def start(self, number: int) -> None:
        process = subprocess.Popen(self.words(number))
        self.processes[number] = process
        for port in (self.ports[number], self.peers[number]):
            wait_for(port, process)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            process.wait()

    def metric(self, name: str) -> int:
        """Returns the sum of a counter over the nodes that are up."""
        return sum(self.metrics(name).values())

    def metrics(self, name: str) -> dict[int, int]:
        """Returns a counter of each node that is up."""
        counts = {}
        for number in self.processes:
            connection = http.client.HTTPConnection("127.0.0.1", self.admins[number], timeout=HANG_SECONDS)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            counts[number] = int(re.search(rf"^mayfly_edge_{name} (\d+)$", text, re.MULTILINE)[1])
        return counts

    def purge(self, number: int, arguments: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.admins[number], timeout=HANG_SECONDS)
        connection.request("POST", f"/purge?{arguments}", headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status == 200, f"purge: status {response.status}, {text}"

    def get(self, number: int, path: str, fields: dict[str, str] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[number], timeout=HANG_SECONDS)
        try:
            connection.request("GET", path, headers={"Host": "site.example", **(fields or {})})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def check(self, number: int, path: str) -> None:
        status, body = self.get(number, path)
        assert status == 200, f"{path} from node {number}: status {status}"
        assert body == content(path, length_of(path)), f"{path} from node {number}: {len(body)} wrong bytes"


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Polls until a process listens, because nothing announces it."""
    poll(lambda: process.poll() is not None or listens(port))
    if process.poll() is not None:
        sys.exit(f"a node ended with exit code {process.returncode}")


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def poll(is_so) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit("what was waited for did not happen")
        time.sleep(0.05)


class Load:
    """Clients that request objects from nodes in a loop, until they are stopped. Errors are kept."""

    def __init__(self, cluster: Cluster, numbers: list[int], paths: list[str], clients: int = 4) -> None:
        self.is_stopped = threading.Event()
        self.errors: list[str] = []
        self.replies = 0
        self.lock = threading.Lock()
        # Daemons, so that a failed check ends the program.
        self.threads = [threading.Thread(target=self.run, args=(cluster, numbers, paths, seed), daemon=True) for seed in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, cluster: Cluster, numbers: list[int], paths: list[str], seed: int) -> None:
        random_source = random.Random(SEED + seed)
        while not self.is_stopped.is_set():
            number, path = random_source.choice(numbers), random_source.choice(paths)
            try:
                if random_source.random() < 0.3:
                    self.range(cluster, number, path, random_source)
                else:
                    cluster.check(number, path)
            except Exception as error:  # noqa: BLE001 - every failure counts, and the load goes on
                with self.lock:
                    self.errors.append(f"{type(error).__name__}: {error}")
            with self.lock:
                self.replies += 1

    @staticmethod
    def range(cluster: Cluster, number: int, path: str, random_source: random.Random) -> None:
        length = length_of(path)
        first = random_source.randrange(length)
        last = random_source.randrange(first, length)
        status, body = cluster.get(number, path, {"Range": f"bytes={first}-{last}"})
        assert status == 206, f"{path} from node {number}: status {status}"
        assert body == content(path, length)[first : last + 1], f"{path} from node {number}: wrong bytes"

    def wait(self, replies: int) -> None:
        """Waits for more replies."""
        with self.lock:
            wanted = self.replies + replies
        poll(lambda: self.replies >= wanted)

    def stop(self) -> int:
        self.is_stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, f"{len(self.errors)} failed requests of {self.replies}: {self.errors[:5]}"
        return self.replies


def load_objects(cluster: Cluster, name: str) -> list[str]:
    """Requests objects once, and waits until they are in chunks."""
    lengths = random.Random(SEED)
    # A node that was revived gets chunks as soon as the others have noticed it.
    poll(lambda: cluster.metric("cluster_nodes_down") == 0)
    before = cluster.metric("cluster_objects_coded_total")
    paths = [f"/{name}{number}/{lengths.randrange(131_072, 1_500_000)}" for number in range(OBJECTS)]
    for number, path in enumerate(paths):
        cluster.check(number % NODES, path)
    poll(lambda: cluster.metric("cluster_objects_coded_total") == before + OBJECTS)
    for path in paths:
        assert cluster.origin.count(path) == 1, f"{path}: {cluster.origin.count(path)} fetches"
    return paths


def kill_under_load(cluster: Cluster) -> None:
    """Ends each node under load and revives it: clients of the others notice nothing, and the origin is not used. Objects
    are new for each node, because the memory of a node that was killed is lost."""
    replies = fetches = 0
    for victim in range(NODES):
        paths = load_objects(cluster, f"kill{victim}-")
        before = cluster.origin.total()
        others = [number for number in range(NODES) if number != victim]
        load = Load(cluster, others, paths)
        load.wait(40)
        cluster.kill(victim)
        load.wait(80)
        cluster.start(victim)
        load.wait(40)
        replies += load.stop()
        # The node serves what the others have.
        for path in paths:
            cluster.check(victim, path)
        fetches += cluster.origin.total() - before
    assert fetches == 0, f"{fetches} fetches from the origin"
    assert cluster.metric("cluster_stripes_decoded_total") > 0
    print(f"four nodes killed and revived: {replies} replies, no failure, no fetch from the origin")


def damage_disk(cluster: Cluster, number: int) -> int:
    """Stops a node, which writes its memory to disk, and changes bytes throughout its files. Returns how many."""
    process = cluster.processes.pop(number)
    process.terminate()
    process.wait()
    changed = 0
    for segment in (cluster.folder / f"disk{number}").glob("*.segment"):
        content = bytearray(segment.read_bytes())
        for at in range(100, len(content), 100):
            content[at] ^= 16
            changed += 1
        segment.write_bytes(content)
    return changed


def revive(cluster: Cluster, number: int) -> None:
    """Starts a node that has lost its chunks, and waits until it has them again."""
    poll(lambda: cluster.metric("cluster_nodes_down") == NODES - 1)
    cluster.start(number)
    # With four nodes, each has a chunk and the head of each object. Counts of repairs would not do, because reads while a node was
    # down have others made for another home.
    poll(lambda: cluster.metrics("store_urls")[number] >= 2 * OBJECTS)
    poll(lambda: cluster.metric("cluster_nodes_down") == 0)


def repair(cluster: Cluster) -> None:
    """A node whose disk was damaged, and one that comes back with nothing, get their chunks again from the others: then the loss of
    another node is survived without the origin."""
    paths = load_objects(cluster, "repair")
    before = cluster.origin.total()
    for victim, other, is_empty in ((3, 0, False), (2, 1, True)):
        if is_empty:
            cluster.kill(victim)
            shutil.rmtree(cluster.folder / f"disk{victim}")
        else:
            changed = damage_disk(cluster, victim)
            assert changed > OBJECTS, f"{changed} bytes changed"
        revive(cluster, victim)
        cluster.kill(other)
        for path in paths:
            for number in cluster.processes:
                cluster.check(number, path)
        revive(cluster, other)
    assert cluster.origin.total() == before, f"{cluster.origin.total() - before} fetches from the origin"
    failed = cluster.metric("cluster_chunks_not_repaired_total")
    print(f"a damaged disk and an empty one: chunks of {OBJECTS} objects made again each, {failed} not, no fetch from the origin")


def popular(cluster: Cluster) -> None:
    """A small object for which a node gets many requests is copied there, and leaves with a purge on another node."""
    path = "/popular/1000"
    for number in range(NODES):
        for _ in range(10):
            cluster.check(number, path)
    assert cluster.origin.count(path) == 1, f"{cluster.origin.count(path)} fetches"
    copies, hits = cluster.metrics("cluster_copies_total"), cluster.metric("cluster_copy_hits_total")
    assert sorted(copies.values()) == [0, 1, 1, 1], f"copies by node: {copies}"
    cluster.purge(0, f"url=http://site.example{path}")
    for number in range(NODES):
        cluster.check(number, path)
    assert cluster.origin.count(path) == 2, f"{cluster.origin.count(path)} fetches after a purge"
    print(f"a popular small object: three copies, {hits} of 40 requests answered by them, one fetch before and after a purge")


def stall_under_load(cluster: Cluster) -> None:
    """A node that does not run and keeps its connections is one that has nothing."""
    paths = load_objects(cluster, "stall")
    before = cluster.origin.total()
    load = Load(cluster, [0, 1, 2], paths)
    load.wait(20)
    cluster.processes[3].send_signal(signal.SIGSTOP)
    load.wait(60)
    cluster.processes[3].send_signal(signal.SIGCONT)
    replies = load.stop()
    assert cluster.origin.total() == before, f"{cluster.origin.total() - before} fetches from the origin"
    print(f"a node stopped for a while: {replies} replies, no failure, no fetch from the origin")


def kill_mid_transfer(cluster: Cluster) -> None:
    """Ends the owner of an object while it fetches: the rest comes from the origin."""
    for number in range(6):
        path = f"/slow{number}/900000"
        fetcher = (number + 1) % NODES
        before = cluster.metrics("origin_requests_total")
        connection = http.client.HTTPConnection("127.0.0.1", cluster.ports[fetcher], timeout=HANG_SECONDS)
        connection.request("GET", path, headers={"Host": "site.example"})
        response = connection.getresponse()
        begin = response.read(200_000)
        after = cluster.metrics("origin_requests_total")
        owner = next(node for node in after if after[node] > before[node])
        if owner != fetcher:
            cluster.kill(owner)
        cluster.origin.release.set()
        body = begin + response.read()
        connection.close()
        cluster.origin.release.clear()
        assert body == content(path, 900_000), f"{path}: wrong bytes after {len(body)}"
        if owner != fetcher:
            cluster.start(owner)
            print("the owner of an object killed while it sent it: the rest came from the origin")
            return
    sys.exit("no object had another owner")


def two_down(cluster: Cluster) -> None:
    """With two nodes down and one parity, objects come from the origin."""
    paths = load_objects(cluster, "two")
    before = cluster.origin.total()
    cluster.kill(0)
    cluster.kill(1)
    for path in paths[:8]:
        for number in (2, 3):
            cluster.check(number, path)
    fetched = cluster.origin.total() - before
    assert fetched >= 8, f"{fetched} fetches of 8 objects"
    print(f"two nodes down: {fetched} fetches from the origin, every byte right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", type=Path, required=True)
    arguments = parser.parse_args()
    origin = Origin()
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        certificates(Path(folder))
        cluster = Cluster(arguments.mayfly.resolve(), Path(folder), origin)
        try:
            for number in range(NODES):
                cluster.start(number)
            checks = (popular, repair, kill_under_load, stall_under_load, kill_mid_transfer, two_down)
            for check in checks:
                check(cluster)
        finally:
            cluster.stop()
    print(f"{len(checks)} passed, 0 failed")


if __name__ == "__main__":
    main()
