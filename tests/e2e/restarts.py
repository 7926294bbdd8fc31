"""Restarts for an upgrade: SIGUSR2 and SHUTDOWN RESTART keep keys, deadlines, sockets and the process number, or the server goes on."""

import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
import redis
from durable import ROUNDS
from server import END_LIMIT_S, LIMIT_S, free_port, within_limit
from snapshots import content, fill

pytestmark = pytest.mark.only_mayfly

# Number of strings beside the values of all types, a part of which has deadlines.
STRINGS = 4_000


def fill_all(r: redis.Redis) -> None:
    fill(r)
    pipe = r.pipeline(transaction=False)
    for n in range(STRINGS):
        pipe.set(f"number:{n}", f"value {n}", px=3_600_000 + n if n % 3 else None)
    pipe.execute()
    r.execute_command("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() return 7 end)")


def run_id(r: redis.Redis) -> str | None:
    """The identifier of the run; `None` while the server does not answer."""
    try:
        facts = r.info("everything")
        return None if facts["loading"] else facts["run_id"]
    except redis.ConnectionError:
        return None


def restarted(port: int, before: str | None = None) -> redis.Redis:
    """A client of the server when it has loaded its keys, after the run `before`."""
    for _ in within_limit():
        r = redis.Redis(port=port, socket_timeout=LIMIT_S)
        if run_id(r) not in (None, before):
            return r
        time.sleep(0.01)


class Callers:
    """Threads that connect again and again. Each connection must be accepted and answered, or closed by a stop."""

    def __init__(self, connects):
        self.ended = threading.Event()
        self.refused, self.answers = [], 0
        self.threads = [threading.Thread(target=self.call, args=(connect, request)) for connect, request in connects]

    def call(self, connect, request: bytes) -> None:
        while not self.ended.is_set():
            try:
                with connect() as s:
                    s.settimeout(LIMIT_S)
                    try:
                        s.sendall(request)
                        self.answers += bool(s.recv(100))
                    except (ConnectionResetError, BrokenPipeError):
                        pass
            except OSError as error:
                self.refused.append(repr(error))
            # The interpreter runs one thread at a time.
            time.sleep(0.002)

    def __enter__(self) -> "Callers":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()


def test_a_restart_keeps_keys_sockets_and_the_process(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        cache, local, http, pid_file = free_port(), f"{folder}/socket", free_port(), f"{folder}/pid"
        options = ["--memcached", str(cache), "--unixsocket", local, "--http", f"127.0.0.1:{http}", "--pidfile", pid_file]
        with bench.start(*options) as server:
            r = server.client()
            fill_all(r)
            before, run = content(r), run_id(r)

            def at_path() -> socket.socket:
                s = socket.socket(socket.AF_UNIX)
                s.connect(local)
                return s

            tcp = lambda port: lambda: socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
            connects = [(tcp(server.port), b"PING\r\n"), (tcp(cache), b"version\r\n"), (at_path, b"PING\r\n"), (tcp(http), b"GET /health HTTP/1.0\r\n\r\n")]
            with Callers(connects) as callers:
                for way in ("signal", "command", "signal"):
                    if way == "signal":
                        server.signal(signal.SIGUSR2)
                    else:
                        with server.raw() as s:
                            s.sendall(b"SHUTDOWN RESTART\r\n")
                            assert s.recv(100) == b""
                    r = restarted(server.port, run)
                    run = run_id(r)
                    after = content(r)
                    assert after == before, (len(after), len(before))
                    assert r.fcall("f", 0) == 7
            assert not callers.refused and callers.answers > 0, callers.refused[:3]
            assert server.process.poll() is None and int(Path(pid_file).read_text()) == server.process.pid
            assert r.set("later", 1) and urllib.request.urlopen(f"http://127.0.0.1:{http}/ready").status == 200
            assert not list(Path(server.folder.name).glob("*.rdb")), "the temporary file has no name"
            assert "sockets of the process before are closed" not in server.log_text()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0 and not Path(local).exists() and not Path(pid_file).exists()


def test_acknowledged_writes_are_there_after_a_restart(bench):
    """Clients write while the server restarts, once with each place for the keys."""
    for options in (["--save", ""], ["--save", "3600 1"], ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]):
        with bench.start(*options) as server:
            written, ended = [{} for _ in range(3)], threading.Event()

            def write(number: int) -> None:
                count = 0
                while not ended.is_set():
                    r = server.client()
                    try:
                        while not ended.is_set():
                            count += 1
                            # A write whose reply is lost may have been executed.
                            written[number][f"{number}:{count % 500}"] = None
                            r.set(f"{number}:{count % 500}", count)
                            written[number][f"{number}:{count % 500}"] = count
                    except redis.ConnectionError:
                        pass
                    except redis.ResponseError as error:
                        assert "LOADING" in str(error), error

            threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            with server.client() as r:
                run = run_id(r)
                for _ in range(3):
                    for _ in within_limit():
                        if r.dbsize() >= 1000:
                            break
                    server.signal(signal.SIGUSR2)
                    r = restarted(server.port, run)
                    run = run_id(r)
            ended.set()
            for thread in threads:
                thread.join()
            for expected in written:
                for name, value in expected.items():
                    assert value is None or int(r.get(name)) == value, (options, name, value, r.get(name))


