"""TLS: real clients, certificates that must be refused, reloads, and bytes that are not TLS. Certificates are made by openssl."""

import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from server import LIMIT_S, free_port, run_to_end, within_limit

pytestmark = pytest.mark.only_mayfly

REFUSED = (ssl.SSLError, ConnectionError, redis.ConnectionError)


class Authority:
    """A certificate authority in a folder, with the certificates that it has signed."""

    def __init__(self, name: str = "authority"):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-tls-")
        self.path = Path(self.folder.name)
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
                 "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip

    def run(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.path, check=True, capture_output=True, timeout=LIMIT_S)

    def sign(self, name: str, subject: str, host: str = "localhost", days: int = 3, is_version_1: bool = False) -> tuple[str, str]:
        """Returns the paths of a certificate and its key. With negative days it has expired. Version 1 has no extensions."""
        (self.path / "extensions").write_text(f"subjectAltName=DNS:{host},IP:127.0.0.1\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                 "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        dates = ["-days", str(days)]
        extensions = [] if is_version_1 else ["-extfile", "extensions"]
        self.run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", *dates, *extensions,
                 "-out", f"{name}.crt")  # fmt: skip
        return str(self.path / f"{name}.crt"), str(self.path / f"{name}.key")

    @property
    def file(self) -> str:
        return str(self.path / "ca.crt")


class Secure:
    """A server with a port for TLS."""

    def __init__(self, bench, authority: Authority, *options: str, clients: str = "no"):
        self.authority = authority
        self.certificate, self.key = authority.sign("server", "/CN=server")
        self.tls_port, self.memcached_port = free_port(), free_port()
        self.server = bench.start(
            "--tls-port", str(self.tls_port), "--tls-memcached", str(self.memcached_port), "--tls-cert-file", self.certificate,
            "--tls-key-file", self.key, "--tls-ca-cert-file", authority.file, "--tls-auth-clients", clients, *options,
        )  # fmt: skip

    def __enter__(self) -> "Secure":
        return self

    def __exit__(self, *_) -> None:
        self.server.__exit__()

    def client(self, **options) -> redis.Redis:
        options = {"ssl_ca_certs": self.authority.file, "ssl_check_hostname": True, "retry": Retry(NoBackoff(), 0), **options}
        return redis.Redis(host="localhost", port=self.tls_port, ssl=True, socket_timeout=LIMIT_S, **options)

    def raw(self, port: int | None = None) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port or self.tls_port), timeout=LIMIT_S)

    def wrapped(self, port: int | None = None, **options) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.authority.file)
        for name, value in options.items():
            setattr(context, name, value)
        return context.wrap_socket(self.raw(port), server_hostname="localhost")

    def serial(self) -> str:
        with self.wrapped() as connection:
            return connection.getpeercert()["serialNumber"]


def is_refused(work) -> bool:
    try:
        work()
    except REFUSED:
        return True
    return False


def test_clients_use_tls(bench):
    with Secure(bench, Authority()) as secure:
        with secure.client(protocol=3) as r:
            assert r.set("k", "v") and r.get("k") == b"v"
            large = os.urandom(3 << 20)
            assert r.set("large", large) and r.get("large") == large
            with r.pipeline(transaction=False) as pipe:
                for index in range(1_000):
                    pipe.set(f"k:{index}", "x" * index)
                    pipe.get(f"k:{index}")
                assert pipe.execute()[1::2] == [b"x" * index for index in range(1_000)]
            info = r.client_info()
            assert int(info["tot-mem"]) > 4_000
            pubsub = r.pubsub()
            pubsub.subscribe("channel")
            assert pubsub.get_message(timeout=LIMIT_S)["type"] == "subscribe"
            payloads = [bytes([65 + index]) * 40_000 for index in range(20)]
            for payload in payloads:
                r.publish("channel", payload)
            assert [pubsub.get_message(timeout=LIMIT_S)["data"] for _ in payloads] == payloads
            pubsub.close()
        with secure.server.client() as plain:
            assert plain.get("k") == b"v"
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with secure.wrapped(minimum_version=version, maximum_version=version) as connection:
                connection.sendall(b"PING\r\nGET k\r\n")
                assert connection.recv(100).startswith(b"+PONG\r\n"), version
        with secure.wrapped(secure.memcached_port) as connection:
            connection.sendall(b"set m 0 0 3\r\nabc\r\nget m\r\n")
            got = b""
            while not got.endswith(b"END\r\n"):
                got += connection.recv(100)
            assert got == b"STORED\r\nVALUE m 0 3\r\nabc\r\nEND\r\n", got


