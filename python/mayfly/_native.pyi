"""Types and documentation of the native module."""

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
    """A time source for tests, which stands still until ``advance`` moves it."""

    def __init__(self) -> None: ...
    def advance(self, seconds: float) -> None:
        """Moves the clock forward."""

class Cache:
    """A mapping whose entries expire on time.

    Expired entries are never returned, and a background thread removes them within milliseconds.

    capacity: maximum number of entries, or maximum total weight if there is a weigher.
    ttl: time to live: seconds after its insertion at which an entry expires; never if None.
    tti: time to idle: seconds after its last read at which an entry expires; never if None.
    jitter: largest random share by which each TTL is shortened, from 0 to 1.
    policy: eviction policy with its parameters, such as ``"lru"`` or ``"s3fifo:small=0.2"``.
    weigher: function of key and value that returns the weight of an entry, an integer.
    listener: function of key, value and cause that is called after an entry has left. The cause is
        ``"expired"``, ``"evicted"``, ``"replaced"`` or ``"removed"``.
    clock: time source for tests. With it, expired entries are removed only by calls.

    >>> cache = Cache(1000, ttl=60)
    >>> cache["answer"] = 42
    >>> cache.set("session", 7, ttl=5.0)
    >>> cache.get("answer")
    42
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
    def policy(self) -> str:
        """Name of the eviction policy."""
    def __getitem__(self, key: Hashable) -> Any: ...
    def __setitem__(self, key: Hashable, value: Any) -> None: ...
    def __delitem__(self, key: Hashable) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def get(self, key: Hashable, default: Any = None, /) -> Any:
        """Returns the value of a key and registers a hit, or returns ``default``."""
    def peek(self, key: Hashable, default: Any = None, /) -> Any:
        """Returns the value of a key without registering a hit, or returns ``default``."""
    def set(self, key: Hashable, value: Any, /, *, ttl: float | None = None) -> None:
        """Inserts or replaces a value. ``ttl`` in seconds overrides the TTL of the cache."""
    def setdefault(self, key: Hashable, default: Any = None, /) -> Any:
        """Returns the value of a key, or stores ``default`` and returns it."""
    def pop(self, key: Hashable, /, *default: Any) -> Any:
        """Removes a key and returns its value.

        If the key has no live entry, returns ``default``, or raises KeyError without a default.
        """
    def popitem(self) -> tuple[Any, Any]:
        """Removes an arbitrary entry and returns its key and value. Raises KeyError if there is none."""
    def update(self, *others: Any, **entries: Any) -> None:
        """Inserts the entries of a mapping or of an iterable of pairs, and keywords as entries."""
    def get_many(self, keys: Iterable[Hashable]) -> dict[Any, Any]:
        """Returns a dictionary of those keys that have a value, and registers the hits."""
    def clear(self) -> None:
        """Removes all entries."""
    def keys(self) -> list[Any]:
        """Returns the keys of all live entries at the time of the call."""
    def values(self) -> list[Any]:
        """Returns the values of all live entries at the time of the call."""
    def items(self) -> list[tuple[Any, Any]]:
        """Returns pairs of key and value of all live entries at the time of the call."""
    def time_to_live(self, key: Hashable) -> float | None:
        """Returns the seconds until an entry expires.

        Returns None if the key is absent or its entry does not expire.
        """
    def set_ttl(self, key: Hashable, ttl: float | None) -> bool:
        """Sets the seconds until an entry expires; never if None.

        Returns False if the key has no live entry.
        """
    def stats(self) -> dict[str, Any]:
        """Returns the counters since the cache was created, and its present size."""
    def expire(self) -> int:
        """Removes all expired entries, and returns their number.

        Only needed with a clock for tests; otherwise a thread removes them on time.
        """
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
