"""The decorator ``cached``, for functions and coroutines."""

from __future__ import annotations

import contextvars
import copy
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from ._native import Cache, Call, Loading

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

_MISSING = object()


class Cached(Protocol, Generic[P, R]):
    """A function whose results are cached, as ``cached`` returns it.

    ``cache`` holds the results, and ``__wrapped__`` is the original function.
    """

    cache: Cache
    __wrapped__: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def __get__(self, instance: None, owner: type, /) -> Cached[P, R]: ...
    @overload
    def __get__(
        self: Cached[Concatenate[S, Q], R], instance: S, owner: type, /
    ) -> Callable[Q, R]: ...

    def cache_key(self, *args: P.args, **kwargs: P.kwargs) -> object:
        """Returns the key under which the result for these arguments is stored in ``cache``."""

    def cache_clear(self) -> None:
        """Removes all results of the function. Computations in progress do not store theirs."""


@overload
def cached(function: Callable[P, R], /) -> Cached[P, R]: ...
@overload
def cached(
    *,
    ttl: float | None = None,
    stale: float | None = None,
    capacity: int = 1024,
    typed: bool = False,
    key: Callable[..., Hashable] | None = None,
    cache: Cache | None = None,
    **settings: Any,
) -> Callable[[Callable[P, R]], Cached[P, R]]: ...


def cached(
    function: Callable[..., Any] | None = None,
    /,
    *,
    ttl: float | None = None,
    stale: float | None = None,
    capacity: int = 1024,
    typed: bool = False,
    key: Callable[..., Hashable] | None = None,
    cache: Cache | None = None,
    **settings: Any,
) -> Any:
    """Caches the results of a function or a coroutine by its arguments, which must be hashable.

    >>> @cached(ttl=60, stale=10)
    ... def length(text):
    ...     return len(text)
    >>> length("abc")
    3

    If several threads, or several tasks of one event loop, call the function with the same arguments at
    the same time, one of them computes the result and the others wait for it (single flight). An
    exception reaches all of them and is not cached. An interrupt such as KeyboardInterrupt or SystemExit
    reaches only the call that computes; then a waiting call computes. A function may call itself with
    the same arguments: the inner call computes its own result instead of waiting.

    ttl: seconds for which a result is fresh; forever if None.
    stale: seconds after ``ttl`` for which a result is still returned at once, while one call computes
        a new one in the background (stale-while-revalidate).
    capacity: maximum number of results.
    typed: whether ``f(3)`` and ``f(3.0)`` are cached separately.
    key: function of the same arguments that returns the key of a result. Keys are used unchanged, so
        that functions that share a ``cache`` must return different keys.
    cache: an existing cache to use instead of a new one; several functions may share it. With ``stale``,
        its TTL must include that time.
    settings: further settings of :class:`Cache`, such as ``policy`` and ``listener``.

    The decorated function has ``cache``, ``cache_key(…)``, ``cache_clear()`` and ``__wrapped__``.
    """
    if stale is not None and not (ttl is not None and stale > 0):
        raise ValueError(f"stale {stale}: expected a number of seconds above 0, together with a ttl")
    if cache is not None and settings:
        raise TypeError(f"{next(iter(settings))}: cannot be combined with cache, which has its own settings")
    if key is not None and typed:
        raise TypeError("typed: cannot be combined with key")

    def decorate(wrapped: Callable[..., Any]) -> Any:
        life = ttl if ttl is None or stale is None else ttl + stale
        own = cache if cache is not None else Cache(capacity, ttl=life, **settings)
        scope = _Scope(wrapped) if cache is not None and key is None else None
        loads = _Loads(own, life if cache is not None else None)
        build = _coroutine if _is_coroutine(wrapped) else _function
        call = build(wrapped, loads, key, _Keys(stale or 0.0, typed, scope))
        functools.update_wrapper(call, wrapped)
        call.cache = own
        call.cache_clear = lambda: loads.clear(scope)
        return cast(Any, call)

    return decorate if function is None else decorate(function)


def _is_coroutine(wrapped: Any) -> bool:
    call = getattr(type(wrapped), "__call__", None)
    return inspect.iscoroutinefunction(wrapped) or inspect.iscoroutinefunction(call)


