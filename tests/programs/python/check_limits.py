"""limits and slowapi: three strategies that refuse, allow again after the window, and are cleared."""

import asyncio

import limits
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from limits.aio.storage import RedisStorage as AsyncRedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter as AsyncSlidingWindow
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter
from programs import client, until, url
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

STRATEGIES = (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter)
PER_DAY, PER_SECOND = limits.parse("2/day"), limits.parse("2/second")


def strategies() -> None:
    storage = RedisStorage(url(1))
    for strategy in STRATEGIES:
        limiter, name = strategy(storage), strategy.__name__
        assert [limiter.hit(PER_DAY, name) for _ in range(4)] == [True, True, False, False], name
        assert not limiter.test(PER_DAY, name) and limiter.get_window_stats(PER_DAY, name).remaining == 0, name
        limiter.clear(PER_DAY, name)
        assert limiter.hit(PER_DAY, name), name
        until(f"{name} refuses", lambda: not limiter.hit(PER_SECOND, name))
        until(f"{name} allows after its window", lambda: limiter.hit(PER_SECOND, name))
    assert storage.reset() > 0
    assert client(1).keys() == []


async def asynchronous() -> None:
    limiter = AsyncSlidingWindow(AsyncRedisStorage("async+" + url(1), implementation="redispy"))
    assert [await limiter.hit(PER_DAY, "a") for _ in range(3)] == [True, True, False]


def slowapi() -> None:
    app = FastAPI()
    app.state.limiter = Limiter(key_func=get_remote_address, storage_uri=url(2))
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)

    @app.get("/")
    @app.state.limiter.limit("2/day")
    async def index(request: Request) -> str:
        return "allowed"

    browser = TestClient(app)
    assert [browser.get("/").status_code for _ in range(3)] == [200, 200, 429]
    app.state.limiter.reset()
    assert browser.get("/").status_code == 200


if __name__ == "__main__":
    strategies()
    asyncio.run(asynchronous())
    slowapi()
