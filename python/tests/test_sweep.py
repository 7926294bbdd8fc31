"""Sweeps: equal results on every engine, resumed and retried."""

from __future__ import annotations

import http.server
import json
import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mayfly
from mayfly import _distribute

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

    def watched(unit: dict[str, Any]) -> dict[str, Any]:
        ran.append(unit["policy"])
        return run(unit)

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

    def dies(unit: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return run(unit)

    monkeypatch.setattr(_distribute, "run_unit", dies)
    with pytest.raises(KeyboardInterrupt):
        mayfly.sweep(traces, "lru,sieve", 500, resume=tmp_path / "units")
    assert len(list((tmp_path / "units").iterdir())) == 2
    mayfly.sweep(traces, "lru,sieve", 500, resume=tmp_path / "units")
    assert count == 5


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


def test_dask_has_the_results_of_the_local_run(traces: list[str], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        local = mayfly.sweep(traces, "lru,sieve", ["1%", 500])
        found = mayfly.sweep(traces, "lru,sieve", ["1%", 500], engine="dask", address=address)
        assert counters(found) == counters(local)
        # A worker that dies costs its unfinished units, which another one runs.
        big = os.fspath(tmp_path / "big.csv.zst")
        mayfly.generate(300_000, objects=50_000, path=big)
        sizes = list(range(1_000, 1_012))
        workers = list(cluster.workers.values())
        killer = threading.Timer(1.0, os.kill, (workers[0].pid, signal.SIGKILL))
        killer.start()
        survived = mayfly.sweep(big, "lru,arc", sizes, engine="dask", address=address)
        killer.join()
        assert counters(survived) == counters(mayfly.sweep(big, "lru,arc", sizes))
