"""Runs the five sites of docs/guide/edge-sites.md with `mayfly edge serve`, nginx and Varnish, and checks
that the same requests reach the origin in all of them.

    python3 tests/edge/sites.py --mayfly target/release/mayfly

The configurations are those of the page; only addresses and folders are replaced. nginx and Varnish are left
out, with a line that says so, where they are not installed.
"""

import argparse
import gzip
import http.client
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "guide" / "edge-sites.md"
TOKEN = "0123456789abcdef"
TEXT = b"body { color: black } " * 200


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def poll(condition, what: str) -> None:
    """Waits until a condition holds. The limit separates a hang from a slow machine."""
    for _ in range(1_200):
        if condition():
            return
        time.sleep(0.05)
    sys.exit(f"{what}: waited a minute")


class Origin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests: list[str] = []
    is_failing = False

    def do_GET(self) -> None:
        if self.path == "/health":
            return self.reply(200, b"well")
        Origin.requests.append(self.path)
        if Origin.is_failing:
            return self.reply(503, b"failing")
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(self.rfile.read(4)[::-1])
            self.close_connection = True
            return None
        if self.path.startswith("/none"):
            return self.reply(404, b"none")
        cookie = self.headers.get("Cookie", "")
        return self.reply(200, TEXT + f"{self.path} {cookie}".encode())

    do_HEAD = do_POST = do_GET

    def reply(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/css")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_) -> None:
        pass

    def handle(self) -> None:
        # A proxy that ends resets its connections.
        with suppress(ConnectionError):
            super().handle()


class Cache:
    """A proxy under test, and the number of requests that reached the origin since the last look."""

    def __init__(self, kind: str, port: int) -> None:
        self.kind, self.port = kind, port

    def get(self, path: str, method: str = "GET", **fields: str) -> tuple[int, bytes, dict]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        client.request(method, path, headers={"Host": "www.example.org", **fields})
        reply = client.getresponse()
        content = reply.read()
        client.close()
        return reply.status, content, {name.lower(): value for name, value in reply.getheaders()}

    def forwarded(self, path: str, **fields: str) -> int:
        """Returns the number of requests to the origin that a request causes."""
        before = len(Origin.requests)
        self.get(path, **fields)
        return len(Origin.requests) - before

    def check(self, what: str, found, expected) -> None:
        if found != expected:
            sys.exit(f"{self.kind}: {what}: expected {expected}, and found {found}")


def files(cache: Cache) -> None:
    cache.check("first", cache.forwarded("/a.css"), 1)
    cache.check("second", cache.forwarded("/a.css"), 0)
    cache.check("arguments", cache.forwarded("/a.css?v=1"), 0)
    cache.check("cookies", cache.forwarded("/a.css", Cookie="session=1"), 0)
    cache.get("/a.css", Accept_Encoding="gzip")
    before = len(Origin.requests)
    _, content, fields = cache.get("/a.css", Accept_Encoding="gzip")
    cache.check("compressed", fields.get("content-encoding"), "gzip")
    cache.check("content", gzip.decompress(content)[: len(TEXT)], TEXT)
    cache.check("compressed and stored", len(Origin.requests) - before, 0)


def blog(cache: Cache) -> None:
    cache.check("first", cache.forwarded("/post"), 1)
    cache.check("second", cache.forwarded("/post"), 0)
    cache.check("another cookie", cache.forwarded("/post", Cookie="theme=dark"), 0)
    for cookie in ("wordpress_logged_in_1=a", "theme=dark; comment_author_1=b"):
        cache.check(cookie, cache.forwarded("/post", Cookie=cookie), 1)
    cache.check("internal", [cache.forwarded("/wp-admin/x") for _ in range(2)], [1, 1])
    cache.check("absent", [cache.forwarded("/none") for _ in range(2)], [1, 0])


def interface(cache: Cache) -> None:
    cache.check("first", cache.forwarded("/list?page=2&id=1"), 1)
    cache.check("another argument", cache.forwarded("/list?page=2&id=1&session=9"), 0)
    cache.check("another page", cache.forwarded("/list?page=3&id=1"), 1)
    Origin.is_failing = True
    try:
        count = len(Origin.requests)

        def is_asked() -> bool:
            cache.check("while the origin fails", cache.get("/list?page=2&id=1")[0], 200)
            return len(Origin.requests) > count

        poll(is_asked, "a request to the origin")
        cache.check("after it has failed", cache.get("/list?page=2&id=1")[0], 200)
    finally:
        Origin.is_failing = False


def servers(cache: Cache) -> None:
    # A stored response would say nothing about the servers.
    numbers = itertools.count()
    poll(lambda: [cache.get(f"/x/{next(numbers)}")[0] for _ in range(4)] == [200] * 4, "the server that is up")
    with socket.create_connection(("127.0.0.1", cache.port), 30) as client:
        request = b"GET /ws HTTP/1.1\r\nHost: www.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nabcd"
        client.sendall(request)
        received = b""
        while not received.endswith(b"dcba"):
            part = client.recv(4_096)
            if not part:
                break
            received += part
        cache.check("WebSocket", received.startswith(b"HTTP/1.1 101 ") and received.endswith(b"dcba"), True)


def languages(cache: Cache) -> None:
    of = {}
    for cookie in ("lang=en", "lang=de", "theme=dark"):
        cache.check(f"first with {cookie}", cache.forwarded("/news", Cookie=cookie), 1)
        of[cookie] = cache.get("/news", Cookie=cookie)[1]
    cache.check("another cookie", cache.forwarded("/news", Cookie="theme=dark; lang=en"), 0)
    cache.check("languages", len({*of.values()}), 3)
    if cache.kind != "nginx":
        fields = {"Authorization": f"Bearer {TOKEN}", "Cookie": "lang=en"}
        cache.check("purge", cache.get("/news", "PURGE", **fields)[0], 200)
        cache.check("after the purge", cache.forwarded("/news", Cookie="lang=en"), 1)


CHECKS = {
    "Files of a site": files,
    "A blog with users": blog,
    "An interface with JSON": interface,
    "Several servers and WebSockets": servers,
    "Languages by cookie, and purges": languages,
}


@contextmanager
def running(arguments: list[str], port: int, folder: Path):
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output, cwd=folder)
    try:

        def listens() -> bool:
            if process.poll() is not None:
                sys.exit(f"{arguments[0]} has ended:\n{log.read_text()}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        poll(listens, arguments[0])
        yield
    finally:
        process.terminate()
        process.wait(30)


def run(kind: str, text: str, check, mayfly: str, origin: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mayfly-sites-"))
    port = free_port()
    try:
        # Nothing listens at the second server.
        other = f"127.0.0.1:{free_port()}"
        text = text.replace("10.0.0.1:3000", f"127.0.0.1:{origin}").replace("10.0.0.2:3000", other)
        text = text.replace('"10.0.0.1"; .port = "3000"', f'"127.0.0.1"; .port = "{origin}"')
        text = text.replace('"10.0.0.2"; .port = "3000"', f'"127.0.0.1"; .port = "{other.split(":")[1]}"')
        if kind == "mayfly":
            (folder / "token").write_text(TOKEN)
            text = text.replace("0.0.0.0:80", f"127.0.0.1:{port}").replace("/etc/mayfly/purge-token", str(folder / "token"))
            arguments = [mayfly, "edge", "serve", "--config", "site.toml"]
        elif kind == "nginx":
            text = text.replace("/var/cache/nginx", str(folder / "cache")).replace("listen 80;", f"listen 127.0.0.1:{port};")
            user = "user root;\n" if os.getuid() == 0 else ""
            text = f"{user}pid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{text}}}\n"
            arguments = ["nginx", "-p", str(folder), "-e", "stderr", "-c", "site.nginx", "-g", "daemon off;"]
        else:
            work = str(folder / "varnish")
            arguments = ["varnishd", "-F", "-j", "none", "-n", work, "-a", f"127.0.0.1:{port}", "-s", "malloc,64m", "-f", str(folder / "site.vcl")]
        suffix = {"mayfly": "toml", "nginx": "nginx", "varnish": "vcl"}[kind]
        (folder / f"site.{suffix}").write_text(text)
        with running(arguments, port, folder):
            check(Cache(kind, port))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Checks the sites of docs/guide/edge-sites.md.")
    parser.add_argument("--mayfly", default="target/release/mayfly", help="path of mayfly")
    mayfly = str(Path(parser.parse_args().mayfly).resolve())
    # Debian has servers in a folder that is not in the PATH of every user.
    os.environ["PATH"] += ":/usr/sbin"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    titles = [section.split("\n", 1)[0] for section in sections]
    if titles != list(CHECKS):
        sys.exit(f"expected a check for each of {titles}")
    passed, skipped = 0, 0
    for title, section in zip(titles, sections):
        for kind, language, program in (("mayfly", "toml", mayfly), ("nginx", "nginx", "nginx"), ("varnish", "vcl", "varnishd")):
            if shutil.which(program) is None:
                print(f"{title}: {kind}: skipped, {program} is not installed")
                skipped += 1
                continue
            found = re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
            if len(found) != 1:
                sys.exit(f"{title}: expected one configuration of {kind}, and found {len(found)}")
            began = time.monotonic()
            run(kind, found[0], CHECKS[title], mayfly, server.server_port)
            print(f"{title}: {kind}: passed in {time.monotonic() - began:.1f} s")
            passed += 1
    print(f"{passed} passed, 0 failed, {skipped} skipped")


if __name__ == "__main__":
    main()
