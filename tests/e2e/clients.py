"""redis-py as applications use it, with RESP2 and RESP3."""

import threading

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import LIMIT_S

PROTOCOLS = (2, 3)


def raises(kind, call, *arguments, **options) -> str:
    try:
        result = call(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}, got {result!r}")


def test_strings(r):
    assert r.set("a", "1") is True
    assert r.get("a") == "1" and r.get("none") is None
    assert r.set("a", "2", nx=True) is None and r.set("b", "2", xx=True) is None
    assert r.set("a", "2", get=True) == "1"
    assert r.mset({"b": "3", "c": "4"}) is True
    assert r.mget("a", "none", "c") == ["2", None, "4"]
    assert r.msetnx({"c": "x", "d": "y"}) is False and r.exists("d") == 0
    assert r.incr("n") == 1 and r.incrby("n", 41) == 42 and r.decr("n", 2) == 40
    assert abs(r.incrbyfloat("f", 0.5) - 0.5) < 1e-12
    assert "not an integer" in raises(redis.ResponseError, r.incr, "f")
    assert r.append("s", "Hello") == 5 and r.append("s", " World") == 11
    assert r.getrange("s", 0, 4) == "Hello" and r.getrange("s", -5, -1) == "World"
    assert r.setrange("s", 6, "Redis") == 11 and r.get("s") == "Hello Redis"
    assert r.strlen("s") == 11 and r.getdel("s") == "Hello Redis" and r.get("s") is None
    assert r.getset("a", "9") == "2" and r.delete("a", "b", "none") == 2
    assert r.lcs("x", "y") == ""


def test_deadlines(r):
    r.set("a", "1", ex=100)
    assert 50 <= r.ttl("a") <= 100 and 50_000 < r.pttl("a") <= 100_000
    r.set("a", "2", keepttl=True)
    assert 50 <= r.ttl("a") <= 100
    r.set("a", "2")
    assert r.ttl("a") == -1 and r.ttl("none") == -2
    assert r.expire("a", 50) and not r.expire("a", 60, nx=True) and r.expire("a", 60, gt=True)
    assert not r.expire("a", 70, lt=True) and r.expire("a", 40, xx=True)
    assert r.expiretime("a") * 1000 - r.pexpiretime("a") in range(-1000, 1000)
    assert r.persist("a") and not r.persist("a")
    assert r.getex("a", ex=30) == "2" and r.ttl("a") <= 30
    assert r.getex("a", persist=True) == "2" and r.ttl("a") == -1
    assert r.expireat("a", 1) and r.exists("a") == 0
    r.setex("b", 100, "x")
    r.psetex("c", 100_000, "x")
    assert 50 < r.ttl("b") <= 100 and 50_000 < r.pttl("c") <= 100_000
    assert "invalid expire time" in raises(redis.ResponseError, r.set, "a", "1", ex=0)


def test_keys(r):
    r.mset({f"key:{i}": i for i in range(20)})
    assert r.dbsize() == 20 and len(r.keys("key:1*")) == 11 and r.randomkey().startswith("key:")
    assert r.rename("key:1", "other") and r.get("other") == "1" and not r.renamenx("key:2", "key:3")
    assert "no such key" in raises(redis.ResponseError, r.rename, "none", "x")
    assert r.copy("other", "third") and not r.copy("other", "third") and r.copy("other", "third", replace=True)
    assert r.type("other") == "string" and r.type("none") == "none"
    assert r.touch("other", "none") == 1 and r.unlink("other", "third") == 2
    assert r.exists("key:2", "key:2", "none") == 2
    assert r.object("encoding", "key:3") in ("int", "embstr", "raw") and r.object("refcount", "key:3") >= 1
    assert r.memory_usage("key:3") > 0 and r.memory_usage("none") is None


def test_databases(bench, r):
    with bench.server.client(db=5, decode_responses=True, protocol=2) as five:
        r.set("a", "0")
        five.set("a", "5")
        assert r.get("a") == "0" and five.get("a") == "5"
        assert not r.move("a", 5) and r.set("b", "1") and r.move("b", 5) and five.get("b") == "1"
        assert r.swapdb(0, 5) and r.get("a") == "5" and five.get("a") == "0"
        assert five.flushdb() and five.dbsize() == 0 and r.dbsize() == 2
        assert "out of range" in raises(redis.ResponseError, r.execute_command, "SELECT", 99)


