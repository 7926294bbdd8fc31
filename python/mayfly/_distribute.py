"""Sweeps: many traces, policies and sizes, on this machine or on a cluster, resumable."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import _native
from ._engines import drive, of_name
from ._input import Trace, source_of
from ._options import split
from ._progress import bar_class
from ._remote import shown
from ._simulate import POLICIES, SIZES, command_text, policy_names, provenance, replayed, size_texts
from ._table import Table, merged

if TYPE_CHECKING:
    from ._simulate import Size

ENGINES = ("local", "dask", "ray")
# Maximum number of traces that one process keeps for its next units.
_KEPT_MAX = 2


def sweep(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    policies: str | Iterable[str] = POLICIES,
    sizes: Size | Iterable[Size] = SIZES,
    *,
    engine: str = "local",
    address: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    retries: int = 3,
    progress: bool = False,
    **options: Any,
) -> Table:
    """Replays every trace with every policy and size. Each combination is one unit of work.

    traces: paths or URLs. Workers read the traces themselves, so that a path must be valid on all of them.
    policies, sizes, options: as in :func:`simulate`.
    engine: ``"local"`` for this process, ``"dask"`` or ``"ray"`` for a cluster.
    address: address of the cluster's scheduler. Without it, a cluster on this machine is started for the
        duration of the call.
    resume: folder for the results of finished units. A unit whose result is there is not run again.
    retries: number of times that a unit is repeated after its worker has died.
    progress: whether to show a progress bar.

    Returns one table, ordered by trace, policy and size. It has the columns of :func:`simulate`, and the
    ``host``, ``version`` and ``command`` of each unit. ``command`` is a call with the same result. All
    counters equal the counters of a local run.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r}: expected one of {', '.join(ENGINES)}")
    if address is not None and engine == "local":
        raise ValueError("address: expected only with engine='dask' or engine='ray'")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries: {retries!r}: expected an integer of at least 0")
    paths = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    if not paths:
        raise ValueError("traces: expected at least one path or URL")
    names, texts = policy_names(policies), size_texts(sizes)
    split(dict(options))
    units = [
        {"trace": os.fspath(path), "policy": name, "size": text, "options": options}
        for path in paths
        for name in names
        for text in texts
    ]
    folder = None if resume is None else os.fspath(resume)
    done: dict[int, dict[str, Any]] = {}
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        for number, unit in enumerate(units):
            found = _read(folder, unit)
            if found is not None:
                done[number] = found
    left = {number: unit for number, unit in enumerate(units) if number not in done}
    bar = _bar(progress, len(units), len(done))
    try:
        # If all units are finished, no cluster is needed.
        for number, found in _run(engine, address, retries, left) if left else ():
            done[number] = found
            if folder is not None:
                _write(folder, units[number], found)
            if bar is not None:
                bar.update(1)
    finally:
        if bar is not None:
            bar.close()
    tables = []
    for number, unit in enumerate(units):
        columns = {name: (kind, values) for name, (kind, values) in done[number]["columns"].items()}
        columns["host"] = ("text", [done[number]["host"]])
        columns["version"] = ("text", [done[number]["version"]])
        columns["command"] = ("text", [_command(unit)])
        tables.append(Table(columns))
    made = provenance("sweep", [shown(os.fspath(path)) for path in paths], names, texts, engine=engine, address=address, **options)
    return merged(tables, {**made, "engine": engine, "units": len(units)})


def _command(unit: dict[str, Any]) -> str:
    """Returns the text of a call that has the same result as a unit."""
    return command_text("simulate", shown(unit["trace"]), unit["policy"], unit["size"], **unit["options"])


def _bar(is_wanted: bool, total: int, done: int) -> Any:
    if not is_wanted:
        return None
    return bar_class()(total=total, initial=done, desc="sweep", unit="unit")


def _name(unit: dict[str, Any]) -> str:
    """Returns the name of a unit's file: a hash of everything on which its result depends."""
    described = {**unit, "version": _native.version}
    state = _file_state(unit["trace"])
    if state is not None:
        described["file"] = state
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32] + ".json"


def _file_state(path: str) -> list[int] | None:
    """Returns the size and time of a local file. At least one of them changes if the file is replaced."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return [state.st_size, state.st_mtime_ns]


def _read(folder: str, unit: dict[str, Any]) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, _name(unit)), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _write(folder: str, unit: dict[str, Any], found: dict[str, Any]) -> None:
    path = os.path.join(folder, _name(unit))
    # The file is renamed when it is complete, so that an interrupted run leaves no partial result.
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(file.name, path)


def _run(
    engine: str, address: str | None, retries: int, units: dict[int, dict[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Runs units on an engine, each on one thread, and yields their results."""
    _, replaying = split(dict(next(iter(units.values()))["options"]))
    alone = {
        number: {**unit, "options": {**unit["options"], "jobs": 1}} for number, unit in units.items()
    }
    started = of_name(engine, run_unit, address, retries, replaying["jobs"])
    try:
        with contextlib.closing(drive(started, alone)) as results:
            yield from results
    finally:
        _kept.clear()


def run_unit(unit: dict[str, Any], report: Any = None) -> dict[str, Any]:
    """Runs a unit on any machine. The traces used last stay in memory for the next units."""
    began = time.perf_counter()
    options = dict(unit["options"])
    trace = _kept.trace(unit, options, report)
    for name in ("format", "columns", "skip_bad"):
        options.pop(name, None)
    _, replaying = split(options)
    columns = replayed(trace, [unit["policy"]], [unit["size"]], replaying, report)
    made = provenance("sweep")
    return {
        "columns": columns,
        "host": made["host"],
        "version": made["version"],
        "memory_bytes": trace.memory_bytes,
        "seconds": time.perf_counter() - began,
    }


class _Kept:
    """Traces that this process keeps in memory for its next units, each read by one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: dict[str, Future[Trace]] = {}

    def trace(self, unit: dict[str, Any], options: dict[str, Any], report: Any) -> Trace:
        described = [unit["trace"], options, _file_state(unit["trace"])]
        key = json.dumps(described, sort_keys=True, default=str)
        with self._lock:
            found = self._traces.pop(key, None)
            # The end of the dictionary holds the trace that was used last.
            future = self._traces[key] = found or Future()
            if found is None:
                self._make_room(key, unit.get("kept_bytes"))
        if found is None:
            try:
                future.set_result(_read_trace(unit["trace"], options, report))
            except BaseException as error:
                self._traces.pop(key, None)
                future.set_exception(error)
        return future.result()

    def _make_room(self, key: str, most: int | None) -> None:
        """Drops the least recently used traces until the others take at most ``most`` bytes."""
        others = {other: one for other, one in self._traces.items() if other != key}
        sizes = [one.result().memory_bytes if one.done() else 0 for one in others.values()]
        kept = list(others)
        while kept and (len(kept) >= _KEPT_MAX or most is not None and sum(sizes) > most):
            del self._traces[kept.pop(0)], sizes[0]

    def clear(self) -> None:
        with self._lock:
            self._traces.clear()


_kept = _Kept()


def _read_trace(path: str, options: dict[str, Any], report: Any) -> Trace:
    reading, replaying = split(options)
    return Trace(_native.Trace(source_of(path, None, reading), replaying, report), replaying)
