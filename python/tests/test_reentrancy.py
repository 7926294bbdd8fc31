"""Code of the caller that runs inside of calls: ``__eq__``, listeners, signal handlers, threads, forks, the end."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import mayfly
import pytest


class Key:
    """A key with a constant hash, whose ``__eq__`` calls a function first."""

    def __init__(self, name: object, before: Callable[[], object] = lambda: None) -> None:
        self.name, self.before = name, before

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        self.before()
        return isinstance(other, Key) and self.name == other.name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


def run(code: str) -> str:
    """Runs a program and returns its output, after a check that it has ended as usual."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (found.returncode, found.stderr) == (0, ""), found
    return found.stdout.strip()


# The stored key that matched was in a place that all look-ups of a thread shared. A look-up inside of `__eq__`
# replaced it, so that an insertion took a key of another cache, or one that was freed.
def test_an_eq_that_looks_up_another_cache() -> None:
    other = mayfly.Cache(10)
    other["x"] = 1
    cache = mayfly.Cache(100)
    first, second = Key(1, lambda: other.get("x")), Key(2, lambda: other.get("x"))
    cache[first] = "first"
    cache[second] = "second"
    assert (cache.get(first), cache.get(second), len(cache)) == ("first", "second", 2)
    assert all(isinstance(key, Key) for key in cache.keys())


def test_an_eq_that_frees_the_key_it_found() -> None:
    def before() -> None:
        other = mayfly.Cache(10)
        key = ("temporary", object())
        other[key] = 1
        other.get(key)

    cache = mayfly.Cache(1000)
    for number in range(100):
        cache[Key(number, before)] = number
    assert sorted(key.name for key in cache.keys()) == list(range(100))


def test_an_eq_that_looks_up_the_same_cache() -> None:
    cache = mayfly.Cache(100)
    victim = Key("victim")
    cache[victim] = 1
    seeker = Key("seeker", lambda: cache.get(victim))
    victim.before = lambda: cache.get(victim)
    with pytest.raises(KeyError):
        del cache[seeker]
    assert cache.pop(seeker, "none") == "none" and cache[victim] == 1
    cache[seeker] = 2
    assert {key.name: value for key, value in cache.items()} == {"victim": 1, "seeker": 2}


# An exception of `__eq__` before a hit was kept for the next miss of the thread, in any cache.
def test_an_exception_of_eq_belongs_to_its_look_up() -> None:
    is_bad = False

    def before() -> None:
        if is_bad:
            raise LookupError("no")

    cache, keys = mayfly.Cache(100), [Key(number, before) for number in range(3)]
    for key in keys:
        cache[key] = key.name
    is_bad = True
    raised = 0
    for key in keys:
        try:
            assert cache.get(key) == key.name
        except LookupError:
            raised += 1
        assert mayfly.Cache(5).get("absent") is None
    # The key whose bucket is compared first is found by its identity; the others raise.
    assert raised == 2


class Big:
    """A value whose release is seen by a weak reference."""


@pytest.mark.parametrize("leave", ["replace", "delete", "pop", "clear", "evict", "capacity"])
def test_values_are_released_at_once(leave: str) -> None:
    cache = mayfly.Cache(1000, policy="fifo")
    value = Big()
    seen = weakref.ref(value)
    cache["a"] = value
    del value
    match leave:
        case "replace":
            cache["a"] = 1
        case "delete":
            del cache["a"]
        case "pop":
            cache.pop("a")
        case "clear":
            cache.clear()
        case "evict":
            for number in range(1001):
                cache[number] = number
        case "capacity":
            cache.capacity = 0
    assert seen() is None


def test_an_eq_that_removes_the_entry_it_finds() -> None:
    cache = mayfly.Cache(10)
    stored = Key("a")
    cache[stored] = Big()
    stored.before = lambda: cache.pop(stored, None)
    assert cache.get(Key("a")) is None and len(cache) == 0


CACHED_AT_THE_END = """
import mayfly, threading
is_running = threading.Event()

@mayfly.cached
def compute(number):
    total = 0
    for part in range(10_000):
        total += part
    if number > 40:
        is_running.set()
    return total

def work(number):
    while True:
        number += 4
        compute(number)

for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
assert is_running.wait(100)
"""

