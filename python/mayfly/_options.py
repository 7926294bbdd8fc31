"""Options that several functions share, with their checks and defaults."""

from __future__ import annotations

import operator
import os
from typing import Any, TypedDict

# Share of the available memory that traces and replays may take if no limit is given.
MEMORY_SHARE = 0.8
MEMORY_UNKNOWN = 4 << 30


class ReadOptions(TypedDict, total=False):
    """Options for reading a file."""

    format: str | None
    columns: str | None
    skip_bad: bool


class ReplayOptions(TypedDict, total=False):
    """Options for the replay of a trace.

    ignore_size: whether to count objects instead of bytes, as for traces without sizes.
    ignore_ttl: whether to ignore the TTLs of the trace, so that nothing expires.
    ttl_mix: distribution from which each key's TTL is drawn, instead of the trace's TTLs: a published
        mix such as ``"cluster4"``, or shares such as ``"60s:0.4 1h:0.6"``.
    request_rate: requests per second, instead of the trace's timestamps. A trace without timestamps has
        1000 by default.
    reads_only: whether to count only reads. Writes still insert.
    expiry: name of the index that finds expired entries.
    admission: filter that a missed object must pass to be stored: ``"bloom"``, ``"tinylfu"`` or
        ``"size:4096"``.
    follow_sizes: whether an entry adopts the size of a later request.
    max_object_share: largest share of the cache that one object may take, above 0 and at most 1.
    entry_overhead: bytes that each entry takes in addition to its object.
    warmup_share: share of the requests, from the start of the trace, that are replayed but not counted;
        at least 0 and below 1.
    explain: whether to add columns that explain each miss ratio.
    sample: share of the objects to replay (SHARDS sampling), above 0 and below 1.
    seed: seed of all random decisions.
    jobs: number of replays at the same time; one per processor if None.
    memory_limit: bytes that traces and replays may take; 80 % of the available memory if None.
    """

    ignore_size: bool
    ignore_ttl: bool
    ttl_mix: str | None
    request_rate: float | None
    reads_only: bool
    expiry: str
    admission: str | None
    follow_sizes: bool
    max_object_share: float
    entry_overhead: int
    warmup_share: float
    explain: bool
    sample: float | None
    seed: int
    jobs: int | None
    memory_limit: int | None


DEFAULTS: ReplayOptions = {
    "ignore_size": False,
    "ignore_ttl": False,
    "ttl_mix": None,
    "request_rate": None,
    "reads_only": False,
    "expiry": "wheel",
    "admission": None,
    "follow_sizes": False,
    "max_object_share": 1.0,
    "entry_overhead": 0,
    "warmup_share": 0.0,
    "explain": False,
    "sample": None,
    "seed": 1,
    "jobs": None,
    "memory_limit": None,
}

READ_DEFAULTS: ReadOptions = {"format": None, "columns": None, "skip_bad": False}


def split(options: dict[str, Any]) -> tuple[ReadOptions, dict[str, Any]]:
    """Separates the options for reading from the options for replays, and checks both."""
    reading: dict[str, Any] = dict(READ_DEFAULTS)
    replaying: dict[str, Any] = dict(DEFAULTS)
    for name, value in options.items():
        if name in reading:
            reading[name] = value
        elif name in replaying:
            replaying[name] = value
        else:
            known = ", ".join(sorted([*reading, *replaying]))
            raise TypeError(f"unknown option {name!r}: expected one of {known}")
    checked(replaying)
    return ReadOptions(**reading), replaying  # type: ignore[typeddict-item]


def checked(options: dict[str, Any]) -> None:
    """Checks the ranges of options, and replaces None by the default."""
    share(options, "warmup_share", least=0.0, is_least_allowed=True, is_one_allowed=False)
    share(options, "max_object_share", least=0.0, is_least_allowed=False, is_one_allowed=True)
    if options["sample"] is not None:
        share(options, "sample", least=0.0, is_least_allowed=False, is_one_allowed=False)
    if options["jobs"] is None:
        options["jobs"] = processors()
    if options["memory_limit"] is None:
        options["memory_limit"] = int(available_memory() * MEMORY_SHARE)
    for name, least, most in (
        ("entry_overhead", 0, 4096),
        ("seed", 0, (1 << 64) - 1),
        ("jobs", 1, (1 << 31) - 1),
        ("memory_limit", 1, (1 << 63) - 1),
    ):
        value = options[name] = integer(name, options[name])
        if not least <= value <= most:
            raise ValueError(f"{name} {value}: expected {least} to {most}")


def integer(name: str, value: Any) -> int:
    """Converts an integer of Python or NumPy. Raises TypeError for floats and booleans."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name}: {value!r}: expected an integer")


def share(
    options: dict[str, Any], name: str, *, least: float, is_least_allowed: bool, is_one_allowed: bool
) -> None:
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {value!r}: expected a share such as 0.2")
    is_high = value > least or is_least_allowed and value == least
    is_low = value < 1 or is_one_allowed and value == 1
    # A comparison with NaN is false.
    if not (is_high and is_low):
        raise ValueError(f"{name} {value}: expected a share between 0 and 1, such as 0.2")
    options[name] = float(value)


def processors() -> int:
    """Returns the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:
        return os.cpu_count() or 1


def available_memory() -> int:
    """Returns the memory in bytes that is available without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return MEMORY_UNKNOWN
