"""Sweeps: equal results on every engine, resumed and retried."""

from __future__ import annotations

import http.server
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mayfly
from mayfly import _distribute, _engines, _remote

COUNTERS = ("trace", "policy", "size", "cache_size", "requests", "misses", "miss_ratio", "evictions", "held")


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"t{number}.csv.zst" for number in range(2)]
    for number, path in enumerate(paths):
        mayfly.generate(20_000, objects=2_000, seed=number, path=path)
    return [os.fspath(path) for path in paths]


def counters(table: mayfly.Table) -> dict[str, list[Any]]:
    return {name: table[name] for name in COUNTERS}


def test_a_sweep_has_the_rows_of_single_calls(traces: list[str]) -> None:
    table = mayfly.sweep(traces, "lru,sieve", ["1%", 500])
    rows = [mayfly.simulate(trace, "lru,sieve", ["1%", 500]) for trace in traces]
    wanted = {name: [value for row in rows for value in row[name]] for name in COUNTERS}
    assert counters(table) == wanted
    assert set(table["version"]) == {mayfly.__version__} and table["host"][0]
    assert table.to_html().count("<svg") > 0


def test_a_finished_unit_is_not_run_again(traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "units"
    first = mayfly.sweep(traces[0], "lru,sieve", 500, resume=folder)
    ran: list[Any] = []
    run = _distribute.run_unit

    def watched(unit: dict[str, Any], report: Any) -> dict[str, Any]:
        ran.append(unit["policy"])
        return run(unit, report)

    monkeypatch.setattr(_distribute, "run_unit", watched)
    again = mayfly.sweep(traces[0], "lru,fifo,sieve", 500, resume=folder)
    assert ran == ["fifo"]
    # Timings included: the rows are the ones that were stored.
    assert [row for row in again if row["policy"] != "fifo"] == list(first)
    one = next(folder.iterdir())
    one.write_text(json.dumps({"columns": {}})[:7])
    mayfly.sweep(traces[0], "lru,fifo,sieve", 500, resume=folder)
    assert len(ran) == 2, "a damaged unit is run again"
    os.utime(traces[0], (1, 1))
    mayfly.sweep(traces[0], "lru,fifo,sieve", 500, resume=folder)
    assert len(ran) == 5, "a trace that was replaced is another one"


def test_an_interrupted_sweep_keeps_what_is_finished(
    traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, count = _distribute.run_unit, 0

    def dies(unit: dict[str, Any], report: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return run(unit, report)

    monkeypatch.setattr(_distribute, "run_unit", dies)
    with pytest.raises(KeyboardInterrupt):
        mayfly.sweep(traces, "lru,sieve", 500, resume=tmp_path / "units", jobs=1)
    assert len(list((tmp_path / "units").iterdir())) == 2
    mayfly.sweep(traces, "lru,sieve", 500, resume=tmp_path / "units", jobs=1)
    assert len(list((tmp_path / "units").iterdir())) == 4


def test_traces_are_read_from_urls(traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAYFLY_CACHE_DIR", os.fspath(tmp_path / "copies"))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=os.path.dirname(traces[0]))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{os.path.basename(traces[0])}"
        found = mayfly.sweep(url, "lru", 500)
        with pytest.raises(FileNotFoundError):
            mayfly.sweep(f"http://127.0.0.1:{server.server_port}/nothing.csv", "lru", 500)
        server.shutdown()
    # The second time the copy is read.
    assert mayfly.sweep(url, "lru", 500)["misses"] == found["misses"]
    assert found["misses"] == mayfly.simulate(traces[0], "lru", 500)["misses"]
    other = f"file://{traces[0]}"
    assert mayfly.simulate(other, "lru", 500)["misses"] == found["misses"]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"engine": "spark"}, ValueError, "engine 'spark': expected one of local, dask, ray"),
        ({"address": "tcp://127.0.0.1:1"}, ValueError, "address: expected only"),
        ({"retries": -1}, ValueError, "retries: -1"),
        ({"traces": []}, ValueError, "traces: expected at least one"),
        ({"sizes": "12q"}, ValueError, "size '12q'"),
        ({"typo": 1}, TypeError, "unknown option 'typo'"),
        ({"traces": ["missing.csv"]}, FileNotFoundError, "missing.csv"),
    ],
)
def test_bad_arguments_are_refused(
    traces: list[str], arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        mayfly.sweep(**{"traces": traces, "policies": "lru", "sizes": 10, **arguments})


class ObjectStore(http.server.BaseHTTPRequestHandler):
    """The two requests of an S3-compatible store that read an object, with ranges."""

    objects: dict[str, bytes] = {}

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:  # noqa: N802
        self.answer(is_body_sent=False)

    def do_GET(self) -> None:  # noqa: N802
        self.answer(is_body_sent=True)

    def answer(self, *, is_body_sent: bool) -> None:
        content = self.objects.get(self.path.partition("?")[0])
        if content is None:
            self.send_error(404)
            return
        first, last = 0, len(content) - 1
        ranged = self.headers.get("Range")
        if ranged:
            start, _, end = ranged.removeprefix("bytes=").partition("-")
            first, last = int(start), min(int(end or last), last)
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("ETag", '"etag"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if is_body_sent:
            self.wfile.write(content[first : last + 1])


def test_traces_are_read_from_an_object_store(
    traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_CACHE_DIR", os.fspath(tmp_path / "copies"))
    monkeypatch.setattr(ObjectStore, "objects", {"/bucket/t0.csv.zst": Path(traces[0]).read_bytes()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ObjectStore) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        found = mayfly.sweep("s3://bucket/t0.csv.zst", "lru", 500)
        with pytest.raises(FileNotFoundError):
            mayfly.sweep("s3://bucket/nothing.csv.zst", "lru", 500)
        server.shutdown()
    assert found["misses"] == mayfly.simulate(traces[0], "lru", 500)["misses"]
    assert found["trace"] == ["t0"]


def test_a_table_says_what_made_it(traces: list[str]) -> None:
    table = mayfly.sweep(traces[:1], "lru,sieve", 500, ignore_ttl=True)
    made = table.provenance
    assert made["version"] == mayfly.__version__ and made["host"] and made["units"] == 2
    assert made["command"].startswith(f"mayfly.sweep([{traces[0]!r}], ['lru', 'sieve'], ['500']")
    again = eval(table["command"][1])
    assert again["misses"] == table["misses"][1:] and again["policy"] == ["sieve"]
    secret = "https://user:password@host/a/t.csv?signature=1"
    assert _remote.shown(secret) == "https://host/a/t.csv"
    assert _remote.shown("s3://bucket/t.csv") == "s3://bucket/t.csv"


def test_a_trace_is_read_once_by_all_threads(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    source_of = _distribute.source_of

    def watched(path: str, *arguments: Any) -> Any:
        read.append(path)
        return source_of(path, *arguments)

    monkeypatch.setattr(_distribute, "source_of", watched)
    table = mayfly.sweep(traces, "lru,sieve,arc", [100, 200, 300], jobs=4)
    assert sorted(read) == sorted(traces)
    assert counters(table) == counters(mayfly.sweep(traces, "lru,sieve,arc", [100, 200, 300], jobs=1))


INTERRUPTED = """
import mayfly, os, signal, sys, threading, time
mayfly.generate(2_000_000, objects=200_000, path=sys.argv[1])
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(float(sys.argv[2]), send).start()
try:
    mayfly.sweep(sys.argv[1], "lru,arc,lirs", list(range(10_000, 10_500)), jobs=2)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0])
"""


@pytest.mark.parametrize("seconds", ["0.05", "3"])
def test_ctrl_c_ends_a_sweep(tmp_path: Path, seconds: str) -> None:
    arguments = [sys.executable, "-c", INTERRUPTED, os.fspath(tmp_path / "t.csv"), seconds]
    found = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert found.stdout.startswith("interrupted") and found.returncode == 0, found.stderr


class Model:
    """An engine whose runs end in random order, on places that come and go."""

    may_repeat = True

    def __init__(self, places: list[_engines.Place], draw: random.Random, need: dict[str, int]) -> None:
        self.all, self.draw, self.need = places, draw, need
        self.runs: dict[int, tuple[dict[str, Any], str]] = {}
        self.started = 0

    def places(self) -> list[_engines.Place]:
        return self.draw.sample(self.all, self.draw.randint(1, len(self.all)))

    def start(self, unit: dict[str, Any], place: _engines.Place, memory_bytes: int) -> int:
        self.started += 1
        self.runs[self.started] = (unit, place.name)
        at = {run["trace"] for run, name in self.runs.values() if name == place.name}
        limit = (place.memory_bytes or 0) * _engines.MEMORY_SHARE
        assert len(at) == 1 or sum(self.need[trace] for trace in at) <= limit, "no place is overfilled"
        assert sum(name == place.name for _, name in self.runs.values()) <= place.slots * _engines.AHEAD
        return self.started

    def ended(self, seconds: float) -> list[int]:
        return self.draw.sample(list(self.runs), min(len(self.runs), self.draw.randint(0, 3)))

    def result(self, handle: int) -> dict[str, Any]:
        unit, _ = self.runs.pop(handle)
        return {"seconds": 0.0, "memory_bytes": self.need[unit["trace"]], "number": unit["number"]}

    def cancel(self, handle: int) -> None:
        self.runs.pop(handle, None)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("seed", range(20))
def test_every_unit_has_one_result_and_no_place_is_overfilled(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    need = {f"trace{number}": draw.randint(1, 120) for number in range(draw.randint(1, 6))}
    monkeypatch.setattr(_engines, "memory_estimate", need.__getitem__)
    monkeypatch.setattr(_engines, "LOOK_EVERY", 0.0)
    # Every run that has not ended at once is a straggler.
    monkeypatch.setattr(_engines, "STRAGGLER_SECONDS", 0.0)
    count = draw.randint(1, 60)
    units = {number: {"trace": draw.choice(list(need)), "number": number} for number in range(count)}
    places = [_engines.Place(f"p{number}", draw.randint(1, 3), draw.randint(50, 150)) for number in range(3)]
    engine = Model(places, draw, need)
    results = dict(_engines.drive(engine, units))
    assert sorted(results) == sorted(units)
    assert all(found["number"] == number for number, found in results.items())
    assert not engine.runs


def test_a_place_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engines, "WORKER_SECONDS", 0.0)
    engine = Model([_engines.Place("p", 1)], random.Random(1), {"t": 1})
    monkeypatch.setattr(engine, "places", list)
    with pytest.raises(RuntimeError, match="no worker"):
        list(_engines.drive(engine, {0: {"trace": "t", "number": 0}}))


@pytest.fixture(scope="module", params=["dask", "ray"])
def cluster(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Arguments of a sweep on a cluster of this machine with two workers."""
    if request.param == "dask":
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
            yield {"engine": "dask", "address": made.scheduler_address}
        return
    if not os.environ.get("MAYFLY_TEST_RAY"):
        pytest.skip("python/check.sh --ray runs the tests on Ray")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield {"engine": "ray"}
    ray.shutdown()


def test_a_cluster_has_the_results_of_the_local_run(traces: list[str], cluster: dict[str, Any]) -> None:
    local = mayfly.sweep(traces, "lru,sieve", ["1%", 500])
    assert counters(mayfly.sweep(traces, "lru,sieve", ["1%", 500], **cluster)) == counters(local)
    with pytest.raises(FileNotFoundError, match="missing.csv"):
        mayfly.sweep("missing.csv", "lru", 500, **cluster)
    Path(traces[0]).write_bytes(b"no trace")
    with pytest.raises(mayfly.TraceError):
        mayfly.sweep(traces[0], "lru", 500, **cluster)


def test_a_worker_that_dies_costs_its_unfinished_units(
    cluster: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, log = os.fspath(tmp_path / "t.csv.zst"), os.fspath(tmp_path / "log")
    mayfly.generate(100_000, objects=20_000, path=trace)

    def watched(unit: dict[str, Any], report: Any = None) -> dict[str, Any]:
        # Runs on a worker, in which the module is unchanged.
        from mayfly._distribute import run_unit

        with open(log, "a", encoding="ascii") as output:
            output.write(f"{os.getpid()}\n")
        with open(log, encoding="ascii") as lines:
            is_fifth = sum(1 for _ in lines) == 5
        if is_fifth:
            os.kill(os.getpid(), signal.SIGKILL)
        return run_unit(unit, report)

    monkeypatch.setattr(_distribute, "run_unit", watched)
    sizes = list(range(1_000, 1_020))
    found = mayfly.sweep(trace, "lru,arc", sizes, **cluster)
    started = len(Path(log).read_text().splitlines())
    monkeypatch.undo()
    assert counters(found) == counters(mayfly.sweep(trace, "lru,arc", sizes))
    # The unit that ran, and those whose results were not yet fetched.
    assert 40 < started <= 40 + _engines.AHEAD


def test_a_straggler_is_run_elsewhere(
    cluster: dict[str, Any], traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = os.fspath(tmp_path / "begun"), os.fspath(tmp_path / "gate")
    os.mkfifo(gate)

    def hangs(unit: dict[str, Any], report: Any = None) -> dict[str, Any]:
        from mayfly._distribute import run_unit

        if unit["policy"] == "sieve" and not os.path.exists(begun):
            os.close(os.open(begun, os.O_CREAT))
            # Until the test has ended.
            with open(gate, "rb"):
                pass
        return run_unit(unit, report)

    monkeypatch.setattr(_distribute, "run_unit", hangs)
    found = mayfly.sweep(traces[0], "lru,sieve,fifo", 500, **cluster)
    with open(gate, "r+b", buffering=0):
        monkeypatch.undo()
        assert counters(found) == counters(mayfly.sweep(traces[0], "lru,sieve,fifo", 500))
