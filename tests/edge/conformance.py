"""Runs the public conformance suite for HTTP caches (https://github.com/http-tests/cache-tests) against
`mayfly edge serve`, and compares the counts with those that are expected.

    python3 tests/edge/conformance.py --mayfly target/release/mayfly
    python3 tests/edge/conformance.py --mayfly target/release/mayfly --suite FOLDER   a copy that is there

The suite is installed by npm from its repository at a fixed commit, into target/cache-tests. Where it
cannot be fetched, the run is skipped.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COMMIT = "b55b8bda3dbb8c927c04e85bd8d496a8caa3e4ba"
SOURCE = f"github:http-tests/cache-tests#{COMMIT}"
# Tests of each kind that pass at least.
EXPECTED = {"required": 159, "optimal": 93}

COUNT = """
import fs from 'fs'
const folder = process.argv[1]
const { determineTestResult } = await import(folder + '/test-engine/lib/results.mjs')
const tests = (await import(folder + '/tests/index.mjs')).default
const results = JSON.parse(fs.readFileSync(process.argv[2]))
const rows = []
for (const suite of tests) {
  for (const test of suite.tests) {
    if (test.browser_only) continue
    const symbol = determineTestResult(tests, test.id, results)[2]
    rows.push([test.kind || 'required', test.id, symbol, String(results[test.id])])
  }
}
console.log(JSON.stringify(rows))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Polls until a process listens, because nothing announces it."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


def install() -> Path | None:
    folder = ROOT / "target" / "cache-tests"
    suite = folder / "node_modules" / "http-cache-tests"
    stamp = folder / "commit"
    if stamp.exists() and stamp.read_text() == COMMIT:
        return suite
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", SOURCE], cwd=folder, check=False)
    if done.returncode != 0 or not suite.exists():
        return None
    stamp.write_text(COMMIT)
    return suite


def run(suite: Path, mayfly: Path) -> list[list[str]]:
    origin_port, port = free_port(), free_port()
    results = ROOT / "target" / "cache-tests-results.json"
    environment = dict(os.environ, npm_config_protocol="http", npm_config_port=str(origin_port), npm_config_pidfile=os.devnull, npm_config_base=f"http://127.0.0.1:{port}", npm_package_config_id="")
    quiet = {"stdout": subprocess.DEVNULL}
    origin = subprocess.Popen(["node", "test-engine/server/server.mjs"], cwd=suite, env=environment, **quiet)
    node = subprocess.Popen([mayfly, "edge", "serve", "--listen", f"127.0.0.1:{port}", "--origin", f"http://127.0.0.1:{origin_port}", "--loglevel", "warning"])
    try:
        wait_for(origin_port, origin)
        wait_for(port, node)
        with results.open("w") as output:
            subprocess.run(["node", "--no-warnings", "test-engine/cli.mjs"], cwd=suite, env=environment, stdout=output, check=True, timeout=600)
    finally:
        for process in (node, origin):
            process.terminate()
            process.wait()
    counted = subprocess.run(["node", "--input-type=module", "-e", COUNT, str(suite), str(results)], capture_output=True, text=True, check=True)
    return json.loads(counted.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", type=Path, required=True)
    parser.add_argument("--suite", type=Path)
    arguments = parser.parse_args()
    suite = arguments.suite or install()
    if suite is None:
        print("skipped: npm cannot install the suite")
        print("0 passed, 0 failed, 1 skipped")
        return
    rows = run(suite.resolve(), arguments.mayfly.resolve())
    passes = missing = 0
    for kind, least in EXPECTED.items():
        of_kind = [row for row in rows if row[0] == kind]
        passed = [row for row in of_kind if row[2] == "✅"]
        print(f"{kind}: {len(passed)} of {len(of_kind)} pass, at least {least} are expected")
        for _, name, symbol, result in of_kind:
            if symbol != "✅":
                print(f"  {symbol} {name}: {result}")
        passes += len(passed)
        missing += max(0, least - len(passed))
    yes = sum(1 for row in rows if row[0] == "check" and row[2] == "Y")
    print(f"check: {yes} of {sum(1 for row in rows if row[0] == 'check')} are answered with yes")
    print(f"{passes} passed, {missing} failed")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
