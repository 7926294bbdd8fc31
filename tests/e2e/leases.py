"""Stale values and leases: what the guide shows, waits, restarts, replicas, and a thousand clients that miss one key."""

import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from server import LIMIT_S, within_limit

pytestmark = pytest.mark.only_mayfly

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/stale.md"
CLIENTS = 1000


def plain(text: str) -> str:
    """Tokens differ, and times have passed by less than a second; times below one are of the guide's first example."""
    text = re.sub(r'"[0-9a-f]{16}"', '"token"', text)
    return re.sub(r"\(integer\) (\d+)", lambda found: f"about {-(-int(found[1]) // 1000)} s", text)


@pytest.mark.needs("redis-cli")
def test_the_server_replies_as_in_the_guide(bench):
    examples = 0
    for block in re.findall(r"^```\n(\$ .*?)^```", GUIDE.read_text(), re.M | re.S):
        for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            command = command.replace("redis-cli", f"redis-cli --no-raw -p {bench.server.port}")
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT_S, check=True)
            assert plain(done.stdout) == plain(wanted), command
            examples += 1
    assert examples >= 10


def lease(r, key: str, ms: int = 60_000) -> bytes:
    reply = r.execute_command("FETCH", key, "LEASE", ms)
    assert reply[:2] == [None, b"missing"] and reply[3]
    return reply[3]


def request(*words) -> bytes:
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def until_blocked(r, count: int) -> None:
    for _ in within_limit():
        if r.info("clients")["blocked_clients"] == count:
            return


def test_a_thousand_clients_that_miss_a_key_compute_it_once(bench):
    r = bench.server.client()
    before = r.info("stats")["total_leases"]
    sockets = [socket.create_connection(("127.0.0.1", bench.server.port)) for _ in range(CLIENTS)]
    try:
        for one in sockets:
            one.settimeout(LIMIT_S)
            one.sendall(request("FETCH", "k", "LEASE", 60_000, "WAIT", 60_000))
        until_blocked(r, CLIENTS - 1)
        tokens = []
        for one in sockets:
            one.setblocking(False)
            try:
                tokens.append((one, one.recv(1000)))
            except BlockingIOError:
                pass
        assert len(tokens) == 1, "one client has the token"
        winner, reply = tokens[0]
        assert reply.startswith(b"*4\r\n$-1\r\n$7\r\nmissing\r\n:60000\r\n$16\r\n")
        token = reply.split(b"\r\n")[-2].decode()
        waiting = [one for one in sockets if one is not winner]
        winner.setblocking(True)
        winner.sendall(request("SET", "k", "v", "PX", 50_000, "TOKEN", token))
        start = time.monotonic()
        for one in waiting:
            one.settimeout(LIMIT_S)
            assert re.fullmatch(rb"\*4\r\n\$1\r\nv\r\n\$5\r\nfresh\r\n:\d+\r\n\$-1\r\n", one.recv(1000))
        print(f"{CLIENTS - 1} replies after {(time.monotonic() - start) * 1000:.1f} ms")
        assert winner.recv(1000) == b"+OK\r\n"
        assert r.info("stats")["total_leases"] == before + 1 and r.info("clients")["blocked_clients"] == 0
    finally:
        for one in sockets:
            one.close()


def test_the_next_client_gets_the_lease_of_one_that_does_not_store(bench):
    r = bench.server.client()
    threads, replies = [], []

    def wait(key: str, ms: int, of: list) -> None:
        with bench.server.client() as client:
            of.append(client.execute_command("FETCH", key, "LEASE", 60_000, "WAIT", ms))

    def begin(key: str, ms: int) -> None:
        of = []
        replies.append(of)
        thread = threading.Thread(target=wait, args=(key, ms, of))
        threads.append(thread)
        thread.start()

    # The lease ends, is returned, and ends with a deletion of the key that does not exist.
    lease(r, "ends", 300)
    returned, deleted = lease(r, "returned"), lease(r, "deleted")
    pending = lease(r, "pending")
    for key, ms in [("ends", 60_000), ("returned", 60_000), ("deleted", 60_000), ("pending", 200)]:
        begin(key, ms)
    until_blocked(r, 2)
    assert r.execute_command("UNLEASE", "returned", returned) == 1
    assert r.delete("deleted") == 0
    assert r.set("other", 1)
    [thread.join(LIMIT_S) for thread in threads]
    for of in replies[:3]:
        assert of[0][:3] == [None, b"missing", 60_000] and len(of[0][3]) == 16
    assert replies[3][0][:2] == [None, b"pending"] and replies[3][0][3] is None
    for key, token in [("returned", returned), ("deleted", deleted)]:
        assert r.execute_command("SET", key, "old", "TOKEN", token) is None
    for key, of in zip(["ends", "returned", "deleted"], replies):
        assert r.execute_command("SET", key, "new", "TOKEN", of[0][3])
    assert r.execute_command("SET", "pending", "v", "TOKEN", pending)


