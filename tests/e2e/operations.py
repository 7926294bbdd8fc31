"""Operations: the log, crash reports, reloads, a stop under load, doctors, INFO beside Redis's, and hostile environments."""

import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis
from server import END_LIMIT_S, LIMIT_S, Server, within_limit
from tls import Authority, Secure

pytestmark = pytest.mark.only_mayfly

DOCS = Path(__file__).resolve().parents[2] / "docs"
TGKILL = 234 if os.uname().machine == "x86_64" else 131


def wait_for_log(server: Server, text: str, count: int = 1) -> None:
    for _ in within_limit():
        if server.log_text().count(text) >= count:
            return
        time.sleep(0.01)


def test_the_log_as_json_and_its_level_at_run_time(bench):
    with bench.start("--log-format", "json") as server, server.client() as r:
        assert r.config_set("loglevel", "debug")
        with socket.create_connection(("127.0.0.1", server.port)) as bad:
            bad.sendall(b'AUTH "a\\"b" wrong\r\n')
            bad.recv(1000)
        wait_for_log(server, "failed to authenticate")
        assert r.config_set("loglevel", "nothing")
        before = server.log_text()
        with socket.create_connection(("127.0.0.1", server.port)) as bad:
            bad.sendall(b"AUTH a wrong\r\n")
            bad.recv(1000)
        assert server.log_text() == before
        lines = [json.loads(line) for line in before.splitlines()]
        assert len(lines) > 1 and all({"time", "level", "thread", "message"} == set(line) for line in lines), before
        assert any(line["level"] == "warning" and line["thread"].startswith("worker-") for line in lines), before


def test_a_fatal_signal_is_reported_with_the_last_command(bench):
    for options, wanted in ((["--threads", "1"], "crash: SIGSEGV at address "), (["--threads", "1", "--log-format", "json"], '"message":"crash: SIGBUS at address ')):
        with bench.start(*options) as server, server.client() as r:
            r.execute_command("STRLEN", "secret-key")
            tasks = Path(f"/proc/{server.process.pid}/task")
            worker = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == "worker-0\n")
            number = signal.SIGSEGV if "SEGV" in wanted else signal.SIGBUS
            assert ctypes.CDLL(None).syscall(TGKILL, server.process.pid, worker, int(number)) == 0
            assert server.wait() == -number
            text = server.log_text()
            assert wanted in text and "last command of this thread: strlen" in text, text
            assert "; mayfly " in text and "secret-key" not in text, text


def test_libraries_do_not_fill_the_log(bench):
    with bench.start("--loglevel", "debug") as server, server.client() as r:
        assert r.ping()
        assert "serves on" in server.log_text() and "event source" not in server.log_text()


