"""Sweeps: many traces, policies and sizes, on this machine or on a cluster, resumable."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._options import split
from ._simulate import POLICIES, SIZES, policy_names, provenance, simulate, size_texts
from ._table import Table, merged

if TYPE_CHECKING:
    from ._input import Requests
    from ._simulate import Size

ENGINES = ("local", "dask", "ray")
# Traces that one process keeps for its next units.
_KEPT_MAX = 2
_kept: dict[str, Any] = {}


def sweep(
    traces: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    policies: str | Sequence[str] = POLICIES,
    sizes: Size | Sequence[Size] = SIZES,
    *,
    engine: str = "local",
    address: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    retries: int = 3,
    progress: bool = False,
    **options: Any,
) -> Table:
    """Replays every trace for every policy and size, a unit for each of the three.

    traces: paths or URLs. Workers read them themselves: a path must be valid on each of them.
    policies, sizes, options: as in :func:`simulate`.
    engine: ``"local"`` for this process, ``"dask"`` or ``"ray"`` for a cluster.
    address: address of the scheduler; without one, a cluster on this machine is started and ended.
    resume: folder in which finished units are kept. A unit found there is not run again.
    retries: number of times that a unit is run again after its worker has died.
    progress: whether a bar is shown.

    Returns one table, in the order of traces, policies and sizes, with the columns of
    :func:`simulate` and ``host`` and ``version`` of each unit. Counters are those of the local run.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r}: expected one of {', '.join(ENGINES)}")
    if address is not None and engine == "local":
        raise ValueError("address: expected only with the engine dask or ray")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries: {retries!r}: expected an integer of at least 0")
    paths = [traces] if isinstance(traces, (str, os.PathLike)) else list(traces)
    if not paths:
        raise ValueError("traces: expected at least one")
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
    run = {"local": _run_local, "dask": _run_dask, "ray": _run_ray}[engine]
    bar = _bar(progress, len(units), len(done))
    for number, found in run(left, address, retries):
        done[number] = found
        if folder is not None:
            _write(folder, units[number], found)
        if bar is not None:
            bar.update(1)
    if bar is not None:
        bar.close()
    tables = []
    for number in range(len(units)):
        columns = {name: (kind, values) for name, (kind, values) in done[number]["columns"].items()}
        columns["host"] = ("text", [done[number]["host"]])
        columns["version"] = ("text", [done[number]["version"]])
        tables.append(Table(columns))
    return merged(tables, {**provenance("sweep"), "engine": engine, "units": len(units)})


def _bar(is_wanted: bool, total: int, done: int) -> Any:
    if not is_wanted:
        return None
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, desc="sweep", unit="unit")


def _name(unit: dict[str, Any]) -> str:
    """Name of a unit's file: a hash of all that its result depends on."""
    described = {**unit, "version": _native.version}
    if os.path.exists(unit["trace"]):
        # A file that was replaced has another size or time.
        state = os.stat(unit["trace"])
        described["file"] = [state.st_size, state.st_mtime_ns]
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32] + ".json"


def _read(folder: str, unit: dict[str, Any]) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, _name(unit)), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _write(folder: str, unit: dict[str, Any], found: dict[str, Any]) -> None:
    path = os.path.join(folder, _name(unit))
    # Renamed when it is whole, so that an interrupted run leaves no half of a unit.
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(file.name, path)


def run_unit(unit: dict[str, Any]) -> dict[str, Any]:
    """Runs a unit, on any machine. The last traces stay in memory for the next units."""
    options = dict(unit["options"])
    key = json.dumps([unit["trace"], options], sort_keys=True, default=str)
    trace = _kept.get(key)
    if trace is None:
        from ._input import load

        while len(_kept) >= _KEPT_MAX:
            _kept.pop(next(iter(_kept)))
        trace = _kept[key] = load(unit["trace"], **options)
    for name in ("format", "columns", "skip_bad"):
        options.pop(name, None)
    table = simulate(trace, [unit["policy"]], [unit["size"]], **options)
    made = provenance("sweep")
    return {"columns": table._columns, "host": made["host"], "version": made["version"]}


Results = Iterator[tuple[int, dict[str, Any]]]
Units = dict[int, dict[str, Any]]


def _run_local(units: Units, address: str | None, retries: int) -> Results:
    """Replays the units of a trace together, so that it is read once and sizes run in parallel."""
    for number, unit in units.items():
        yield number, run_unit(unit)
    _kept.clear()


def _needs(engine: str, error: ImportError) -> ImportError:
    return ImportError(f"engine={engine!r} needs {engine}: pip install 'mayfly-cache[{engine}]'")


def _run_dask(units: Units, address: str | None, retries: int) -> Results:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise _needs("dask", error) from error
    with Client(address) if address else Client(threads_per_worker=1) as client:
        futures = {
            # A unit runs on one thread of its worker, so that units share the processors.
            client.submit(
                run_unit, _alone(unit), key=f"mayfly-{_name(unit)}", retries=retries, pure=False
            ): number
            for number, unit in units.items()
        }
        for future in as_completed(list(futures)):
            yield futures[future], future.result()


def _alone(unit: dict[str, Any]) -> dict[str, Any]:
    return {**unit, "options": {**unit["options"], "jobs": 1}}


def _run_ray(units: Units, address: str | None, retries: int) -> Results:
    try:
        import ray
    except ImportError as error:
        raise _needs("ray", error) from error
    was_running = ray.is_initialized()
    if not was_running:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    try:
        task: Callable[..., Any] = ray.remote(run_unit)
        remote = task.options(num_cpus=1, max_retries=retries)  # type: ignore[attr-defined]
        waiting = {remote.remote(_alone(unit)): number for number, unit in units.items()}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        if not was_running:
            ray.shutdown()
