"""Sources of settings: Debian's file, the environment, includes, local sockets, files of the process, CONFIG REWRITE."""

import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis
from server import END_LIMIT_S, LIMIT_S, free_port, run_to_end, within_limit

pytestmark = pytest.mark.only_mayfly

DEBIAN = Path("/etc/redis/redis.conf")
UNIT = Path(__file__).resolve().parents[2] / "contrib" / "systemd"


def test_the_file_of_debian_starts_under_its_unit(bench):
    """The options of Debian's unit, and its file unchanged. Only port, folder, log and process file are of this check.

    The file sets no save points, so that those of Redis hold. The snapshot was loaded and never written again.
    """
    if not DEBIAN.exists():
        pytest.skip("there is no file of Debian's package redis-server")
    with bench.start() as other:
        folder = Path(other.folder.name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(folder / "notify"))
            manager.settimeout(LIMIT_S)
            pid_file, log = folder / "server.pid", folder / "server.log"
            own = ["--port", str(free_port()), "--dir", str(folder), "--logfile", str(log), "--pidfile", str(pid_file)]
            command = [str(Path(bench.binary).resolve()), str(DEBIAN), "--supervised", "systemd", "--daemonize", "no", *own]
            process = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")})
            try:
                assert manager.recv(100).startswith(b"READY=1\n")
                assert int(pid_file.read_text()) == process.pid
                warnings = [line for line in log.read_text().splitlines() if " warning " in line]
                assert len(warnings) == 2 and "save points of Redis" in warnings[0], warnings
                assert "without effect here" in warnings[1] and "lazyfree-lazy-expire" in warnings[1], warnings
                process.send_signal(signal.SIGTERM)
                assert manager.recv(100).startswith(b"STOPPING=1\n")
                assert process.wait(END_LIMIT_S) == 0 and not pid_file.exists()
                assert (folder / "dump.rdb").exists()
            finally:
                process.kill()
                process.wait()


