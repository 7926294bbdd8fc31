"""Measures the package: import, replay of an array, caches of Python, other simulators, sweeps.

    python/target/venv/bin/python python/bench/run.py [part ...]

Parts: import, replay, cache, peers, sweep. CPU times are of the process and its children, so that another program on the machine
disturbs less. Peers that are not installed are left out and named.
"""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mayfly

ROOT = Path(__file__).resolve().parent.parent.parent


def cpu_of(run: Callable[[], object]) -> float:
    """CPU seconds of a call, on all threads."""
    before = time.process_time()
    run()
    return time.process_time() - before


def best(run: Callable[[], object], times: int = 5) -> float:
    return min(cpu_of(run) for _ in range(times))


def import_time() -> None:
    def seconds(code: str) -> float:
        def once() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime

        return min(once() for _ in range(9))

    bare, package = seconds("pass"), seconds("import mayfly")
    cached = seconds("import mayfly; mayfly.Cache, mayfly.cached, mayfly.simulate")
    print(f"import mayfly: {(package - bare) * 1e3:.1f} ms of CPU; with the modules of cached and simulate {(cached - bare) * 1e3:.1f} ms")


def replay() -> None:
    import numpy

    keys = numpy.random.default_rng(1).zipf(1.1, 10_000_000) % 2_000_000
    seconds = best(lambda: mayfly.simulate(keys, "sieve", "10%", jobs=1), 3)
    print(f"simulate, 10 M ids in a NumPy array, sieve at 10 %: {seconds:.2f} s of CPU")
    program = ROOT / "target/release/mayfly"
    if not program.exists():
        print(f"  no {program}: nothing to compare with")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ids.csv")
        with open(path, "wb") as output:
            output.write(b"time,key,size\n")
            numpy.savetxt(output, numpy.c_[numpy.zeros_like(keys), keys, numpy.ones_like(keys)], fmt="%d", delimiter=",")
        forms = [path]
        prepared = os.path.join(folder, "ids.prepared")
        if subprocess.run([program, "trace", "prepare", path, prepared], check=False, capture_output=True).returncode == 0:
            forms.append(prepared)
        for form in forms:
            def native() -> float:
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
                command = [program, "sim", form, "--policy", "sieve", "--size", "10%", "--jobs", "1", "--csv"]
                subprocess.run(command, check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                return after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime

            native_seconds = min(native() for _ in range(3))
            ending = form.rpartition(".")[2]
            print(f"  mayfly sim of the same as .{ending}: {native_seconds:.2f} s; ratio {native_seconds / seconds:.2f}")


def caches() -> None:
    count, loops = 1_000, 300
    keys = list(range(count))
    texts = [f"key:{number}" for number in keys]

    def rate(get: Callable[[object], object], wanted: list[object]) -> float:
        def run() -> None:
            for _ in range(loops):
                for key in wanted:
                    get(key)

        run()
        return count * loops / best(run) / 1e6

    def subscript(cache: object, wanted: list[object]) -> float:
        def run() -> None:
            for _ in range(loops):
                for key in wanted:
                    cache[key]  # type: ignore[index]

        run()
        return count * loops / best(run) / 1e6

    plain, timed = mayfly.Cache(count * 2), mayfly.Cache(count * 2, ttl=3600.0)
    lru = functools.lru_cache(maxsize=count * 2)(lambda key: key)
    cached = mayfly.cached(capacity=count * 2)(lambda key: key)
    cached_timed = mayfly.cached(capacity=count * 2, ttl=3600.0)(lambda key: key)
    everything: list[tuple[str, Callable[[list[object]], float]]] = [
        ("mayfly.Cache get", lambda wanted: rate(plain.get, wanted)),
        ("mayfly.Cache [key]", lambda wanted: subscript(plain, wanted)),
        ("mayfly.Cache(ttl) get", lambda wanted: rate(timed.get, wanted)),
        ("mayfly.Cache(ttl) [key]", lambda wanted: subscript(timed, wanted)),
        ("mayfly.cached", lambda wanted: rate(cached, wanted)),
        ("mayfly.cached(ttl)", lambda wanted: rate(cached_timed, wanted)),
        ("functools.lru_cache", lambda wanted: rate(lru, wanted)),
    ]
    for number in [*keys, *texts]:
        plain[number] = timed[number] = number
    try:
        import cachetools
    except ImportError:
        print("cachetools is not installed")
    else:
        ttl = cachetools.TTLCache(count * 2, 3600.0)
        for number in [*keys, *texts]:
            ttl[number] = number
        everything.append(("cachetools.TTLCache [key]", lambda wanted: subscript(ttl, wanted)))
        everything.append(("cachetools.TTLCache get", lambda wanted: rate(ttl.get, wanted)))
    print("hits, million per CPU second: integers, texts")
    for name, measure in everything:
        print(f"  {name:26} {measure(keys):6.1f} {measure(texts):6.1f}")


PEER = {
    "mayfly": """
import mayfly
table = mayfly.simulate({path!r}, ["fifo", "lru", "clock", "sieve", "s3fifo", "lirs"], {sizes}, jobs=1)
print(table["miss_ratio"])
""",
    "libcachesim": """
import libcachesim as lcs
ratios = []
for kind in (lcs.FIFO, lcs.LRU, lcs.Clock, lcs.Sieve, lcs.S3FIFO, lcs.LIRS):
    for size in {sizes}:
        reader = lcs.TraceReader({path!r}, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE)
        ratios.append(kind(cache_size=size).process_trace(reader)[0])
print(ratios)
""",
}


def peers() -> None:
    path, sizes = os.environ.get("MAYFLY_BENCH_TRACE"), [1 << 20, 10 << 20, 100 << 20]
    if path is None:
        print("peers: set MAYFLY_BENCH_TRACE to a file in the format oracleGeneral")
        return
    for name, code in PEER.items():
        script = code.format(path=path, sizes=sizes)
        script += "import resource as r; u = r.getrusage(r.RUSAGE_SELF); print(u.ru_utime + u.ru_stime, u.ru_maxrss // 1024)"
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        if found.returncode:
            print(f"{name}: {found.stderr.strip().splitlines()[-1]}")
            continue
        ratios, use = found.stdout.strip().splitlines()[-2:]
        print(f"{name}: {use.split()[0]} s of CPU, {use.split()[1]} MiB at most; miss ratios {ratios}")


def sweeps() -> None:
    """Two workers against one, the overhead of a unit, and what a killed worker costs; some three minutes."""
    policies, sizes = ["lru", "sieve", "s3fifo", "arc"], list(range(1_000, 1_050))
    with tempfile.TemporaryDirectory() as folder:
        path, tiny = os.path.join(folder, "t.csv.zst"), os.path.join(folder, "tiny.csv")
        mayfly.generate(1_500_000, objects=50_000, path=path)
        mayfly.generate(10, path=tiny)
        begun = time.perf_counter()
        wanted = mayfly.sweep(path, policies, sizes, jobs=1)
        print(f"200 units, local, one thread: {time.perf_counter() - begun:.1f} s", flush=True)
        for engine in ("dask", "ray"):
            seconds = []
            for workers in (1, 2):
                try:
                    with cluster(engine, workers) as address:
                        # The workers have started and imported the package.
                        mayfly.sweep(tiny, "lru", range(1, 9), engine=engine, address=address)
                        begun = time.perf_counter()
                        found = mayfly.sweep(path, policies, sizes, engine=engine, address=address)
                        seconds.append(time.perf_counter() - begun)
                        assert found["misses"] == wanted["misses"]
                        begun = time.perf_counter()
                        mayfly.sweep(tiny, policies, range(1, 51), engine=engine, address=address)
                        overhead = (time.perf_counter() - begun) / 200 * 1e3
                        if workers == 2:
                            repeated = killed(path, policies, sizes, engine, address, wanted)
                except ImportError as error:
                    print(error)
                    break
            else:
                one, two = seconds
                print(f"200 units, {engine}: one worker {one:.1f} s, two {two:.1f} s, speed-up {one / two:.2f}", flush=True)
                print(f"  overhead {overhead:.2f} ms a unit (200 units of 10 requests on two workers)", flush=True)
                print(f"  a worker killed after 100 units: {repeated} of 200 units run again", flush=True)


def killed(path: str, policies: list[str], sizes: list[int], engine: str, address: str | None, wanted: mayfly.Table) -> int:
    """Kills a worker in the middle of a sweep, and returns the number of units that ran twice."""
    from mayfly import _distribute

    run, log = _distribute.run_unit, f"{path}.log"

    def logged(unit: dict[str, object], report: object = None) -> object:
        # On a worker, in which the module is unchanged.
        from mayfly._distribute import run_unit

        with open(log, "a", encoding="ascii") as output:
            output.write("begun\n")
        with open(log, encoding="ascii") as lines:
            is_last = sum(1 for _ in lines) == 100
        if is_last:
            os.kill(os.getpid(), 9)
        return run_unit(unit, report)

    _distribute.run_unit = logged  # type: ignore[assignment]
    try:
        found = mayfly.sweep(path, policies, sizes, engine=engine, address=address)
    finally:
        _distribute.run_unit = run
    assert found["misses"] == wanted["misses"]
    with open(log, encoding="ascii") as lines:
        begun = sum(1 for _ in lines)
    os.unlink(log)
    return begun - 200


class cluster:
    """A cluster on this machine, and its address."""

    def __init__(self, engine: str, workers: int) -> None:
        self.engine, self.workers = engine, workers

    def __enter__(self) -> str | None:
        if self.engine == "dask":
            from distributed import LocalCluster

            self.dask = LocalCluster(n_workers=self.workers, threads_per_worker=1, dashboard_address=None)
            return str(self.dask.scheduler_address)
        import ray

        ray.init(num_cpus=self.workers, include_dashboard=False, log_to_driver=False)
        return None

    def __exit__(self, *_: object) -> None:
        if self.engine == "dask":
            self.dask.close()
        else:
            import ray

            ray.shutdown()


PARTS = {"import": import_time, "replay": replay, "cache": caches, "peers": peers, "sweep": sweeps}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
