"""django-redis: cache, counters and locks that are released and acquired again."""

import django
from django.conf import settings
from programs import LIMIT_S, client, until, url

settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url(1)}})
django.setup()

from django.core.cache import cache  # noqa: E402  Django is configured first.


def entries() -> None:
    cache.set("a", {"x": 1}, 100)
    assert cache.get("a") == {"x": 1} and cache.ttl("a") <= 100
    assert cache.set("a", 2, nx=True) is False
    cache.set_many({f"k{i}": i for i in range(300)})
    assert len(list(cache.iter_keys("k*"))) == 300 and cache.get_many(["k1", "k299"]) == {"k1": 1, "k299": 299}
    assert cache.delete_pattern("k*") == 300 and cache.keys("k*") == []
    cache.set("short", 1, timeout=0.2)
    until("the entry is expired", lambda: cache.get("short") is None)


def counters() -> None:
    cache.set("n", 5, timeout=100)
    assert cache.incr("n") == 6 and cache.decr("n", 2) == 4 and cache.get("n") == 4
    assert 0 < cache.ttl("n") <= 100
    try:
        cache.incr("absent")
        raise AssertionError("an absent counter was incremented")
    except ValueError:
        pass
    assert cache.incr_version("n") == 2 and cache.get("n", version=2) == 4


def locks() -> None:
    for _ in range(2):
        with cache.lock("lock", timeout=LIMIT_S):
            assert not cache.lock("lock", timeout=LIMIT_S).acquire(blocking=False)
    assert not client(1).exists("lock")
    first = cache.lock("expiring", timeout=0.2)
    assert first.acquire(blocking=False)
    with cache.lock("expiring", timeout=LIMIT_S, blocking_timeout=LIMIT_S, sleep=0.01):
        assert not first.owned()


if __name__ == "__main__":
    entries()
    counters()
    locks()