def test_changes_that_nothing_saves_are_named_at_the_start_and_the_stop(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-unsaved-") as name:
        file = f"changes of the keys from {name}/dump.rdb are"
        with bench.start("--dir", name, "--save", "") as server, server.client() as r:
            r.set("k", 1)
            r.save()
            r.set("k", 2)
            server.end()
            # Without a snapshot from before, a cache discards its keys without a message.
            assert file not in server.log_text()
        with bench.start("--dir", name, "--save", "") as server, server.client() as r:
            # A server listens before it has loaded the file.
            for _ in within_limit():
                if f"{file} not saved" in server.log_text():
                    break
            r.set("k", 3)
            r.set("k", 4)
            server.end()
            assert f"2 {file} discarded" in server.log_text()


def test_relative_paths_begin_in_the_folder(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-paths-") as name:
        Path(name, "users.acl").write_text("user default on nopass ~* &* +@all\nuser ann on >pass ~* +get\n")
        with bench.start("--dir", name, "--aclfile", "users.acl", "--pidfile", "pid", "--unixsocket", "local") as server, server.client() as r:
            assert "ann" in r.acl_users()
            assert Path(name, "pid").exists()
            assert redis.Redis(unix_socket_path=f"{name}/local").ping()


def test_the_environment_precedes_the_file_and_the_command_line_both(bench):
    with bench.start() as other:
        path = Path(other.folder.name) / "some.conf"
        path.write_text("maxclients nonsense\ntimeout 1\nhz 10\n")
        environment = {"MAYFLY_MAXCLIENTS": "77", "MAYFLY_TIMEOUT": "2", "MAYFLY_CONFIG": str(path), "MAYFLY_PORT": "tcp://10.0.0.1:6379"}
        with bench.start("--timeout", "3", environment=environment) as server, server.client(decode_responses=True) as r:
            assert r.config_get("maxclients") == {"maxclients": "77"}
            assert r.config_get("timeout") == {"timeout": "3"}


def test_settings_can_be_checked_and_all_errors_have_a_place(bench):
    with bench.start() as other:
        folder = Path(other.folder.name)
        (folder / "good.conf").write_text("include part-*.conf\nmaxmemory 80%\n")
        (folder / "part-1.conf").write_text("timeout 7\nhz 10\n")
        code, text = run_to_end(bench.binary, str(folder / "good.conf"), "--check-config")
        assert code == 0 and "valid" in text and "hz" in text, text
        (folder / "part-2.conf").write_text("\ntimeuot 7\ninclude good.conf\n")
        code, text = run_to_end(bench.binary, str(folder / "good.conf"), "--check-config", "--port", "x")
        assert code != 0, text
        for part in ("part-2.conf:2: unknown setting 'timeuot'; did you mean 'timeout'", "part-2.conf:3: include:", "--port: port 'x'"):
            assert part in text, text
        # What a start reads besides the settings is checked, too.
        bad = f"port 7000\nmemcached 7000\naclfile {folder}/absent.acl\ntls-port 7001\nrename-command nosuch x\nlogfile {folder}/absent/log\n"
        (folder / "bad.conf").write_text(bad)
        code, text = run_to_end(bench.binary, str(folder / "bad.conf"), "--check-config")
        assert code != 0, text
        for part in ("memcached 7000: port is the same port", "ACL file", "tls-cert-file", "rename-command nosuch", "there is no folder"):
            assert part in text, (part, text)


def test_a_damaged_file_fails_the_command_that_starts_the_server_in_the_background(bench):
    """The exit code was 0, because it was decided before the file was loaded."""
    with bench.start() as other:
        folder = Path(other.folder.name)
        (folder / "dump.rdb").write_bytes(b"REDIS0011 nonsense")
        options = ["--port", str(free_port()), "--dir", str(folder), "--daemonize", "yes", "--pidfile", str(folder / "pid")]
        code, text = run_to_end(bench.binary, *options)
        assert code != 0 and "dump.rdb" in text, (code, text)
    done = subprocess.run([bench.binary, "serv"], capture_output=True, text=True, timeout=END_LIMIT_S)
    assert done.returncode != 0 and "did you mean 'serve'" in done.stderr, done
    done = subprocess.run([bench.binary, "./absent.conf"], capture_output=True, text=True, timeout=END_LIMIT_S)
    assert done.returncode != 0 and "no such config file" in done.stderr, done


def test_local_sockets_of_both_protocols(bench):
    with bench.start() as other:
        resp, memcached = Path(other.folder.name) / "resp.sock", Path(other.folder.name) / "memcached.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(resp))
        with bench.start("--unixsocket", str(resp), "--unixsocketperm", "600", "--memcached-unixsocket", str(memcached)) as server:
            assert stat.S_IMODE(resp.stat().st_mode) == 0o600
            with redis.Redis(unix_socket_path=str(resp), socket_timeout=LIMIT_S, decode_responses=True) as r:
                assert r.set("key", "value") and r.get("key") == "value"
                (info,) = [client for client in r.client_list() if client["addr"] == f"{resp}:0"]
                assert "U" in info["flags"] and info["laddr"] == f"{resp}:0", info
            with socket.socket(socket.AF_UNIX) as m:
                m.settimeout(LIMIT_S)
                m.connect(str(memcached))
                m.sendall(b"get key\r\n")
                assert m.recv(100).startswith(b"VALUE key 0 5\r\n")
            code, text = run_to_end(bench.binary, "--port", str(free_port()), "--unixsocket", str(resp))
            assert code != 0 and "another process listens" in text, text
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
            assert not resp.exists() and not memcached.exists()


def test_the_background_process_and_its_file(bench):
    with bench.start() as other:
        pid_file, port = Path(other.folder.name) / "daemon.pid", free_port()
        command = [str(Path(bench.binary).resolve()), "--daemonize", "yes", "--port", str(port), "--pidfile", str(pid_file)]
        done = subprocess.run([*command, "--logfile", str(pid_file) + ".log"], timeout=END_LIMIT_S)
        assert done.returncode == 0
        pid = int(pid_file.read_text())
        try:
            with redis.Redis(port=port, socket_timeout=LIMIT_S) as r:
                assert r.info("server")["process_id"] == pid and os.getsid(pid) == pid
            done = subprocess.run(command, capture_output=True, text=True, timeout=END_LIMIT_S)
            assert done.returncode != 0 and "in use" in done.stderr, done
        finally:
            os.kill(pid, signal.SIGTERM)
        for _ in within_limit():
            if not pid_file.exists():
                break


def test_config_rewrite_keeps_comments(bench):
    with bench.start() as other:
        path = Path(other.folder.name) / "own.conf"
        path.write_text("# keep\ntimeout 5\nlazyfree-lazy-expire no\n")
        with bench.start(str(path)) as server, server.client() as r:
            r.config_set("timeout", 6)
            assert r.config_rewrite()
            text = path.read_text().splitlines()
            assert text[:3] == ["# keep", "timeout 6", "lazyfree-lazy-expire no"], text
            assert f"port {server.port}" in text, text
    with bench.start() as server, server.client() as r:
        try:
            r.config_rewrite()
            raise AssertionError("there is no file")
        except redis.ResponseError as error:
            assert "without a config file" in str(error)


def test_renamed_commands(bench):
    with bench.start("--rename-command", "FLUSHALL", "", "--rename-command", "CONFIG", "hidden") as server:
        with server.client() as r:
            for name in ("FLUSHALL", "CONFIG"):
                try:
                    r.execute_command(name, "GET", "port")
                    raise AssertionError(name)
                except redis.ResponseError as error:
                    assert "unknown command" in str(error)
            assert r.execute_command("HIDDEN", "GET", "port")
    code, text = run_to_end(bench.binary, "--rename-command", "nosuch", "x")
    assert code != 0 and "no command has this name" in text, text


def test_files_and_replicas_have_the_own_names_of_renamed_commands(bench):
    """HSETEX and HGETEX were added in the form of other commands if they had another name."""
    names = [option for name in ("SET", "HSETEX", "HGETEX", "DEL", "XREADGROUP", "MULTI") for option in ("--rename-command", name, "x-" + name)]
    with bench.start() as other, other.client() as follower:
        folder = str(Path(other.folder.name) / "files")
        os.mkdir(folder)
        files = ["--dir", folder, "--appendonly", "yes"]
        with bench.start(*files, *names) as server, server.client() as r:
            follower.replicaof("127.0.0.1", server.port)
            for _ in within_limit():
                if follower.info("replication").get("master_link_status") == "up":
                    break
            assert r.execute_command("x-SET", "k", "v")
            r.execute_command("x-HSETEX", "h", "EX", 1000, "FIELDS", 1, "f", "v")
            r.execute_command("x-HSETEX", "h", "FIELDS", 1, "g", "v")
            r.execute_command("x-HGETEX", "h", "EX", 2000, "FIELDS", 1, "g")
            r.xgroup_create("s", "group", mkstream=True)
            r.xadd("s", {"f": "v"})
            r.execute_command("x-XREADGROUP", "GROUP", "group", "one", "STREAMS", "s", ">")
            assert r.wait(1, int(LIMIT_S * 1000)) == 1
            assert follower.get("k") == b"v"
            assert all(ttl > 0 for ttl in follower.httl("h", "f", "g")), follower.httl("h", "f", "g")
            assert follower.xpending("s", "group")["pending"] == 1
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
        for options in ([], names):
            with bench.start(*files, *options) as server, server.client() as r:
                assert r.get("k") == b"v" and all(ttl > 0 for ttl in r.httl("h", "f", "g"))
                assert r.xpending("s", "group")["pending"] == 1
                server.signal(signal.SIGTERM)
                assert server.wait() == 0


def test_passwords_leave_the_arguments_and_the_environment(bench):
    """A password from the environment stayed in /proc/PID/environ."""

    def shown(pid: int) -> bytes:
        return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))

    secrets = {"MAYFLY_REQUIREPASS": "hush-one", "MAYFLY_TIMEOUT": "7"}
    with bench.start("--masterauth", "--hush-two", environment=secrets) as server:
        with server.client(password="hush-one") as r:
            assert r.config_get("masterauth") == {"masterauth": "--hush-two"}
        text = shown(server.process.pid)
        assert b"hush" not in text and b"MAYFLY_TIMEOUT=7" in text, text
        # The process that waits for the one in the background, which gets them, too.
        pid_file, port = Path(server.folder.name) / "daemon.pid", free_port()
        command = [str(Path(bench.binary).resolve()), "--daemonize", "yes", "--port", str(port), "--pidfile", str(pid_file)]
        log = ["--logfile", str(pid_file) + ".log", "--masterauth", "hush-two"]
        done = subprocess.run([*command, *log], env={**os.environ, **secrets}, timeout=END_LIMIT_S, check=False)
        assert done.returncode == 0
        pid = int(pid_file.read_text())
        try:
            with redis.Redis(port=port, socket_timeout=LIMIT_S, password="hush-one") as r:
                assert r.config_get("masterauth") == {"masterauth": "hush-two"}
            assert b"hush" not in shown(pid)
        finally:
            os.kill(pid, signal.SIGTERM)
        for _ in within_limit():
            if not pid_file.exists():
                break