def test_waits_that_end_in_other_ways(bench):
    r = bench.server.client()
    token = lease(r, "k")
    with socket.create_connection(("127.0.0.1", bench.server.port)) as gone:
        gone.sendall(request("FETCH", "k", "WAIT", 60_000))
        until_blocked(r, 1)
    until_blocked(r, 0)
    for how, wanted in [("TIMEOUT", b"*-1\r\n"), ("ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]:
        with socket.create_connection(("127.0.0.1", bench.server.port)) as one:
            one.settimeout(LIMIT_S)
            one.sendall(request("CLIENT", "ID") + request("FETCH", "k", "LEASE", 5, "WAIT", 60_000))
            until_blocked(r, 1)
            client = int(one.recv(100)[1:])
            assert r.client_unblock(client, error=how == "ERROR") == 1
            assert one.recv(100) == wanted
    with socket.create_connection(("127.0.0.1", bench.server.port)) as one:
        one.settimeout(LIMIT_S)
        one.sendall(request("FETCH", "k", "WAIT", 60_000))
        until_blocked(r, 1)
        assert r.rpush("k", 1)
        assert one.recv(100).startswith(b"-WRONGTYPE ")
    assert r.execute_command("SET", "k", "v", "TOKEN", token) is None
    with r.pipeline() as p:
        p.execute_command("FETCH", "none", "LEASE", 1000, "WAIT", 60_000)
        p.execute_command("FETCH", "none", "LEASE", 1000, "WAIT", 60_000)
        first, second = p.execute()
    assert first[1] == b"missing" and second[1] == b"pending", "a transaction does not wait"


def states(r) -> dict:
    found = {}
    for key in r.scan_iter(count=1000):
        if r.type(key) == b"string":
            value, state, _, token = r.execute_command("FETCH", key)
            found[key] = (value, state, token, r.ttl(key) > 0)
    return found


def test_stale_times_are_kept_by_files_and_replicas_and_leases_are_not(bench):
    always = ("--appendonly", "yes", "--appendfsync", "always")
    server = bench.start(*always, "--save", "")
    r = server.client()
    r.execute_command("SET", "fresh", "v", "EX", 1000, "STALE", 1000)
    r.execute_command("SET", "stale", "v", "PX", 1, "STALE", 1000, "TAGS", 1, "t")
    r.execute_command("SET", "negative", "", "EX", 1000, "NEGATIVE")
    r.execute_command("SET", "number", 1, "PX", 1, "STALE", 1000)
    r.incrbyfloat("number", 1.5)
    r.rename("number", "renamed")
    r.execute_command("SET", "large", "x" * 100_000, "PX", 1, "STALE", 1000)
    r.hset("hash", "f", 1)
    r.pexpire("hash", 1_000_000)
    assert r.execute_command("STALE", "hash", 1000) == 1
    token = lease(r, "leased")
    time.sleep(0.005)
    wanted = states(r)
    assert [wanted[key][1] for key in (b"fresh", b"stale", b"negative", b"renamed", b"large")] == [b"fresh", b"stale", b"negative", b"stale", b"stale"]
    folder = server.folder.name
    server.kill()
    with bench.start("--dir", folder, *always) as server:
        r = server.client()
        assert states(r) == wanted
        assert r.execute_command("SET", "leased", "v", "TOKEN", token) is None
        token = lease(r, "leased")
        r.execute_command("BGREWRITEAOF")
        for _ in within_limit():
            info = r.info("persistence")
            if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
                break
        server.kill()
    with bench.start("--dir", folder, "--appendonly", "yes", "--load-threads", "3") as server:
        r = server.client()
        assert states(r) == wanted
        with bench.start("--replicaof", f"127.0.0.1 {server.port}") as replica:
            copy = replica.client()
            for _ in within_limit():
                if copy.info("replication").get("master_link_status") == "up" and states(copy) == wanted:
                    break
            token = lease(r, "leased")
            with pytest.raises(redis.ReadOnlyError, match="gives no leases"):
                copy.execute_command("FETCH", "leased", "LEASE", 1000)
            r.execute_command("SET", "fresh", "w", "PX", 1, "STALE", 500)
            r.execute_command("STALE", "stale", 0)
            assert r.wait(1, int(LIMIT_S * 1000)) == 1
            for _ in within_limit():
                if copy.execute_command("FETCH", "fresh")[:2] == [b"w", b"stale"]:
                    break
            assert copy.execute_command("FETCH", "stale")[:2] == [b"v", b"fresh"]
            copy.execute_command("REPLICAOF", "NO", "ONE")
            assert copy.execute_command("SET", "leased", "v", "TOKEN", token) is None
            assert r.execute_command("SET", "leased", "v", "TOKEN", token)
