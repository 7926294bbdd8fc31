"""The adapters in contrib/ with their clients."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest
import redis
from server import LIMIT_S, within_limit

sys.path.append(str(Path(__file__).resolve().parents[2] / "contrib/python"))
from mayfly_fetch import fetch, fetch_async

pytestmark = pytest.mark.only_mayfly


def test_one_of_many_threads_computes(bench):
    r = bench.server.client()
    may_end, calls, got = threading.Event(), [], []

    def compute() -> str:
        calls.append(1)
        assert may_end.wait(LIMIT_S)
        return "v"

    def get() -> None:
        with bench.server.client() as client:
            got.append(fetch(client, "k", compute, 60, tags=["t"], lease=LIMIT_S, wait=LIMIT_S))

    threads = [threading.Thread(target=get) for _ in range(20)]
    [thread.start() for thread in threads]
    for _ in within_limit():
        if r.info("clients")["blocked_clients"] == 19:
            break
    may_end.set()
    [thread.join(LIMIT_S) for thread in threads]
    assert len(calls) == 1 and len(got) == 20 and {*got} == {"v", b"v"}
    assert r.execute_command("TAGS", "k") == [b"t"] and 0 < r.ttl("k") <= 60


def fails():
    raise ValueError("the database is away")


def test_values_are_stale_negative_or_refused(r):
    assert fetch(r, "k", lambda: "1", 0.001, 60) == "1"
    for _ in within_limit():
        if r.execute_command("FETCH", "k")[1] == "stale":
            break
    assert fetch(r, "k", fails, 60, 60) == "1", "the stale value stands in"
    assert fetch(r, "k", lambda: "2", 60, 60) == "2", "the failed call has returned its lease"
    assert fetch(r, "k", fails, 60) == "2" and 60 < r.ttl("k") <= 120
    with pytest.raises(ValueError, match="away"):
        fetch(r, "missing", fails, 60)
    assert fetch(r, "none", lambda: None, 60) is None and fetch(r, "none", lambda: None, 60, negative_ttl=60) is None
    assert fetch(r, "none", fails, 60) is None and r.execute_command("FETCH", "none")[1] == "negative"

    def changes() -> str:
        r.delete("raced")
        return "old"

    assert fetch(r, "raced", changes, 60) == "old" and r.get("raced") is None
    reply = r.execute_command("FETCH", "busy", "LEASE", 60_000)
    assert fetch(r, "busy", lambda: "own", 60, wait=0.001) == "own" and r.get("busy") is None
    assert r.execute_command("SET", "busy", "theirs", "TOKEN", reply[3])


def test_one_of_many_tasks_computes(bench):
    async def all_tasks() -> None:
        async with redis.asyncio.Redis(port=bench.server.port, decode_responses=True) as client:
            calls = []

            async def compute() -> str:
                calls.append(1)
                while (await client.info("clients"))["blocked_clients"] < 9:
                    await asyncio.sleep(0.001)
                return "v"

            options = {"lease": LIMIT_S, "wait": LIMIT_S}
            got = await asyncio.gather(*(fetch_async(client, "k", compute, 60, **options) for _ in range(10)))
            assert got == ["v"] * 10 and len(calls) == 1

            async def error() -> None:
                raise ValueError("away")

            with pytest.raises(ValueError, match="away"):
                await fetch_async(client, "missing", error, 60)
            assert (await client.execute_command("FETCH", "missing"))[1] == "missing", "the lease was returned"

    asyncio.run(asyncio.wait_for(all_tasks(), LIMIT_S))
