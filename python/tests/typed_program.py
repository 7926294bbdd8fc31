"""A program as users write it. `python/check.sh` checks its types strictly; it is not run."""
import asyncio
from collections.abc import Mapping, MutableMapping

import mayfly


class Lru:
    def __init__(self, capacity: int) -> None:
        self.order: dict[int, None] = {}

    def on_insert(self, entry: int, weight: int) -> None:
        self.order[entry] = None

    def on_hit(self, entry: int) -> None:
        self.order[entry] = self.order.pop(entry)

    def evict(self) -> int:
        entry = next(iter(self.order))
        del self.order[entry]
        return entry


@mayfly.cached(ttl=60.0, stale=5.0)
def load(user: int, *, deep: bool = False) -> str:
    return str(user)


@mayfly.cached
async def fetch(user: int) -> bytes:
    return b""


class Service:
    @mayfly.cached(capacity=10)
    def method(self, number: int) -> float:
        return number / 2


text: str = load(1, deep=True)
raw: bytes = asyncio.run(fetch(1))
half: float = Service().method(3)
load.cache_clear()
hits: object = load.cache.stats()["hits"]
cache = mayfly.Cache(10, ttl=5.0, weigher=lambda key, value: 1, listener=lambda key, value, cause: None)
cache["a"] = 1
value: object = cache.get("a", 2)
table = mayfly.simulate([1, 2, 3], [Lru, "lru"], ["1%", 10], ignore_size=True)
ratios: list[float] = table["miss_ratio"]
for row in table:
    print(row["policy"], row["miss_ratio"])
advice = mayfly.advise({"key": [1, 2, 3]}, memory=2)
print(advice.policy, advice.cache_size)
generated = mayfly.generate(10)
mayfly.sweep(["a.csv"], "lru", 10, engine="dask", address="tcp://a:1", resume="units")
trace: mayfly.Trace = mayfly.load([1, 2])
print(len(trace), trace.objects)
