"""Runs programs that people use with Redis, unchanged and at pinned versions, against a server.

    .venv/bin/python tests/programs/run.py --server target/release/mayfly
    .venv/bin/python tests/programs/run.py --runtimes python,node celery bull     these only
    .venv/bin/python tests/programs/run.py --server redis-server                  checks the checks: Redis must pass
                                                                                  (the cache of Jedis requires Redis 7.4)

A check is a file `check_…` in the folder of its runtime, or for Go and Java a program of that folder. It runs as a process of its
own beside a server of its own, whose port is in the environment as PORT, and fails if it exits with anything but 0. What it
requires is installed below target/programs, from the lock file of its folder. A runtime that this machine lacks counts as one that is skipped.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from server import PEERS, Server  # noqa: E402  The folder of the end-to-end checks is added first.

INSTALLED = HERE.parent.parent / "target" / "programs"
# Separates a program that hangs from a slow machine.
LIMIT_S = 240
INSTALL_LIMIT_S = 1200
OUTPUT_BYTES_MAX = 6_000
# Options of Mayfly for single checks, which other servers lack. They skip these checks.
SERVER_OPTIONS = {"node.cluster_clients": ("--cluster-enabled", "emulated")}


@dataclass
class Check:
    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def install(runtime: str, locks: list[str], command: list[str], **options) -> None:
    """Runs `command` unless it has succeeded for these lock files before."""
    text = b"".join((HERE / runtime / lock).read_bytes() for lock in locks)
    stamp = INSTALLED / runtime / "installed"
    if stamp.exists() and stamp.read_bytes() == text:
        return
    print(f"     installing the programs for {runtime}", flush=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=INSTALL_LIMIT_S, **options)
    stamp.write_bytes(text)


def python() -> list[Check]:
    folder = INSTALLED / "python"
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    requirements = HERE / "python" / "requirements.txt"
    install("python", [requirements.name], [interpreter, "-m", "pip", "install", "--quiet", "--requirement", requirements])
    return [Check(name(path), [str(interpreter), str(path)]) for path in sorted((HERE / "python").glob("check_*.py"))]


def node() -> list[Check]:
    folder = INSTALLED / "node"
    folder.mkdir(parents=True, exist_ok=True)
    locks = ["package.json", "package-lock.json"]
    for lock in locks:
        shutil.copy(HERE / "node" / lock, folder)
    # Not `npm ci`, which refuses a lock file without the binaries that optional dependencies have for other machines.
    install("node", locks, ["npm", "install", "--silent", "--ignore-scripts"], cwd=folder)
    environment = {"NODE_PATH": str(folder / "node_modules")}
    return [Check(name(path), ["node", str(path)], environment) for path in sorted((HERE / "node").glob("check_*.cjs"))]


def go() -> list[Check]:
    programs = sorted((HERE / "go").glob("check_*"))
    folder = INSTALLED / "go"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-o", f"{folder}/", *(f"./{path.name}" for path in programs)],
        check=True,
        cwd=HERE / "go",
        stdin=subprocess.DEVNULL,
        timeout=INSTALL_LIMIT_S,
    )
    return [Check(name(path), [str(folder / path.name)]) for path in programs]


def java() -> list[Check]:
    sources = HERE / "java" / "src" / "main" / "java"
    locks = ["pom.xml", *(str(path.relative_to(HERE / "java")) for path in sorted(sources.glob("*.java")))]
    goals = ["compile", "dependency:copy-dependencies"]
    install("java", locks, ["mvn", "--batch-mode", "--quiet", *goals], cwd=HERE / "java")
    path = f"{INSTALLED}/java/classes:{INSTALLED}/java/dependency/*"
    return [Check(f"java.{each.stem.removeprefix('Check')}", ["java", "-cp", path, each.stem]) for each in sorted(sources.glob("Check*.java"))]


def ruby() -> list[Check]:
    return [Check(name(path), ["ruby", str(path)]) for path in sorted((HERE / "ruby").glob("check_*.rb"))]


def php() -> list[Check]:
    return [Check(name(path), ["php", str(path)]) for path in sorted((HERE / "php").glob("check_*.php"))]


# Each runtime with a command that succeeds where it is installed.
RUNTIMES = {
    "python": (python, ["python3", "--version"]),
    "node": (node, ["npm", "--version"]),
    "go": (go, ["go", "version"]),
    "java": (java, ["mvn", "--version"]),
    "ruby": (ruby, ["sidekiq", "--version"]),
    "php": (php, ["php", "--ri", "redis"]),
}


def is_installed(probe: list[str]) -> bool:
    found = shutil.which(probe[0])
    return found is not None and subprocess.run(probe, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def name(path: Path) -> str:
    return f"{path.parent.name}.{path.stem.removeprefix('check_')}"


def run(check: Check, server_options: tuple[str, ...]) -> tuple[str | None, float]:
    """Runs a check. Returns why it failed, or None, and the seconds that it took."""
    started = time.monotonic()
    with Server(*server_options, *SERVER_OPTIONS.get(check.name, ())) as server, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            check.command,
            env={**os.environ, "PORT": str(server.port), **check.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(LIMIT_S)
            failure = f"exit code {code}" if code else None
        except subprocess.TimeoutExpired:
            failure = f"stopped after {LIMIT_S} s"
        # Workers that the check has left behind are in its process group.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if server.process.poll() is not None:
            failure = f"the server stopped with exit code {server.process.returncode}:\n{server.log_text()}"
        if failure:
            output.seek(0)
            text = output.read().decode(errors="replace")
            failure = f"{text[-OUTPUT_BYTES_MAX:]}\n     {failure}"
    return failure, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/mayfly", help="path of mayfly, or a name or path of redis-server or valkey-server")
    parser.add_argument("--threads", help="worker threads of mayfly [default: its own]")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help="runtimes, separated by commas")
    parser.add_argument("--jobs", type=int, default=3, help="number of checks that run at the same time")
    parser.add_argument("pattern", nargs="*", help="run checks whose name contains one of these")
    chosen = parser.parse_args()
    server_options = (chosen.server, *(("--threads", chosen.threads) if chosen.threads else ()))
    checks, skipped = [], []
    for runtime in chosen.runtimes.split(","):
        prepare, probe = RUNTIMES[runtime]
        if is_installed(probe):
            checks += prepare()
        else:
            skipped.append(runtime)
    if chosen.pattern:
        checks = [check for check in checks if any(pattern in check.name for pattern in chosen.pattern)]
    if Path(chosen.server).name in PEERS:
        skipped += [check.name for check in checks if check.name in SERVER_OPTIONS]
        checks = [check for check in checks if check.name not in SERVER_OPTIONS]
    failed = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for check, (failure, seconds) in zip(checks, pool.map(lambda check: run(check, server_options), checks), strict=True):
            failed += failure is not None
            print(f"{'FAIL' if failure else 'ok  '} {check.name} ({seconds:.1f} s)", flush=True)
            if failure:
                print(failure, flush=True)
    for runtime in skipped:
        reason = "which needs options of Mayfly" if runtime in SERVER_OPTIONS else "which is not installed"
        print(f"skipped: {runtime}, {reason}")
    print(f"{len(checks) - failed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
