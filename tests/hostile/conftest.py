"""Checks that nothing a client sends can kill, fill, stall or fool the server.

    .venv/bin/python -m pytest tests/hostile --server target/release/mayfly
    .venv/bin/python -m pytest tests/hostile --threads 2 -k memory
    .venv/bin/python -m pytest tests/hostile --full          the sizes of a million elements, and the bounds in milliseconds
    .venv/bin/python -m pytest tests/hostile --server /usr/bin/redis-server    checks the checks: those of Redis's replies must pass

Each server runs under a limit on its address space. Bounds on memory are asserted. Latencies are printed beside the bounds
that hold on an idle machine; without --full they are asserted only against bounds that distinguish a stall from a busy machine.
"""

import harness
import pytest

# Programs of their own.
collect_ignore = ["differential.py", "iso.py", "probe.py"]


def pytest_addoption(parser) -> None:
    parser.addoption("--full", action="store_true", help="large sizes and the bounds of an idle machine")


def pytest_configure(config) -> None:
    config.addinivalue_line("markers", "engines(name, …): runs once for each of these engines [default: slab]")


def pytest_generate_tests(metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("engines")
    metafunc.parametrize("engine", marker.args if marker else ("slab",))


@pytest.fixture(scope="session")
def shared_bench(pytestconfig):
    options = pytestconfig.option
    harness.raise_file_limit()
    if options.full and not harness.lower_priority():
        print("latencies include waits for the cores that this driver uses: it must run as root with CAP_SYS_NICE to lower its priority")
    bench = pytestconfig.bench = harness.Bench(options.server, int(options.threads or 1), options.full)
    yield bench
    bench.finish()


@pytest.fixture
def bench(shared_bench, engine, request):
    shared_bench.engine, shared_bench.name = engine, request.node.name.removeprefix("test_")
    return shared_bench


def pytest_terminal_summary(terminalreporter, config) -> None:
    bench = getattr(config, "bench", None)
    if bench and bench.figures:
        terminalreporter.write_line("\n| check | measure | measured | bound on an idle machine |\n|---|---|---:|---:|")
        for figure in bench.figures:
            terminalreporter.write_line(f"| `{figure.check}` | {figure.what} | {figure.measured} | {figure.bound} |")