def test_pipeline_is_a_transaction(r):
    with r.pipeline() as p:
        assert p.set("a", 1).incr("a").get("a").execute() == [True, 2, "2"]
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set(f"k{i}", i)
        assert p.execute() == [True] * 1000
    with r.pipeline() as p:
        p.set("s", "text").incr("s").get("s")
        got = p.execute(raise_on_error=False)
        assert got[0] is True and isinstance(got[1], redis.ResponseError) and got[2] == "text"


def test_watch(bench, r):
    r.set("a", 1)
    with r.pipeline() as p:
        p.watch("a")
        with bench.server.client() as other:
            other.set("a", 7)
        p.multi()
        p.set("a", 2)
        raises(redis.WatchError, p.execute)
    assert r.get("a") == "7"
    assert r.transaction(lambda p: (p.multi(), p.incr("a")), "a") == [8]


def test_a_transaction_with_an_error_is_refused(bench, r):
    connection = r.connection_pool.get_connection()
    try:
        replies = []
        for command in (["MULTI"], ["SET", "a", "1"], ["SET", "a"], ["EXEC"]):
            connection.send_command(*command)
            try:
                replies.append(connection.read_response())
            except redis.ResponseError as error:
                replies.append(error)
    finally:
        r.connection_pool.release(connection)
    assert "wrong number of arguments" in str(replies[2]) and isinstance(replies[3], redis.exceptions.ExecAbortError)
    assert r.get("a") is None