class Linked:
    """A server that was started by a link, which can lead to another program."""

    def __init__(self, bench, *options: str):
        self.binary = str(Path(bench.binary).resolve())
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-e2e-")
        self.path = Path(self.folder.name, "mayfly")
        self.path.symlink_to(self.binary)
        self.port = free_port()
        self.log_path = Path(self.folder.name, "log")
        threads = ["--threads", bench.threads] if bench.threads else []
        command = [str(self.path), "serve", "--port", str(self.port), "--bind", "127.0.0.1", *threads, *options]
        self.process = subprocess.Popen(command, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=self.log_path.open("wb"), stderr=subprocess.STDOUT)
        for _ in within_limit():
            if self.count("serves on"):
                break
            time.sleep(0.01)

    def count(self, text: str) -> int:
        return self.log_path.read_text(errors="replace").count(text)

    def become(self, script: str) -> None:
        """Replaces the program by a script."""
        other = self.path.with_name("other")
        other.write_text("#!/bin/sh\n" + script)
        other.chmod(0o755)
        other.rename(self.path)

    def refusal(self) -> str:
        """The error of a restart that is refused."""
        with redis.Redis(port=self.port, socket_timeout=LIMIT_S) as r:
            try:
                r.execute_command("SHUTDOWN", "RESTART")
            except redis.ResponseError as error:
                return str(error)
        raise AssertionError("it was not refused")

    def __enter__(self) -> "Linked":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def test_a_program_that_refuses_its_settings_is_not_executed(bench):
    with Linked(bench) as server, redis.Redis(port=server.port, socket_timeout=LIMIT_S) as r:
        run = run_id(r)
        r.set("k", "v")
        server.become("echo 'the licence has ended' >&2; exit 3")
        error = server.refusal()
        assert "does not restart" in error and "the licence has ended" in error, error
        server.path.unlink()
        assert "cannot be executed" in server.refusal()
        server.process.send_signal(signal.SIGUSR2)
        for _ in within_limit():
            if server.count("cannot be executed") == 2:
                break
            time.sleep(0.01)
        assert run_id(r) == run and r.get("k") == b"v" and r.set("k", "w")
        # A program of a version that cannot take over, as one before restarts were possible.
        server.become(f'for word; do test "$word" = --restarted=2 && shift; done; exec {server.binary} --restarted=0 --check-config')
        assert "expected 2" in server.refusal()
        # A program that vanishes after the check: the present one is executed again.
        server.become("rm -f \"$0\"\nexit 0")
        server.process.send_signal(signal.SIGUSR2)
        r = restarted(server.port, run)
        assert r.get("k") == b"w" and server.process.poll() is None
        assert "cannot be executed" in server.refusal()


