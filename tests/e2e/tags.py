"""Tags of keys: what the guide shows, restarts, replicas, snapshots, and the memory of many keys."""

import re
import subprocess
import threading
from pathlib import Path

import pytest
import redis
from server import LIMIT_S, free_port, within_limit

pytestmark = pytest.mark.only_mayfly

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/tags.md"


@pytest.mark.needs("redis-cli")
def test_the_server_replies_as_in_the_guide(bench):
    examples = 0
    for block in re.findall(r"^```\n(\$ .*?)^```", GUIDE.read_text(), re.M | re.S):
        for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            command = command.replace("redis-cli", f"redis-cli --no-raw -p {bench.server.port}")
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT_S, check=True)
            assert done.stdout == wanted, command
            examples += 1
    assert examples > 10


def tags_of(r) -> dict:
    """Each key with its tags."""
    return {key: sorted(r.execute_command("TAGS", key)) for key in r.scan_iter(count=1000)}


def fill(r) -> dict:
    r.execute_command("SET", "page", "x" * 600, "EX", 1000, "TAGS", 2, "a", "b")
    r.execute_command("SET", "large", "x" * 100_000, "TAGS", 1, b"\x00\xff")
    r.set("plain", 1)
    r.rpush("list", *range(1000))
    r.hset("hash", mapping={f"f{i}": i for i in range(2000)})
    r.sadd("set", "m")
    for key in ("list", "hash", "set"):
        r.execute_command("TAG", key, "a", "t" * 1024)
    for i in range(200):
        r.execute_command("SET", f"many:{i}", i, "TAGS", 2, "many", f"of:{i % 7}")
    r.execute_command("SET", "gone", 1, "TAGS", 1, "gone")
    assert r.execute_command("INVALIDATE", 2, "gone", "of:3") == 1 + 29
    # Values that are rewritten for the feed.
    r.execute_command("SET", "page", "y", "KEEPTTL")
    r.incrbyfloat("many:1", 0.5)
    r.getex("many:2", ex=1000)
    r.rename("many:4", "renamed")
    return tags_of(r)


def test_tags_are_kept_by_files_and_replicas(bench):
    always = ("--appendonly", "yes", "--appendfsync", "always")
    server = bench.start(*always, "--save", "")
    r = server.client()
    tags = fill(r)
    assert tags["page".encode()] == [b"a", b"b"] and len(tags) == 6 + 200 - 29
    folder = server.folder.name
    server.kill()
    with bench.start("--dir", folder, *always) as server:
        r = server.client()
        assert tags_of(r) == tags
        r.execute_command("BGREWRITEAOF")
        for _ in within_limit():
            info = r.info("persistence")
            if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
                break
        r.execute_command("TAG", "plain", "late")
        tags[b"plain"] = [b"late"]
        server.kill()
    with bench.start("--dir", folder, "--appendonly", "yes", "--load-threads", "3") as server:
        r = server.client()
        assert tags_of(r) == tags
        with bench.start("--replicaof", f"127.0.0.1 {server.port}") as replica:
            copy = replica.client()
            for _ in within_limit():
                if copy.info("replication").get("master_link_status") == "up" and tags_of(copy) == tags:
                    break
            assert r.execute_command("INVALIDATE", 1, "a") == 4
            r.execute_command("SET", "list", "new", "TAGS", 1, "a")
            assert r.wait(1, int(LIMIT_S * 1000)) == 1
            assert tags_of(copy) == tags_of(r) and copy.get("list") == b"new"
            assert copy.execute_command("TAGKEYS", "a") == [1, [b"list"]]
            for _ in within_limit():
                if copy.info("stats")["invalidated_keys_pending"] == 0 and copy.dbsize() == r.dbsize():
                    break


