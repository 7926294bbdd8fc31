"""Runs the functional test suites of redis-py and ioredis against servers, and prints the number of tests by outcome.

    .venv/bin/python tests/programs/suites.py --redis-py FOLDER --ioredis FOLDER target/release/mayfly valkey-server redis-server

The folders are the sources of redis-py 8.1.0 (its source distribution has the tests) and of ioredis 6.0.0 after `npm ci`. redis-py's
suite runs in a virtual environment below target/programs. Each suite runs in a network namespace of its own, because both require
port 6379; this needs the rights of root or user namespaces. Reports with each test stay in target/programs/suites.

Tests that require servers with TLS, sentinels, a cluster or modules are left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

INSTALLED = Path(__file__).resolve().parent.parent.parent / "target" / "programs"
REPORTS = INSTALLED / "suites"
LIMIT_S = 3600
REQUIREMENTS = [
    *("pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0", "pytest-cov==7.1.0", "mock==5.2.0", "numpy==2.4.6"),
    *("ujson==6.1.0", "pybreaker==1.4.1", "aiohttp==3.14.5", "xxhash==4.1.0", "cryptography==50.0.2", "redis-entraid==1.2.2"),
    *("opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2"),
]
LEFT_OUT = ["test_scenario", "test_ssl.py", "test_sentinel.py"]
MARKERS = "not onlycluster and not fixed_client and not multidb_integration and not redismod"


def beside(server: str, suite: list[str], folder: Path, log: Path, environment: dict[str, str]) -> None:
    """Runs a suite in `folder` beside a server, both in a new network namespace."""
    options = ["serve"] if Path(server).name == "mayfly" else ["--save", ""]
    command = [str(Path(server).resolve()) if "/" in server else server, *options, "--bind", "127.0.0.1", "--port", "6379"]
    # The arguments: the server's folder, the suite's folder, the number of words of the server's command, both commands.
    script = """
        ip link set lo up
        server_folder=$1 suite_folder=$2 words=$3; shift 3
        (cd "$server_folder" && exec "${@:1:$words}") & server=$!
        trap 'kill $server' EXIT
        for _ in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/6379) 2>/dev/null && break; sleep 0.1; done
        cd "$suite_folder" && "${@:$((words + 1))}"
    """
    with tempfile.TemporaryDirectory() as server_folder, log.open("wb") as output:
        subprocess.run(
            ["unshare", "--map-root-user", "--net", "bash", "-c", script, "suite", server_folder, folder, str(len(command)), *command, *suite],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            timeout=LIMIT_S,
            check=False,
        )


def redis_py(folder: Path, server: str, label: str) -> Counter:
    environment = INSTALLED / "suite-redis-py"
    if not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", "--editable", folder, *REQUIREMENTS], check=True)
    report = REPORTS / f"redis-py-{label}.xml"
    ignored = [f"--ignore={path / name}" for path in (Path("tests"), Path("tests/test_asyncio")) for name in LEFT_OUT]
    # A busy machine needs more than the 30 seconds that the suite grants each test.
    options = ["-q", "-p", "no:cacheprovider", "--timeout=300", "-m", MARKERS, *ignored, f"--junit-xml={report}"]
    beside(server, [str(environment / "bin" / "python"), "-m", "pytest", "tests", *options], folder, report.with_suffix(".log"), {})
    outcomes = Counter()
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in test}
        outcomes["failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"] += 1
    return outcomes


def ioredis(folder: Path, server: str, label: str) -> Counter:
    report = REPORTS / f"ioredis-{label}.json"
    options = ["--exit", "--reporter", "json", "--reporter-option", f"output={report}"]
    environment = {"TS_NODE_TRANSPILE_ONLY": "true", "NODE_ENV": "test"}
    suite = ["npx", "mocha", *options, "test/helpers/*.ts", "test/functional/**/*.ts"]
    beside(server, suite, folder, report.with_suffix(".log"), environment)
    stats = json.loads(report.read_text())["stats"]
    return Counter(passed=stats["passes"], failed=stats["failures"], skipped=stats["pending"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis-py", type=Path, help="sources of redis-py")
    parser.add_argument("--ioredis", type=Path, help="sources of ioredis")
    parser.add_argument("server", nargs="+", help="mayfly, or a path of valkey-server or redis-server")
    chosen = parser.parse_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    for number, server in enumerate(chosen.server):
        label = f"{number}-{Path(server).name}"
        for run, folder in ((redis_py, chosen.redis_py), (ioredis, chosen.ioredis)):
            if folder:
                outcomes = run(folder.resolve(), server, label)
                counts = ", ".join(f"{outcomes[kind]} {kind}" for kind in ("passed", "failed", "skipped"))
                print(f"{run.__name__} on {server}: {counts}", flush=True)


if __name__ == "__main__":
    main()