def test_a_program_that_fails_after_its_execution_leaves_the_keys(bench):
    """The snapshot of the restart had no name, so that all keys were lost with the new process."""
    damage = "for file in restart-mayfly-*; do printf x >>$file; truncate -s 100 $file; done\n"
    for failure in ("exit 3", "kill -9 $$", "exec {} serve --nonsense 1", damage + 'exec {} "$@"'):
        with Linked(bench) as server, redis.Redis(port=server.port, socket_timeout=LIMIT_S) as r:
            fill(r)
            wanted = content(r)
            # The check is that of the sound program.
            server.become(f'case "$*" in *--check-config*) exec {server.binary} "$@";; esac\n' + failure.format(server.binary))
            server.process.send_signal(signal.SIGUSR2)
            assert server.process.wait(END_LIMIT_S) != 0
            (path,) = Path(server.folder.name).glob("restart-mayfly-*.rdb")
            assert server.count(f"the keys are in {path}") == 1
            if damage in failure:
                assert server.count(f"stay in {path}") == 1
                continue
            with bench.start("--dir", server.folder.name) as other, restarted(other.port) as r:
                assert r.dbsize() == 0 and path.exists()
            path.rename(path.with_name("dump.rdb"))
            with bench.start("--dir", server.folder.name) as other, restarted(other.port) as r:
                assert content(r) == wanted


def test_a_restart_keeps_keys_that_the_settings_of_the_file_do_not_load(bench):
    """With `CONFIG SET appendonly yes` nothing was saved, and the new process had no append-only file."""
    for setting, value in (("appendonly", "yes"), ("appendonly", "no"), ("save", "3600 1")):
        options = ("--appendonly", "yes") if value == "no" else ("--appendonly", "no")
        with bench.start(*options, "--save", "") as server, server.client() as r:
            r.set("old", 1)
            r.config_set(setting, value)
            for _ in within_limit():
                facts = r.info("persistence")
                if not facts["aof_rewrite_in_progress"] and not facts["aof_rewrite_scheduled"] and not facts["loading"]:
                    break
                time.sleep(0.01)
            r.set("new", 1)
            run = run_id(r)
            server.signal(signal.SIGUSR2)
            r = restarted(server.port, run)
            assert r.mget("old", "new") == [b"1", b"1"], (setting, value)
            for _ in within_limit():
                if not list(Path(server.folder.name).rglob("restart-mayfly-*")):
                    break
                time.sleep(0.01)


def test_a_crash_before_the_new_files_are_complete_leaves_the_keys(bench):
    """The new process removed the snapshot of the restart after the load, before its own files had the keys."""
    for setting, options, obstacle, stale in (
        ("appendonly", ("--appendonly", "yes"), "appendonlydir/appendonly.aof.2.base.rdb", [b"1", None]),
        ("appendonly", ("--appendonly", "yes"), "appendonlydir/appendonly.aof.1.base.rdb", [None, None]),
        ("save", ("--save", "3600 1"), "dump.rdb", [None, None]),
    ):
        with bench.start("--save", "", *options) as server, server.client() as r:
            folder = Path(server.folder.name)
            r.set("old", 1)
            if setting == "appendonly":
                r.config_set("appendonly", "no")
                for _ in within_limit():
                    if b"old" in (folder / "appendonlydir/appendonly.aof.1.incr.aof").read_bytes():
                        break
                    time.sleep(0.01)
                if stale[0] is None:
                    shutil.rmtree(folder / "appendonlydir")
            else:
                r.config_set("save", "")
            r.set("new", 1)
            # No file can replace a folder, so that neither a base nor a snapshot is completed.
            (folder / obstacle).mkdir(parents=True)
            run = run_id(r)
            server.signal(signal.SIGUSR2)
            r = restarted(server.port, run)
            assert r.mget("old", "new") == [b"1", b"1"], obstacle
            for _ in within_limit():
                if "snapshot failed" in server.log_text():
                    break
                time.sleep(0.01)
            (path,) = folder.glob("restart-mayfly-*.rdb")
            server.kill()
            (folder / obstacle).rmdir()
            server.restart()
            with restarted(server.port) as r:
                assert r.mget("old", "new") == stale and f"{path.name} has the keys" in server.log_text(), obstacle
            server.kill()
            path.rename(folder / "dump.rdb")
            if setting == "appendonly":
                (folder / "appendonlydir").rename(folder / "kept")
            server.restart()
            with restarted(server.port) as r:
                assert r.mget("old", "new") == [b"1", b"1"], obstacle