def test_openssl_connects(bench):
    with Secure(bench, Authority()) as secure:
        address = ["openssl", "s_client", "-connect", f"127.0.0.1:{secure.tls_port}", "-CAfile", secure.authority.file]
        for version in ("-tls1_2", "-tls1_3"):
            done = subprocess.run([*address, "-quiet", version], input=b"PING\r\nQUIT\r\n", capture_output=True, timeout=LIMIT_S, check=False)
            assert done.stdout == b"+PONG\r\n+OK\r\n", done
        # R requests a renegotiation, which is refused.
        done = subprocess.run([*address, "-tls1_2"], input=b"R\n", capture_output=True, timeout=LIMIT_S, check=False)
        assert b"RENEGOTIATING" in done.stdout + done.stderr and b"no renegotiation" in done.stderr, done
        with secure.client() as r:
            assert r.ping()


def test_certificates_of_clients_are_checked(bench):
    authority, stranger = Authority(), Authority("stranger")
    certificate, key = authority.sign("client", "/O=mayfly/CN=worker one")
    expired = authority.sign("expired", "/CN=late", days=-1)
    unknown = stranger.sign("unknown", "/CN=unknown")
    old = authority.sign("old", "/CN=old", is_version_1=True)
    with Secure(bench, authority, clients="yes") as secure:
        with secure.client(ssl_certfile=certificate, ssl_keyfile=key) as r:
            assert r.ping() and r.client_info()["tls-cn"] == "worker?one"
        # Of the version of a certificate the log had no reason, and of the others on the level debug only.
        for refused, reason in (((None, None), "no certificates"), (expired, "Expired"), (unknown, "UnknownIssuer"), (old, "X.509 version 1")):
            assert is_refused(lambda: secure.client(ssl_certfile=refused[0], ssl_keyfile=refused[1]).ping()), refused
            line = next(line for line in reversed(secure.server.log_text().splitlines()) if "the TLS handshake failed" in line)
            assert reason.lower() in line.lower(), line
        with secure.server.client() as plain:
            assert plain.config_set("tls-auth-clients", "optional")
        with secure.client() as r:
            assert r.ping() and "tls-cn" not in r.client_info()
        assert is_refused(lambda: secure.client(ssl_certfile=expired[0], ssl_keyfile=expired[1]).ping())


def test_clients_refuse_wrong_servers(bench):
    authority = Authority()
    with Secure(bench, authority) as secure:
        assert is_refused(lambda: secure.client(ssl_ca_certs=Authority("other").file).ping())
        with secure.server.client() as plain:
            for certificate, key in (authority.sign("late", "/CN=late", days=-1), authority.sign("wrong", "/CN=wrong", host="elsewhere")):
                assert plain.config_set("tls-cert-file", certificate, "tls-key-file", key)
                assert is_refused(secure.client().ping)


