"""aiocache and fastapi-cache: entries, locks that are released and acquired again, and namespaces that are cleared."""

import asyncio

import redis.asyncio
from aiocache import RedisCache
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from fastapi_cache import FastAPICache
from fastapi_cache.backends.redis import RedisBackend
from fastapi_cache.decorator import cache
from programs import PORT, client


async def with_aiocache() -> None:
    one = RedisCache(endpoint="127.0.0.1", port=PORT, namespace="one")
    two = RedisCache(endpoint="127.0.0.1", port=PORT, namespace="two")
    await one.set("a", "1", ttl=100)
    await one.multi_set([("x", 1), ("y", 2)], ttl=100)
    await two.set("a", "2")
    assert await one.multi_get(["a", "x", "y"]) == ["1", 1, 2], await one.multi_get(["a", "x", "y"])
    for _ in range(2):
        async with RedLock(one, "lock", lease=60):
            assert await one.exists("lock-lock")
        assert not await one.exists("lock-lock")
    async with OptimisticLock(one, "a") as lock:
        await lock.cas("3")
    assert await one.get("a") == "3"
    async with OptimisticLock(one, "a") as lock:
        await one.set("a", "4")
        try:
            await lock.cas("5")
            raise AssertionError("a value changed by another was replaced")
        except OptimisticLockError:
            pass
    await one.clear(namespace="one")
    assert await one.get("a") is None and await two.get("a") == "2"
    await one.close()
    await two.close()


async def with_fastapi_cache() -> None:
    async with redis.asyncio.Redis(port=PORT) as connection:
        FastAPICache.init(RedisBackend(connection), prefix="fastapi")
        calls = 0

        @cache(expire=100, namespace="answers")
        async def answer() -> int:
            nonlocal calls
            calls += 1
            return calls

        assert [await answer() for _ in range(3)] == [1, 1, 1]
        await connection.set("fastapi:other:key", 1)
        await FastAPICache.clear(namespace="answers")
        assert client().keys("fastapi:*") == ["fastapi:other:key"]
        assert await answer() == 2


if __name__ == "__main__":
    asyncio.run(with_aiocache())
    asyncio.run(with_fastapi_cache())