LISTENER_AT_THE_END = """
import mayfly, threading
is_running = threading.Event()

def listener(key, value, cause):
    # Insertions remove expired entries, too, more of them on a slower machine.
    if threading.current_thread() is threading.main_thread():
        return
    is_running.set()
    for part in range(100_000):
        pass

cache = mayfly.Cache(10_000, ttl=0.02, listener=listener)
for key in range(10_000):
    cache[key] = key
assert is_running.wait(100)
"""

DESTRUCTOR_AT_THE_END = """
import mayfly, threading
is_running = threading.Event()

class Value:
    def __del__(self):
        if threading.current_thread() is threading.main_thread():
            return
        is_running.set()
        for part in range(100_000):
            pass

cache = mayfly.Cache(10_000, ttl=0.02)
for key in range(10_000):
    cache[key] = Value()
assert is_running.wait(100)
"""


# The interpreter unwinds the stacks of other threads at its end, which aborted the process within calls from Rust.
@pytest.mark.parametrize("code", [CACHED_AT_THE_END, LISTENER_AT_THE_END, DESTRUCTOR_AT_THE_END])
def test_the_program_ends_while_other_threads_run(code: str) -> None:
    for _ in range(3):
        run(code)


FORK_DURING_A_COMPUTATION = """
import mayfly, os, signal, threading
go, started = threading.Event(), threading.Event()

@mayfly.cached(ttl=60.0)
def compute(key):
    started.set()
    assert go.wait(100)
    return key

thread = threading.Thread(target=compute, args=(1,))
thread.start()
assert started.wait(100)
child = os.fork()
if child == 0:
    signal.alarm(60)
    go.set()
    os._exit(compute(1))
status = os.waitpid(child, 0)[1]
go.set()
thread.join()
print(os.waitstatus_to_exitcode(status))
"""


# The child waited for the computation of a thread that exists only in the parent.
def test_a_fork_during_a_computation() -> None:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_DURING_A_COMPUTATION],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.stdout.strip() == "1", found


# Functions with one cache returned the results of each other.
def test_functions_share_a_cache() -> None:
    cache = mayfly.Cache(100)

    @mayfly.cached(cache=cache)
    def first(value: int) -> tuple[str, int]:
        return "first", value

    @mayfly.cached(cache=cache)
    def second(value: int) -> tuple[str, int]:
        return "second", value

    assert (first(1), second(1), first(1)) == (("first", 1), ("second", 1), ("first", 1))
    assert cache[first.cache_key(1)] == ("first", 1) and len(cache) == 2
    first.cache_clear()
    assert second.cache_key(1) in cache and first.cache_key(1) not in cache


def test_a_function_for_keys() -> None:
    cache, calls = mayfly.Cache(100), 0

    @mayfly.cached(cache=cache, key=lambda text, **_: text.lower())
    def length(text: str, *, extra: int = 0) -> int:
        nonlocal calls
        calls += 1
        return len(text)

    assert (length("AB"), length("ab", extra=3), calls, cache["ab"]) == (2, 2, 1, 2)
    assert length.cache_key("AB") == "ab"

    @mayfly.cached(key=lambda text: text.lower())
    async def later(text: str) -> int:
        nonlocal calls
        calls += 1
        return len(text)

    async def main() -> None:
        assert (await later("AB"), await later("ab"), calls) == (2, 2, 2)

    asyncio.run(main())
    with pytest.raises(TypeError, match="typed: cannot be combined with key"):
        mayfly.cached(key=len, typed=True)


INTERRUPTED = """
import mayfly, sys

def interrupt():
    cache = mayfly.Cache(4, ttl=5.0)
    cache[1] = 1

def trace(frame, event, argument):
    # A signal handler may run at each line of the functions that set the alarm.
    if not frame.f_code.co_filename.endswith(("threading.py", "_timer.py")):
        return None
    if event == "line":
        sys.settrace(None)
        interrupt()
        sys.settrace(trace)
    return trace

sys.settrace(trace)
for life in (60.0, 50.0, 40.0):
    cache = mayfly.Cache(4, ttl=life)
    cache[1] = 1
sys.settrace(None)
print("ok")
"""