class _Scope:
    """First element of the keys of a function that shares its cache with others."""

    def __init__(self, wrapped: Any) -> None:
        self.name = getattr(wrapped, "__qualname__", type(wrapped).__qualname__)

    def __repr__(self) -> str:
        return f"<results of {self.name}>"


class _Keys:
    """Settings from which :class:`Call` makes keys and decides when to refresh."""

    def __init__(self, stale: float, typed: bool, scope: _Scope | None) -> None:
        self.stale, self.typed, self.scope = stale, typed, scope

    def call(self, cache: Cache, missed: Any, refresh: Any) -> Call:
        return Call(
            cache, missed, refresh if self.stale else None, self.stale, self.typed, self.scope
        )


class _Load:
    """A computation that other calls may wait for. If it ends with neither value nor error, it was interrupted."""

    def __init__(self, key: Any, loop: Any = None) -> None:
        self.key = key
        self.slot = (0, 0)
        self.value: Any = _MISSING
        self.error: Exception | None = None
        # Set when the function is called.
        self.loading: Loading | None = None
        # Used by threads.
        self.thread = threading.get_ident()
        self.is_done = threading.Event()
        # Used by the tasks of one event loop.
        self.loop = loop
        self.task: Any = None

    def is_outdated(self) -> bool:
        """Returns whether the key has changed since the function was called."""
        return self.loading is not None and self.loading.is_outdated()

    def end(self) -> None:
        """Makes sure that the result is not stored later."""
        if self.loading is not None:
            self.loading.end()


class _Loads:
    """The cache of one function, and its computations in progress.

    A dictionary maps pairs of integers to computations: the hash of the key, and a number that
    distinguishes keys with the same hash. No operation of the dictionary therefore runs a key's code, each is
    atomic under the interpreter's lock, and no other lock is needed. ``__eq__`` of an argument,
    a destructor or a signal handler may call the function at any point.
    """

    def __init__(self, cache: Cache, ttl: float | None) -> None:
        self.cache, self.ttl = cache, ttl
        self._under_way: dict[tuple[int, int], _Load] = {}
        _all_loads.add(self)

    def join(self, load: _Load) -> _Load:
        """Registers a computation, or returns the one in progress for the same key."""
        hashed, number = hash(load.key), 0
        while True:
            load.slot = (hashed, number)
            found = self._under_way.setdefault(load.slot, load)
            if found is load:
                return found
            if found.is_outdated():
                # Its result is only for the calls that already wait.
                self._free(found)
                continue
            if found.loop is load.loop:
                if found.key is load.key or found.key == load.key:
                    return found
            elif found.loop.is_closed():
                # The task can never end, because its event loop is closed.
                self.leave(found)
                continue
            number += 1

    def _free(self, load: _Load) -> None:
        if self._under_way.get(load.slot) is load:
            self._under_way.pop(load.slot, None)

    def leave(self, load: _Load) -> None:
        """Ends a computation: waiting calls continue, and later calls begin a new one."""
        try:
            load.end()
            self._free(load)
        finally:
            load.is_done.set()

    def begin(self, load: _Load) -> None:
        """Registers that the function is about to be called."""
        load.loading = self.cache._begin(load.key)

    def store(self, load: _Load, value: Any) -> None:
        """Stores a result, unless its key has changed since the function was called."""
        if load.loading is not None:
            load.loading.store(value, self.ttl)

    def clear(self, scope: _Scope | None) -> None:
        # Computations end first, so that none stores its result after the removal.
        loads = list(self._under_way.values())
        self._under_way.clear()
        for load in loads:
            load.end()
        if scope is None:
            self.cache.clear()
            return
        for key in self.cache.keys():
            if type(key) is tuple and key and key[0] is scope:
                self.cache.pop(key, None)

    def forget(self) -> None:
        """Removes, in the child of a fork, computations of threads that exist only in the parent."""
        self._under_way.clear()


_all_loads: weakref.WeakSet[_Loads] = weakref.WeakSet()


