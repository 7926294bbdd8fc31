"""Metrics and health checks by HTTP: formats, limits, Prometheus itself, and the files in contrib."""

import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from durable import linked
from server import END_LIMIT_S, LIMIT_S, Server, free_port, run_to_end, within_limit

pytestmark = pytest.mark.only_mayfly

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
# Words of PromQL that a name of a metric may not be confused with.
METRIC = re.compile(r"\bmayfly[_:][a-zA-Z0-9_:]+")


class Http:
    """A server with an HTTP port."""

    def __init__(self, bench, *options: str):
        self.port = free_port()
        self.server = bench.start("--http", f"127.0.0.1:{self.port}", *options)

    def __enter__(self) -> "Http":
        return self

    def __exit__(self, *_) -> None:
        self.server.__exit__()

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text, {name.lower(): value for name, value in reply.getheaders()}

    def metrics(self) -> dict[str, float]:
        """The series of a page with their values, once a new census is due."""
        time.sleep(0.11)  # a census is reused for 100 ms
        status, text, _ = self.get("/metrics")
        assert status == 200, text
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {series: float(value) for series, value in lines}

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)


def read_all(connection: socket.socket) -> bytes:
    got = b""
    while part := connection.recv(1 << 16):
        got += part
    return got


def test_metrics_count_what_happens(bench):
    with Http(bench) as served, served.server.client() as r:
        for index in range(4000):
            r.set(f"k:{index}", "x" * 100, px=1 if index < 3700 else 60_000)
        for index in range(200):
            r.hset(f"h:{index}", mapping={f"f{field}": "v" for field in range(20)})
        r.get("k:3800")
        r.get("absent")
        for _ in within_limit():
            if r.info("stats")["expired_keys"] == 3700:
                break
            time.sleep(0.01)
        found = served.metrics()
        assert found["mayfly_expired_keys_total"] == 3700
        assert found['mayfly_db_keys{db="db0"}'] == 500
        assert found["mayfly_keyspace_hits_total"] == 1
        assert found['mayfly_commands_total{cmd="set"}'] == 4000
        assert found['mayfly_command_duration_seconds_count{family="string"}'] == 4002
        assert found["mayfly_key_ttl_at_write_seconds_count"] == 4000
        assert found['mayfly_key_ttl_at_write_seconds_bucket{le="0.001"}'] >= 0
        assert found['mayfly_key_ttl_at_write_seconds_bucket{le="65.536"}'] == 4000
        assert found["mayfly_expiry_lag_seconds_count"] + found["mayfly_keyspace_expiration_misses_total"] >= 3699
        # One key in 64 may be followed.
        assert found["mayfly_key_age_at_expiry_seconds_count"] >= 1
        # The histogram is estimated from a sample of each shard, hence the number of hashes.
        assert found['mayfly_collection_elements_bucket{type="hash",le="255.0"}'] >= 1
        assert found["mayfly_connected_clients"] == 1 and found["mayfly_ready"] == 1
        before = found["mayfly_net_input_bytes_total"]
        r.ping()
        assert served.metrics()["mayfly_net_input_bytes_total"] > before


@pytest.mark.needs("promtool")
def test_metrics_in_both_formats_pass_promtool(bench):
    for options in ([], ["--engine", "segment", "--maxmemory", "64mb"]):
        with Http(bench, *options) as served, served.server.client() as r:
            r.set("k", "v", ex=100)
            status, text, headers = served.get("/metrics", Accept="text/plain")
            assert status == 200 and headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=LIMIT_S, check=False)
            assert done.returncode == 0, done
            status, text, headers = served.get("/metrics", Accept=OPEN_METRICS)
            assert headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
            assert text.endswith("\n# EOF\n") and "# UNIT mayfly_memory_used_bytes bytes\n" in text
            assert "# TYPE mayfly_evicted_keys counter\n" in text and "\nmayfly_evicted_keys_total 0\n" in text


def test_health_and_readiness(bench):
    with Http(bench) as served, served.server.client() as r:
        assert served.get("/health")[:2] == (200, "healthy\n")
        assert served.get("/ready")[:2] == (200, "ready\n")
        assert served.get("/ready?x=1", method="HEAD")[:2] == (200, "")
        # A script blocks the worker. Health checks still answer, and metrics are those of the last census.
        served.get("/metrics")
        r.config_set("script-time-limit", 20_000)
        with served.server.raw() as busy:
            script = b"while true do end"
            busy.sendall(b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(script), script))
            for _ in within_limit():
                status, text, _ = served.get("/metrics")
                age = float(re.search(r"^mayfly_census_age_seconds (\S+)$", text, re.M)[1])
                assert status == 200
                if age > 1:
                    break
            assert served.get("/ready")[0] == 200
        served.server.process.kill()


