"""Simulation over every kind of source, its results, and bad input."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import mayfly


def lru_misses(keys: list[int], capacity: int) -> int:
    """The plainest model of LRU."""
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key in keys:
        if key in held:
            held.move_to_end(key)
            continue
        misses += 1
        if len(held) == capacity:
            held.popitem(last=False)
        held[key] = None
    return misses


def keys_of(count: int = 20_000, seed: int = 1) -> list[int]:
    draw = random.Random(seed)
    return [int(draw.paretovariate(0.8)) for _ in range(count)]


KEYS = keys_of()


def misses(source: object, **options: object) -> int:
    return int(mayfly.simulate(source, "lru", 100, **options)["misses"][0])


@pytest.mark.parametrize("capacity", [1, 7, 100, 5_000])
def test_lru_has_the_misses_of_the_model(capacity: int) -> None:
    assert mayfly.simulate(KEYS, "lru", capacity)["misses"] == [lru_misses(KEYS, capacity)]


def test_every_kind_of_source_gives_the_same_result(tmp_path: Path) -> None:
    wanted = lru_misses(KEYS, 100)
    array = np.array(KEYS)
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as output:
        output.write("time,key,size\n" + "".join(f"0,{key},1\n" for key in KEYS))
    texts = [f"k{key}" for key in KEYS]
    chunks = pyarrow.chunked_array([pyarrow.array(KEYS[:7_001]), pyarrow.array(KEYS[7_001:])])
    sources = {
        "list": KEYS,
        "generator": (key for key in KEYS),
        "int64": array,
        "uint32": array.astype(np.uint32),
        "big-endian": array.astype(">i8"),
        "strided": np.repeat(array, 3)[::3],
        "reversed twice": array[::-1][::-1],
        "read-only": np.frombuffer(array.tobytes(), dtype=np.int64),
        "object": array.astype(object),
        "text array": np.array(texts),
        "text list": texts,
        "bytes": [text.encode() for text in texts],
        "mapping": {"key": array, "unknown": texts},
        "structured": np.array(list(zip(KEYS, KEYS, strict=True)), dtype=[("id", "i4"), ("x", "i8")]),
        "pandas": pandas.DataFrame({"key": KEYS}),
        "pandas series": pandas.Series(KEYS),
        "pandas text": pandas.DataFrame({"key": texts}),
        "pandas Int64": pandas.DataFrame({"key": pandas.array(KEYS, dtype="Int64")}),
        "polars": polars.DataFrame({"key": KEYS}),
        "polars text": polars.DataFrame({"key": texts}),
        "polars categories": polars.DataFrame({"key": texts}, schema={"key": polars.Categorical}),
        "polars series": polars.Series(KEYS),
        "arrow": pyarrow.table({"key": chunks}),
        "arrow slice": pyarrow.table({"key": pyarrow.array([5, 5, *KEYS])}).slice(2),
        "arrow text": pyarrow.table({"key": pyarrow.array(texts)}),
        "arrow large text": pyarrow.table({"key": pyarrow.array(texts, pyarrow.large_string())}),
        "arrow dictionary": pyarrow.table({"key": pyarrow.array(texts).dictionary_encode()}),
        "arrow array": pyarrow.array(KEYS),
        "file": path,
        "file as text": str(path),
        "loaded": mayfly.load(array),
    }
    found = {kind: misses(source) for kind, source in sources.items()}
    assert found == dict.fromkeys(sources, wanted)


def test_columns_of_a_table_are_fields_of_requests() -> None:
    columns = {
        "time": [0, 1, 2, 3.5],
        "key": [1, 1, 2, 1],
        "size": [10, 10, 90, 10],
        "ttl": [2, 2, 0, 2],
        "op": ["set", "get", "get", "get"],
    }
    for source in [
        columns,
        pandas.DataFrame(columns),
        polars.DataFrame(columns, strict=False),
        pyarrow.table(columns),
    ]:
        table = mayfly.simulate(source, "lru", 100)
        assert table["unit"] == ["bytes"]
        # The entry of key 1 expires at 2 s, so that the last request misses.
        assert (table["misses"], table["expirations"]) == ([3], [1])


def test_dates_and_spans_have_their_units() -> None:
    start = np.datetime64("2026-01-01T00:00:00", "us")
    times = start + np.array([0, 1_000_000, 4_000_000], dtype="m8[us]")
    spans = np.array([2, 2, 2], dtype="m8[s]")
    source = {"timestamp": times, "key": [1, 1, 1], "ttl": spans.astype("m8[ms]")}
    assert mayfly.simulate(source, "lru", 1)["misses"] == [2]
    assert mayfly.simulate(pandas.DataFrame(source), "lru", 1)["misses"] == [2]
    assert mayfly.simulate(pyarrow.table(source), "lru", 1)["misses"] == [2]
    assert mayfly.simulate(polars.DataFrame(source), "lru", 1)["misses"] == [2]


def test_numbers_are_read_without_a_copy() -> None:
    array = np.arange(1_000)
    reading: mayfly._options.ReadOptions = {"format": None, "columns": None, "skip_bad": False}
    source = mayfly._input.source_of(array, None, reading)
    with pytest.raises(ValueError, match="resize"):
        array.resize(10)
    array[:] = 7
    trace = mayfly._native.Trace(source, mayfly._options.split({})[1], None)
    assert (len(trace), trace.objects) == (1_000, 1)


def test_results_are_in_the_order_given_and_do_not_depend_on_jobs() -> None:
    def counts(jobs: int) -> list[object]:
        policies = ["sieve", "lru", "s3fifo:small=0.2"]
        table = mayfly.simulate(KEYS, policies, ["10%", 50, 0.5], jobs=jobs)
        assert table["policy"] == [policy for policy in policies for _ in range(3)]
        assert table["size"] == ["10%", "50", "50%"] * 3
        return list(zip(table["misses"], table["evictions"], table["cache_size"], strict=True))

    assert counts(1) == counts(4)


def test_options_of_replays_change_results() -> None:
    trace = mayfly.load(KEYS)
    plain = mayfly.simulate(trace, "lru", 100)["misses"][0]
    warm = mayfly.simulate(trace, "lru", 100, warmup_share=0.5)
    assert warm["requests"] == [10_000] and warm["misses"][0] < plain
    assert mayfly.simulate(trace, "lru", 100, admission="bloom")["misses"][0] != plain
    explained = mayfly.simulate(trace, "lru,sieve", 100, explain=True)
    assert explained["demotion_speed"][0] > 0.9
    with pytest.raises(ValueError, match="sample: applies when the trace is read"):
        mayfly.simulate(trace, "lru", 100, sample=0.1)


def test_the_segment_engine_is_replayed_beside_policies() -> None:
    source = {"key": KEYS, "size": [100] * len(KEYS)}
    table = mayfly.simulate(source, "lru,segcache,fifo", ["200kb", "400kb"])
    assert table["policy"] == ["lru", "lru", "segcache", "segcache", "fifo", "fifo"]
    assert all(ratio > 0 for ratio in table["miss_ratio"])


def test_a_table_converts_to_every_library() -> None:
    table = mayfly.simulate(KEYS, "lru,sieve", [10, 100], explain=True)
    rows = list(table)
    assert len(table) == len(rows) == 4
    for frame in [table.to_pandas(), table.to_polars(), table.to_arrow().to_pandas()]:
        assert list(frame["misses"]) == table["misses"]
        assert list(frame["policy"]) == table["policy"]
    arrow = table.to_arrow()
    assert arrow["miss_ratio"].to_pylist() == table["miss_ratio"]
    assert arrow["byte_miss_ratio"].null_count == 4
    assert arrow["evictions_by_hits"].to_pylist() == table["evictions_by_hits"]
    arrow.validate(full=True)
    assert polars.DataFrame(table)["misses"].to_list() == table["misses"]
    assert "miss ratio" in table.to_html() and table._repr_html_().startswith("<iframe")
    assert table.to_csv().count("\n") == 5
    assert table.provenance["version"] == mayfly.__version__
    with pytest.raises(KeyError, match="expected one of trace"):
        table["nothing"]


def test_curves_are_exact_or_have_bounds() -> None:
    exact = mayfly.curve(KEYS, "lru", [10, 100], exact=True)
    assert exact["miss_ratio"] == [lru_misses(KEYS, size) / len(KEYS) for size in (10, 100)]
    assert exact["is_exact"] == [True, True]
    sampled = mayfly.curve(keys_of(200_000), "lru,sieve", points=6, sample_objects=500)
    assert sampled["is_exact"] == [False] * 12
    assert all(row["low"] <= row["miss_ratio"] <= row["high"] for row in sampled)
    assert "<svg" in sampled.to_html()


def test_analysis_and_advice() -> None:
    source = mayfly.generate(50_000, pattern="zipf:0.9", objects=5_000, size="uniform:10:100", seed=3)
    analysis = mayfly.analyze(source)
    assert analysis["requests"] == 50_000
    assert "requests" in analysis.to_text() and "<html" in analysis.to_html()
    advice = mayfly.advise(source, memory="10%", policies="lru,sieve")
    assert advice.policy in ("lru", "sieve")
    found = mayfly.simulate(source, advice.policy, advice.cache_size)
    assert found["miss_ratio"] == [advice.miss_ratio]


def test_generated_traces_are_repeatable_and_can_be_files(tmp_path: Path) -> None:
    made = mayfly.generate(10_000, write_share=0.1, ttl_mix="60s:0.5 1h:0.5", seed=5)
    again = mayfly.generate(10_000, write_share=0.1, ttl_mix="60s:0.5 1h:0.5", seed=5)
    assert all(np.array_equal(made[name], again[name]) for name in made)
    path = tmp_path / "made.csv.zst"
    assert mayfly.generate(10_000, write_share=0.1, ttl_mix="60s:0.5 1h:0.5", seed=5, path=path) is None
    of_file, of_arrays = mayfly.simulate(path, "lru", "10%"), mayfly.simulate(made, "lru", "10%")
    assert of_file["misses"] == of_arrays["misses"]


def test_plots_are_drawn() -> None:
    import matplotlib

    matplotlib.use("agg")
    axes = mayfly.simulate(KEYS, "lru,sieve", [10, 100, 1_000]).plot()
    assert len(axes.lines) == 2 and axes.get_xscale() == "log"
    bars = mayfly.simulate(KEYS, "lru,w-tinylfu", 10).plot()
    assert len(bars.patches) == 2
    for drawn in (axes, bars):
        # Labels were cut at the edge of the figure.
        drawn.figure.canvas.draw()
        inner, outer = drawn.get_tightbbox(), drawn.figure.bbox
        assert outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0


def test_progress_is_reported() -> None:
    mayfly.simulate(np.arange(10_000), "lru", 10, progress=True)


NAN = float("nan")


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ([], ValueError, "the trace has no requests"),
        ({"size": [1, 2]}, ValueError, "no column of keys"),
        ({"key": [1, 2], "size": [1]}, ValueError, "column 'size' has 1 rows, but column 'key' has 2"),
        ({"key": [1, 2], "id": [1, 2]}, ValueError, "hold the same field"),
        ({"key": [1, 2], "size": [5, -3]}, ValueError, "column 'size', row 1: -3: expected a number from 0"),
        ({"key": [1, 2], "size": [5.0, NAN]}, ValueError, "column 'size', row 1: NaN"),
        ({"key": [1, 2], "size": [5, 1 << 40]}, ValueError, "column 'size', row 1: 1099511627776"),
        ({"key": [1, 2], "time": [0, float("inf")]}, ValueError, "column 'time', row 1: inf"),
        ({"key": [1, 2], "ttl": [1, -1]}, ValueError, "column 'ttl', row 1: -1"),
        ({"key": [1, 2], "op": ["get", "fetch"]}, ValueError, "row 1: operation 'fetch': expected one of get"),
        ({"key": [1.5, 2.5]}, TypeError, "key of type float"),
        (np.array([1.5, 2.5]), TypeError, "holds f64: expected integers or text"),
        (np.array([True, False]), TypeError, "holds bool: expected integers or text"),
        (np.zeros((2, 2), dtype=int), ValueError, "an array of 2 dimensions: expected 1"),
        (np.array([1, 2], dtype=complex), TypeError, "expected integers, floats"),
        ({"key": [1, 2], "size": np.array([1, None], dtype=object)}, TypeError, "column 'size': an array of objects"),
        ([1, "a"], TypeError, "row 1: a key of type str, but row 0 is int"),
        ([1, None], TypeError, "row 1: a key of type NoneType"),
        ([True], TypeError, "a key of type bool"),
        ([1 << 70], ValueError, "expected an integer of at most 64 bits"),
        (np.array([1, {}], dtype=object), TypeError, "row 1: a key of type dict"),
        (pandas.DataFrame({"key": pandas.array([1, None], dtype="Int64")}), ValueError, "column 'key', row 1: null"),
        (polars.DataFrame({"key": [1, None]}), ValueError, "column 'key', row 1: null"),
        (pyarrow.table({"key": [1, 2, None]}), ValueError, "column 'key', row 2: null"),
        (pyarrow.table({"key": pyarrow.array([[1], [2]])}), TypeError, r"Arrow type '?\"?\+l"),
        (pyarrow.table({"key": pyarrow.array([], pyarrow.int64())}), ValueError, "no rows|no requests"),
        (np.array(["2026", "NaT"], dtype="M8[s]"), ValueError, "row 1: NaT"),
        (b"\x00\x01", TypeError, "requests of type bytes: expected a path"),
        (7, TypeError, "int: expected an array of keys"),
        ("missing.csv", FileNotFoundError, "missing.csv"),
        ("missing.polar", Exception, "missing.polar"),
    ],
)
def test_bad_requests_are_refused(source: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mayfly.simulate(source, "lru", 1)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"policies": "nope"}, ValueError, "policy nope"),
        ({"policies": []}, ValueError, "expected at least one"),
        ({"policies": [3]}, TypeError, "expected a name"),
        ({"sizes": 0}, ValueError, "size 0: expected more than 0"),
        ({"sizes": -5}, ValueError, "size -5"),
        ({"sizes": NAN}, ValueError, "size nan: expected a share"),
        ({"sizes": 1.5}, ValueError, "size 1.5: expected a share"),
        ({"sizes": "64mb"}, ValueError, "in bytes, but objects are counted"),
        ({"sizes": "12q"}, ValueError, "size '12q'"),
        ({"sizes": "0.0001%"}, ValueError, "less than one of the"),
        ({"sizes": [None]}, TypeError, "size None"),
        ({"warmup_share": 1.0}, ValueError, "warmup_share 1.0"),
        ({"sample": NAN}, ValueError, "sample nan"),
        ({"jobs": 0}, ValueError, "jobs 0"),
        ({"seed": -1}, ValueError, "seed -1"),
        ({"admission": "nope"}, ValueError, "admission: "),
        ({"expiry": "nope"}, ValueError, "expiry: "),
        ({"ttl_mix": "nope"}, ValueError, "ttl_mix: "),
        ({"request_rate": 0.0}, ValueError, "request_rate"),
        ({"memory_limit": 1000}, MemoryError, "memory_limit"),
        ({"typo": 1}, TypeError, "unknown option 'typo'"),
        ({"format": "csv"}, TypeError, "format: expected only for a file"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], error: type[Exception], text: str) -> None:
    given = {"policies": "lru", "sizes": 10, **arguments}
    with pytest.raises(error, match=text):
        mayfly.simulate(KEYS, **given)


def test_a_generator_that_raises_passes_its_exception_on() -> None:
    def keys() -> object:
        yield 1
        raise LookupError("no more keys")

    with pytest.raises(LookupError, match="no more keys"):
        mayfly.simulate(keys(), "lru", 1)


def test_a_malformed_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("time,key,size\n1,1,1\nx,2,3\n")
    with pytest.raises(mayfly.TraceError, match=r"bad.csv:3: expected"):
        mayfly.simulate(path, "lru", 1)
    assert mayfly.simulate(path, "lru", 1, skip_bad=True)["requests"] == [1]
    other = path.rename(tmp_path / "noheader.csv")
    assert mayfly.simulate(other, "lru", 2, columns="time,key,size", skip_bad=True)["requests"] == [1]


INTERRUPTED = """
import mayfly, numpy, os, signal, threading, time
trace = mayfly.load(numpy.random.default_rng(1).integers(0, 200_000, 2_000_000))
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
timer = threading.Timer(1.0, send)
timer.start()
try:
    mayfly.simulate(trace, "lru,arc,lirs,w-tinylfu", [10_000 + n for n in range(500)])
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0])
"""


def test_ctrl_c_ends_a_long_call() -> None:
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False
    )
    word, _, seconds = found.stdout.strip().partition(" ")
    assert (word, found.returncode) == ("interrupted", 0), found.stderr
    # The bound is 0.1 s on an idle machine; more only separates a hang from a slow one.
    assert float(seconds) < 10


def test_other_threads_run_during_a_long_call() -> None:
    import threading

    trace = mayfly.load(np.random.default_rng(1).integers(0, 100_000, 1_000_000))
    steps = 0
    is_done = threading.Event()

    def count() -> None:
        nonlocal steps
        while not is_done.is_set():
            steps += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    mayfly.simulate(trace, "lru", [10_000 + n for n in range(4)])
    is_done.set()
    counter.join()
    assert steps > 10


def test_importing_loads_no_other_library() -> None:
    code = (
        "import sys, mayfly; heavy = {'numpy', 'pandas', 'polars', 'pyarrow', 'matplotlib', 'tqdm',"
        " 'asyncio', 'json'}; print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_columns_of_numbers_need_no_numpy() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; import mayfly\n"
        "columns = {'key': ['a', 'b', 'a'], 'size': [10, 20, 10], 'time': (0, 1.5, 2)}\n"
        "print(mayfly.simulate(columns, 'lru', 100)['misses'])\n"
        "for size in 'x', 10**400:\n"
        "    try: mayfly.simulate(columns | {'size': [10, size, 10]}, 'lru', 100)\n"
        "    except TypeError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "[2]",
        "column 'size': must be real number, not str: expected numbers",
        "column 'size': int too large to convert to float: expected numbers",
    ]


def test_a_fork_after_the_import_can_simulate() -> None:
    wanted = misses(KEYS)
    child = os.fork()
    if child == 0:
        os._exit(0 if misses(KEYS) == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_sub_interpreter_is_refused() -> None:
    code = """