def test_a_link_may_lead_to_another_version(bench):
    with Linked(bench) as server, redis.Redis(port=server.port, socket_timeout=LIMIT_S) as r:
        run = run_id(r)
        r.set("k", "v")
        server.become(f'echo "version 2" >&2; exec {server.binary} "$@"')
        server.process.send_signal(signal.SIGUSR2)
        r = restarted(server.port, run)
        assert r.get("k") == b"v" and server.count("version 2") == 1
        pid = server.process.pid
        assert Path(f"/proc/{pid}").exists() and r.info("server")["process_id"] == pid


def test_a_restart_can_be_aborted_and_becomes_a_stop(bench):
    with Linked(bench) as server, redis.Redis(port=server.port, socket_timeout=LIMIT_S) as r:
        run = run_id(r)
        # The check waits for a file, and ends with the folder.
        wait = f'case "$*" in *--check-config*) while test -e {server.path} && test ! -e go; do sleep 0.01; done;; esac\nexec {server.binary} "$@"'
        server.become(wait)
        errors = []
        waiting = threading.Thread(target=lambda: errors.append(server.refusal()))
        waiting.start()
        for _ in within_limit():
            if server.count("checks its settings"):
                break
            time.sleep(0.01)
        for words in (("RESTART",), ("RESTART", "FORCE"), ("FORCE", "RESTART")):
            try:
                r.execute_command("SHUTDOWN", *words)
                raise AssertionError(words)
            except redis.ResponseError as error:
                assert ("in progress" if len(words) == 1 else "syntax") in str(error), error
        assert r.execute_command("SHUTDOWN", "ABORT")
        Path(server.folder.name, "go").touch()
        waiting.join()
        assert "cancelled" in errors[0], errors
        assert run_id(r) == run
        Path(server.folder.name, "go").unlink()
        server.process.send_signal(signal.SIGUSR2)
        for _ in within_limit():
            if server.count("checks its settings") == 2:
                break
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(END_LIMIT_S) == 0
        Path(server.folder.name, "go").touch()


def test_a_restart_whose_keys_cannot_be_saved_goes_on(bench):
    with bench.start() as probe:
        folder = Path(probe.folder.name, "files")
        folder.mkdir()
        with bench.start("--dir", str(folder)) as server, server.client() as r:
            run = run_id(r)
            r.set("k", "v")
            gone = folder.rename(folder.with_name("gone"))
            with server.raw() as s:
                s.sendall(b"SHUTDOWN RESTART\r\n")
                # The settings name a folder that does not exist, or the snapshot cannot be written.
                assert s.recv(300).startswith(b"-ERR")
            assert run_id(r) == run and r.get("k") == b"v" and r.set("k", "w")
            gone.rename(folder)
            server.signal(signal.SIGUSR2)
            r = restarted(server.port, run)
            assert r.get("k") == b"w"
    with bench.start("--engine", "segment", "--maxmemory", "64mb") as server, server.client() as r:
        run = run_id(r)
        try:
            r.execute_command("SHUTDOWN", "RESTART")
            raise AssertionError("its keys would be lost")
        except redis.ResponseError as error:
            assert "NOSAVE RESTART" in str(error), error
        with server.raw() as s:
            s.sendall(b"SHUTDOWN NOSAVE RESTART\r\n")
            assert s.recv(100) == b""
        restarted(server.port, run)