def test_certificates_are_reloaded(bench):
    authority = Authority()
    with Secure(bench, authority) as secure:
        with secure.client() as connected:
            connected.ping()
            first = secure.serial()
            renewed, key = authority.sign("renewed", "/CN=renewed")
            whole, whole_key = Path(renewed).read_bytes(), Path(key).read_bytes()
            # A file that is half-written keeps the old certificate.
            Path(secure.certificate).write_bytes(whole[: len(whole) // 2])
            secure.server.signal(signal.SIGHUP)
            for _ in within_limit():
                if "previous TLS certificates stay in use" in secure.server.log_text():
                    break
                time.sleep(0.01)
            assert secure.serial() == first
            with secure.server.client() as plain:
                text = ""
                try:
                    plain.config_set("tls-cert-file", renewed)
                except redis.ResponseError as error:
                    text = str(error)
                assert "tls-cert-file" in text and plain.config_get("tls-cert-file")["tls-cert-file"] == secure.certificate
                Path(secure.certificate).write_bytes(whole)
                Path(secure.key).write_bytes(whole_key)
                secure.server.signal(signal.SIGHUP)
                for _ in within_limit():
                    if secure.serial() != first:
                        break
                    time.sleep(0.01)
                other, other_key = authority.sign("other", "/CN=other")
                assert plain.config_set("tls-cert-file", other, "tls-key-file", other_key)
                second = secure.serial()
                assert second != first
                # Without a signal, also if the two files are replaced one after the other.
                last, last_key = authority.sign("last", "/CN=last")
                os.replace(last, other)
                os.replace(last_key, other_key)
                for _ in within_limit():
                    if secure.serial() != second:
                        break
                    time.sleep(0.1)
            assert connected.ping(), "connections keep what they began with"


def test_sessions_are_resumed(bench):
    """By tickets of both versions, which a change of the settings ends."""
    with Secure(bench, Authority()) as secure:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=secure.authority.file)
            context.minimum_version = context.maximum_version = version

            def connect(session=None):
                connection = context.wrap_socket(secure.raw(), server_hostname="localhost", session=session)
                connection.sendall(b"PING\r\n")
                assert connection.recv(100) == b"+PONG\r\n"
                return connection

            session = None
            for turn in range(3):
                with connect(session) as connection:
                    assert connection.session_reused == (turn > 0), (version, turn)
                    session = connection.session
            with secure.server.client() as plain:
                assert plain.config_set("tls-protocols", "TLSv1.2 TLSv1.3")
            with connect(session) as connection:
                assert not connection.session_reused, version


def test_ping_uses_tls_and_a_password(bench):
    authority = Authority()
    folder = authority.path

    def ping(secure: Secure, *options: str, tls: bool = True) -> tuple[int, str, str]:
        settings = folder / "server.conf"
        lines = [f"tls-port {secure.tls_port}", f"tls-cert-file {secure.certificate}", f"tls-key-file {secure.key}", "port 0", "requirepass secret"]
        settings.write_text("\n".join([*lines, "tls-auth-clients no", ""]))
        program = str(Path(bench.binary).resolve())
        done = subprocess.run([program, "ping", str(settings), *options], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    with Secure(bench, authority, "--requirepass", "secret") as secure:
        assert ping(secure) == (0, "PONG\n", "")
        assert ping(secure, "--tls", "--cacert", authority.file, "--host", "localhost") == (0, "PONG\n", "")
        other = Authority("other")
        code, _, text = ping(secure, "--tls", "--cacert", other.file, "--host", "localhost")
        assert code == 1 and "certificate" in text, text
        code, _, text = ping(secure, "--tls", "--port", str(secure.server.port))
        assert code == 1 and "TLS" in text, text
        (folder / "password").write_text("secret\n")
        assert ping(secure, "--password-file", str(folder / "password"))[0] == 0
        (folder / "password").write_text("wrong\n")
        code, _, text = ping(secure, "--password-file", str(folder / "password"))
        assert code == 1 and "WRONGPASS" in text and "wrong" not in text, text
        code, _, text = ping(secure, "--password-file", str(folder))
        assert code == 1 and "regular file" in text, text
        # A renewed certificate that the server has not read yet is no reason to restart it.
        secure.certificate, secure.key = authority.sign("renewed", "/CN=renewed")
        code, out, text = ping(secure)
        assert (code, out) == (0, "PONG\n") and "SIGHUP" in text, text
        with secure.server.client(password="secret") as plain:
            assert plain.config_set("tls-auth-clients", "yes")
        code, out, _ = ping(secure)
        assert (code, out) == (0, "PONG\n"), "a server that demands a certificate answers"


def test_what_is_not_tls_is_refused_at_once(bench):
    with Secure(bench, Authority()) as secure:
        for sent, port in (
            (b"PING\r\n", secure.tls_port),
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", secure.tls_port),
            (b"get k\r\n", secure.memcached_port),
        ):
            with secure.raw(port) as connection:
                connection.sendall(sent)
                assert b"requires TLS" in connection.recv(100) and connection.recv(100) == b"", sent
        for sent in (b"\x16", b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff", os.urandom(500)):
            with secure.raw() as connection:
                try:
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
                except OSError:
                    pass
        # TLS on the plain port is not a command.
        assert is_refused(lambda: ssl.create_default_context().wrap_socket(secure.server.raw(), server_hostname="localhost"))
        with secure.client() as r:
            assert r.ping()


def test_handshakes_are_bounded(bench):
    """Handshakes that never end hold little memory and are closed; others are served meanwhile."""
    with Secure(bench, Authority()) as secure:
        before = secure.server.resident_bytes()
        # A record of a handshake is announced, and its bytes arrive slowly or never.
        slow = [secure.raw() for _ in range(200)]
        for connection in slow:
            connection.sendall(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(10_000))
        with secure.client() as r:
            started = time.monotonic()
            assert r.ping()
            assert len(r.client_list()) >= 200
            assert secure.server.resident_bytes() - before < 16 << 20
            flood = threading.Thread(target=lambda: [secure.wrapped().close() for _ in range(100)])
            flood.start()
            while flood.is_alive():
                assert r.ping()
            for _ in within_limit():
                if len(r.client_list()) < 10:
                    break
                slow[0].settimeout(0.2)
                time.sleep(0.1)
            assert time.monotonic() - started < LIMIT_S
        for connection in slow:
            connection.close()


def test_protocols_and_ciphers_are_chosen(bench):
    with Secure(bench, Authority(), "--tls-protocols", "TLSv1.3", "--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256") as secure:
        with secure.wrapped() as connection:
            assert connection.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"
        assert is_refused(lambda: secure.wrapped(maximum_version=ssl.TLSVersion.TLSv1_2))
        with secure.server.client() as plain:
            assert plain.config_set("tls-protocols", "TLSv1.2", "tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")
        with secure.wrapped() as connection:
            assert connection.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_groups_of_the_key_exchange_are_chosen(bench):
    with Secure(bench, Authority(), "--tls-groups", "secp384r1") as secure:
        def is_served(curve):
            context = ssl.create_default_context(cafile=secure.authority.file)
            context.set_ecdh_curve(curve)
            return not is_refused(lambda: context.wrap_socket(secure.raw(), server_hostname="localhost").close())
        assert is_served("secp384r1") and not is_served("prime256v1")
        with secure.server.client() as plain:
            assert plain.config_set("tls-groups", "X25519:secp256r1")
            assert is_served("prime256v1") and not is_served("secp384r1")
            with pytest.raises(redis.ResponseError, match="tls-groups 'X448': expected some of X25519MLKEM768 X25519"):
                plain.config_set("tls-groups", "X448")


def test_wrong_settings_end_the_start(bench):
    authority = Authority()
    certificate, key = authority.sign("server", "/CN=server")
    other_key = authority.sign("other", "/CN=other")[1]
    empty = str(authority.path / "empty")
    Path(empty).write_bytes(b"")
    base = ["--port", str(free_port()), "--tls-port", str(free_port()), "--tls-auth-clients", "no"]
    for options, expected in (
        ([], "tls-cert-file is required"),
        (["--tls-cert-file", "/nonexistent", "--tls-key-file", key], "tls-cert-file /nonexistent"),
        (["--tls-cert-file", empty, "--tls-key-file", key], "no certificate"),
        (["--tls-cert-file", certificate, "--tls-key-file", certificate], "no unencrypted private key"),
        (["--tls-cert-file", certificate, "--tls-key-file", other_key], "tls-key-file"),
        (["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "yes"], "tls-ca-cert-file is required"),
        (["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ciphers", "NULL"], "tls-ciphers 'NULL'"),
        (["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-protocols", "SSLv3"], "tls-protocols 'SSLv3'"),
    ):
        code, text = run_to_end(bench.binary, *base, *options)
        assert code != 0 and expected in text, (options, text)


def test_only_tls(bench):
    """Port 0 disables the plain port."""
    with Secure(bench, Authority()) as secure:
        options = ["--port", "0", "--tls-port", str(free_port()), "--tls-cert-file", secure.certificate, "--tls-key-file", secure.key]
        process = subprocess.Popen([bench.binary, "serve", *options, "--tls-auth-clients", "no"], stderr=subprocess.PIPE, text=True)
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "with TLS on" in line:
                    break
            assert not any("serves on 127" in line for line in lines), lines
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)
