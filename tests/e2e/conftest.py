"""End-to-end checks: real clients, real tools and broken input against a running server.

    .venv/bin/python -m pytest tests/e2e --server target/release/mayfly
    .venv/bin/python -m pytest tests/e2e --threads 2 -k "durable or test_shutdown"
    .venv/bin/python -m pytest tests/e2e --seed 7 --count 100000 -k differential
    .venv/bin/python -m pytest tests/e2e --server redis-server              checks the checks: Redis must pass

A check is a function `test_…` that uses `bench` or `r`.
"""

from pathlib import Path

import pytest
from server import Server

LOG_CHARACTERS_MAX = 4000


def pytest_addoption(parser) -> None:
    parser.addoption("--seed", type=int, default=1, help="seed of random commands")
    parser.addoption("--count", type=int, default=1500, help="number of random commands of `differential` for each type and protocol")


class Bench:
    """Environment of a check: a shared server, and a function that starts others."""

    def __init__(self, options):
        self.binary, self.threads, self.seed, self.count = options.server, options.threads, options.seed, options.count
        self.is_redis = Path(self.binary).name == "redis-server"
        self.server = self.start()

    def start(self, *options: str, environment: dict[str, str] | None = None, ignores_file_size: bool = False) -> Server:
        if self.threads is not None and "--threads" not in options:
            options = (*options, "--threads", self.threads)
        return Server(self.binary, *options, environment=environment, ignores_file_size=ignores_file_size)

    def fresh(self) -> None:
        """Empties the shared server, and restarts it if it has stopped."""
        if self.server.process.poll() is not None:
            self.server = self.start()
        with self.server.client() as client:
            client.flushall()
            client.config_set("notify-keyspace-events", "")
        Server.started = [self.server]


@pytest.fixture(scope="session")
def shared_bench(pytestconfig):
    bench = Bench(pytestconfig.option)
    yield bench
    bench.server.end()


@pytest.fixture
def bench(shared_bench):
    shared_bench.fresh()
    yield shared_bench
    for server in Server.started[1:]:
        server.kill()
    assert shared_bench.server.process.poll() is None, "the shared server has ended"


@pytest.fixture(params=(2, 3), ids=("resp2", "resp3"))
def r(bench, request):
    """A client of the shared server, once for each protocol."""
    with bench.server.client(protocol=request.param, decode_responses=True) as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        for server in Server.started:
            title = f"{server.command[0]} on port {server.port}, exit code {server.process.poll()}"
            report.sections.append((title, server.log_text()[-LOG_CHARACTERS_MAX:]))
    return report
