"""Engines that run sweeps: threads of this process, and Dask or Ray clusters.

A unit is one replay. :func:`drive` decides which unit runs where and when; an engine only starts units at
its places and reports which have ended. A place is a Dask worker, with its threads and its memory limit.
The threads of this process are one place. A Ray cluster is also one place, because Ray itself distributes
the units by the memory that they need.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

from ._options import MEMORY_SHARE

Unit = dict[str, Any]
Result = dict[str, Any]

# Number of units sent to a place per slot, so that it need not wait for the next one.
AHEAD = 4
# Seconds between two checks of the places and of stragglers.
LOOK_EVERY = 0.5
# A run is a straggler after this multiple of the longest run so far, but not before this many seconds.
STRAGGLER_FACTOR, STRAGGLER_SECONDS = 3.0, 1.0
# Seconds to wait for a worker if a cluster has none.
WORKER_SECONDS = 60.0
# Estimated bytes of memory per byte of a trace's file.
MEMORY_COMPRESSED, MEMORY_PLAIN = 16, 2


@dataclass
class Place:
    """A place that runs ``slots`` units at a time in ``memory_bytes`` (unlimited if None)."""

    name: str
    slots: int
    memory_bytes: int | None = None


class Engine(Protocol):
    """Interface of an engine, which starts units and reports the ones that have ended."""

    # Whether starting a straggler once more may make it end sooner.
    may_repeat: bool

    def places(self) -> list[Place]:
        """Returns the places that currently exist."""

    def start(self, unit: Unit, place: Place, memory_bytes: int) -> Any:
        """Starts a unit whose trace needs ``memory_bytes``, and returns a handle of the run."""

    def ended(self, seconds: float) -> list[Any]:
        """Waits until a run has ended, at most ``seconds``, and returns the handles of all that have."""

    def result(self, handle: Any) -> Result:
        """Returns the result of a run that has ended, or raises its exception."""

    def cancel(self, handle: Any) -> None:
        """Stops a run, as far as the engine can."""

    def close(self) -> None:
        """Stops all threads and clusters that the engine has started."""


@dataclass
class _Run:
    number: int
    place: str
    begun: float


class _Plan:
    """Waiting and running units, and the memory that their traces need."""

    def __init__(self, units: dict[int, Unit]) -> None:
        self.units = units
        self.waiting: dict[str, list[int]] = {}
        for number, unit in units.items():
            self.waiting.setdefault(unit["trace"], []).append(number)
        self.bytes_of = {trace: memory_estimate(trace) for trace in self.waiting}
        self.running: dict[Any, _Run] = {}
        # Number of runs at each place, by trace.
        self.at: dict[str, Counter[str]] = {}
        # The trace that a place was sent last.
        self.last: dict[str, str] = {}

    def start(self, engine: Engine, number: int, place: Place) -> None:
        trace = self.units[number]["trace"]
        handle = engine.start(self.units[number], place, self.bytes_of[trace])
        self.running[handle] = _Run(number, place.name, time.monotonic())
        self.at.setdefault(place.name, Counter())[trace] += 1

    def end(self, handle: Any) -> _Run | None:
        run = self.running.pop(handle, None)
        if run is not None:
            self.at[run.place] -= Counter([self.units[run.number]["trace"]])
        return run

    def room_at(self, place: Place, per_slot: int) -> int:
        return place.slots * per_slot - self.at.get(place.name, Counter()).total()

    def copies_of(self, number: int) -> list[Any]:
        return [handle for handle, run in self.running.items() if run.number == number]

    def fits(self, trace: str, place: Place, places: list[Place]) -> bool:
        """Returns whether a trace fits next to the traces of the place's running units.

        A trace that fits nowhere runs alone at a place with the most memory.
        """
        at = self.at.get(place.name, Counter())
        if place.memory_bytes is None or trace in at:
            return True
        need = self.bytes_of[trace] + sum(self.bytes_of[other] for other in at)
        if need <= place.memory_bytes * MEMORY_SHARE:
            return True
        most = max(other.memory_bytes or 1 << 62 for other in places)
        return not at and place.memory_bytes == most

    def trace_for(self, place: Place, places: list[Place]) -> str | None:
        """Returns the trace that fits at a place and was sent last to the fewest other places."""
        held = Counter(self.last.get(other.name) for other in places if other != place)
        best = None
        for trace in self.waiting:
            if self.fits(trace, place, places) and (best is None or held[trace] < held[best]):
                best = trace
                if held[trace] == 0:
                    break
        return best

    def next_for(self, place: Place, places: list[Place]) -> int | None:
        """Takes the next unit for a place.

        A unit of the trace that the place was sent last is preferred, then of the trace that the fewest
        places have."""
        chosen = self.last.get(place.name)
        if chosen not in self.waiting or not self.fits(chosen, place, places):
            chosen = self.trace_for(place, places)
        if chosen is None:
            return None
        self.last[place.name] = chosen
        numbers = self.waiting[chosen]
        number = numbers.pop(0)
        if not numbers:
            del self.waiting[chosen]
        return number


def drive(engine: Engine, units: dict[int, Unit]) -> Generator[tuple[int, Result]]:
    """Runs units and yields their results as they end.

    When no other unit is left to start, a unit that runs much longer than all others is started once
    more at another place. The first result counts.
    """
    plan, left = _Plan(units), set(units)
    longest = 0.0
    places: list[Place] = []
    looked = since = time.monotonic()
    try:
        while left:
            now = time.monotonic()
            if not places or now - looked >= LOOK_EVERY:
                places, looked = engine.places(), now
                since = now if places else since
                if now - since > WORKER_SECONDS:
                    raise RuntimeError(f"the cluster has had no worker for {WORKER_SECONDS:.0f} s")
            for place in places:
                while plan.room_at(place, AHEAD) > 0:
                    number = plan.next_for(place, places)
                    if number is None:
                        break
                    plan.start(engine, number, place)
            if engine.may_repeat and not plan.waiting:
                late = max(longest * STRAGGLER_FACTOR, STRAGGLER_SECONDS)
                _repeat_stragglers(engine, plan, places, late)
            failed: Exception | None = None
            for handle in engine.ended(LOOK_EVERY):
                run = plan.end(handle)
                if run is None:
                    # Another run of the unit was faster.
                    continue
                copies = plan.copies_of(run.number)
                try:
                    found = engine.result(handle)
                except Exception as error:
                    # Another run of the unit may still succeed, and the other results must be kept.
                    failed = failed or (None if copies else error)
                    continue
                for copy in copies:
                    plan.end(copy)
                    engine.cancel(copy)
                left.discard(run.number)
                longest = max(longest, found["seconds"])
                plan.bytes_of[units[run.number]["trace"]] = found["memory_bytes"]
                yield run.number, found
            if failed is not None:
                raise failed
    finally:
        for handle in plan.running:
            engine.cancel(handle)
        engine.close()


def _repeat_stragglers(engine: Engine, plan: _Plan, places: list[Place], seconds: float) -> None:
    """Starts each unit that has run for ``seconds`` once more, at another place with a free slot."""
    now = time.monotonic()
    for run in list(plan.running.values()):
        if now - run.begun < seconds or len(plan.copies_of(run.number)) > 1:
            continue
        trace = plan.units[run.number]["trace"]
        for place in places:
            is_other = place.name != run.place or len(places) == 1
            if is_other and plan.room_at(place, 1) > 0 and plan.fits(trace, place, places):
                plan.start(engine, run.number, place)
                break


def memory_estimate(trace: str) -> int:
    """Estimates the memory in bytes that a trace needs, from the size of its file; 0 for a URL.

    The actual size from the first result of a trace replaces the estimate.
    """
    import os

    try:
        size = os.path.getsize(trace)
    except OSError:
        return 0
    is_compressed = trace.endswith((".zst", ".gz", ".xz", ".parquet"))
    return size * (MEMORY_COMPRESSED if is_compressed else MEMORY_PLAIN)


class Threads:
    """Engine that runs units on ``jobs`` threads of this process."""

    may_repeat = False

    def __init__(self, run: Any, jobs: int) -> None:
        import queue
        from concurrent.futures import ThreadPoolExecutor

        self.run, self.jobs = run, jobs
        self.pool = ThreadPoolExecutor(jobs, thread_name_prefix="mayfly-sweep")
        self.queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.is_ended = False

    def places(self) -> list[Place]:
        return [Place("local", self.jobs)]

    def start(self, unit: Unit, place: Place, memory_bytes: int) -> Any:
        future = self.pool.submit(self.run, unit, self._look)
        future.add_done_callback(self.queue.put)
        return future

    def _look(self, done: int, total: int) -> None:
        # Each replay calls this, so that it ends when the sweep ends.
        if self.is_ended:
            raise KeyboardInterrupt

    def ended(self, seconds: float) -> list[Any]:
        return _taken(self.queue, seconds)

    def result(self, handle: Any) -> Result:
        found: Result = handle.result()
        return found

    def cancel(self, handle: Any) -> None:
        handle.cancel()

    def close(self) -> None:
        self.is_ended = True
        self.pool.shutdown(wait=True, cancel_futures=True)


def _taken(queue: Any, seconds: float) -> list[Any]:
    """Waits for an item of a queue, at most ``seconds``, and returns all items."""
    import queue as queues

    items: list[Any] = []
    try:
        items.append(queue.get(timeout=seconds))
        while True:
            items.append(queue.get_nowait())
    except queues.Empty:
        return items


def _needs(engine: str) -> ImportError:
    return ImportError(f"engine={engine!r} needs {engine}: pip install 'mayfly-cache[{engine}]'")


class Dask:
    """Engine on a Dask cluster. Dask repeats the units of a worker that dies elsewhere."""

    may_repeat = True

    def __init__(self, run: Any, address: str | None, retries: int) -> None:
        try:
            import dask
            from distributed import Client
        except ImportError as error:
            raise _needs("dask") from error
        import queue
        import uuid

        self.run, self.number, self.sweep = run, 0, uuid.uuid4().hex[:12]
        self.queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if address:
            self.client = Client(address)
        else:
            # This limit is for the scheduler that is started here; an existing cluster has its own.
            with dask.config.set({"distributed.scheduler.allowed-failures": retries}):
                self.client = Client(threads_per_worker=1, dashboard_address=None)

    def places(self) -> list[Place]:
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [
            Place(name, worker["nthreads"], worker["memory_limit"] or None)
            for name, worker in sorted(workers.items())
            if worker.get("status", "running") == "running"
        ]

    def start(self, unit: Unit, place: Place, memory_bytes: int) -> Any:
        self.number += 1
        kept = None if place.memory_bytes is None else int(place.memory_bytes * MEMORY_SHARE / 2)
        future = self.client.submit(
            self.run,
            {**unit, "kept_bytes": kept},
            key=f"mayfly-{self.sweep}-{self.number}",
            pure=False,
            workers=[place.name],
            # If the worker dies, the unit runs elsewhere.
            allow_other_workers=True,
        )
        future.add_done_callback(self.queue.put)
        return future

    def ended(self, seconds: float) -> list[Any]:
        return _taken(self.queue, seconds)

    def result(self, handle: Any) -> Result:
        found: Result = handle.result()
        return found

    def cancel(self, handle: Any) -> None:
        handle.cancel()

    def close(self) -> None:
        self.client.close()


class Ray:
    """Engine on a Ray cluster, which distributes units by memory and replaces dead workers."""

    may_repeat = True

    def __init__(self, run: Any, address: str | None, retries: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise _needs("ray") from error
        self.ray = ray
        self.was_running = ray.is_initialized()
        if not self.was_running:
            ray.init(address=address, include_dashboard=False, log_to_driver=False)
        self.task: Any = ray.remote(run)
        self.retries = retries
        self.handles: set[Any] = set()
        self.most = 0

    def places(self) -> list[Place]:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        self.most = int(max((node.get("memory", 0) for node in nodes), default=0))
        slots = int(sum(node.get("CPU", 0) for node in nodes))
        return [Place("ray", slots)] if slots else []

    def start(self, unit: Unit, place: Place, memory_bytes: int) -> Any:
        # A unit that needs more memory than any node has would wait forever.
        memory = min(memory_bytes, self.most)
        task = self.task.options(num_cpus=1, max_retries=self.retries, memory=memory)
        # A process keeps only the trace for which memory was requested.
        handle = task.remote({**unit, "kept_bytes": 0})
        self.handles.add(handle)
        return handle

    def ended(self, seconds: float) -> list[Any]:
        handles = list(self.handles)
        if not handles:
            time.sleep(seconds)
            return []
        ready, _ = self.ray.wait(handles, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self.ray.wait(handles, num_returns=len(handles), timeout=0)
        self.handles.difference_update(ready)
        return list(ready)

    def result(self, handle: Any) -> Result:
        try:
            found: Result = self.ray.get(handle)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, BaseException):
                raise error.cause from None
            raise
        return found

    def cancel(self, handle: Any) -> None:
        self.handles.discard(handle)
        self.ray.cancel(handle)

    def close(self) -> None:
        if not self.was_running:
            self.ray.shutdown()


def of_name(engine: str, run: Any, address: str | None, retries: int, jobs: int) -> Engine:
    """Returns the engine of a name. ``run`` is the function that runs a unit on any machine."""
    if engine == "dask":
        return Dask(run, address, retries)
    if engine == "ray":
        return Ray(run, address, retries)
    return Threads(run, jobs)

