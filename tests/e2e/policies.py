"""Every eviction policy that can be served, under a mixed load with twice the size of the cache."""

import random
import re
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.only_mayfly

LIMIT_BYTES = 20 << 20
KEYS = 60_000
REQUESTS = 30_000
BATCH = 600
VALUE_BYTES_MAX = 8000
# Each of up to 64 shards reports additional memory when it exceeds 2 KiB. Memory is freed before a command, which may then
# exceed the limit by what it writes and by the step in which a table grows.
SLACK_BYTES = LIMIT_BYTES // 100
REST_LIMIT_S = 10


def served() -> list[str]:
    """Policy names for all keys, from the page generated from the server's table. `lrm` and `sampled-lru` are aliases of `lru`."""
    page = (Path(__file__).parents[2] / "docs/reference/policies.md").read_text()
    names = re.findall(r"^\| `(allkeys-[^`]+)` \|", page, re.MULTILINE)
    names = [name for name in names if name not in ("allkeys-lrm", "allkeys-sampled-lru")]
    assert len(names) >= 15 and {"allkeys-s3fifo", "allkeys-exact-lru", "allkeys-exact-lfu"} <= set(names), names
    return names


def load(r, policy: str) -> float:
    """Uses the server as a cache for a slow store: missed keys are set, some are deleted, and some get a short or long TTL.

    Returns the hit ratio of the second half."""
    chance = random.Random(1)
    hits = gets = 0
    for batch in range(REQUESTS // BATCH):
        # Popularity is proportional to 1 / rank.
        keys = [f"key:{int(KEYS ** chance.random()):08d}" for _ in range(BATCH)]
        pipe = r.pipeline(transaction=False)
        for key in keys:
            pipe.get(key)
        found = pipe.execute()
        if batch >= REQUESTS // BATCH // 2:
            hits += sum(value is not None for value in found)
            gets += len(found)
        pipe = r.pipeline(transaction=False)
        for key, value in zip(keys, found):
            draw = chance.random()
            if value is None:
                pipe.set(key, b"v" * chance.randrange(100, VALUE_BYTES_MAX), px=100_000 if draw < 0.5 else None)
            elif draw < 0.02:
                pipe.delete(key)
            elif draw < 0.04:
                pipe.pexpire(key, 1 if draw < 0.03 else 50_000)
            elif draw < 0.08:
                pipe.append(key, b"more" * chance.randrange(100))
        pipe.execute()
        # Buffers of this client count, too, and what they have displaced is evicted by background work a moment later.
        limit = time.monotonic() + REST_LIMIT_S
        while (used := r.info("memory")["used_memory"]) > LIMIT_BYTES + SLACK_BYTES:
            assert time.monotonic() < limit, f"{policy}: {used} bytes in batch {batch}"
    return hits / gets


@pytest.mark.parametrize("policy", served())
def test_a_served_policy_keeps_the_limit_and_hits(bench, policy):
    with bench.start("--maxmemory", str(LIMIT_BYTES), "--maxmemory-policy", policy) as server, server.client() as r:
        ratio = load(r, policy)
        stats = r.info("stats")
        print(f"hit ratio {ratio:.3f}, {stats['evicted_keys']} evicted, {r.dbsize()} held")
        assert stats["evicted_keys"] > 0 and r.dbsize() > 0
        # A cache of this size without a policy would have a hit ratio of about 0.6.
        assert 0.5 < ratio < 0.9
        assert r.ping() and "panic" not in server.log_text()
