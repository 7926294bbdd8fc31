"""Classes of keys: what the guide shows, restarts with other classes, replicas, and several threads."""

import re
import subprocess
import threading
from pathlib import Path

import pytest
import redis
from server import LIMIT_S, within_limit

pytestmark = pytest.mark.only_mayfly

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/classes.md"


@pytest.mark.needs("redis-cli")
def test_the_server_replies_as_in_the_guide(bench):
    blocks = re.findall(r"^```\n(\$ .*?)^```", GUIDE.read_text(), re.M | re.S)
    examples = [one for block in blocks for one in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)]
    assert len(examples) > 10
    with bench.start("--save", "") as server:
        for command, wanted in examples:
            command = command.replace("redis-cli", f"redis-cli --no-raw -p {server.port}")
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT_S, check=True)
            assert done.stdout == wanted, command


def facts_of(r, name: str) -> dict:
    """The statistics of a class, once all keys are counted."""
    for _ in within_limit():
        facts = r.execute_command("CLASS", "INFO", name)
        if facts[b"counting"] == 0:
            return {key.decode(): value for key, value in facts.items()}
    raise AssertionError("the keys are not counted")


def test_a_queue_and_a_cache_share_a_server(bench):
    """The cache grows far beyond the server's memory, and the queue beyond its own: no job is lost, also not by restarts with other limits."""
    memory = ("--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru")
    files = ("--appendonly", "yes", "--appendfsync", "always")
    job, page = "j" * 1000, "p" * 1000
    with bench.start(*memory, *files, "--class", "jobs db 3 maxmemory 3mb policy noeviction") as server:
        cache, queue = server.client(), server.client(db=3)
        pushed = 0
        with pytest.raises(redis.ResponseError, match="class 'jobs' has reached its maxmemory"):
            while True:
                queue.rpush("jobs", job)
                queue.set(f"job:{pushed}", job)
                pushed += 1
        assert 1000 < pushed < 2000
        pipe = cache.pipeline(transaction=False)
        for number in range(20_000):
            pipe.set(f"page:{number}", page)
            if number % 500 == 499:
                pipe.execute()
        assert cache.info("stats")["evicted_keys"] > 5000
        assert queue.llen("jobs") - pushed in (0, 1) and queue.dbsize() == pushed + 1
        facts = facts_of(queue, "jobs")
        assert facts["evicted"] == 0 and facts["refused"] >= 1 and 3 << 20 < facts["memory"] < (3 << 20) + (1 << 17)
        folder = server.folder.name
        server.kill()
        for limits in ("jobs db 3 maxmemory 1mb policy noeviction", "jobs db 3 minmemory 4mb maxmemory 8mb"):
            with bench.start("--dir", folder, *memory, *files, "--class", limits) as again:
                queue = again.client(db=3)
                assert queue.dbsize() == pushed + 1
                if "1mb" in limits:
                    with pytest.raises(redis.ResponseError, match="class 'jobs'"):
                        queue.set("more", job)
                    assert queue.lpop("jobs") is not None
                else:
                    cache = again.client()
                    pipe = cache.pipeline(transaction=False)
                    for number in range(10_000):
                        pipe.set(f"new:{number}", page)
                    pipe.execute()
                    assert queue.set("more", job) and queue.dbsize() == pushed + 2
                again.kill()


def deadlines(r) -> dict:
    return {key: r.pexpiretime(key) for key in r.scan_iter(count=1000)}