@pytest.mark.needs("redis-server")
def test_redis_reads_a_file_with_tags(bench):
    server = bench.start("--save", "")
    r = server.client()
    tags = fill(r)
    r.save()
    r.connection_pool.disconnect()
    command = ["redis-server", "--port", str(port := free_port()), "--dir", server.folder.name, "--save", ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            other = redis.Redis(port=port)
            for _ in within_limit():
                try:
                    if other.ping():
                        break
                except (redis.ConnectionError, redis.BusyLoadingError):
                    continue
            assert set(other.keys()) == set(tags)
            assert 0 < other.ttl("page") <= 1000 and other.get("page") == b"y"
        finally:
            process.kill()


def test_many_keys_of_a_tag_disappear_at_once_and_their_memory_returns(bench):
    count = 10_000
    server = bench.start("--save", "", "--notify-keyspace-events", "Ei")
    r, other = server.client(), server.client()
    before = r.info("memory")["used_memory_dataset"]
    listener = other.pubsub()
    listener.subscribe("__keyevent@0__:invalidated")
    assert listener.get_message(timeout=LIMIT_S)["type"] == "subscribe"
    for start in range(0, count, 5000):
        with r.pipeline(transaction=False) as p:
            for i in range(start, start + 5000):
                p.execute_command("SET", f"key:{i:06}", "value", "TAGS", 1, "all")
            p.execute()
    seen = []

    def look():
        with server.client() as reader:
            while not seen:
                found = reader.exists("key:000000", f"key:{count - 1:06}")
                if found != 2:
                    seen.append(found)

    thread = threading.Thread(target=look)
    thread.start()
    assert r.execute_command("INVALIDATE", 1, "all") == count
    assert r.exists("key:000000", f"key:{count // 2:06}") == 0 and r.randomkey() is None and r.keys() == []
    thread.join(LIMIT_S)
    assert seen == [0], "a client has seen a part of the keys"
    for _ in within_limit():
        info = r.info("stats")
        if info["invalidated_keys_pending"] == 0:
            break
    assert info["invalidated_keys"] == count and info["tags"] == info["tagged_keys"] == 0 and info["expired_keys"] == 0
    memory = r.info("memory")
    assert memory["used_memory_tags"] == 0 and memory["used_memory_dataset"] == before and r.dbsize() == 0
    names = {listener.get_message(timeout=LIMIT_S)["data"] for _ in range(count)}
    assert len(names) == count


def test_clients_that_cache_a_key_are_notified(bench):
    r = bench.server.client()
    pushed = []
    cacher = redis.Redis(port=bench.server.port, protocol=3)
    connection = cacher.connection_pool.get_connection()
    connection._parser.set_invalidation_push_handler(lambda message: pushed.append(message))
    connection.send_command("CLIENT", "TRACKING", "ON")
    connection.read_response()
    r.execute_command("SET", "k", "v", "TAGS", 1, "t")
    connection.send_command("GET", "k")
    assert connection.read_response() == b"v"
    assert r.execute_command("INVALIDATE", 1, "t") == 1
    for _ in within_limit():
        connection.send_command("PING")
        connection.read_response()
        if pushed:
            break
    assert pushed[0][1] == [b"k"]


def test_invalidations_during_a_snapshot_and_a_rewrite(bench):
    """Snapshots that begin at any time agree with the log that follows them."""
    server = bench.start("--appendonly", "yes", "--save", "")
    r = server.client()
    stop = threading.Event()

    def write(number: int):
        with server.client() as writer:
            at = 0
            while not stop.is_set():
                at += 1
                key, tag = f"k:{number}:{at % 500}", f"t:{at % 11}"
                with writer.pipeline(transaction=at % 3 == 0) as p:
                    p.execute_command("SET", key, "x" * (at % 700), "TAGS", 2, tag, f"w:{number}")
                    p.copy(key, f"copy:{number}:{at % 50}", replace=True)
                    if at % 40 == 0:
                        p.execute_command("INVALIDATE", 1, tag)
                    if at % 900 == 0:
                        p.execute_command("INVALIDATE", 2, f"w:{number}", "none")
                    p.execute()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    [thread.start() for thread in threads]
    for _ in range(3):
        r.execute_command("BGREWRITEAOF")
        for _ in within_limit():
            info = r.info("persistence")
            if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
                break
    stop.set()
    [thread.join(LIMIT_S) for thread in threads]
    tags = tags_of(r)
    assert tags
    folder = server.folder.name
    server.end()
    with bench.start("--dir", folder, "--appendonly", "yes") as server:
        assert tags_of(server.client()) == tags