# The alarm took a lock that a signal handler, which sets an alarm itself, found taken.
def test_a_signal_handler_that_stores_with_a_ttl() -> None:
    assert run(INTERRUPTED) == "ok"


COMPARED = """
import mayfly, threading
go, started = threading.Event(), threading.Event()

class Key:
    def __init__(self, number):
        self.number = number
    def __hash__(self):
        return 7
    def __eq__(self, other):
        compute(self.number + 100)
        return self.number == other.number

@mayfly.cached(ttl=60.0)
def compute(key):
    if isinstance(key, Key) and key.number == 1:
        started.set()
        assert go.wait(100)
    return 1

thread = threading.Thread(target=compute, args=(Key(1),))
thread.start()
assert started.wait(100)
print(compute(Key(2)))
go.set()
thread.join()
"""


# `__eq__` of an argument ran under a lock of the function, and waited for it if it called the function.
def test_an_eq_of_an_argument_that_calls_the_function() -> None:
    assert run(COMPARED) == "1"


def wait_together(function: Callable[[], object], go: threading.Event, waiting: int) -> list[object]:
    """Calls a function on several threads, and lets the first go on when the others have begun."""
    found: list[object] = []

    def call() -> None:
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(waiting)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


# If the hash of the key raised at the end of a computation, the others waited forever. It is not called there.
def test_a_hash_that_would_raise_at_the_end_of_a_computation() -> None:
    go, is_bad = threading.Event(), False

    class Bad:
        def __hash__(self) -> int:
            if is_bad and threading.current_thread().name == "leader":
                raise LookupError("no")
            return 1

        def __eq__(self, other: object) -> bool:
            return True

    started = threading.Event()

    @mayfly.cached
    def compute(key: Bad) -> int:
        nonlocal is_bad
        started.set()
        assert go.wait(60)
        is_bad = True
        return 5

    raised: list[BaseException] = []

    def lead() -> None:
        try:
            compute(Bad())
        except LookupError as error:
            raised.append(error)

    leader = threading.Thread(target=lead, name="leader")
    leader.start()
    assert started.wait(60)
    assert wait_together(lambda: compute(Bad()), go, 3) == [5] * 3
    leader.join()
    assert not raised


# The key was blocked for other threads if the thread of a refresh could not start.
def test_a_refresh_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, count = mayfly.ManualClock(), 0
    cache = mayfly.Cache(10, ttl=70.0, clock=clock)

    @mayfly.cached(ttl=60.0, stale=10.0, cache=cache)
    def load() -> int:
        nonlocal count
        count += 1
        return count

    assert load() == 1
    clock.advance(61.0)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert load() == 1, "the stale result is returned"
    clock.advance(20.0)
    assert wait_together(load, threading.Event(), 1) == [2]


# An exit or an interrupt of the thread that computed reached all that waited.
def test_an_interrupted_computation_is_begun_again() -> None:
    go, started, count = threading.Event(), threading.Event(), 0

    @mayfly.cached
    def compute() -> int:
        nonlocal count
        count += 1
        if count == 1:
            started.set()
            assert go.wait(60)
            raise SystemExit(3)
        return count

    raised: list[BaseException] = []

    def lead() -> None:
        try:
            compute()
        except SystemExit as error:
            raised.append(error)

    leader = threading.Thread(target=lead)
    leader.start()
    assert started.wait(60)
    assert wait_together(compute, go, 4) == [2] * 4
    leader.join()
    assert len(raised) == 1 and compute() == 2


# A computation that was cancelled from within cancelled all tasks that waited.
def test_a_computation_that_is_cancelled_is_begun_again() -> None:
    count = 0

    @mayfly.cached
    async def compute() -> int:
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        if count == 1:
            raise asyncio.CancelledError
        return count

    async def main() -> list[int | BaseException]:
        return await asyncio.gather(*(compute() for _ in range(4)), return_exceptions=True)

    first, *others = asyncio.run(main())
    assert isinstance(first, asyncio.CancelledError) and others == [2] * 3