def test_settings_from_standard_input(bench):
    command = [str(Path(bench.binary).resolve()), "-", "--check-config"]
    text = 'requirepass "a\\x62"\ntimeuot 7\n'
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=END_LIMIT_S, check=False)
    assert done.returncode != 0 and "/dev/stdin:2: unknown setting 'timeuot'" in done.stderr, done
    done = subprocess.run(command, input="timeout 7\n", capture_output=True, text=True, timeout=END_LIMIT_S, check=False)
    assert done.returncode == 0 and "valid" in done.stdout, done
    done = subprocess.run([command[0], "-"], input="daemonize yes\n", capture_output=True, text=True, timeout=END_LIMIT_S, check=False)
    assert done.returncode != 0 and "standard input" in done.stderr, done


def test_few_files_no_home_and_files_that_cannot_be_written(bench):
    command = 'ulimit -n 64; unset HOME; exec "$0" --port "$1" --pidfile /proc/absent/x.pid'
    port = free_port()
    process = subprocess.Popen(["bash", "-c", command, str(Path(bench.binary).resolve()), str(port)], stderr=subprocess.PIPE)
    try:
        log = b""
        while b"serves on" not in log or b"pidfile" not in log:
            line = process.stderr.readline()
            assert line, log
            log += line
        assert b"only 64 files may be open: maxclients is 32" in log, log
        with redis.Redis(port=port, socket_timeout=LIMIT_S) as r:
            assert r.ping()
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
            for client in clients:
                client.close()
            assert r.ping()
    finally:
        process.terminate()
        assert process.wait(END_LIMIT_S) == 0
        process.stderr.close()
    code, text = run_to_end(bench.binary, "--port", str(free_port()), "--logfile", "/proc/absent/log")
    assert code != 0 and "logfile /proc/absent/log" in text, text


