"""Replays, miss-ratio curves and generated traces."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from . import _native
from ._input import Trace, load, source_of
from ._options import integer, split
from ._progress import progress_bar
from ._remote import shown
from ._table import Columns, Table, merged

if TYPE_CHECKING:
    from ._input import Requests

    Size = int | float | str

POLICIES = ("fifo", "lru", "clock", "sieve", "s3fifo")
SIZES: tuple[str, ...] = ("0.1%", "1%", "10%")
POINTS_MAX = 10_000
# Of a pattern, as in texts of patterns.
OBJECTS_MAX = 1 << 40
# Options that apply when a trace is read, and cannot be changed afterwards.
INTERNING = ("sample", "ttl_mix", "ignore_ttl")


def simulate(
    requests: Requests,
    policies: str | Iterable[str | Callable[[int], EvictionPolicy]] = POLICIES,
    sizes: Size | Iterable[Size] = SIZES,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Any,
) -> Table:
    """Replays a trace through caches of the given policies and sizes.

    requests: a trace from :func:`load`, or anything that :func:`load` accepts.
    policies: names with parameters after colons, such as ``"lru"`` or ``"s3fifo:small=0.05"``;
        ``mayfly.policies`` lists the names. A class is a policy written in Python; see
        :class:`EvictionPolicy`.
    sizes: cache sizes: an integer number of bytes (objects for a trace without sizes), a text such as
        ``"64mb"``, or a share of the footprint such as ``"10%"`` or ``0.1``.
    name: name of the trace in results.
    progress: whether to show a progress bar.
    options: the options of :class:`ReplayOptions` and of :func:`load`.

    Returns a table with one row per policy and size, ordered by policy and then size, and the columns of
    ``mayfly sim --csv``: ``trace``, ``policy``, ``unit``, ``cache_size``, ``requests``, ``misses``,
    ``miss_ratio`` and counters.

    >>> import mayfly
    >>> table = mayfly.simulate([1, 2, 1, 3, 1, 2], "lru", 2)
    >>> table["misses"]
    [4]
    """
    chosen, texts = chosen_policies(policies), size_texts(sizes)
    _, replaying = split(options)
    if isinstance(requests, Trace):
        trace = requests
        for option in INTERNING:
            if option in options and options[option] != trace._interning[option]:
                raise ValueError(f"{option}: applies when the trace is read: pass it to load instead")
    else:
        trace = load(requests, name=name, progress=progress, **options)
    with progress_bar(progress, trace.name) as report:
        columns = replayed(trace, chosen, texts, replaying, report)
    names = [one if isinstance(one, str) else class_name(one) for one in chosen]
    source = source_name(requests, trace.name)
    return Table(columns, provenance=provenance("simulate", source, names, texts, **options))


def chosen_policies(policies: Any) -> list[Any]:
    """Returns the policies of a call as a list of names and classes."""
    if callable(policies):
        return [policies]
    policies = policies if isinstance(policies, str) else list(policies)
    if isinstance(policies, str) or all(isinstance(policy, str) for policy in policies):
        return list(policy_names(policies))
    return [one if callable(one) else policy_names([one])[0] for one in policies]


def replayed(
    trace: Trace, chosen: list[Any], texts: list[str], replaying: dict[str, Any], report: Any
) -> Columns:
    """Replays named policies together and policies in Python one by one, and keeps their order."""
    names = [one for one in chosen if isinstance(one, str)]
    if len(names) == len(chosen):
        return _native.replay(trace._native, names, texts, replaying, report)
    of_names = Table(_native.replay(trace._native, names, texts, replaying, report))
    parts_of_names = iter(of_names.rows_in_parts(len(texts))) if names else iter(())
    parts: list[Table] = []
    for one in chosen:
        if isinstance(one, str):
            parts.append(next(parts_of_names))
        else:
            name = class_name(one)
            parts.append(
                Table(_native.replay_class(trace._native, name, one, texts, replaying, report))
            )
    return merged(parts)._columns


def class_name(policy: Any) -> str:
    return getattr(policy, "__name__", None) or type(policy).__name__


class EvictionPolicy(Protocol):
    """Interface of a policy in Python: a class, or any callable that takes the capacity.

    An entry is identified by an integer, which its key keeps for the whole trace. The simulator handles
    hits, capacity, deadlines and counters as for its own policies; the policy only chooses victims. A
    request takes about 0.3 microseconds, which is about forty times slower than a built-in policy.

    Two further methods are optional: ``on_hit(self, entry)`` is called at each hit, and
    ``on_remove(self, entry)`` when an entry has expired or was deleted.
    """

    def on_insert(self, entry: int, weight: int) -> None:
        """Is called after an insertion. ``weight`` is the entry's size in bytes, or 1 without sizes."""

    def evict(self) -> int:
        """Returns the entry to evict, and removes it from the policy. It must be in the cache."""



