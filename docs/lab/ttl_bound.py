"""What evicting by the remaining TTL can save S3-FIFO-W at most, by TTL mix, as a table in Markdown.

    python3 docs/lab/ttl_bound.py --mayfly target/release/mayfly TRACE...

Runs `mayfly sim` with the TTL mixes of six Twitter clusters, without and with the oracles of
`--foresight`. A cell is a trace at 1 or 10 % of its objects; cells of fewer than 100 objects are left
out. Reductions of misses, in per cent:

- ghosts: `s3fifo-w` against `s3fifo-w:expired=0`
- no next request: `--foresight unrequested` against `s3fifo-w`
- remaining TTL besides: `--foresight expiring` against `--foresight unrequested`
- all: `--foresight expiring` against `s3fifo-w`
"""

import argparse
import csv
import statistics
import subprocess
import sys
from pathlib import Path

MIXES = ["cluster4", "cluster12", "cluster21", "cluster26", "cluster37", "cluster42"]
OBJECTS_MIN = 100
# Reductions that differ by less count as equal.
EQUAL = 0.0005
PLAIN, SIGNAL = "s3fifo-w:expired=0", "s3fifo-w"


def misses(program, traces, mix, policies, *options):
    """Misses by cell and policy."""
    command = [program, "sim", *traces, "--policy", ",".join(policies), "--size", "1%,10%", "--ignore-size"]
    command += ["--ttl-mix", mix, "--request-rate", "1000", "--csv", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True)
    rows = csv.DictReader(done.stdout.splitlines())
    rows = [row for row in rows if int(row["cache_size"]) >= OBJECTS_MIN]
    return {(row["trace"], row["size"], row["policy"]): int(row["misses"]) for row in rows}


def reductions(program, traces, mix):
    """One row per cell: reductions by ghosts, by knowing the last request, by deadlines besides, by both."""
    known = misses(program, traces, mix, [PLAIN, SIGNAL])
    unrequested = misses(program, traces, mix, [SIGNAL], "--foresight", "unrequested")
    expiring = misses(program, traces, mix, [SIGNAL], "--foresight", "expiring")
    rows = []
    for trace, size, policy in unrequested:
        cell = (trace, size, policy)
        plain, signal = known[trace, size, PLAIN], known[cell]
        last, bound = unrequested[cell], expiring[cell]
        rows.append((1 - signal / plain, 1 - last / signal, 1 - bound / last, 1 - bound / signal))
    return rows


def line(name, rows):
    ghosts, last, besides, both = zip(*rows)
    values = [statistics.mean(ghosts), max(ghosts), min(ghosts), statistics.mean(last), statistics.mean(besides)]
    values += [statistics.median(besides), max(besides), statistics.mean(both)]
    return f"| {name} | " + " | ".join(f"{100 * value:.1f}" for value in values) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", type=Path, default=Path("target/release/mayfly"))
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    chosen = parser.parse_args()
    print("| mix | ghosts: mean | best | worst | no next request | remaining TTL besides: mean | median | most | all of it |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    found = []
    for mix in MIXES:
        rows = reductions(chosen.mayfly, chosen.traces, mix)
        print(line(mix, rows), flush=True)
        found += rows
    print(line(f"{len(found)} cells", found))
    changes = [ghosts for ghosts, *_ in found]
    better, worse = sum(change > EQUAL for change in changes), sum(change < -EQUAL for change in changes)
    print(f"\nghosts: fewer misses in {better} cells, more in {worse}, median {100 * statistics.median(changes):.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