import _xxsubinterpreters as interpreters, mayfly
interpreter = interpreters.create()
try:
    interpreters.run_string(interpreter, "import mayfly")
except Exception as error:
    print("refused", error)
"""
    if sys.version_info >= (3, 13):
        code = code.replace("_xxsubinterpreters", "_interpreters")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "refused" in found.stdout and "sub-interpreters" in found.stdout, found
    assert found.returncode == 0


def test_an_interrupt_by_another_handler_is_passed_on() -> None:
    class Stop(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    try:
        trace = mayfly.load(np.random.default_rng(1).integers(0, 200_000, 2_000_000))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Stop):
            mayfly.simulate(trace, "lru,arc,lirs", [10_000 + n for n in range(500)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_masked_and_null_entries_are_refused() -> None:
    numpy, arrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    masked = numpy.ma.array([1, 2, 1, 3], mask=[0, 1, 0, 0])
    for requests in (masked, {"key": masked}, {"key": [1, 2, 3, 4], "size": masked}):
        with pytest.raises(ValueError, match="row 1: masked"):
            mayfly.simulate(requests, "lru", 2)
    assert mayfly.simulate(numpy.ma.array([1, 2, 1, 3]), "lru", 2)["misses"] == [3]
    column = arrow.DictionaryArray.from_arrays(arrow.array([0, 1, 0, 1]), arrow.array(["a", None]))
    with pytest.raises(ValueError, match="column 'key', row 1: null"):
        mayfly.simulate(arrow.table({"key": column}), "lru", 2)


@pytest.mark.parametrize(("name", "value"), [("objects", 0), ("objects", 1 << 63), ("seed", -1), ("seed", 1 << 64)])
def test_numbers_of_generate_are_checked(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} {value}: expected"):
        mayfly.generate(10, **{name: value})


def test_sizes_and_policies_may_be_any_iterable() -> None:
    wanted = mayfly.simulate(KEYS, "lru,sieve", [10, 20])["misses"]
    for sizes in (np.array([10, 20]), pandas.Series([10, 20]), (size for size in (10, 20)), range(10, 30, 10)):
        assert mayfly.simulate(KEYS, (name for name in ("lru", "sieve")), sizes)["misses"] == wanted
    assert mayfly.simulate(KEYS, "lru", np.array(10))["misses"] == wanted[:1]
    assert mayfly.simulate(KEYS, "lru", np.int64(10), jobs=np.int64(1), seed=np.uint8(1))["misses"] == wanted[:1]
    shares = mayfly.simulate(KEYS, "lru", np.array([0.01, 0.1]))
    assert shares["misses"] == mayfly.simulate(KEYS, "lru", ["1%", "10%"])["misses"]
    generated = mayfly.generate(np.int64(10))
    assert generated is not None and len(generated["key"]) == 10


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"memory_limit": "1gb"}, TypeError, "memory_limit: '1gb': expected an integer"),
        ({"memory_limit": -1}, ValueError, "memory_limit -1"),
        ({"jobs": 1.5}, TypeError, "jobs: 1.5: expected an integer"),
        ({"jobs": True}, TypeError, "jobs: True"),
        ({"requests": [-1, 2**64 - 1]}, ValueError, "row 1: 18446744073709551615: expected no integers from 2.63"),
        ({"requests": [2**63, -(2**63)]}, ValueError, "row 1"),
        ({"requests": pandas.DataFrame([[1, 2]], columns=["key", "key"])}, ValueError, "several columns of this name"),
        ({"requests": polars.DataFrame({"key": [1]}).lazy()}, TypeError, "collect"),
        ({"sizes": np.array([[1, 2]])}, TypeError, "size"),
        ({"sizes": np.array([])}, ValueError, "at least one"),
        ({"sizes": np.array([1, -1])}, ValueError, "size -1"),
        ({"policies": iter(())}, ValueError, "at least one"),
    ],
)
def test_what_a_caller_may_pass_by_mistake(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        mayfly.simulate(**{"requests": [1, 2, 3], "policies": "lru", "sizes": 2, **arguments})
