"""Start, configuration and shutdown."""

import signal
import socket
import threading
from pathlib import Path

import pytest
import redis
from server import run_to_end


@pytest.mark.only_mayfly
def test_a_config_file_in_the_form_of_redis_conf(bench):
    with bench.start() as probe:
        path = Path(probe.folder.name) / "mayfly.conf"
        path.write_text(
            "# a comment\n\nmaxmemory 100mb\nmaxmemory-policy allkeys-lru\ntimeout 0\n"
            'requirepass "se cret"\nnotify-keyspace-events Ex\n'
        )
        with bench.start("--config", str(path)) as server, server.client(password="se cret") as r:
            assert r.config_get("maxmemory") == {b"maxmemory": b"104857600"} or r.config_get("maxmemory") == {
                "maxmemory": "104857600"
            }
            assert "allkeys-lru" in str(r.config_get("maxmemory-policy"))


def test_a_bad_config_is_refused_with_its_line(bench):
    with bench.start() as probe:
        path = Path(probe.folder.name) / "bad.conf"
        path.write_text("maxmemory 100mb\nno-such-directive yes\n")
        options = [str(path)] if bench.is_redis else ["--config", str(path)]
        code, text = run_to_end(bench.binary, *options)
        assert code != 0 and "no-such-directive" in text and "2" in text, (code, text)
        path.write_text("maxmemory lots\n")
        code, text = run_to_end(bench.binary, *options)
        assert code != 0 and "maxmemory" in text, (code, text)


def test_bad_options_and_a_taken_port_are_refused(bench):
    code, text = run_to_end(bench.binary, "--port", "99999999")
    assert code != 0 and "port" in text.lower(), (code, text)
    code, text = run_to_end(bench.binary, "--bind", "127.0.0.1", "--port", str(bench.server.port))
    assert code != 0 and "in use" in text.lower() and str(bench.server.port) in text, (code, text)


def test_config_set_and_get(bench):
    with bench.start() as server, server.client(decode_responses=True) as r:
        assert r.config_set("maxmemory", "1gb") and r.config_get("maxmemory")["maxmemory"] == str(1 << 30)
        assert r.config_set("maxmemory-policy", "allkeys-random")
        for name, value in (("maxmemory-policy", "nonsense"), ("maxmemory", "-5x"), ("no-such-thing", "1")):
            try:
                r.config_set(name, value)
                raise AssertionError(f"{name} {value} was taken")
            except redis.ResponseError as error:
                assert name in str(error), error
        assert r.config_get("maxmemory-policy")["maxmemory-policy"] == "allkeys-random"
        r.get("none")
        assert r.info("stats")["keyspace_misses"] >= 1 and r.config_resetstat()
        assert r.info("stats")["keyspace_misses"] == 0
        assert len(r.config_get("*")) > 20


def test_sigterm_under_load(bench):
    with bench.start() as server:
        ended = threading.Event()

        def load() -> None:
            try:
                with server.raw() as s:
                    while not ended.is_set():
                        s.sendall(b"SET a b PX 5\r\n" * 200)
                        s.recv(1 << 16)
            except OSError:
                pass

        threads = [threading.Thread(target=load) for _ in range(8)]
        for thread in threads:
            thread.start()
        with server.client() as r:
            while r.info("stats")["total_commands_processed"] < 5_000:
                pass
        server.signal(signal.SIGTERM)
        code = server.wait()
        ended.set()
        for thread in threads:
            thread.join()
        assert code == 0, (code, server.log_text()[-2000:])
        assert "panicked" not in server.log_text()


def test_sigint_stops_it(bench):
    with bench.start() as server:
        server.signal(signal.SIGINT)
        assert server.wait() == 0


def test_shutdown(bench):
    for words in ("SHUTDOWN NOSAVE", "SHUTDOWN"):
        with bench.start() as server, server.raw() as s:
            s.sendall(words.encode() + b"\r\n")
            assert s.recv(100) == b"" and server.wait() == 0


def test_the_log_names_the_settings(bench):
    with bench.start() as server:
        server.signal(signal.SIGTERM)
        server.wait()
        text = server.log_text()
        assert str(server.port) in text and any(word in text for word in ("Ready", "serves")), text


def test_it_listens_on_one_address_only(bench):
    with bench.server.client() as r:
        bound = str(r.config_get("bind"))
        assert "127.0.0.1" in bound, bound
    with socket.socket() as s:
        s.settimeout(2)
        # Another address of this machine.
        assert s.connect_ex(("127.0.0.2", bench.server.port)) != 0


@pytest.mark.only_mayfly
def test_threads(bench):
    for threads in ("1", "2", "4"):
        with bench.start("--threads", threads) as server, server.client() as r:
            with r.pipeline() as p:
                for i in range(1000):
                    p.set(f"k{i}", i)
                p.mget([f"k{i}" for i in range(1000)])
                assert p.execute()[-1] == [str(i).encode() for i in range(1000)]
            assert len(list(r.scan_iter(count=100))) == 1000 and r.dbsize() == 1000