def test_sighup_reads_the_users_again(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        path = Path(folder, "users.acl")
        path.write_text("user default on nopass ~* &* +@all\nuser one on >pw ~* +@all\nuser two on >pw ~a* +get\n")
        with bench.start("--aclfile", str(path)) as server, server.client() as r, server.client(username="one", password="pw") as one:
            assert one.ping()
            path.write_text("user default on nopass ~* &* +@all\nuser two on >other ~b* +get\n")
            server.signal(signal.SIGHUP)
            wait_for_log(server, "the users were read again")
            assert sorted(r.acl_users()) == ["default", "two"]
            for _ in within_limit():
                if r.info("clients")["connected_clients"] == 1:
                    break
            # A file that is not valid changes nothing, and each of its lines is named.
            for broken in (
                "user default on\nuser\nuser x +nosuch\nuser y ~\x00 +get\nusr z on\n",
                "user a on >" + "x" * 100_000 + " +@nosuch\n",
                "user b (+get\n", "user c on #zz\n", "\xff\xfe user\n", "user d %XY~k\n" * 1000,
            ):
                path.write_bytes(broken.encode("latin-1"))
                count = server.log_text().count("previous users stay in force")
                server.signal(signal.SIGHUP)
                wait_for_log(server, "previous users stay in force", count + 1)
                assert sorted(r.acl_users()) == ["default", "two"], broken[:40]
                assert f"{path}:" in server.log_text()
            path.unlink()
            server.signal(signal.SIGHUP)
            wait_for_log(server, "No such file")
            assert r.ping()


def test_patterns_of_rights_that_could_explode_do_not(bench):
    with bench.start() as server, server.client() as r:
        pattern = "*a" * 500
        r.execute_command("ACL", "SETUSER", "p", "on", "nopass", f"~{pattern}b", f"&{'[a-z]*' * 200}!", "+get", "+publish")
        with server.client(username="p", password="x") as p:
            for command, argument in ((("GET",), "a" * 50_000), (("PUBLISH",), "q" * 50_000)):
                try:
                    p.execute_command(*command, argument, *(["m"] if command == ("PUBLISH",) else []))
                    raise AssertionError("the name matches no pattern")
                except redis.exceptions.NoPermissionError:
                    pass
        assert r.ping()


def test_a_stop_delivers_replies(bench):
    """Clients that have sent commands and read slowly get all replies to those that were executed."""
    with bench.start("--save", "") as server, server.client() as r:
        r.set("large", os.urandom(1 << 20))
        slow = [server.raw() for _ in range(5)]
        for connection in slow:
            connection.sendall(b"GET large\r\n" * 8)
        for _ in within_limit():
            if r.info("commandstats").get("cmdstat_get", {}).get("calls", 0) >= 5:
                break
        # Input that will not be read must not discard the replies.
        for connection in slow:
            connection.sendall(b"PING\r\n" * 1000)
        server.signal(signal.SIGTERM)
        wait_for_log(server, "SIGTERM: stopping")
        one = len(b"$1048576\r\n") + (1 << 20) + 2
        got = dict.fromkeys(slow, 0)
        while open_ones := [connection for connection in slow if connection.fileno() >= 0]:
            # All of them make progress: one that takes nothing is not waited for.
            for connection in select.select(open_ones, [], [])[0]:
                part = connection.recv(1 << 16)
                got[connection] += len(part)
                if not part:
                    connection.close()
        for size in got.values():
            assert size >= one and (size % one) % 7 == 0, size
        assert server.wait() == 0
    # A client that reads nothing is not waited for: the limit of shutdown-timeout is beyond that of this test.
    with bench.start("--save", "", "--shutdown-timeout", "600") as server, server.client() as r:
        r.set("large", os.urandom(8 << 20))
        with server.raw() as connection:
            connection.sendall(b"GET large\r\n" * 4)
            for _ in within_limit():
                if r.info("commandstats").get("cmdstat_get", {}).get("calls", 0) >= 1:
                    break
            server.signal(signal.SIGTERM)
            assert server.wait() == 0


def test_the_doctors_name_causes(bench):
    with bench.start("--maxmemory", "2mb", "--enable-debug-command", "local") as server, server.client(decode_responses=True) as r:
        assert "latency monitor is off" in r.execute_command("LATENCY", "DOCTOR")
        r.execute_command("EVAL", "local x = 0 for i = 1, 3e6 do x = x + i end return x", 0)
        r.config_set("latency-monitor-threshold", 1)
        text = r.execute_command("LATENCY", "DOCTOR")
        assert "calls of eval took" in text or "No cause" in text, text
        assert "maxmemory" in r.execute_command("MEMORY", "DOCTOR") or "No problem" in r.execute_command("MEMORY", "DOCTOR")
        try:
            for index in range(100_000):
                r.set(f"k:{index}", "x" * 100)
        except redis.ResponseError:
            pass
        assert "nothing is evicted under noeviction" in r.execute_command("MEMORY", "DOCTOR")


def test_queues_under_eviction_are_named_once(bench):
    with bench.start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server, server.client(decode_responses=True) as r:
        r.rpush("jobs", "a", "b")
        assert "queues" not in r.execute_command("MEMORY DOCTOR")
        assert r.blpop("jobs", timeout=1) == ("jobs", "a")
        assert "queues (blpop), and allkeys-lru" in r.execute_command("MEMORY DOCTOR")
        for _ in within_limit():
            if server.log_text().count("Clients use keys as queues (blpop)") == 1:
                break
        r.config_set("maxmemory-policy", "noeviction")
        assert "queues" not in r.execute_command("MEMORY DOCTOR")


@pytest.mark.needs("redis-server")
def test_info_has_the_fields_of_redis_or_a_reason_not_to(bench):
    text = (DOCS / "guide/operations.md").read_text()
    section = text[text.index("### Fields of INFO") : text.index("## Log and crashes")]
    absent = set(re.findall(r"`([a-z0-9_]+)`", section))

    def fields(server: Server) -> set[str]:
        with server.raw() as connection:
            connection.sendall(b"SET k v EX 100\r\nINFO everything\r\nQUIT\r\n")
            got = b""
            while part := connection.recv(1 << 16):
                got += part
        return {line.split(":")[0] for line in got.decode().splitlines() if ":" in line and not line.startswith("#")}

    with Server("redis-server") as peer, bench.start() as server:
        missing = fields(peer) - fields(server) - absent
        assert not missing, f"fields of Redis that are neither in INFO nor in operations.md: {sorted(missing)}"


def test_certificates_name_users(bench):
    authority = Authority()
    with Secure(bench, authority, "--tls-auth-clients-user", "CN", clients="optional") as secure, secure.server.client() as plain:
        plain.execute_command("ACL", "SETUSER", "service", "on", "~app:*", "+get", "+acl|whoami", "+client", "+ping")
        plain.execute_command("ACL", "SETUSER", "retired", "off", "~*", "+@all")
        known = authority.sign("known", "/CN=service", host="host.example")
        with secure.client(ssl_certfile=known[0], ssl_keyfile=known[1]) as r:
            assert r.acl_whoami() == "service" and r.get("app:1") is None
            try:
                r.get("other")
                raise AssertionError("the user has no right to the key")
            except redis.exceptions.NoPermissionError:
                pass
        for subject in ("/CN=retired", "/CN=nobody", "/O=no name"):
            other = authority.sign("other", subject)
            with secure.client(ssl_certfile=other[0], ssl_keyfile=other[1]) as r:
                assert r.acl_whoami() == "default", subject
        with secure.client() as r:
            assert r.acl_whoami() == "default"
        assert plain.info("stats")["acl_access_denied_tls_cert"] == 3
        assert plain.acl_log()[0]["reason"] == "tls-cert"
        plain.config_set("tls-auth-clients-user", "SAN")
        plain.execute_command("ACL", "SETUSER", "host.example", "on", "~*", "+@all")
        with secure.client(ssl_certfile=known[0], ssl_keyfile=known[1]) as r:
            assert r.acl_whoami() == "host.example"
        plain.config_set("tls-auth-clients-user", "off")
        with secure.client(ssl_certfile=known[0], ssl_keyfile=known[1]) as r:
            assert r.acl_whoami() == "default"


def test_renegotiations_are_refused_however_many(bench):
    with Secure(bench, Authority()) as secure:
        address = ["openssl", "s_client", "-connect", f"127.0.0.1:{secure.tls_port}", "-CAfile", secure.authority.file, "-tls1_2"]
        floods = [subprocess.Popen(address, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
        with secure.client() as r:
            for flood in floods:
                for _ in range(200):
                    try:
                        flood.stdin.write(b"R\n")
                        flood.stdin.flush()
                    except OSError:
                        break
            assert r.ping()
        for flood in floods:
            try:
                flood.stdin.close()
            except OSError:
                pass
            flood.terminate()
            flood.wait(END_LIMIT_S)


def test_a_file_system_that_is_read_only(bench):
    """Nothing can be written: commands report it, and the server goes on."""
    command = ["unshare", "--mount", "true"]
    if os.getuid() != 0 or not shutil.which("unshare") or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespace of mounts can be created")
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        Path(folder, "mayfly.conf").write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\naclfile {folder}/users.acl\nsave \"\"\n")
        Path(folder, "users.acl").write_text("user default on nopass ~* &* +@all\n")
        script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$0" "$1/mayfly.conf"'
        process = subprocess.Popen(["unshare", "--mount", "bash", "-c", script, str(Path(bench.binary).resolve()), folder], stderr=subprocess.DEVNULL)
        try:
            with redis.Redis(port=port, socket_timeout=LIMIT_S) as r:
                for _ in within_limit():
                    try:
                        assert r.ping()
                        break
                    except redis.ConnectionError:
                        time.sleep(0.01)
                assert r.set("k", "v")
                for words in (("SAVE",), ("CONFIG", "REWRITE"), ("ACL", "SAVE")):
                    try:
                        r.execute_command(*words)
                        raise AssertionError(f"{words} cannot have been written")
                    except redis.ResponseError:
                        pass
                r.execute_command("BGSAVE")
                for _ in within_limit():
                    if r.info("persistence")["rdb_last_bgsave_status"] == "err":
                        break
                    time.sleep(0.01)
                assert r.get("k") == b"v"
        finally:
            process.terminate()
            process.wait(END_LIMIT_S)


def test_a_limit_of_the_control_group_that_changes(bench):
    root = Path("/sys/fs/cgroup")
    group = root / f"mayfly-e2e-{os.getpid()}"
    try:
        if not (root / "cgroup.controllers").exists() or "memory" not in (root / "cgroup.subtree_control").read_text():
            raise OSError("there is no control group with a memory limit")
        group.mkdir()
    except OSError as error:
        pytest.skip(str(error))
    try:
        with bench.start("--maxmemory", "50%", "--maxmemory-policy", "allkeys-lru") as server, server.client() as r:
            (group / "cgroup.procs").write_text(str(server.process.pid))
            for limit in (512 << 20, 256 << 20, 1 << 30):
                (group / "memory.max").write_text(str(limit))
                for _ in within_limit():
                    info = r.info("memory")
                    if (info["memory_limit"], info["maxmemory"]) == (limit, limit // 2):
                        break
                    time.sleep(0.05)
    finally:
        for _ in within_limit():
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def test_config_rewrite_writes_users(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        path = Path(folder, "mayfly.conf")
        path.write_text("# first\nuser one on nopass ~* +@all\n# second\nuser two on >pw ~a* +get\n# third\n")
        with bench.start("--config", str(path)) as server, server.client() as r:
            assert r.config_rewrite()
            assert path.read_text().splitlines()[1:4] == ["user one on nopass ~* +@all", "# second", "user two on >pw ~a* +get"]
            r.execute_command("ACL", "SETUSER", "two", ">other", "~b*")
            r.execute_command("ACL", "SETUSER", "three", "on", ">secret", "~c:*", "&news", "+@read")
            r.execute_command("ACL", "DELUSER", "one")
            assert r.config_rewrite() and r.config_rewrite()
            before = r.execute_command("ACL", "LIST")
        text = path.read_text()
        assert "secret" not in text and "user one" not in text and text.count("user two") == 1 and text.count("user three") == 1, text
        assert text.splitlines()[1] == "# second" and text.splitlines()[3] == "# third", text
        with bench.start("--config", str(path)) as server, server.client() as r:
            assert r.execute_command("ACL", "LIST") == before
            r.execute_command("ACL", "DELUSER", "three")
            assert r.config_rewrite() and "user three" not in path.read_text()
