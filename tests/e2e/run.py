"""End-to-end checks: real clients, real tools and broken input against a running server.

    .venv/bin/python tests/e2e/run.py --server target/release/mayfly [PATTERN…]
    .venv/bin/python tests/e2e/run.py --threads 2
    .venv/bin/python tests/e2e/run.py --seed 7 --count 100000 differential
    .venv/bin/python tests/e2e/run.py --server redis        checks the checks: Redis must pass

A check is a function `test_…(bench)` in one of the modules below.
"""

import argparse
import sys
import time
import traceback

import bad_input
import clients
import clock
import configuration
import differential
import durable
import expiry
import faults
import lifecycle
import lists
import memcached
import metrics
import operations
import partners
import policies
import primaries
import restarts
import segment
import sharding
import snapshots
import sorted_sets
import streams
import tls
import tools
from server import Server

MODULES = [clients, lists, expiry, clock, tools, bad_input, lifecycle, configuration, memcached, operations, metrics, policies, segment, sharding, snapshots, durable, faults, partners, primaries, restarts, sorted_sets, streams, tls, differential]


class Bench:
    """Environment of a check: a shared server, and a function that starts others."""

    def __init__(self, binary: str, threads: str | None, seed: int, count: int):
        self.binary = binary
        self.seed = seed
        self.count = count
        self.is_redis = binary == "redis"
        self.threads = threads
        self.server = self.start()

    def start(self, *options: str, environment: dict[str, str] | None = None, ignores_file_size: bool = False) -> Server:
        if self.threads is not None and "--threads" not in options:
            options = (*options, "--threads", self.threads)
        return Server(self.binary, *options, environment=environment, ignores_file_size=ignores_file_size)

    def fresh(self) -> None:
        """Empties the shared server, and restarts it if it has stopped."""
        if self.server.process.poll() is not None:
            print(f"     the server stopped with exit code {self.server.process.returncode}:\n{self.server.log_text()[-4000:]}")
            self.server = self.start()
        with self.server.client() as client:
            client.flushall()
            client.config_set("notify-keyspace-events", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/mayfly", help="path of mayfly, or `redis`")
    parser.add_argument("--threads", help="worker threads of mayfly [default: its own]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random commands of `differential`")
    parser.add_argument("--count", type=int, default=1500, help="number of random commands for each type and protocol")
    parser.add_argument("pattern", nargs="*", help="run checks whose name contains one of these")
    chosen = parser.parse_args()
    checks = [
        (f"{module.__name__}.{name}", check)
        for module in MODULES
        for name, check in vars(module).items()
        if name.startswith("test_")
    ]
    if chosen.pattern:
        checks = [c for c in checks if any(pattern in c[0] for pattern in chosen.pattern)]
    bench = Bench(chosen.server, chosen.threads, chosen.seed, chosen.count)
    failed = 0
    for name, check in checks:
        started = time.monotonic()
        try:
            bench.fresh()
            check(bench)
            print(f"ok   {name} {time.monotonic() - started:.2f} s", flush=True)
        except Exception:  # one failed check must not hide the others
            failed += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
    bench.server.end()
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
