#!/usr/bin/env python3
"""Advice on the first half of a trace, judged on the second half, which the adviser has not seen.

    tests/measure/advise_halves.py target/release/mayfly TRACE... [--shares 1,10] [--requests 4000000]

For each trace and cache size (a share of the objects of the first half), `mayfly sim advise --memory` recommends a policy on the first half of the requests.
All its candidates are replayed on the second half. *Regret* is the share by which the recommended policy misses more there than the best one; the same is
printed for the policy that misses least on the first half, which the adviser would recommend without its margin.
"""

import argparse
import csv
import io
import json
import subprocess
import tempfile
from pathlib import Path


def output(*words: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def halves(binary: str, trace: str, count: int, folder: Path) -> list[Path]:
    keys = output(binary, "trace", "cut", trace, "-", "--requests", f"..{count}", "--to", "txt").splitlines()
    known: dict[str, int] = {}
    ids = [known.setdefault(key, len(known)) for key in keys]
    paths = []
    for name, part in [("seen", ids[: len(ids) // 2]), ("unseen", ids[len(ids) // 2 :])]:
        paths.append(folder / f"{name}.txt")
        paths[-1].write_text("".join(f"{id}\n" for id in part))
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--shares", default="1,10", help="cache sizes in percent of the objects of the first half")
    parser.add_argument("--requests", type=int, default=4_000_000)
    arguments = parser.parse_args()
    regrets: dict[str, list[float]] = {"advised": [], "first": []}
    print("| trace | size | advised | regret | best on the first half | regret |")
    print("|---|---:|---|---:|---|---:|")
    for trace in arguments.traces:
        with tempfile.TemporaryDirectory() as folder:
            seen, unseen = halves(arguments.binary, trace, arguments.requests, Path(folder))
            objects = len(set(seen.read_text().split()))
            for share in arguments.shares.split(","):
                size = int(objects * float(share) / 100)
                if size < 50:
                    continue
                advice = json.loads(output(arguments.binary, "sim", "advise", seen, "--memory", size, "--ignore-size", "--json"))
                found = advice["recommendation"]
                policies = sorted({named["policy"] for named in advice["curves"]})
                table = output(arguments.binary, "sim", unseen, "--policy", ",".join(policies), "--size", size, "--ignore-size", "--csv")
                ratios = {row["policy"]: float(row["miss_ratio"]) for row in csv.DictReader(io.StringIO(table))}
                best = min(ratios.values())
                first = found["fewest_misses"] or found["policy"]
                regret = {"advised": ratios[found["policy"]] / best - 1, "first": ratios[first] / best - 1}
                for name, value in regret.items():
                    regrets[name].append(value)
                name = Path(trace).name.split(".")[0]
                print(f"| {name} | {size:,} | {found['policy']} | {regret['advised']:.2%} | {first} | {regret['first']:.2%} |", flush=True)
    for name, values in regrets.items():
        print(f"{name}: n = {len(values)}, mean regret {sum(values) / len(values):.2%}, worst {max(values):.2%}")


if __name__ == "__main__":
    main()
