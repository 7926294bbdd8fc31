#!/usr/bin/env python3
"""Counts the instructions that servers execute in user mode per request.

    tests/measure/instructions.py target/release/mayfly PATH/redis-server PATH/valkey-server [--pipeline 32] [--tests get,set]

    tests/measure/instructions.py target/release/mayfly --tests get --rules '~key:* +@read +@write'
    tests/measure/instructions.py target/release/mayfly --tests get,set --options '--engine segment --segment-file segments'

Each server runs under `valgrind --tool=callgrind` with one data thread and serves one connection. A count is the difference of two runs with
different numbers of requests, so that the start does not matter. Unlike processor time it hardly depends on what else the machine does; it does
not include the kernel, and not all instructions take the same time.
"""

import argparse
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

KEYS = 1000
# Numbers of requests of the two runs.
FEW, MANY = 3_200, 16_000
START_LIMIT_S = 120.0
# Number of users with the rules of --rules.
USERS = 10

GET = "return redis.call('get', KEYS[1])"
RATE_LIMITER = """local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
if count > tonumber(ARGV[2]) then return 0 end
return 1"""


def encoded(*words) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def key(number: int) -> str:
    """One of the keys, in an order in which neighbours are far apart."""
    return f"key:{number * 7919 % KEYS:012}"


def queue(number: int) -> bytes:
    """XREADGROUP of one entry and XACK of it in turns."""
    if number % 2 == 0:
        return encoded("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "queue", ">")
    return encoded("XACK", "queue", "g", f"{number // 2 + 1}-1")


TESTS = {
    "get": lambda number: encoded("GET", key(number)),
    "set": lambda number: encoded("SET", key(number), "xxx"),
    "eval-get": lambda number: encoded("EVAL", GET, 1, key(number)),
    "eval-rate-limiter": lambda number: encoded("EVAL", RATE_LIMITER, 1, "limit:" + key(number), 60_000, 1 << 30),
    "xadd": lambda number: encoded("XADD", f"stream:{number % 100}", "MAXLEN", "~", 1000, "*", "field", "value-of-an-entry"),
    "xreadgroup-or-xack": queue,
}


class Client:
    def __init__(self, port: int):
        limit = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                # Nothing notifies of a port that is open, so it is tried again.
                assert time.monotonic() < limit, "the server does not listen"
                time.sleep(0.1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb")

    def reply(self) -> None:
        line = self.replies.readline()
        assert line and line[:1] != b"-", line
        if line[:1] == b"$" and line[1:2] != b"-":
            self.replies.read(int(line[1:]) + 2)
        elif line[:1] == b"*":
            for _ in range(max(int(line[1:]), 0)):
                self.reply()

    def wait_until_loaded(self) -> None:
        while True:
            self.socket.sendall(encoded("GET", key(0)))
            line = self.replies.readline()
            if not line.startswith(b"-LOADING"):
                return
            time.sleep(0.1)

    def run(self, requests: list[bytes], pipeline: int) -> None:
        for first in range(0, len(requests), pipeline):
            batch = requests[first : first + pipeline]
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.reply()


def instructions(program: str, test: str, pipeline: int, count: int, rules: str, further: list[str]) -> int:
    """Runs a server for one number of requests and returns its instructions."""
    with socket.socket() as probe, tempfile.TemporaryDirectory(prefix="mayfly-count-") as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        own = ["serve", "--threads", "1", *further] if "mayfly" in Path(program).name else ["--save", "", "--appendonly", "no"]
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(Path(program).resolve()), *own]
        with (Path(folder) / "log").open("w+") as log:
            server = subprocess.Popen([*command, "--bind", "127.0.0.1", "--port", str(port)], cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
            try:
                client = Client(port)
                client.wait_until_loaded()
                client.run([encoded("SET", key(number), "xxx") for number in range(KEYS)], 100)
                if test == "xreadgroup-or-xack":
                    client.run([encoded("XGROUP", "CREATE", "queue", "g", 0, "MKSTREAM")], 1)
                    entries = range(1, MANY // 2 + 1)
                    client.run([encoded("XADD", "queue", f"{number}-1", "field", "value-of-an-entry") for number in entries], 100)
                if rules:
                    client.run([encoded("ACL", "SETUSER", f"user:{number}", "on", "nopass", *rules.split()) for number in range(USERS)], 1)
                    client.run([encoded("AUTH", "user:7", "any")], 1)
                client.run([TESTS[test](number) for number in range(count)], pipeline)
            finally:
                server.terminate()
                server.wait()
            log.seek(0)
            return int(re.search(r"Collected : (\d+)", log.read()).group(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", help="servers: mayfly, redis-server, valkey-server")
    parser.add_argument("--tests", default=",".join(TESTS), help=f"of {', '.join(TESTS)} (all by default)")
    parser.add_argument("--pipeline", default=32, type=int, help="requests in flight (32 by default)")
    parser.add_argument("--rules", default="", help="create ten users with these rules, and act as one of them instead of the default user")
    parser.add_argument("--options", default="", help="further arguments for mayfly, which runs in an empty folder")
    options = parser.parse_args()
    for test in options.tests.split(","):
        for program in options.programs:
            few, many = (instructions(program, test, options.pipeline, count, options.rules, options.options.split()) for count in (FEW, MANY))
            print(f"{test:20} {program:60} {(many - few) / (MANY - FEW):9.0f}", flush=True)


if __name__ == "__main__":
    main()