def policy_names(policies: str | Iterable[str]) -> list[str]:
    """Returns the policies of a call as a list of names."""
    names = policies.split(",") if isinstance(policies, str) else list(policies)
    if not names:
        raise ValueError("policies: expected at least one policy")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"policies: {name!r}: expected a name such as 'lru'")
    return names


def size_texts(sizes: Size | Iterable[Size]) -> list[str]:
    """Converts sizes to the texts that the command line accepts."""
    # A NumPy array without dimensions has __iter__, which raises an error.
    is_one = isinstance(sizes, (str, int, float)) or not hasattr(sizes, "__iter__") or is_scalar(sizes)
    every: Any = [sizes] if is_one else sizes
    texts = [size_text(size) for part in every for size in parts(part)]
    if not texts:
        raise ValueError("sizes: expected at least one size")
    return texts


def is_scalar(value: Any) -> bool:
    """Returns whether a value is a NumPy array without dimensions."""
    return getattr(value, "shape", None) == ()


def parts(size: Size) -> list[Size]:
    return list(size.split(",")) if isinstance(size, str) else [size]


def size_text(size: Size) -> str:
    if isinstance(size, bool):
        raise TypeError(f"size {size!r}: expected an integer, a share or a text such as '64mb'")
    if isinstance(size, str):
        return size
    if isinstance(size, float):
        # A comparison with NaN is false.
        if not 0 < size <= 1:
            raise ValueError(f"size {size}: expected a share above 0 and at most 1, or an integer")
        return f"{size * 100:.12g}%"
    try:
        number = operator.index(size)
    except TypeError:
        text = f"size {size!r}: expected an integer, a share or a text such as '64mb'"
        raise TypeError(text) from None
    if number <= 0:
        raise ValueError(f"size {number}: expected more than 0")
    return str(number)