def test_a_loading_or_stopping_server_is_not_ready(bench):
    folder = tempfile.mkdtemp(prefix="mayfly-e2e-")
    with bench.start("--dir", folder) as first, first.client() as r:
        with r.pipeline(transaction=False) as pipe:
            for index in range(200_000):
                pipe.set(f"k:{index}", "v" * 20)
            pipe.execute()
        r.save()
    with Http(bench, "--dir", folder, "--save", "3600 1000000") as served:
        seen = set()
        for _ in within_limit():
            status, text, _ = served.get("/ready")
            seen.add((status, text))
            if status == 200:
                break
        assert seen <= {(200, "ready\n"), (503, "the server is loading the snapshot file\n")}, seen
        # A stop awaits its snapshot.
        served.server.signal(signal.SIGTERM)
        stopping = False
        while served.server.process.poll() is None:
            try:
                stopping |= served.get("/ready")[:2] == (503, "the server is stopping\n")
            except (OSError, http.client.HTTPException):
                break
        assert stopping
        assert served.server.wait() == 0
    shutil.rmtree(folder)


def test_requests_that_are_not_served(bench):
    with Http(bench) as served:
        assert served.get("/")[0] == 404
        assert served.get("/metrics/../../etc/passwd")[0] == 404
        status, _, headers = served.get("/metrics", method="POST")
        assert status == 405 and headers["allow"] == "GET, HEAD"
        for bytes_, status in [
            (b"PING\r\n", b"400"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"400"),
            (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n\r\n", b"431"),
            (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100 + b"\r\n", b"431"),
            (b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000, b"431"),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"z" * 100_000, b"413"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505"),
        ]:
            with served.raw() as connection:
                connection.sendall(bytes_)
                got = read_all(connection)
                assert got.startswith(b"HTTP/1.1 " + status), (bytes_[:40], got[:200])
        # Requests that were sent together are answered in order on one connection.
        with served.raw() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\n" * 3 + b"GET /ready HTTP/1.1\r\nConnection: close\r\n\r\n")
            got = read_all(connection)
            assert got.count(b"healthy\n") == 3 and got.endswith(b"ready\n"), got
        # One byte at a time.
        with served.raw() as connection:
            for byte in b"GET /health HTTP/1.0\r\n\r\n":
                connection.sendall(bytes([byte]))
            assert read_all(connection).endswith(b"healthy\n")


def test_slow_and_many_http_clients_do_not_hold_others_up(bench):
    with Http(bench) as served, served.server.client() as r:
        before = served.server.resident_bytes()
        slow = [served.raw() for _ in range(32)]
        for connection in slow:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        # No place is left: the oldest incomplete request gives way to a new connection.
        assert served.get("/health")[0] == 200
        assert r.ping()
        # So does one that begins behind a complete request.
        behind = [served.raw() for _ in range(32)]
        for connection in behind:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\nG")
        assert served.get("/health")[0] == 200
        # A client that sends requests without a pause does not keep others from their replies.
        with served.raw() as flood:
            flood.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    flood.send(b"GET /health HTTP/1.1\r\n\r\n" * 1000)
            assert served.get("/health")[0] == 200
        # Idle connections give way to new ones.
        idle = [served.raw() for _ in range(100)]
        assert served.get("/health")[0] == 200
        for connection in slow + behind + idle:
            connection.close()
        # Many requests with unread replies: memory is bounded.
        unread = [served.raw() for _ in range(32)]
        for connection in unread:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 200)
        assert r.ping()
        assert served.server.resident_bytes() < before + (24 << 20)
        for connection in unread:
            connection.close()


def test_wrong_addresses_for_http_are_refused(bench):
    for address in ["127.0.0.1:", "127.0.0.1:99999", "host:80", "::1:80", ":9379"]:
        code, text = run_to_end(bench.binary, "--port", "0", "--http", address)
        assert code != 0 and "argument must be an address and a port" in text, (address, text)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run_to_end(bench.binary, "--port", str(free_port()), "--http", f"127.0.0.1:{port}")
        assert code != 0 and f"cannot listen on 127.0.0.1:{port} for HTTP" in text, text


def exported(bench) -> set[str]:
    """Names of all series that either engine, a node of a cluster and a primary export, after some use."""
    names = set()
    with Http(bench, "--cluster-enabled", "yes", "--cluster-etcd-endpoints", "http://127.0.0.1:1") as served:
        names |= {series.split("{")[0] for series in served.metrics()}
    with Http(bench) as served, bench.start("--replicaof", f"127.0.0.1 {served.server.port}") as replica, replica.client() as r:
        linked(r)
        names |= {series.split("{")[0] for series in served.metrics()}
    for options in (["--memcached", str(free_port())], ["--engine", "segment", "--maxmemory", "64mb"]):
        with Http(bench, *options) as served, served.server.client() as r:
            r.set("k", "v", ex=100)
            r.get("k")
            if not options[0].startswith("--engine"):
                r.rpush("list", 1)
            try:
                r.execute_command("NOSUCH")
            except Exception:  # noqa: BLE001
                pass
            names |= {series.split("{")[0] for series in served.metrics()}
    return names