def test_publish_and_subscribe(r):
    with r.pubsub() as p:
        p.subscribe("news")
        p.psubscribe("n?ws*")
        assert [p.get_message(timeout=LIMIT_S)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
        assert r.publish("news", "hello") == 2 and r.publish("nobody", "x") == 0
        got = [p.get_message(timeout=LIMIT_S) for _ in range(2)]
        assert {m["type"] for m in got} == {"message", "pmessage"} and {m["data"] for m in got} == {"hello"}
        assert r.pubsub_channels() == ["news"] and r.pubsub_numpat() == 1
        assert dict(r.pubsub_numsub("news")) == {"news": 1}
        p.unsubscribe()
        p.punsubscribe()
        assert [p.get_message(timeout=LIMIT_S)["type"] for _ in range(2)] == ["unsubscribe", "punsubscribe"]


def test_scan(r):
    wanted = {f"key:{i}" for i in range(1000)}
    r.mset({key: "x" for key in wanted})
    r.mset({f"other:{i}": "x" for i in range(100)})
    assert set(r.scan_iter(match="key:*", count=37)) == wanted
    # A key that exists during the whole scan is returned, whatever else changes.
    seen = set()
    for n, key in enumerate(r.scan_iter(count=10)):
        seen.add(key)
        r.set(f"new:{n}", "x")
        r.delete(f"other:{n}")
        if n > 5000:
            break
    assert wanted <= seen
    assert list(r.scan_iter(_type="list")) == []


def test_a_lock_is_taken_once_and_expires(r):
    assert r.lock("lock", timeout=3600).acquire(blocking=False)
    assert not r.lock("lock", timeout=3600).acquire(blocking=False)
    r.pexpire("lock", 100)
    assert r.lock("lock", timeout=3600, sleep=0.01).acquire(blocking_timeout=LIMIT_S)


def test_a_pool_under_threads(bench):
    pool = redis.BlockingConnectionPool(port=bench.server.port, max_connections=8, timeout=LIMIT_S)
    faults = []

    def work(number: int) -> None:
        client = redis.Redis(connection_pool=pool)
        try:
            for i in range(200):
                key = f"{number}:{i}"
                client.set(key, key)
                if client.get(key) != key.encode():
                    faults.append(key)
                client.incr("sum")
        except redis.RedisError as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [], faults[:3]
    assert redis.Redis(connection_pool=pool).get("sum") == b"3200"
    pool.disconnect()


def test_commands_that_clients_send_at_connect(bench, r):
    assert r.client_setname("me") and r.client_getname() == "me"
    own = r.client_id()
    assert any(int(c["id"]) == own and c["name"] == "me" for c in r.client_list())
    assert r.client_info()["name"] == "me"
    assert r.echo("x") == "x" and r.ping()
    if not bench.is_redis:  # since 7.2
        assert r.client_setinfo("LIB-NAME", "check")
    assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert r.config_get("databases") == {"databases": "16"}
    assert r.command_count() > 50 and "get" in r.command_list()
    assert r.role()[0] == "master" and r.time()[0] > 1_700_000_000
    info = r.info()
    for field in ("redis_version", "connected_clients", "used_memory", "expired_keys", "evicted_keys", "loading"):
        assert field in info, field
    assert info["role"] == "master" and info["redis_mode"] == "standalone"
    r.set("a", 1)
    assert r.info("keyspace")["db0"]["keys"] == 1
    with bench.server.client() as other:
        number = other.client_id()
        assert r.client_kill_filter(_id=number) == 1
        assert other.ping()  # on a new connection


def test_slowlog_and_latency(r):
    r.config_set("slowlog-log-slower-than", 0)
    r.slowlog_reset()
    r.set("a", 1)
    assert r.slowlog_len() >= 1 and any(b"SET a 1" in entry["command"] for entry in r.slowlog_get(10))
    r.config_set("slowlog-log-slower-than", 10_000)
    assert isinstance(r.execute_command("LATENCY", "LATEST"), list)


def test_no_more_memory_without_eviction(bench):
    with bench.start() as server, server.client() as r:
        r.config_set("maxmemory", r.info("memory")["used_memory"] + 2_000_000)
        with r.pipeline(transaction=False) as p:
            for i in range(5000):
                p.set(f"k{i}", b"x" * 1000)
            replies = p.execute(raise_on_error=False)
        refused = [reply for reply in replies if isinstance(reply, redis.OutOfMemoryError)]
        assert refused and "maxmemory" in str(refused[0])
        assert replies[0] is True and r.get("k0") == b"x" * 1000 and r.delete("k0") == 1


def test_eviction_keeps_below_the_limit(bench):
    policies = ["allkeys-lru", "allkeys-random", "volatile-lru"]
    if not bench.is_redis:
        policies += ["allkeys-s3fifo", "allkeys-sieve", "allkeys-clock", "allkeys-fifo", "volatile-s3fifo"]
    with bench.start() as server, server.client() as r:
        limit = r.info("memory")["used_memory"] + 8_000_000
        r.config_set("maxmemory", limit)
        for policy in policies:
            r.config_set("maxmemory-policy", policy)
            before = r.info("stats")["evicted_keys"]
            for start in range(0, 20_000, 500):
                with r.pipeline(transaction=False) as p:
                    for i in range(start, start + 500):
                        p.set(f"{policy}:{i}", b"x" * 1000, ex=3600)
                    p.execute()
            assert r.info("stats")["evicted_keys"] - before > 5_000, policy
            assert r.info("memory")["used_memory"] < limit * 1.1, policy


def test_a_password_is_required(bench):
    with bench.start("--requirepass", "secret") as server:
        with server.client(protocol=2, retry=Retry(NoBackoff(), 0)) as r:
            assert "Authentication required" in raises(redis.AuthenticationError, r.ping)
        with server.client(protocol=3, retry=Retry(NoBackoff(), 0)) as r:
            assert "HELLO" in raises(redis.AuthenticationError, r.ping)
        with server.client(password="wrong", retry=Retry(NoBackoff(), 0)) as r:
            assert "invalid username-password" in raises(redis.AuthenticationError, r.ping)
        for protocol in PROTOCOLS:
            with server.client(password="secret", protocol=protocol) as r:
                assert r.ping()
            with server.client(username="default", password="secret", protocol=protocol) as r:
                assert r.ping()


@pytest.mark.only_mayfly
def test_newer_commands(bench):
    """Commands that the redis-server of Debian does not have."""
    with bench.server.client() as r:
        r.set("a", "1")
        assert r.execute_command("SET", "a", "2", "IFEQ", "1") in (True, b"OK")
        assert r.execute_command("SET", "a", "3", "IFEQ", "1") is None
        assert r.execute_command("SET", "a", "3", "IFNE", "1") in (True, b"OK")
        digest = r.execute_command("DIGEST", "a")
        assert len(digest) == 16 and r.execute_command("DELEX", "a", "IFDEQ", digest) == 1
        assert r.execute_command("MSETEX", 2, "a", "1", "b", "2", "EX", 100) == 1 and 0 < r.ttl("b") <= 100
