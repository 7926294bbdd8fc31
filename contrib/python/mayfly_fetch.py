"""Get-or-compute on redis-py: one client computes a value, and the others use the stale one or wait.

    from mayfly_fetch import fetch, fetch_async

    page = fetch(redis.Redis(), "page:/shoes", render, ttl=60, stale=600, tags=["category:shoes"])
    page = await fetch_async(redis.asyncio.Redis(), "page:/shoes", render, ttl=60, stale=600)

One file without dependencies beyond redis-py: copy it, or install the folder. Values are bytes, strings or
numbers, as for `SET`; what other types become is up to `compute` and to the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any

__all__ = ["fetch", "fetch_async"]

# A step of the plan: a command, or None to compute the value. The reply to it is sent back.
_Step = tuple | None


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else word


def _plan(key, ttl: float, stale: float, tags: Iterable, negative_ttl: float | None, lease: float, wait: float) -> Generator[_Step, Any, Any]:
    """Yields the commands, and None where the value is computed; returns the value."""
    reply = yield ("FETCH", key, "LEASE", _ms(lease), "WAIT", _ms(wait))
    # A client that an operator unblocks gets null.
    old, state, _, token = reply or (None, "pending", 0, None)
    state = _text(state)
    if state == "negative":
        return None
    if token is None and state in ("fresh", "stale"):
        return old
    try:
        value = yield None
    except BaseException as error:
        if token is not None:
            yield ("UNLEASE", key, token)
        if state == "stale" and isinstance(error, Exception):
            return old
        raise
    if token is None:
        # The client that has the lease stores its value. This one has waited long enough.
        return value
    if value is None and negative_ttl is None:
        yield ("UNLEASE", key, token)
        return None
    command = ["SET", key, "" if value is None else value]
    if value is None:
        command += ["PX", _ms(negative_ttl), "NEGATIVE"]
    else:
        command += ["PX", _ms(ttl), "PSTALE", round(stale * 1000)]
    tags = list(tags)
    if tags:
        command += ["TAGS", len(tags), *tags]
    # A null reply means that the key has changed meanwhile. The value is still the reply to this call.
    yield (*command, "TOKEN", token)
    return value


def fetch(
    client,
    key,
    compute: Callable[[], Any],
    ttl: float,
    stale: float = 0,
    *,
    tags: Iterable = (),
    negative_ttl: float | None = None,
    lease: float = 10,
    wait: float = 10,
):
    """Returns the value of `key`, which one client computes if it is missing or stale.

    `ttl`: seconds in which a computed value is fresh. `stale`: seconds beyond that in which other clients get it while one computes,
    and in which it is returned if `compute` fails. `tags`: names for `INVALIDATE`. `negative_ttl`: seconds for which a `compute` that
    returns None is remembered; without it, the next call computes again. `lease`: seconds after which another client may compute.
    `wait`: seconds to wait for the value of another client; after that, this one computes, too, and does not store.

    The value is what `compute` returned, or bytes (strings with `decode_responses`). An error of `compute` ends the lease.
    """
    plan = _plan(key, ttl, stale, tags, negative_ttl, lease, wait)
    try:
        step = next(plan)
        while True:
            if step is not None:
                step = plan.send(client.execute_command(*step))
                continue
            try:
                value = compute()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(value)
    except StopIteration as end:
        return end.value


async def fetch_async(
    client,
    key,
    compute: Callable[[], Awaitable],
    ttl: float,
    stale: float = 0,
    *,
    tags: Iterable = (),
    negative_ttl: float | None = None,
    lease: float = 10,
    wait: float = 10,
):
    """Like `fetch`, for a client of `redis.asyncio`. `compute` is a coroutine function."""
    plan = _plan(key, ttl, stale, tags, negative_ttl, lease, wait)
    try:
        step = next(plan)
        while True:
            if step is not None:
                step = plan.send(await client.execute_command(*step))
                continue
            try:
                value = await compute()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(value)
    except StopIteration as end:
        return end.value
