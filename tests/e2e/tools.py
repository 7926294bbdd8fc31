"""redis-cli and redis-benchmark, unchanged."""

import subprocess

LIMIT_S = 300


def cli(bench, *words: str, given: bytes = b"") -> str:
    command = ["redis-cli", "-p", str(bench.server.port), *words]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{command}: {done.returncode}\n{text}"
    return text


def fill(bench, count: int = 300) -> None:
    with bench.server.client() as r:
        r.mset({f"key:{i}": "x" * i for i in range(1, count + 1)})


def test_cli_speaks_both_protocols(bench):
    assert cli(bench, "PING") == "PONG\n"
    assert cli(bench, "-3", "SET", "a", "1") == "OK\n" and cli(bench, "-3", "GET", "a") == "1\n"
    assert "proto" in cli(bench, "HELLO") and "version" in cli(bench, "-3", "HELLO", "3")
    assert cli(bench, "-n", "3", "DBSIZE") == "0\n"
    assert cli(bench, "NOSUCH") .startswith("ERR unknown command 'NOSUCH'")
    assert cli(bench, given=b"SET b 2\nINCR b\nGET b\n") == "OK\n3\n3\n"
    assert cli(bench, "-x", "SET", "c", given=b"a\0b\r\nc") == "OK\n"
    assert cli(bench, "STRLEN", "c") == "6\n" and cli(bench, "--csv", "MGET", "a", "b") == '"1","3"\n'


def test_cli_learns_commands_from_the_server(bench):
    for protocol in ("-2", "-3"):
        text = cli(bench, protocol, "COMMAND", "DOCS", "get", "SET")
        assert "summary" in text and text.count("arity") == 0, text
        assert cli(bench, protocol, "COMMAND", "INFO", "get").split()[:2] == ["get", "2"]
    names = cli(bench, "COMMAND", "LIST").split()
    assert int(cli(bench, "COMMAND", "COUNT")) > 50 and {"get", "set", "pexpire"} <= set(names)


def test_cli_info(bench):
    text = cli(bench, "INFO")
    for section in ("# Server", "# Clients", "# Memory", "# Stats", "# Replication", "# CPU", "# Keyspace"):
        assert section in text, section
    assert "redis_version:" in text and "used_memory_human:" in text
    assert "# Commandstats" in cli(bench, "INFO", "all") or "cmdstat_" in cli(bench, "INFO", "commandstats")


def test_cli_scan_and_keys(bench):
    fill(bench)
    assert len(cli(bench, "--scan").split()) == 300
    assert len(cli(bench, "--scan", "--pattern", "key:1?").split()) == 10
    report = cli(bench, "--bigkeys")
    assert "Sampled 300 keys in the keyspace!" in report and "key:300" in report, report
    report = cli(bench, "--memkeys")
    assert "Sampled 300 keys in the keyspace!" in report, report


def test_cli_stat_and_latency(bench):
    fill(bench)
    command = ["redis-cli", "-p", str(bench.server.port), "--stat", "-i", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(5)]
        finally:
            process.terminate()
    assert "keys" in lines[1] and lines[2].split()[0] == "300", lines


def test_cli_pipe_inserts_many_keys(bench):
    count = 20_000
    one = b"*3\r\n$3\r\nSET\r\n$9\r\nkey:%05d\r\n$5\r\n%05d\r\n"
    report = cli(bench, "--pipe", given=b"".join(one % (i, i) for i in range(count)))
    assert f"errors: 0, replies: {count}" in report, report
    assert cli(bench, "DBSIZE") == f"{count}\n" and cli(bench, "GET", "key:00042") == "00042\n"


def test_benchmark_runs_unchanged(bench):
    tests = "ping_inline,ping_mbulk,get,set,incr,mset"
    for pipeline in ("1", "32"):
        command = ["redis-benchmark", "-p", str(bench.server.port), "-t", tests, "-n", "5000", "-c", "20"]
        command += ["-r", "1000", "-P", pipeline, "--csv"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
        text = done.stdout.decode()
        assert done.returncode == 0 and "rror" not in text and "WARN" not in text, text
        rows = [line.split(",")[0].strip('"') for line in text.splitlines()[1:]]
        assert rows == ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"], text
