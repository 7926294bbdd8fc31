"""Types of the native module."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

Report = Callable[[int, int], None]
_Columns = dict[str, tuple[str, list[Any]]]

version: str
policies: list[str]
field_names: list[str]

class TraceError(ValueError): ...

class Source:
    @staticmethod
    def file(
        name: str,
        path: str,
        format: str | None = None,
        columns: str | None = None,
        skip_bad: bool = False,
    ) -> Source: ...
    @staticmethod
    def columns(name: str, columns: Mapping[str, tuple[Any, float]]) -> Source: ...
    @staticmethod
    def arrow(name: str, table: object) -> Source: ...

class Trace:
    def __init__(
        self, source: Source, options: dict[str, Any], progress: Report | None
    ) -> None: ...
    name: str
    objects: int
    footprint_bytes: int
    has_sizes: bool
    has_ttls: bool
    has_time: bool
    memory_bytes: int
    def __len__(self) -> int: ...

def replay(
    trace: Trace,
    policies: list[str],
    sizes: list[str],
    options: dict[str, Any],
    progress: Report | None,
) -> _Columns: ...
def page_of_replays(columns: Mapping[str, list[Any]]) -> str: ...
def curve(
    source: Source,
    policies: list[str],
    sizes: list[str],
    points: int,
    sample: tuple[float, int],
    is_exact: bool,
    options: dict[str, Any],
    progress: Report | None,
) -> tuple[_Columns, str]: ...
def analyze(
    source: Source, objects: int, options: dict[str, Any], progress: Report | None
) -> tuple[str, str, str]: ...
def advise(
    source: Source,
    policies: list[str],
    memory: str | None,
    target: float | None,
    sample: tuple[float, int],
    is_sample_only: bool,
    options: dict[str, Any],
    progress: Report | None,
) -> tuple[str, str, str]: ...
def generate(
    requests: int,
    pattern: str,
    objects: int,
    size: str,
    ttl_mix: str | None,
    rates: tuple[float, float, int],
    progress: Report | None,
) -> dict[str, tuple[str, bytes]]: ...
def generate_file(
    path: str,
    requests: int,
    pattern: str,
    objects: int,
    size: str,
    ttl_mix: str | None,
    rates: tuple[float, float, int],
    progress: Report | None,
) -> None: ...
def arrow_stream(columns: _Columns) -> object: ...
def replay_class(
    trace: Trace,
    name: str,
    factory: Callable[[int], Any],
    sizes: list[str],
    options: dict[str, Any],
    progress: Report | None,
) -> _Columns: ...

class ManualClock:
    """A time source that stands until it is moved, for tests."""

    def __init__(self) -> None: ...
    def advance(self, seconds: float) -> None: ...

class Cache:
    """A mapping whose entries expire on time.

    capacity: number of entries, or total weight if there is a weigher.
    ttl: seconds from its insertion after which an entry expires.
    tti: seconds from its last read after which an entry expires.
    jitter: largest random share by which each TTL is shortened, from 0 to 1.
    policy: eviction policy with its parameters, such as ``"lru"`` or ``"s3fifo:small=0.2"``.
    weigher: function of key and value that returns an entry's weight, an integer.
    listener: function of key, value and cause (``"expired"``, ``"evicted"``, ``"replaced"`` or
        ``"removed"``) that is called after an entry has left.
    clock: source of time, for tests. Then nothing is removed without a call.
    """

    def __init__(
        self,
        capacity: int,
        *,
        ttl: float | None = None,
        tti: float | None = None,
        jitter: float = 0.0,
        policy: str = "s3fifo-w",
        weigher: Callable[[Any, Any], int] | None = None,
        listener: Callable[[Any, Any, str], object] | None = None,
        clock: ManualClock | None = None,
    ) -> None: ...
    capacity: int
    @property
    def policy(self) -> str: ...
    def __getitem__(self, key: Hashable) -> Any: ...
    def __setitem__(self, key: Hashable, value: Any) -> None: ...
    def __delitem__(self, key: Hashable) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def get(self, key: Hashable, default: Any = None, /) -> Any: ...
    def peek(self, key: Hashable, default: Any = None, /) -> Any: ...
    def set(self, key: Hashable, value: Any, /, *, ttl: float | None = None) -> None: ...
    def setdefault(self, key: Hashable, default: Any = None, /) -> Any: ...
    def pop(self, key: Hashable, /, *default: Any) -> Any: ...
    def popitem(self) -> tuple[Any, Any]: ...
    def update(self, *others: Any, **entries: Any) -> None: ...
    def get_many(self, keys: Iterable[Hashable]) -> dict[Any, Any]: ...
    def clear(self) -> None: ...
    def keys(self) -> list[Any]: ...
    def values(self) -> list[Any]: ...
    def items(self) -> list[tuple[Any, Any]]: ...
    def time_to_live(self, key: Hashable) -> float | None: ...
    def set_ttl(self, key: Hashable, ttl: float | None) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    def expire(self) -> int: ...
    def _begin(self, key: Hashable) -> Loading: ...
    def _expire_some(self) -> float | None: ...

class Loading:
    def is_outdated(self) -> bool: ...
    def store(self, value: Any, ttl: float | None) -> None: ...
    def end(self) -> None: ...

def end_expiry() -> None: ...

class Call:
    def __init__(
        self,
        cache: Cache,
        missed: Callable[..., Any],
        refresh: Callable[..., Any] | None,
        stale: float,
        is_typed: bool,
        scope: object | None,
    ) -> None: ...
    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...
    def cache_key(self, *arguments: Any, **keywords: Any) -> Any: ...
