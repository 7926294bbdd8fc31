"""Policies written in Python, run beside those of the simulator."""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import Any

import pytest

import mayfly

KEYS = [int(random.Random(seed).paretovariate(0.8)) for seed in range(20_000)]


class Lru:
    """The least recently used entry leaves."""

    def __init__(self, capacity: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def on_insert(self, entry: int, weight: int) -> None:
        self.order[entry] = None

    def on_hit(self, entry: int) -> None:
        self.order.move_to_end(entry)

    def on_remove(self, entry: int) -> None:
        del self.order[entry]

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]


COUNTERS = ("misses", "evictions", "expirations", "refusals", "miss_ratio", "held", "cache_size", "requests")


@pytest.mark.parametrize(
    "source",
    [
        KEYS,
        {"key": KEYS, "size": [key % 90 + 1 for key in KEYS]},
        {
            "time_ms": list(range(len(KEYS))),
            "key": KEYS,
            "ttl_ms": [key % 7 * 500 for key in KEYS],
            "op": ["delete" if n % 97 == 0 else "get" for n in range(len(KEYS))],
        },
    ],
    ids=["keys", "sizes", "deadlines and deletes"],
)
def test_a_policy_in_python_has_the_counters_of_the_same_in_rust(source: Any) -> None:
    table = mayfly.simulate(source, ["fifo", Lru, "lru"], ["1%", "10%"])
    assert table["policy"] == ["fifo", "fifo", "Lru", "Lru", "lru", "lru"]
    for name in COUNTERS:
        assert table[name][2:4] == table[name][4:6], name


def policy(**methods: Any) -> type:
    return type("Broken", (Lru,), methods)


@pytest.mark.parametrize(
    ("methods", "error", "text"),
    [
        ({"evict": lambda self: 4_000_000_000}, ValueError, "policy Broken: evict returned 4000000000, which is not in"),
        ({"evict": lambda self: 19_999_999}, ValueError, "which is not in the cache"),
        ({"evict": lambda self: -1}, ValueError, "evict returned -1: expected the number of an entry"),
        ({"evict": lambda self: None}, ValueError, "evict returned None: expected"),
        ({"evict": None}, TypeError, "not callable"),
        ({"on_hit": lambda self, entry: {}[entry]}, KeyError, "[0-9]"),
        ({"on_insert": lambda self: None}, TypeError, "positional argument"),
        ({"__init__": lambda self: None}, TypeError, "positional argument"),
    ],
)
def test_a_broken_policy_raises(methods: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mayfly.simulate(KEYS, [policy(**methods)], 10)


def test_a_class_without_the_methods_is_refused() -> None:
    class Empty:
        def __init__(self, capacity: int) -> None:
            pass

    with pytest.raises(TypeError, match="policy Empty: it has no method on_insert"):
        mayfly.simulate(KEYS, [Empty], 10)


def test_a_policy_may_call_the_simulator() -> None:
    class Curious(Lru):
        def evict(self) -> int:
            mayfly.simulate([1, 2, 3], "lru", 1)
            return super().evict()

    assert mayfly.simulate(KEYS[:200], [Curious], 10)["evictions"][0] > 0
