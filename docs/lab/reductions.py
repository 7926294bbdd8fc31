"""Reductions of FIFO's misses by policy, from the output of `mayfly sim ... --csv`.

Reads CSV from standard input, also of several runs one after the other. A cell is a trace at a size; cells of fewer than 100 objects and
cells without FIFO are left out. A reduction is 1 - misses / FIFO's misses. `bytes` is the mean
reduction of FIFO's missed bytes, if cache sizes are in bytes; `ns` the mean CPU time per request, over
the cells; `B` the mean of the metadata's bytes per entry at 10 %. The last columns compare
each policy with the one given as argument, over the cells: the mean difference, and the
probability that the signs of the differences are random (two-sided sign test).
"""

import csv
import math
import statistics
import sys

OBJECTS_MIN = 100
# Reductions that differ by less count as equal.
EQUAL = 0.0005


def quantile(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def sign_test(better, worse):
    count = better + worse
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**count)


def main():
    reference = sys.argv[1]
    cells = {}
    for row in csv.DictReader(sys.stdin):
        if row["trace"] == "trace":  # The header of a further output.
            continue
        if row["unit"] == "objects" and int(row["cache_size"]) < OBJECTS_MIN:
            continue
        cell = cells.setdefault((row["trace"], row["size"]), {})
        cell[row["policy"]] = row
    cells = {name: cell for name, cell in cells.items() if "fifo" in cell}
    policies = {policy for cell in cells.values() for policy in cell if policy != "fifo"}

    def reductions(policy, column):
        ratio = {name: (float(cell[policy][column]), float(cell["fifo"][column])) for name, cell in cells.items()}
        return {name: 1 - own / fifo for name, (own, fifo) in ratio.items()}

    saved = {policy: reductions(policy, "misses") for policy in policies}
    is_bytes = all(cell["fifo"]["unit"] == "bytes" for cell in cells.values())
    mean = {policy: sum(values.values()) / len(values) for policy, values in saved.items()}
    print("| policy | n | mean | 0.1 % | 1 % | 10 % | P10 | P90 | worst | bytes | ns | B | against it | better : worse | p |")
    print("|---|" + "---:|" * 14)
    for policy in sorted(policies, key=mean.get, reverse=True):
        values = saved[policy]
        sizes = []
        for size in ["0.1%", "1%", "10%"]:
            part = [value for (_, own), value in values.items() if own == size]
            sizes.append(f"{100 * sum(part) / len(part):.1f}" if part else "")
        differences = [values[name] - saved[reference][name] for name in cells]
        better = sum(difference > EQUAL for difference in differences)
        worse = sum(difference < -EQUAL for difference in differences)
        numbers = list(values.values())
        own = {name: cell[policy] for name, cell in cells.items()}
        missed_bytes = reductions(policy, "byte_miss_ratio").values() if is_bytes else []
        times = [float(row["cpu_seconds"]) / int(row["requests"]) * 1e9 for row in own.values()]
        large = [row for (_, size), row in own.items() if size == "10%" and not is_bytes]
        metadata = [int(row["metadata_bytes"]) / int(row["cache_size"]) for row in large]
        row = [
            f"`{policy}`",
            str(len(numbers)),
            f"{100 * mean[policy]:.2f}",
            *sizes,
            f"{100 * quantile(numbers, 0.1):.1f}",
            f"{100 * quantile(numbers, 0.9):.1f}",
            f"{100 * min(numbers):.1f}",
            f"{100 * statistics.mean(missed_bytes):.1f}" if missed_bytes else "",
            f"{statistics.mean(times):.0f}",
            f"{statistics.mean(metadata):.1f}" if metadata else "",
            f"{100 * sum(differences) / len(differences):+.2f}",
            f"{better} : {worse}",
            f"{sign_test(better, worse):.3f}",
        ]
        print("| " + " | ".join(row) + " |")


main()