def test_dashboard_and_rules_use_exported_names(bench):
    names = exported(bench)
    rules = (CONTRIB / "prometheus/mayfly.rules.yml").read_text()
    recorded = set(re.findall(r"record: (\S+)", rules))
    dashboard = json.loads((CONTRIB / "grafana/mayfly.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = [one["definition"] for one in dashboard["templating"]["list"] if "definition" in one]
    assert len(targets) > 50
    expressions = re.findall(r"expr: (?:>\n)?((?:.|\n          )+)", rules)
    for text in [*targets, *variables, *expressions]:
        for name in METRIC.findall(text):
            assert name in names | recorded, f"{name} is not exported: {text}"
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("command", (["check", "rules", "mayfly.rules.yml"], ["check", "config", "prometheus.yml"]), ids=("rules", "config"))
def test_rules_and_config_pass_promtool(command):
    done = subprocess.run(["promtool", *command], cwd=CONTRIB / "prometheus", capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done


@pytest.mark.needs("promtool")
def test_each_rule_has_series_for_which_it_holds_and_does_not():
    # The alert of a nearly full memory fired on every server without a limit.
    tests = Path(__file__).with_name("rules.test.yml")
    cases = tests.read_text()
    for name in re.findall(r"(?:record|alert): (\S+)", (CONTRIB / "prometheus/mayfly.rules.yml").read_text()):
        if name.startswith("Mayfly"):
            looks = re.findall(rf"alertname: {name}\n +eval_time: \w+\n( +exp_alerts:)?", cases)
            assert "" in looks and len(set(looks)) == 2, name
        else:
            assert re.search(rf"expr: .*{name}", cases), name
    done = subprocess.run(["promtool", "test", "rules", tests.name], cwd=tests.parent, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done


@pytest.mark.needs("prometheus")
def test_prometheus_scrapes_the_server(bench):
    with Http(bench) as served, served.server.client() as r, tempfile.TemporaryDirectory(prefix="mayfly-prometheus-") as folder:
        config = (CONTRIB / "prometheus/prometheus.yml").read_text()
        config = config.replace("127.0.0.1:9379", f"127.0.0.1:{served.port}").replace("15s", "200ms")
        Path(folder, "prometheus.yml").write_text(config)
        shutil.copy(CONTRIB / "prometheus/mayfly.rules.yml", folder)
        port = free_port()
        process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip

        def query(text: str) -> list:
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
            with urllib.request.urlopen(url, timeout=LIMIT_S) as reply:
                return json.load(reply)["data"]["result"]

        try:
            r.set("k", "v", ex=100)
            for _ in within_limit():
                try:
                    if query('mayfly_db_keys{db="db0"} == 1'):
                        break
                except OSError:
                    time.sleep(0.1)
            assert query('up{job="mayfly"} == 1')
            assert query("mayfly_instance_info")[0]["metric"]["engine"] == "slab"
            assert query("histogram_quantile(0.5, mayfly_key_ttl_seconds_bucket) > 60")
            url = f"http://127.0.0.1:{port}/api/v1/"
            with urllib.request.urlopen(url + "targets/metadata?metric=mayfly_evicted_keys", timeout=LIMIT_S) as reply:
                assert [one["type"] for one in json.load(reply)["data"]] == ["counter"]
            with urllib.request.urlopen(url + "rules", timeout=LIMIT_S) as reply:
                groups = json.load(reply)["data"]["groups"]
                assert sum(len(group["rules"]) for group in groups) >= 15
                assert not [rule for group in groups for rule in group["rules"] if rule["health"] == "err"]
        finally:
            process.terminate()
            process.wait(END_LIMIT_S)


@pytest.mark.needs("prometheus-redis-exporter", "redis-server")
def test_the_exporter_for_redis_has_the_same_series(bench):
    """What redis_exporter reads from redis-server, it reads here too, so that its dashboards go on."""

    def series(server) -> dict[str, str]:
        with server.client() as r:
            r.set("k", "v", ex=100)
            r.get("k")
            r.get("nosuch")
            r.xadd("stream", {"field": "value"})
            r.xgroup_create("stream", "group", 0)
            r.xreadgroup("group", "consumer", {"stream": ">"})
            r.execute_command("SLOWLOG", "LEN")
        port = free_port()
        options = [f"-redis.addr=redis://127.0.0.1:{server.port}", f"-web.listen-address=127.0.0.1:{port}"]
        keys = ["-check-keys=db0=*", "-check-streams=db0=stream", "-export-client-list"]
        process = subprocess.Popen(["prometheus-redis-exporter", *options, *keys], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in within_limit():
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S) as reply:
                        text = reply.read().decode()
                        break
                except OSError:
                    time.sleep(0.1)
        finally:
            process.terminate()
            process.wait(END_LIMIT_S)
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("redis_")]
        return dict(lines)

    with bench.start() as server, Server("redis-server") as peer:
        ours, theirs = series(server), series(peer)
    assert ours['redis_up'] == "1" and ours['redis_db_keys{db="db0"}'] == "2" and ours["redis_keyspace_misses_total"] == "1"
    assert ours['redis_stream_group_messages_pending{db="db0",group="group",stream="stream"}'] == "1"
    missing = {name.partition("{")[0] for name in theirs} - {name.partition("{")[0] for name in ours}
    # The number of threads is another setting here.
    assert missing <= {"redis_config_io_threads"}, missing