def test_deadlines_are_kept_by_files_and_replicas(bench):
    always = ("--appendonly", "yes", "--appendfsync", "always")
    rules = "s prefix s: ttl-default 1h ttl-jitter 20% ; w prefix w: ttl-default 1h sliding yes"
    server = bench.start(*always, "--save", "", "--class", rules, "--threads", "2")
    r = server.client()
    with bench.start("--replicaof", f"127.0.0.1 {server.port}", "--class", "s prefix s: ttl-max 1s") as replica:
        copy = replica.client()
        for _ in within_limit():
            if copy.info("replication").get("master_link_status") == "up":
                break
        for i in range(100):
            r.set(f"s:{i}", i)
            r.hset(f"s:hash:{i}", "f", i)
        r.eval("for i = 1, 50 do redis.call('RPUSH', 's:list:' .. i, i) end", 0)
        with r.pipeline() as p:
            p.set("w:1", "v", ex=10).incr("s:n").set("plain", "v").rename("plain", "s:p")
            p.execute()
        assert r.get("w:1") == b"v" and r.ttl("w:1") == 3600
        r.hset("w:hash", "f", 1)
        r.expire("w:hash", 5)
        assert r.eval("return redis.call('HGET', KEYS[1], 'f')", 1, "w:hash") == b"1" and r.ttl("w:hash") == 3600
        wanted = deadlines(r)
        ttls = {at // 100_000 for at in wanted.values()}
        assert len(wanted) == 254 and min(wanted.values()) > 0 and len(ttls) > 3, "jitter"
        assert r.wait(1, int(LIMIT_S * 1000)) == 1
        assert deadlines(copy) == wanted
        assert copy.get("w:1") == b"v" and facts_of(copy, "s")["keys"] == 252
    folder = server.folder.name
    server.kill()
    with bench.start("--dir", folder, *always, "--class", "all prefix s ttl-max 1s ; w prefix w: ttl-max 1s") as server:
        r = server.client()
        assert deadlines(r) == wanted
        facts = facts_of(r, "all")
        assert facts["keys"] == 252 and facts_of(r, "other")["keys"] == 0
        r.bgrewriteaof()
        for _ in within_limit():
            info = r.info("persistence")
            if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
                break
        server.kill()
    with bench.start("--dir", folder, *always, "--class", "all prefix s ttl-max 1s") as server:
        assert deadlines(server.client()) == wanted


def test_classes_are_defined_while_keys_change(bench):
    server = bench.start("--threads", "2", "--save", "", "--appendonly", "no")
    r = server.client()
    stop = threading.Event()

    def write(number: int):
        at = 0
        with server.client() as writer:
            while not stop.is_set():
                with writer.pipeline(transaction=False) as p:
                    for _ in range(100):
                        at += 1
                        p.set(f"{'ab'[at % 2]}:{number}:{at % 3000}", "x" * (at % 90))
                        p.delete(f"a:{number}:{at * 7 % 3000}")
                    p.execute()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    [thread.start() for thread in threads]
    for round in range(20):
        r.execute_command("CLASS", "SET", "a", "prefix", ["a:", "a:1", "b:"][round % 3])
        r.execute_command("CLASS", "SET", "b", "prefix", "b", "db", round % 2)
        if round % 5 == 0:
            r.execute_command("CLASS", "DEL", "b")
            r.swapdb(0, 1)
    r.execute_command("CLASS", "SET", "a", "prefix", "a:")
    r.execute_command("CLASS", "SET", "b", "prefix", "b:")
    stop.set()
    [thread.join(LIMIT_S) for thread in threads]
    names = [key for db in range(2) for key in redis.Redis(port=server.port, db=db).scan_iter(count=1000)]
    keys = {name: sum(key.startswith(name.encode()) for key in names) for name in "ab"}
    facts = {name: facts_of(r, name) for name in "ab"}
    assert {name: one["keys"] for name, one in facts.items()} == keys and keys["b"] > 0
    bytes_sum = sum(facts_of(r, name)["bytes"] for name in ("a", "b", "other"))
    assert bytes_sum == r.info("memory")["used_memory_dataset"]
    r.flushall()
    assert facts_of(r, "a")["bytes"] == facts_of(r, "b")["keys"] == 0


def test_classes_are_refused_on_the_segment_engine_and_written_to_the_file(bench):
    with bench.start("--engine", "segment", "--maxmemory", "64mb") as server:
        with pytest.raises(redis.ResponseError, match="classes of keys need the slab engine"):
            server.client().execute_command("CLASS", "SET", "a", "prefix", "a:")
    server = bench.server
    config = Path(server.folder.name) / "classes.conf"
    config.write_text("class a prefix a:\nclass b db 1\n")
    with bench.start(str(config)) as server:
        r = server.client()
        r.execute_command("CLASS", "SET", "c", "prefix", "c\\x20", "ttl-max", "1d")
        assert r.execute_command("CLASS", "DEL", "a") == 1
        assert r.config_rewrite()
        assert r.config_get("class") == {"class": "b db 1 ; c prefix c\\x20 ttl-max 1d"}
    lines = [line for line in config.read_text().splitlines() if line.startswith("class")]
    assert lines == ["class b db 1", 'class "c prefix c\\\\x20 ttl-max 1d"']
    with bench.start(str(config)) as server:
        assert server.client().execute_command("CLASS", "MATCH", "c x") == b"c"