def _forget_all() -> None:
    for loads in list(_all_loads):
        loads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _copied(error: Exception) -> Exception:
    """Returns a copy of an exception, so that each thread that raises it has its own traceback."""
    try:
        made = copy.copy(error)
    except Exception:
        return error
    if type(made) is not type(error) or made is error:
        return error
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _function(
    wrapped: Callable[..., Any], loads: _Loads, key_of: Callable[..., Any] | None, keys: _Keys
) -> Any:
    cache, stale = loads.cache, keys.stale

    def missed(key: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        while True:
            load = _Load(key)
            found = loads.join(load)
            if found is load:
                return compute(load, args, kwargs, is_absent=False)
            if found.thread == threading.get_ident():
                # The function calls itself with the same arguments, and would wait forever.
                return wrapped(*args, **(kwargs or {}))
            found.is_done.wait()
            if found.error is not None:
                raise _copied(found.error)
            if found.value is not _MISSING:
                return found.value

    def compute(
        load: _Load, args: tuple[Any, ...], kwargs: dict[str, Any] | None, *, is_absent: bool
    ) -> Any:
        try:
            # Another thread may have stored the result after the look-up.
            value = _MISSING if is_absent else cache.peek(load.key, _MISSING)
            if value is _MISSING:
                loads.begin(load)
                value = wrapped(*args, **(kwargs or {}))
                loads.store(load, value)
            load.value = value
            return value
        except Exception as error:
            load.error = error
            raise
        finally:
            loads.leave(load)

    def refresh(
        value: Any, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> Any:
        load = _Load(key)
        if loads.join(load) is not load:
            return value

        def run() -> None:
            load.thread = threading.get_ident()
            # After an exception, which the thread reports, the stale result stays until it expires.
            compute(load, args, kwargs, is_absent=True)

        try:
            threading.Thread(target=run, name="mayfly-refresh", daemon=True).start()
        except BaseException as error:
            loads.leave(load)
            # No thread can start. A later call tries again, or computes once the result has expired.
            if not isinstance(error, RuntimeError):
                raise
        return value

    if key_of is None:
        return keys.call(cache, missed, refresh)

    def call(*args: Any, **kwargs: Any) -> Any:
        key = key_of(*args, **kwargs)
        value = cache.get(key, _MISSING)
        if value is _MISSING:
            return missed(key, args, kwargs)
        if stale:
            left = cache.time_to_live(key)
            if left is not None and left < stale:
                return refresh(value, key, args, kwargs)
        return value

    call.cache_key = key_of  # type: ignore[attr-defined]
    return call


def _is_interrupted(task: Any) -> bool:
    """Returns whether a task was cancelled, or raised an interrupt such as KeyboardInterrupt."""
    error = None if task.cancelled() else task.exception()
    return task.cancelled() or not (error is None or isinstance(error, Exception))


# Computations within which the current task runs, the outermost first.
_chain: contextvars.ContextVar[tuple[_Load, ...]] = contextvars.ContextVar("mayfly_chain", default=())


def _coroutine(
    wrapped: Callable[..., Awaitable[Any]],
    loads: _Loads,
    key_of: Callable[..., Any] | None,
    keys: _Keys,
) -> Any:
    import asyncio

    cache, stale = loads.cache, keys.stale
    background: set[asyncio.Future[Any]] = set()
    make_key = key_of or keys.call(cache, None, None).cache_key

    async def compute(load: _Load, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # This changes only the context of this task.
        _chain.set((*_chain.get(), load))
        try:
            loads.begin(load)
            value = await wrapped(*args, **kwargs)
            loads.store(load, value)
            return value
        finally:
            loads.leave(load)

    def begin(key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Load, bool]:
        """Returns the computation of a key, and whether this call began it."""
        load = _Load(key, asyncio.get_running_loop())
        found = loads.join(load)
        if found is load:
            # The computation is a separate task, so that cancelling its caller does not cancel other callers.
            load.task = asyncio.ensure_future(compute(load, args, kwargs))
            background.add(load.task)
            load.task.add_done_callback(background.discard)
        return found, found is load

    async def call(*args: Any, **kwargs: Any) -> Any:
        key = make_key(*args, **kwargs)
        while True:
            value = cache.get(key, _MISSING)
            if value is not _MISSING:
                if stale:
                    left = cache.time_to_live(key)
                    if left is not None and left < stale:
                        begin(key, args, kwargs)
                return value
            load, is_own = begin(key, args, kwargs)
            if load in _chain.get():
                # This call is part of the computation, and would wait for itself forever.
                return await wrapped(*args, **kwargs)
            if is_own:
                return await asyncio.shield(load.task)
            # This raises only if the caller itself is cancelled.
            await asyncio.wait((load.task,))
            if not _is_interrupted(load.task):
                return load.task.result()

    call.cache_key = make_key  # type: ignore[attr-defined]
    return call
