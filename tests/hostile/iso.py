"""Measures how long another client's GET waits while one client runs a long command, and prints a table in Markdown.

    .venv/bin/python tests/hostile/iso.py --server target/release/mayfly > table.md

A probe (two, with two data threads) sends GET of another key about once a millisecond. A request that waits stands for
those that were not sent meanwhile. The window begins with the command and lasts at least a second; each command runs three
times, and the run with the median of the last column is printed. The first line, without a command, is the machine's own noise.

The last column is the longest time for which the data threads worked during one GET, all together: what it can have waited for the
server. The rest of a wait is that of a busy machine for a core. The lines behind the table name the machine and its load.
"""

import argparse
import os
import sys
import time

from harness import Bench, Latencies, Probe, latencies, raise_file_limit
from stalls import LONG, Field, Stall

WINDOW_S = 1.0


def idle(field: Field) -> Stall:
    probes = [Probe(field.server) for _ in range(min(2, field.threads))]
    time.sleep(0.1)
    start = time.monotonic()
    time.sleep(WINDOW_S)
    return Stall(latencies(probes, start, time.monotonic()), 0.0, b"")


def median_of(runs: list[Stall]) -> Stall:
    return sorted(runs, key=lambda run: (run.latencies.used_max, run.latencies.max))[len(runs) // 2]


def measured(bench: Bench, count: int, runs: int, only: str) -> dict[str, Stall | None]:
    """One result for each command; None for a command whose reply did not come."""
    results: dict[str, Stall | None] = {}
    field = None
    for long in [None, *[one for one in LONG if only in one.name]]:
        if field is None or not field.server.is_running():
            field = Field(bench.start(address_space=16 << 30), count, bench.threads)
        name = long.name if long else "(none)"
        print(f"{bench.threads} threads: {name}", file=sys.stderr, flush=True)
        try:
            results[name] = median_of([field.measure(long, WINDOW_S) if long else idle(field) for _ in range(runs)])
        except (OSError, AssertionError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            results[name] = None
            field.server.process.kill()
            field.server.process.wait()
    field.server.__exit__()
    return results


def shown(latencies: Latencies) -> str:
    return f"{latencies.p999:.1f} | {latencies.max:.1f} | {latencies.used_max:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/mayfly", help="path of mayfly or of redis-server")
    parser.add_argument("--size", type=int, default=1_000_000, help="elements of each collection [default: 1000000]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command [default: 3]")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of data threads [default: 1 2]")
    parser.add_argument("--only", default="", help="only commands whose name contains this")
    chosen = parser.parse_args()
    raise_file_limit()
    load_before = os.getloadavg()[0]
    tables = [measured(Bench(chosen.server, threads, True), chosen.size, chosen.runs, chosen.only) for threads in chosen.threads]
    columns = [f"{threads} thread{'s' if threads > 1 else ''}" for threads in chosen.threads]
    print("| command | " + " | ".join(f"{column}: command, ms | p99.9, ms | max, ms | of data threads, ms" for column in columns) + " |")
    print("|---|" + "---:|---:|---:|---:|" * len(columns))
    for name in tables[0]:
        cells = [f"{stall.command_s * 1000:.0f} | {shown(stall.latencies)}" if (stall := table[name]) else "no reply | – | – | –" for table in tables]
        print(f"| {name} | " + " | ".join(cells) + " |")
    cores, load_after = os.cpu_count(), os.getloadavg()[0]
    print(f"\nPriority {os.nice(0)}, {cores} cores; load average {load_before:.1f} before and {load_after:.1f} after, of all processes of the machine.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