def test_a_restart_keeps_the_segments_in_their_file(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        with bench.start("--engine", "segment", "--maxmemory", "64mb", "--segment-file", f"{folder}/segments") as server, server.client() as r:
            for round_number in range(3):
                run = run_id(r)
                r.mset({f"k:{number}": f"{number}/{round_number}" for number in range(20_000)})
                r.set("short", "v", ex=10_000)
                deadline = r.pexpiretime("short")
                if round_number == 1:
                    with server.raw() as s:
                        s.sendall(b"SHUTDOWN RESTART\r\n")
                        assert s.recv(100) == b""
                else:
                    server.signal(signal.SIGUSR2)
                r = restarted(server.port, run)
                assert r.mget([f"k:{number}" for number in range(20_000)]) == [b"%d/%d" % (number, round_number) for number in range(20_000)]
                assert r.dbsize() == 20_001 and r.pexpiretime("short") == deadline
            try:
                r.execute_command("SHUTDOWN", "SAVE", "RESTART")
                raise AssertionError("it has no snapshots")
            except redis.ResponseError as error:
                assert "not supported by the segment engine" in str(error), error
            assert r.get("k:7") == b"7/2"


def test_passwords_of_the_environment_outlive_a_restart(bench):
    """The new process got the environment in which they are overwritten, so that `****` was the password."""
    with bench.start(environment={"MAYFLY_REQUIREPASS": "hush"}) as server:
        shown = lambda: Path(f"/proc/{server.process.pid}/environ").read_bytes()
        with server.client(password="hush") as r:
            run = run_id(r)
            assert r.set("k", "v") and b"hush" not in shown()
            server.signal(signal.SIGUSR2)
            for _ in within_limit():
                if run_id(r) not in (None, run):
                    break
                time.sleep(0.01)
            assert r.get("k") == b"v" and b"hush" not in shown()
        with server.client(password="****") as r:
            try:
                r.ping()
                raise AssertionError("another password is accepted")
            except redis.AuthenticationError:
                pass


def test_settings_of_standard_input_cannot_be_read_again(bench):
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder:
        program = [str(Path(bench.binary).resolve()), "-"]
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        process.stdin.write(b"port %d\ntimeout 77\n" % port)
        process.stdin.close()
        try:
            r = redis.Redis(port=port, socket_timeout=LIMIT_S)
            for _ in within_limit():
                if run_id(r) is not None:
                    break
                time.sleep(0.01)
            try:
                r.execute_command("SHUTDOWN", "RESTART")
                raise AssertionError("it restarts")
            except redis.ResponseError as error:
                assert "standard input" in str(error), error
            process.send_signal(signal.SIGUSR2)
            assert r.config_get("timeout") == {"timeout": "77"} and process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_LIMIT_S) == 0


def test_the_service_manager_is_notified_of_a_restart(bench):
    with tempfile.TemporaryDirectory(prefix="mayfly-e2e-") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = f"{folder}/notify"
        manager.bind(path)
        manager.settimeout(LIMIT_S)
        with bench.start("--supervised", "systemd", "--requirepass", "secret", environment={"NOTIFY_SOCKET": path}) as server:
            states = lambda: manager.recv(200).decode()
            while not states().startswith("READY=1"):
                pass
            # The password in the arguments is overwritten, and the new process gets it nevertheless.
            assert b"secret" not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            server.signal(signal.SIGUSR2)
            state = states()
            assert state.startswith("RELOADING=1\nMONOTONIC_USEC="), state
            while not (state := states()).startswith("READY=1"):
                assert "STOPPING" not in state
            with server.client(password="secret") as r:
                assert r.ping()


def test_kill_during_a_restart_leaves_a_state_that_starts(bench):
    """The snapshot file is as it was or complete, and no temporary file stays after the next start."""
    for options, kept in ((["--save", "3600 1"], True), (["--appendonly", "yes", "--save", ""], True), (["--save", ""], False)):
        for _ in range(ROUNDS):
            with bench.start(*options) as server:
                with server.client() as r:
                    pipe = r.pipeline(transaction=False)
                    for n in range(STRINGS):
                        pipe.set(f"key:{n}", n, px=3_600_000)
                    pipe.execute()
                    if options[0] == "--save" and kept:
                        r.save()
                    if options[0] == "--appendonly":
                        assert r.execute_command("WAITAOF", 1, 0, 10_000)[0] == 1
                server.signal(signal.SIGUSR2)
                time.sleep(random.random() * 0.3)
                server.kill()
                server.restart()
                with server.client() as r:
                    for _ in within_limit():
                        if run_id(r):
                            break
                    assert r.dbsize() == (STRINGS if kept else 0), (options, r.dbsize())
                assert not list(Path(server.folder.name).glob("temp-*"))
