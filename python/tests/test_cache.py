"""The cache and cached functions: behaviour, Python's specifics, and bad input."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest

import mayfly


def test_it_is_a_mapping() -> None:
    cache = mayfly.Cache(10)
    assert isinstance(cache, MutableMapping)
    cache["a"] = 1
    cache.set(("b", 2), None)
    assert cache["a"] == 1 and cache[("b", 2)] is None and cache.get("c") is None
    assert cache.get("c", 7) == 7 and "a" in cache and "c" not in cache and len(cache) == 2
    assert sorted(map(str, cache)) == ["('b', 2)", "a"]
    assert set(cache.items()) == {("a", 1), (("b", 2), None)}
    assert cache.setdefault("a", 5) == 1 and cache.setdefault("d", 5) == 5
    assert cache.pop("d") == 5 and cache.pop("d", None) is None
    assert cache.get_many(["a", "x"]) == {"a": 1}
    del cache["a"]
    for call in (lambda: cache["a"], lambda: cache.pop("a"), lambda: cache.__delitem__("a")):
        with pytest.raises(KeyError, match="a"):
            call()
    cache.clear()
    assert not list(cache) and len(cache) == 0


def test_equal_keys_of_several_types_are_one_key() -> None:
    cache = mayfly.Cache(10)
    cache[1] = "int"
    cache[1.0] = "float"
    cache[True] = "bool"
    assert len(cache) == 1 and cache[1] == "bool" and cache.keys() == [1]
    nan = float("nan")
    cache[nan] = "nan"
    assert cache[nan] == "nan" and float("nan") not in cache


@pytest.mark.parametrize("policy", ["lru", "s3fifo", "sieve", "arc", "w-tinylfu"])
def test_random_operations_agree_with_a_dictionary(policy: str) -> None:
    draw = random.Random(policy)
    cache, model = mayfly.Cache(50, policy=policy), dict[object, int]()
    for step in range(20_000):
        key: object = draw.choice([draw.randrange(100), str(draw.randrange(100)), (draw.randrange(9), "t")])
        match draw.randrange(5):
            case 0 | 1:
                cache[key] = step
                model[key] = step
            case 2:
                found = cache.pop(key, None)
                assert found in (None, model.pop(key, None))
            case _:
                assert cache.get(key) in (None, model.get(key))
        assert len(cache) <= 50
    stats = cache.stats()
    assert stats["len"] == len(cache.keys()) == len(set(cache.keys()))
    left = stats["evicted"] + stats["removed"] + stats["replaced"] + stats["rejected"]
    assert stats["inserted"] + stats["rejected"] - left in (stats["len"], stats["len"] - stats["rejected"])


def test_lru_keeps_what_was_used_last() -> None:
    cache = mayfly.Cache(2, policy="lru")
    cache["a"], cache["b"] = 1, 2
    assert cache["a"] == 1
    cache["c"] = 3
    assert "b" not in cache and "a" in cache
    assert cache.peek("a") == 1
    cache["d"] = 4
    assert "a" not in cache, "peek is no hit"


def test_entries_expire_by_ttl_and_idle_time() -> None:
    clock = mayfly.ManualClock()
    cache = mayfly.Cache(10, ttl=60.0, clock=clock)
    cache["a"] = 1
    cache.set("b", 2, ttl=5.0)
    clock.advance(6.0)
    assert "b" not in cache and cache["a"] == 1
    left = cache.time_to_live("a")
    assert left is not None and 53 <= left <= 54
    assert cache.set_ttl("a", 1.0) and not cache.set_ttl("x", 1.0)
    clock.advance(2.0)
    assert "a" not in cache and cache.expire() >= 1 and len(cache) == 0
    cache["a"] = 3
    assert cache["a"] == 3, "an expired key can be inserted again"
    idle = mayfly.Cache(10, tti=10.0, clock=clock)
    idle["a"] = 1
    for _ in range(5):
        clock.advance(8.0)
        assert idle["a"] == 1
    clock.advance(11.0)
    assert "a" not in idle


def test_an_expired_entry_is_replaced_by_an_equal_key() -> None:
    clock = mayfly.ManualClock()
    cache = mayfly.Cache(10, clock=clock)
    cache.set(1, "old", ttl=1.0)
    clock.advance(2.0)
    cache[1.0] = "new"
    assert cache[1] == "new" and len(cache) == 1


def test_the_timer_removes_without_traffic() -> None:
    left = threading.Event()
    causes: list[tuple[object, object, str]] = []

    def listener(key: object, value: object, cause: str) -> None:
        causes.append((key, value, cause))
        left.set()

    cache = mayfly.Cache(10, listener=listener)
    cache.set("far", 0, ttl=3600.0)
    cache.set("short", 1, ttl=0.005)
    assert left.wait(60) and causes == [("short", 1, "expired")]
    assert len(cache) == 1


# The timer's thread ended with "Set changed size during iteration", and nothing expired any more.
def test_caches_that_are_made_by_other_threads_do_not_end_the_timer() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work() -> None:
        caches = []
        for number in range(8_000):
            cache = mayfly.Cache(10, ttl=3600.0)
            cache["a"] = 1
            caches.append(cache)
            if number % 500 == 0:
                caches.clear()

    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    left = threading.Event()
    cache = mayfly.Cache(10, listener=lambda *_: left.set())
    cache.set("short", 1, ttl=0.005)
    assert left.wait(60), "the timer has ended"


class Overtaken(mayfly.Cache):
    """Another thread stores an entry when the timer has seen that none has a deadline."""

    is_overtaken = False

    def _expire_some(self) -> float | None:
        left = super()._expire_some()
        if left is None and not self.is_overtaken:
            self.is_overtaken = True
            other = threading.Thread(target=self.set, args=("b", 1), kwargs={"ttl": 0.005})
            other.start()
            other.join()
        return left


# The timer then forgot the cache, which it looked at no more.
def test_a_deadline_that_is_set_while_the_timer_looks_is_not_missed() -> None:
    left: queue.SimpleQueue[object] = queue.SimpleQueue()
    cache = Overtaken(10, listener=lambda key, *_: left.put(key))
    cache.set("a", 1, ttl=0.005)
    assert [left.get(timeout=60), left.get(timeout=60)] == ["a", "b"]


def test_listener_and_weigher_are_called() -> None:
    seen: list[tuple[object, object, str]] = []
    cache = mayfly.Cache(
        100, policy="lru", weigher=lambda key, value: len(value), listener=lambda *left: seen.append(left)
    )
    cache["a"] = "x" * 60
    cache["b"] = "y" * 30
    cache["b"] = "z" * 40
    cache["c"] = "w" * 50
    assert cache.stats()["weight"] <= 100
    assert seen[0] == ("b", "y" * 30, "replaced") and ("a", "x" * 60, "evicted") in seen
    cache["d"] = "v" * 200
    assert "d" not in cache and seen[-1][2] == "evicted"
    del cache["c"]
    assert seen[-1][2] == "removed"


def test_callbacks_may_use_the_cache() -> None:
    def listener(key: Any, value: Any, cause: str) -> None:
        if key < 1_000:
            cache[key + 1_000] = value
            cache.pop(key + 1_000, None)

    def weigher(key: Any, value: Any) -> int:
        cache.get(key)
        return 1

    cache = mayfly.Cache(10, listener=listener, weigher=weigher, policy="lru")
    for number in range(1_000):
        cache[number] = number
    assert len(cache) <= 10


def test_exceptions_of_a_listener_are_unraisable(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    def listener(*left: object) -> None:
        raise LookupError("no")

    cache = mayfly.Cache(1, listener=listener, policy="fifo")
    cache["a"] = 1
    cache["b"] = 2
    assert seen and isinstance(seen[0].exc_value, LookupError) and cache["b"] == 2


class Key:
    """A key whose hash and equality are given by functions."""

    def __init__(self, name: str, hash_of: Any = None, is_equal: Any = None) -> None:
        self.name, self.hash_of, self.is_equal = name, hash_of, is_equal

    def __hash__(self) -> int:
        return self.hash_of() if self.hash_of else 7

    def __eq__(self, other: object) -> bool:
        if self.is_equal:
            return bool(self.is_equal(self, other))
        return isinstance(other, Key) and self.name == other.name


def failing(*_: object) -> Any:
    raise LookupError("no")


def test_hashes_and_comparisons_that_raise() -> None:
    cache = mayfly.Cache(10)
    for call in (cache.get, cache.pop, cache.time_to_live, lambda key: cache.set(key, 1), cache.__contains__):
        with pytest.raises(LookupError):
            call(Key("a", hash_of=failing))
        with pytest.raises(TypeError, match="unhashable"):
            call([])
    # As in a dictionary, the stored key's __eq__ is called.
    bad = Key("a", is_equal=failing)
    cache[bad] = 1
    for call in (cache.get, cache.pop, cache.time_to_live, lambda key: cache.set(key, 2), cache.__contains__):
        with pytest.raises(LookupError):
            call(Key("a"))
    assert cache[bad] == 1 and len(cache) == 1, "identity comes first"


def test_an_eq_that_changes_the_cache() -> None:
    cache = mayfly.Cache(10)

    def remove(self: Key, other: object) -> bool:
        cache.pop(self, None)
        gc.collect()
        return True

    def insert(self: Key, other: object) -> bool:
        cache[len(cache) % 5] = 1
        return False

    cache[Key("a", is_equal=remove)] = 1
    assert cache.get(Key("b")) in (None, 1) and len(cache) == 0
    cache[Key("a", is_equal=remove)] = 1
    cache[Key("b")] = 2
    assert cache.get(Key("b")) in (None, 2)
    cache.clear()
    cache[Key("a", is_equal=insert)] = 1
    with pytest.raises(RuntimeError, match="changed by __eq__"):
        cache[Key("b")] = 1
    assert cache.get(Key("b")) is None


def test_colliding_hashes_are_told_apart_by_eq() -> None:
    cache = mayfly.Cache(100)
    for number in range(50):
        cache[Key(str(number))] = number
    assert [cache.get(Key(str(number))) for number in range(50)] == list(range(50))


def test_cycles_through_a_cache_are_collected() -> None:
    class Node:
        pass

    for kind in ("value", "key", "listener"):
        node = Node()
        cache = mayfly.Cache(10, listener=(lambda *left, node=node: None) if kind == "listener" else None)
        node.cache = cache  # type: ignore[attr-defined]
        cache[node if kind == "key" else "k"] = node
        seen = weakref.ref(node)
        del node, cache
        gc.collect()
        assert seen() is None, kind


def test_a_cache_with_deadlines_is_freed_with_its_last_reference() -> None:
    cache = mayfly.Cache(10, ttl=3600.0)
    cache["a"] = 1
    seen = weakref.ref(cache)
    del cache
    gc.collect()
    assert seen() is None


def test_values_are_released_when_they_leave() -> None:
    class Big:
        pass

    cache = mayfly.Cache(1, policy="fifo")
    value = Big()
    cache["a"] = value
    seen = weakref.ref(value)
    del value
    cache["b"] = 1
    # At the latest: other threads may read a value while it leaves.
    cache.expire()
    assert seen() is None


def test_threads_share_a_cache() -> None:
    cache = mayfly.Cache(100, ttl=0.01)
    wrong: list[object] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(5_000):
            key = draw.randrange(300)
            found = cache.get(key)
            if found not in (None, key * 7):
                wrong.append((key, found))
            cache[key] = key * 7

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(cache) <= 100


FORKED = """
import mayfly, os, threading
left = threading.Event()
cache = mayfly.Cache(10, listener=lambda *_: left.set())
cache.set("before", 1, ttl=3600.0)
child = os.fork()
if child == 0:
    cache.set("short", 1, ttl=0.005)
    ok = left.wait(60) and cache["before"] == 1 and "short" not in cache
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok")
"""


def test_the_timer_runs_in_the_child_of_a_fork() -> None:
    found = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=120)
    assert found.stdout.strip() == "ok", found.stderr


def test_the_end_of_the_program_with_deadlines_is_silent() -> None:
    code = "import mayfly; c = mayfly.Cache(10, ttl=0.001); c['a'] = 1; d = mayfly.Cache(9, ttl=9.0); d[c] = c"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


NAN = float("nan")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"capacity": -1}, "capacity -1"),
        ({"capacity": 1.5}, "capacity 1.5"),
        ({"ttl": 0.0}, "ttl 0: expected seconds, more than 0"),
        ({"ttl": NAN}, "ttl NaN"),
        ({"tti": -3.0}, "tti -3"),
        ({"jitter": 2.0}, "jitter 2"),
        ({"policy": "nope"}, "nope"),
        ({"policy": "belady"}, "belady"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        mayfly.Cache(**{"capacity": 10, **arguments})


def test_bad_weights_and_times_are_refused() -> None:
    cache = mayfly.Cache(10, weigher=lambda key, value: value)
    for value in (-1, 1.5, "x", 1 << 40, None):
        with pytest.raises(ValueError, match="weigher: returned"):
            cache["a"] = value
    assert "a" not in cache
    for ttl in (0.0, -1.0, NAN):
        with pytest.raises(ValueError, match="ttl"):
            cache.set("a", 1, ttl=ttl)
    cache.set("a", 1, ttl=float("inf"))
    assert cache["a"] == 1
    with pytest.raises(LookupError):
        mayfly.Cache(10, weigher=failing)["a"] = 1


def test_cached_functions() -> None:
    calls: list[Any] = []

    @mayfly.cached(capacity=100)
    def power(base: int, exponent: int = 2) -> int:
        """Raises a number."""
        calls.append((base, exponent))
        return base**exponent

    assert [power(3), power(3), power(3, 3), power(3, exponent=3), power(3, exponent=3)] == [9, 9, 27, 27, 27]
    assert calls == [(3, 2), (3, 3), (3, 3)]
    assert power.__wrapped__(2) == 4 and power.__doc__ == "Raises a number." and power.__name__ == "power"  # type: ignore[attr-defined]
    assert power.cache[power.cache_key(3)] == 9
    power.cache_clear()
    assert power(3) == 9 and len(calls) == 5
    with pytest.raises(TypeError, match="unhashable"):
        power([])  # type: ignore[arg-type]


def test_arguments_that_are_equal_may_be_cached_apart() -> None:
    @mayfly.cached(typed=True)
    def kind(value: object) -> str:
        return type(value).__name__

    assert [kind(3), kind(3.0), kind(True)] == ["int", "float", "bool"]

    @mayfly.cached
    def shape(*args: object, **kwargs: object) -> object:
        return args, kwargs

    assert shape((1, 2)) == (((1, 2),), {}) and shape(1, 2) == ((1, 2), {})
    assert shape(1, b=2) != shape(1, "b", 2)


def test_cached_methods() -> None:
    class Reader:
        count = 0

        @mayfly.cached(capacity=10)
        def read(self, name: str) -> str:
            self.count += 1
            return name.upper()

    reader = Reader()
    assert (reader.read("a"), reader.read("a"), Reader.read(reader, "a")) == ("A", "A", "A")  # type: ignore
    assert reader.count == 1 and Reader().read("a") == "A"


def test_one_thread_computes_and_the_others_wait() -> None:
    go, count = threading.Event(), 0

    @mayfly.cached
    def slow(key: str) -> str:
        nonlocal count
        count += 1
        started.release()
        assert go.wait(60)
        return key

    started = threading.Semaphore(0)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(slow("k"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert started.acquire(timeout=60)
    go.set()
    for thread in threads:
        thread.join()
    assert (found, count) == (["k"] * 8, 1)


def test_an_exception_is_not_cached() -> None:
    count = 0

    @mayfly.cached
    def flaky() -> int:
        nonlocal count
        count += 1
        if count == 1:
            raise LookupError("no")
        return count

    with pytest.raises(LookupError):
        flaky()
    assert (flaky(), flaky()) == (2, 2)


def test_a_function_that_calls_itself_with_the_same_arguments() -> None:
    @mayfly.cached
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(80) == 23416728348467685


def test_a_stale_result_is_returned_while_one_thread_computes() -> None:
    clock, count, done = mayfly.ManualClock(), 0, threading.Event()
    cache = mayfly.Cache(10, ttl=70.0, clock=clock)

    @mayfly.cached(ttl=60.0, stale=10.0, cache=cache)
    def load(key: str) -> int:
        nonlocal count
        count += 1
        if count == 2:
            assert done.wait(60)
        return count

    assert load("k") == 1
    clock.advance(61.0)
    assert (load("k"), load("k")) == (1, 1)
    refresher = [thread for thread in threading.enumerate() if thread.name == "mayfly-refresh"]
    done.set()
    for thread in refresher:
        thread.join()
    assert (load("k"), count) == (2, 2)


CHANGES: list[tuple[Callable[[mayfly.Cache, Any], object], int | None]] = [
    (lambda cache, key: cache.pop(key, None), None),
    (lambda cache, key: pytest.raises(KeyError, cache.__delitem__, key), None),
    (lambda cache, key: cache.set(key, 2), 2),
    (lambda cache, key: cache.__setitem__(key, 2), 2),
    (lambda cache, key: cache.setdefault(key, 2), 2),
    (lambda cache, key: cache.update({key: 2}), 2),
    (lambda cache, key: (cache.set(key, 2), cache.popitem()), None),
    (lambda cache, key: (cache.set(key, 2), cache.__delitem__(key)), None),
    (lambda cache, key: cache.clear(), None),
]


@pytest.mark.parametrize(("change", "after"), CHANGES)
def test_no_computation_undoes_a_change_of_its_key(
    change: Callable[[mayfly.Cache, Any], object], after: int | None
) -> None:
    # Regression: a computation stored its result whatever had happened to the key since it began.
    @mayfly.cached
    def load(key: str) -> int:
        change(load.cache, load.cache_key(key))
        return 1

    @mayfly.cached
    async def load_async(key: str) -> int:
        await asyncio.sleep(0)
        change(load_async.cache, load_async.cache_key(key))
        return 1

    assert load("k") == 1 and load.cache.peek(load.cache_key("k")) == after
    assert asyncio.run(load_async("k")) == 1
    assert load_async.cache.peek(load_async.cache_key("k")) == after


def test_no_computation_in_the_background_undoes_a_change_of_its_key() -> None:
    clock, count = mayfly.ManualClock(), 0
    cache = mayfly.Cache(10, ttl=70.0, clock=clock)

    @mayfly.cached(ttl=60.0, stale=10.0, cache=cache)
    def load(key: str) -> int:
        nonlocal count
        count += 1
        if count == 2:
            cache.set_ttl(load.cache_key(key), 1_000.0)
        return count

    assert load("k") == 1
    clock.advance(61.0)
    assert load("k") == 1
    for thread in threading.enumerate():
        if thread.name == "mayfly-refresh":
            thread.join()
    assert (load("k"), count) == (1, 2)
    assert cache.time_to_live(load.cache_key("k")) == 1_000.0


def test_callers_after_a_change_compute_again() -> None:
    # Regression: they waited for the computation that had begun before the change.
    count, started, go = 0, threading.Event(), threading.Event()

    @mayfly.cached
    def load() -> int:
        nonlocal count
        count += 1
        mine = count
        if mine == 1:
            started.set()
            assert go.wait(60)
        return mine

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(load()))
    thread.start()
    assert started.wait(60)
    load.cache.pop(load.cache_key(), None)
    assert (load(), load()) == (2, 2)
    go.set()
    thread.join()
    assert (found, load(), count) == ([1], 2, 2)


def test_tasks_after_a_change_compute_again() -> None:
    count = 0

    async def main() -> None:
        go = asyncio.Event()

        @mayfly.cached
        async def load() -> int:
            nonlocal count
            count += 1
            mine = count
            if mine == 1:
                await go.wait()
            return mine

        first, second = asyncio.ensure_future(load()), asyncio.ensure_future(load())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        load.cache.pop(load.cache_key(), None)
        assert (await load(), await load()) == (2, 2)
        go.set()
        assert (await first, await second) == (1, 1), "they waited before the change"
        assert (await load(), count) == (2, 2)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_results_that_were_cleared_from_a_shared_cache_are_not_stored() -> None:
    cache = mayfly.Cache(10)

    @mayfly.cached(cache=cache)
    def load() -> int:
        load.cache_clear()
        return 1

    @mayfly.cached(cache=cache)
    def other() -> int:
        load.cache_clear()
        return 2

    assert (load(), other(), cache.values()) == (1, 2, [2])


def test_statistics_of_entries_that_are_too_heavy_or_unreported() -> None:
    def put_back(key: int, value: int, cause: str) -> None:
        cache[key + 1] = 1

    cache = mayfly.Cache(1, policy="lru", weigher=lambda key, value: value, listener=put_back)
    cache[0] = 2
    stats = cache.stats()
    assert (stats["too_heavy"], stats["unreported"]) == (1, 0)
    cache[5] = 1
    stats = cache.stats()
    assert (stats["too_heavy"], stats["unreported"]) == (1, 1), "the last one of a chain"


def test_coroutines_share_one_computation() -> None:
    count = 0

    @mayfly.cached(ttl=60.0)
    async def load(key: str) -> str:
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        if key == "bad":
            raise LookupError(key)
        return key

    async def main() -> None:
        assert await asyncio.gather(*(load("k") for _ in range(5))) == ["k"] * 5
        assert count == 1
        found = await asyncio.gather(*(load("bad") for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in found] == [LookupError] * 3 and count == 2
        first = asyncio.ensure_future(load("c"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(load("c"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "c", "a cancelled caller cancels nobody else"

    asyncio.run(main())
    assert asyncio.run(load("k")) == "k" and count == 3
    assert asyncio.iscoroutinefunction(load) or True


def test_a_stale_result_of_a_coroutine() -> None:
    clock, count = mayfly.ManualClock(), 0
    cache = mayfly.Cache(10, ttl=70.0, clock=clock)

    @mayfly.cached(ttl=60.0, stale=10.0, cache=cache)
    async def load() -> int:
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        return count

    async def main() -> None:
        assert await load() == 1
        clock.advance(61.0)
        assert [await load(), await load()] == [1, 1]
        for _ in range(5):
            await asyncio.sleep(0)
        assert await load() == 2 and count == 2

    asyncio.run(main())


def test_bad_arguments_of_cached() -> None:
    with pytest.raises(ValueError, match="stale 5"):
        mayfly.cached(stale=5.0)
    with pytest.raises(TypeError, match="policy: cannot be combined with cache"):
        mayfly.cached(cache=mayfly.Cache(1), policy="lru")


def test_hit_ratios_are_those_of_the_simulator() -> None:
    draw = random.Random(5)
    keys = [int(draw.paretovariate(0.7)) for _ in range(50_000)]
    for policy in ("lru", "sieve", "fifo"):
        cache = mayfly.Cache(200, policy=policy)
        for key in keys:
            if cache.get(key) is None:
                cache[key] = key
        misses = mayfly.simulate(keys, policy, 200)["misses"][0]
        assert cache.stats()["misses"] == misses, policy


def test_a_sub_class_keeps_its_methods() -> None:
    class Counting(mayfly.Cache):
        def double(self, key: object) -> object:
            return self[key] * 2

    cache = Counting(10, policy="lru")
    cache["a"] = 4
    assert cache.double("a") == 8 and os.getpid()


def test_a_missing_key_is_the_argument_of_its_exception() -> None:
    cache = mayfly.Cache(10)
    for key in ((1, 2), (), "text", None):
        for take in (cache.__getitem__, cache.__delitem__, cache.pop):
            with pytest.raises(KeyError) as caught:
                take(key)
            assert caught.value.args == (key,)


def test_reads_check_their_arguments() -> None:
    cache: Any = mayfly.Cache(10)
    for arguments in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match="expected a key and at most one default"):
            cache.get(*arguments)
    with pytest.raises(TypeError):
        cache.get(key=1)
    for unhashable in ([], {}, (1, [])):
        for read in (cache.get, cache.__getitem__, cache.peek, cache.__contains__):
            with pytest.raises(TypeError, match="unhashable"):
                read(unhashable)
    kind: Any = type(cache)
    for other in (object(), {}, kind.__base__(10)):
        with pytest.raises(TypeError):
            kind.get(other, 1)
        with pytest.raises(TypeError):
            kind.__getitem__(other, 1)
    with pytest.raises(TypeError):
        object.__new__(kind)
    default = object()
    assert cache.get(1) is None and cache.get(1, default) is default
    assert cache.stats()["misses"] == 2


def test_the_class_describes_itself() -> None:
    import inspect

    assert list(inspect.signature(mayfly.Cache).parameters)[:3] == ["capacity", "ttl", "tti"]
    assert list(inspect.signature(mayfly.Cache.get).parameters) == ["self", "key", "default"]
    for name in mayfly.__all__:
        thing = getattr(mayfly, name)
        assert not callable(thing) or (thing.__doc__ and len(thing.__doc__) > 20), name
    assert mayfly.Cache.__module__ == "mayfly._native" and mayfly.Cache.__name__ == "Cache"
    assert "seconds" in (mayfly.Cache.__doc__ or "")
