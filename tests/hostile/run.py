"""Checks that nothing a client sends can kill, fill, stall or fool the server.

    .venv/bin/python tests/hostile/run.py --server target/release/mayfly
    .venv/bin/python tests/hostile/run.py --threads 2 --only memory
    .venv/bin/python tests/hostile/run.py --full             the sizes of a million elements, and the bounds in milliseconds
    .venv/bin/python tests/hostile/run.py --list
    .venv/bin/python tests/hostile/run.py --server /usr/bin/redis-server    checks the checks: those of Redis's replies must pass

Each server runs under a limit on its address space. Bounds on memory are asserted. Latencies are printed beside the bounds
that hold on an idle machine; without --full they are asserted only against bounds that distinguish a stall from a busy machine.
"""

import argparse
import sys
import time
import traceback

import answers
import fairness
import harness
import memcached
import memory
import scripts

MODULES = (memory, fairness, answers, memcached, scripts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/mayfly", help="path of the server")
    parser.add_argument("--threads", type=int, default=1, help="number of data threads [default: 1]")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="run checks whose name contains this; may be repeated")
    parser.add_argument("--full", action="store_true", help="large sizes and the bounds of an idle machine")
    parser.add_argument("--list", action="store_true", help="print names and texts of the checks")
    parser.add_argument("--trace", action="store_true", help="print where a check failed")
    chosen = parser.parse_args()
    harness.raise_file_limit()
    if chosen.full and not harness.lower_priority():
        print("latencies include waits for the cores that this driver uses: it must run as root with CAP_SYS_NICE to lower its priority")
    bench = harness.Bench(chosen.server, chosen.threads, chosen.full)
    checks = [
        one for one in harness.CHECKS
        if one.threads_min <= chosen.threads
        and (one.is_for_peers or not bench.is_peer)
        and (not chosen.only or any(part in one.name for part in chosen.only))
    ]
    if chosen.list:
        for one in checks:
            print(f"{one.name:52} {one.text}")
        return 0
    failed = []
    for one in checks:
        bench.engine, bench.name = one.engine, one.name
        started = time.monotonic()
        try:
            one.run(bench)
            print(f"ok   {one.name} {time.monotonic() - started:.2f} s", flush=True)
        except Exception as error:  # one failed check must not hide the others
            failed.append(one.name)
            text = traceback.format_exc() if chosen.trace else f"{type(error).__name__}: {error}"
            print(f"FAIL {one.name} {time.monotonic() - started:.2f} s\n     {text}", flush=True)
    bench.finish()
    if bench.figures:
        print("\n| check | measure | measured | bound on an idle machine |\n|---|---|---:|---:|")
        for figure in bench.figures:
            print(f"| `{figure.check}` | {figure.what} | {figure.measured} | {figure.bound} |")
        print()
    if failed:
        print("failed: " + " ".join(failed))
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