# All waiting threads raised one object, whose traceback grew with each of them.
def test_each_thread_raises_an_exception_of_its_own() -> None:
    go = threading.Event()

    @mayfly.cached
    def fail() -> int:
        assert go.wait(60)
        raise LookupError("no", 3)

    found = wait_together(fail, go, 5)
    assert [repr(error) for error in found] == ["LookupError('no', 3)"] * 5
    frames = []
    for error in found:
        assert isinstance(error, LookupError)
        trace, count = error.__traceback__, 0
        while trace is not None:
            trace, count = trace.tb_next, count + 1
        frames.append(count)
    assert max(frames) <= 6, frames


def test_a_result_computed_before_cache_clear_is_not_stored() -> None:
    go, started, source = threading.Event(), threading.Event(), "old"

    @mayfly.cached
    def read() -> str:
        value = source
        started.set()
        assert go.wait(60)
        return value

    thread = threading.Thread(target=read)
    thread.start()
    assert started.wait(60)
    source = "new"
    read.cache_clear()
    go.set()
    thread.join()
    assert read() == "new"

    step = asyncio.Event()

    @mayfly.cached
    async def later() -> str:
        value = source
        await step.wait()
        return value

    async def main() -> None:
        nonlocal source
        task = asyncio.ensure_future(later())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        source = "newest"
        later.cache_clear()
        step.set()
        assert await task == "new" and await later() == "newest"

    asyncio.run(main())


# A coroutine that awaited itself with the same arguments waited forever.
def test_a_coroutine_that_calls_itself_with_the_same_arguments() -> None:
    @mayfly.cached
    async def outer(value: int, depth: int = 0) -> int:
        nonlocal calls
        calls += 1
        return calls if calls > 2 else await inner(value)

    @mayfly.cached
    async def inner(value: int) -> int:
        return await outer(value)

    calls = 0

    async def main() -> None:
        assert await asyncio.wait_for(outer(1), 60) == 3

    asyncio.run(main())


def test_an_object_with_an_async_call() -> None:
    class Load:
        count = 0

        async def __call__(self, value: int) -> int:
            self.count += 1
            return value

    load = Load()
    call: Any = mayfly.cached(load)

    async def main() -> None:
        assert (await call(1), await call(1), load.count) == (1, 1, 1)

    asyncio.run(main())


@mayfly.cached
def at_top_level(value: int) -> int:
    return value


def test_cached_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(at_top_level)) is at_top_level
    assert copy.copy(at_top_level) is at_top_level and copy.deepcopy(at_top_level) is at_top_level


def test_update_and_popitem() -> None:
    cache = mayfly.Cache(10)
    cache.update({"a": 1}, b=2)
    cache.update([("c", 3), ("a", 4)])
    assert dict(cache.items()) == {"a": 4, "b": 2, "c": 3}
    cache.update()
    for call in (lambda: cache.update(1), lambda: cache.update({}, {}), lambda: cache.update([([], 1)])):
        with pytest.raises(TypeError):
            call()
    taken = dict(cache.popitem() for _ in range(3))
    assert taken == {"a": 4, "b": 2, "c": 3} and len(cache) == 0
    with pytest.raises(KeyError, match="empty"):
        cache.popitem()


@pytest.mark.parametrize("capacity", [-1, 1 << 64, 1.5, "x"])
def test_a_bad_capacity_is_named(capacity: Any) -> None:
    cache = mayfly.Cache(10)
    with pytest.raises(ValueError, match="capacity .*: expected a number of entries"):
        cache.capacity = capacity
    assert cache.capacity == 10


def test_cached_functions_that_leave_are_collected() -> None:
    class Owner:
        pass

    owner = Owner()

    @mayfly.cached
    def function(value: int, owner: Owner = owner) -> int:
        return value

    assert function(1) == 1
    seen = weakref.ref(owner)
    del owner, function
    gc.collect()
    assert seen() is None