def test_pipes_in_place_of_files_are_refused(bench):
    """A worker that opened a pipe without a writer would never serve its clients again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.mkfifo(folder / "pipe")
        (folder / "main.conf").write_text(f"include {folder}/pipe\n")
        for options in (["--aclfile", f"{folder}/pipe"], ["--requirepass-file", f"{folder}/pipe"], [f"{folder}/main.conf"]):
            code, text = run_to_end(bench.binary, *options, "--port", str(free_port()))
            assert code != 0 and "expected a regular file" in text, text
        (folder / "users").write_text("user default on nopass ~* &* +@all\n")
        (folder / "main.conf").write_text("timeout 0\n")
        with bench.start(f"{folder}/main.conf", "--aclfile", f"{folder}/users") as server, server.client() as r:
            for path in ("users", "main.conf"):
                (folder / path).unlink()
                os.mkfifo(folder / path)
            for command in ("ACL LOAD", "CONFIG REWRITE"):
                try:
                    r.execute_command(command)
                    raise AssertionError(command)
                except redis.ResponseError as error:
                    assert "expected a regular file" in str(error), error
            for setting in ("tls-cert-file", "tls-ca-cert-file"):
                assert r.config_set(setting, f"{folder}/users"), "without a port for TLS no file is read"
            server.signal(signal.SIGHUP)
            assert r.ping() and r.acl_list()


def test_the_file_of_the_unit_is_valid(bench):
    code, text = run_to_end(bench.binary, str(UNIT / "mayfly.conf"), "--check-config")
    assert code == 0 and "warning" not in text, text
    # A limit would end a snapshot that a slow disk has not completed.
    assert "\nTimeoutStopSec=infinity\n" in (UNIT / "mayfly.service").read_text()


@pytest.mark.needs("systemd-analyze")
def test_the_unit_is_hardened():
    command = ["systemd-analyze", "security", "--offline=true", str(UNIT / "mayfly.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_LIMIT_S)
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert exposure and float(exposure[1]) <= 2.0, done