def provenance(call: str, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Returns the origin of a table: the version, the call with its arguments, and the machine."""
    import platform

    command = command_text(call, *arguments, **options)
    return {"version": _native.version, "call": call, "command": command, "host": platform.node()}


def command_text(call: str, *arguments: Any, **options: Any) -> str:
    """Returns the text of a call, without the options that are None."""
    parts = [*map(repr, arguments)]
    parts.extend(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return f"mayfly.{call}({', '.join(parts)})"


def source_name(requests: Requests, name: str) -> str:
    """Returns the path or URL of the requests, or their name if they have none."""
    if isinstance(requests, (str, os.PathLike)):
        return shown(os.fspath(requests))
    return name


def curve(
    requests: Requests,
    policies: str | Iterable[str] = POLICIES,
    sizes: Size | Iterable[Size] | None = None,
    *,
    points: int = 20,
    exact: bool = False,
    sample_share: float = 0.01,
    sample_objects: int = 8192,
    name: str | None = None,
    progress: bool = False,
    **options: Any,
) -> Table:
    """Computes the miss ratio for many cache sizes, exactly or from a sample.

    requests, policies, name, progress, options: as in :func:`simulate`.
    sizes: cache sizes; by default ``points`` sizes, evenly spaced in the logarithm from 0.1 % of the
        footprint to all of it.
    exact: whether to replay the whole trace instead of a sample of the objects.
    sample_share: minimum share of the objects in the sample.
    sample_objects: minimum number of objects in the sample.

    Returns a table with one row per policy and size: ``policy``, ``cache_size``, ``miss_ratio``
    and its bounds ``low`` and ``high`` (95 %), ``byte_miss_ratio``, ``is_exact``, ``is_trusted``.
    """
    names = policy_names(policies)
    texts = [] if sizes is None else size_texts(sizes)
    if not 2 <= points <= POINTS_MAX:
        raise ValueError(f"points {points}: expected 2 to {POINTS_MAX}")
    check_sample(sample_share, sample_objects)
    reading, replaying = split(options)
    source = source_of(requests, name, reading)
    sample = (sample_share, sample_objects)
    with progress_bar(progress, "curve") as report:
        columns, page = _native.curve(
            source, names, texts, points, sample, exact, replaying, report
        )
    shown_source = source_name(requests, name or "requests")
    chosen = {"sizes": texts} if texts else {"points": points}
    made = provenance("curve", shown_source, names, **chosen, exact=exact, **options)
    return Table(with_flags(columns), page=page, provenance=made)


def check_sample(sample_share: float, sample_objects: int) -> None:
    """Raises ValueError if an argument of the sample is out of range."""
    if not 0 < sample_share <= 1:
        raise ValueError(f"sample_share {sample_share}: expected a share above 0 and at most 1")
    if not 1 <= sample_objects < 1 << 32:
        raise ValueError(f"sample_objects {sample_objects}: expected 1 to {(1 << 32) - 1}")


def with_flags(columns: Columns) -> Columns:
    """Converts columns of "true" and "false" to booleans."""
    return {
        name: (
            ("flag", [value == "true" for value in values])
            if name in ("is_exact", "is_trusted", "has_ttls")
            else (kind, values)
        )
        for name, (kind, values) in columns.items()
    }


def generate(
    requests: int = 1_000_000,
    *,
    pattern: str = "zipf:1",
    objects: int = 100_000,
    size: str = "fixed:1",
    ttl_mix: str | None = None,
    request_rate: float = 1000.0,
    write_share: float = 0.0,
    seed: int = 1,
    path: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> dict[str, Any] | None:
    """Generates a synthetic trace. The same seed gives the same trace.

    requests: number of requests.
    pattern: access patterns joined by ``+``, each with a weight after ``@``, such as
        ``"zipf:0.9@80+scan:1000@20"``; or ``"days"``.
    objects: number of objects of each pattern that does not give a number itself.
    size: distribution of sizes in bytes: ``"fixed:4096"``, ``"uniform:1:100"`` or
        ``"lognormal:1000:1.5"``.
    ttl_mix: distribution of TTLs: a published mix such as ``"cluster4"``, or shares such as
        ``"60s:0.4 1h:0.6"``.
    request_rate: requests per second, in the time of the trace.
    write_share: share of the requests that are writes.
    path: file to be written; its extensions select the format and the compression.

    Returns columns that :func:`simulate` accepts: the NumPy arrays ``key`` (uint64), ``time_ms``
    (uint64), ``size`` (uint32) and ``ttl_ms`` (uint64), and ``op``, a list of names. Returns None if a
    path was given.
    """
    requests = integer("requests", requests)
    if requests < 1:
        raise ValueError(f"requests {requests}: expected an integer of at least 1")
    for option, value, least, most in (
        ("objects", objects, 1, OBJECTS_MAX),
        ("seed", seed, 0, (1 << 64) - 1),
    ):
        if not least <= operator.index(value) <= most:
            raise ValueError(f"{option} {value}: expected {least} to {most}")
    if not 0 < request_rate < float("inf"):
        raise ValueError(f"request_rate {request_rate}: expected more than 0 requests per second")
    if not 0 <= write_share <= 1:
        raise ValueError(f"write_share {write_share}: expected a share from 0 to 1")
    rates = (float(request_rate), float(write_share), seed)
    with progress_bar(progress, "generate") as report:
        if path is not None:
            _native.generate_file(
                os.fspath(path), requests, pattern, objects, size, ttl_mix, rates, report
            )
            return None
        made = _native.generate(requests, pattern, objects, size, ttl_mix, rates, report)
    import numpy

    columns: dict[str, Any] = {
        name: numpy.frombuffer(data, dtype=kind) for name, (kind, data) in made.items()
    }
    columns["op"] = [_OPS[number] for number in columns["op"].tolist()]
    return columns


_OPS = ("get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr")
