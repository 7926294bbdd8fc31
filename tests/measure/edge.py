#!/usr/bin/env python3
"""Requests per second of processor time: `mayfly edge serve` beside nginx with proxy_cache, Varnish and Traffic Server, in turns.

    tests/measure/edge.py small target/release/mayfly [--rounds 5] [--other OTHER-MAYFLY] [--floor target/release/examples/hyper_floor]
    tests/measure/edge.py large target/release/mayfly [--rounds 5] [--other OTHER-MAYFLY]
    tests/measure/edge.py latency target/release/mayfly --open-loop target/release/examples/open_loop [--rate 20000]

small  1,000 objects of 1 KiB, all in memory (nginx: in the page cache).
latency  the objects of `small`, requested at a fixed rate, which half of a core or less should serve. The time counts from when a request is due
       (cargo build --release -p mayfly-node --example open_loop).
large  600 objects of 1 MiB on disk, of which Mayfly's and Traffic Server's memory has room for 64; the page cache has them all. nginx uses
       sendfile, Varnish its storage in a mapped file.

Peers are those of nginx, varnishd and traffic_server (Debian: nginx-light, varnish, trafficserver) that are installed; --peers selects. Each
has one worker, but Varnish, which has a thread per active connection, and no access log; what a hit writes to Varnish's log in memory is off too. wrk (Debian: wrk) sends random URLs over 16 connections. The figure is requests by the user and
kernel time of the server's processes, so that a machine that does something else meanwhile matters less; rounds alternate, and the median
and the extremes are printed. --other adds another build. --floor adds a server on hyper that does nothing but reply
(cargo build --release -p mayfly-node --example hyper_floor).
"""

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

START_LIMIT_S = 60.0
TICK = os.sysconf("SC_CLK_TCK")
ROUND_S = 3

# kind: number of objects, bytes of each, bytes of memory for objects, further arguments of Mayfly
KINDS = {
    "latency": (1_000, 1 << 10, 256 << 20, []),
    "small": (1_000, 1 << 10, 256 << 20, []),
    "large": (600, 1 << 20, 64 << 20, ["--max-object", "2mb", "--disk", "{folder}/disk", "--disk-size", "4gb"]),
}

NGINX = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=zone:64m max_size=8g inactive=1d use_temp_path=off;
  open_file_cache max=10000 inactive=1d;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{origin};
      proxy_cache zone;
      add_header X-Cache $upstream_cache_status;
    }}
  }}
}}
"""

VCL = """
vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}
"""

# What a hit writes to Varnish's log in shared memory.
VARNISH_LOG = (
    "Begin End Link SessOpen SessClose ReqStart ReqMethod ReqURL ReqProtocol ReqHeader ReqUnset ReqAcct VCL_call VCL_return Hit "
    "RespProtocol RespStatus RespReason RespHeader RespUnset Timestamp Length Filters"
)

# The files of Traffic Server by name, in one folder.
TRAFFIC_SERVER = {
    "records.config": """
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.accept_threads INT 1
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.cache.ram_cache.size INT {memory}
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.url_remap.remap_required INT 1
""",
    "remap.config": "map / http://127.0.0.1:{origin}/\n",
    "storage.config": "{folder}/cache 4G\n",
    "ip_allow.yaml": "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.1\n    action: allow\n    methods: ALL\n",
    "logging.yaml": "",
    "plugin.config": "",
}

LUA = """
local n = 0
request = function()
  n = (n * 1103515245 + 12345) % 2147483648
  return wrk.format("GET", "/" .. (math.floor(n / 65536) % COUNT))
end
done = function(summary)
  local errors = summary.errors
  print("REQUESTS " .. summary.requests .. " FAILED " .. (errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
"""


def nginx(program: str, folder: Path, port: int, origin: int, _memory: int) -> subprocess.Popen:
    # As root, nginx would otherwise take another user, who cannot read the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(user=user, folder=folder, port=port, origin=origin))
    return subprocess.Popen([program, "-c", config, "-p", folder], stderr=subprocess.DEVNULL)


def varnish(program: str, folder: Path, port: int, origin: int, memory: int) -> subprocess.Popen:
    config = folder / "origin.vcl"
    config.write_text(VCL.format(origin=origin))
    storage = f"malloc,{memory}" if memory >= 256 << 20 else f"file,{folder}/storage,4g"
    words = ["-F", "-a", f"127.0.0.1:{port}", "-f", config, "-n", folder / "varnish", "-s", storage, "-j", "none", "-T", "none"]
    log = "vsl_mask=" + ",".join(f"-{tag}" for tag in VARNISH_LOG.split())
    options = [word for option in ("thread_pools=1", "thread_pool_min=20", log) for word in ("-p", option)]
    return subprocess.Popen([program, *words, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def traffic_server(program: str, folder: Path, port: int, origin: int, memory: int) -> subprocess.Popen:
    paths = {name: folder / name for name in ("etc", "cache", "run", "log")}
    for path in paths.values():
        path.mkdir(parents=True)
    for name, text in TRAFFIC_SERVER.items():
        (paths["etc"] / name).write_text(text.format(folder=folder, port=port, origin=origin, memory=memory))
    layout = f"prefix: /usr\nsysconfdir: {paths['etc']}\nlocalstatedir: {folder}\nruntimedir: {paths['run']}\nlogdir: {paths['log']}\n"
    (folder / "runroot.yaml").write_text(layout + f"cachedir: {paths['cache']}\n")
    return subprocess.Popen([program, f"--run-root={folder / 'runroot.yaml'}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# name: the program, and what starts it
PEERS = {"nginx": ("nginx", nginx), "varnish": ("varnishd", varnish), "ats": ("traffic_server", traffic_server)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def origin(size: int) -> ThreadingHTTPServer:
    content = bytes(index * 31 % 251 for index in range(1 << 10)) * (size >> 10)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and content in one write, which no delayed acknowledgement can hold back.
        wbufsize = -1

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Cache-Control", "max-age=86400")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Polls until a process listens, because nothing announces it."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def processor_seconds(process: int) -> float:
    """User and kernel time of a process and its children."""
    total = 0.0
    waiting = [process]
    while waiting:
        current = waiting.pop()
        fields = Path(f"/proc/{current}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / TICK
        children = Path(f"/proc/{current}/task/{current}/children")
        waiting += [int(child) for child in children.read_text().split()]
    return total


def fetch_all(port: int, count: int, size: int) -> None:
    """Requests every object twice, so that it is stored, and checks its length."""
    for number in list(range(count)) * 2:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            reply = b"".join(iter(lambda: client.recv(1 << 20), b""))
        head, content = reply.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 200 ") or len(content) != size:
            sys.exit(f"object {number}: expected 200 and {size} bytes, received {head[:60]!r} and {len(content)}")


def measure(port: int, process: int, script: Path) -> float:
    before = processor_seconds(process)
    command = ["wrk", "-t", "1", "-c", "16", "-d", f"{ROUND_S}s", "-H", "Host: a", "-s", str(script), f"http://127.0.0.1:{port}"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = re.search(r"REQUESTS (\d+) FAILED (\d+)", output)
    if counts is None or counts[2] != "0":
        sys.exit(f"wrk: expected no failures:\n{output}")
    return int(counts[1]) / (processor_seconds(process) - before)


def latency(program: Path, port: int, count: int, rate: int) -> list[int]:
    """Returns the 50th, 99th and 99.9th percentile and the maximum in microseconds."""
    words = [program, f"127.0.0.1:{port}", str(count), str(rate), str(ROUND_S), "16"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in re.search(r"p50 (\d+) p99 (\d+) p99.9 (\d+) max (\d+)", output).groups()]


def show_latencies(arguments: argparse.Namespace, ports: dict[str, int], names: list[str], count: int) -> None:
    rows = [(name, latency(arguments.open_loop, ports[name], count, arguments.rate)) for _ in range(arguments.rounds) for name in names]
    print(f"latency: {arguments.rate} requests/s, {arguments.rounds} rounds of {ROUND_S} s; µs, medians of the rounds (99.9th: least to most)")
    for name in names:
        columns = list(zip(*(row for of, row in rows if of == name)))
        p50, p99, p999, most = (statistics.median(column) for column in columns)
        print(f"  {name:7} 50th {p50:6.0f}  99th {p99:6.0f}  99.9th {p999:6.0f} ({min(columns[2])} to {max(columns[2])})  maximum {most:6.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("mayfly", type=Path)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--other", type=Path, help="another build of the program")
    parser.add_argument("--open-loop", type=Path, help="the example open_loop")
    parser.add_argument("--rate", type=int, default=20_000, help="requests per second of latency")
    parser.add_argument("--floor", type=Path, help="the example hyper_floor")
    arguments = parser.parse_args()
    count, size, memory, more = KINDS[arguments.kind]
    source = origin(size)
    folder = Path(tempfile.mkdtemp(prefix="edge-"))
    ports = {name: free_port() for name in ("mayfly", "other", "floor", *PEERS)}
    script = folder / "wrk.lua"
    script.write_text(LUA.replace("COUNT", str(count)))
    processes = {}
    for name, program in (("mayfly", arguments.mayfly), ("other", arguments.other)):
        if program is not None:
            served = ["--listen", f"127.0.0.1:{ports[name]}", "--origin", f"http://127.0.0.1:{source.server_port}"]
            flags = [flag.format(folder=folder / name) for flag in more]
            processes[name] = subprocess.Popen([program, "edge", "serve", *served, *flags, "--memory", str(memory), "--threads", "1", "--loglevel", "warning"])
    for name in arguments.peers:
        program, start = PEERS[name]
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin")
        if path is None:
            print(f"{name}: {program} is not installed, not measured")
            continue
        (folder / name).mkdir()
        processes[name] = start(path, folder / name, ports[name], source.server_port, memory)
    if arguments.floor is not None:
        processes["floor"] = subprocess.Popen([arguments.floor, f"127.0.0.1:{ports['floor']}", str(size)])
    try:
        for name, process in processes.items():
            wait_for(ports[name], process)
            fetch_all(ports[name], count, size)
        if arguments.kind == "latency":
            show_latencies(arguments, ports, list(processes), count)
            return
        figures: dict[str, list[float]] = {name: [] for name in processes}
        for _ in range(arguments.rounds):
            for name, process in processes.items():
                figures[name].append(measure(ports[name], process.pid, script))
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.kind}: {count} objects of {size} bytes, {arguments.rounds} rounds of {ROUND_S} s; requests per second of processor time")
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"  {name:7} median {medians[name]:9.0f}, {min(values):.0f} to {max(values):.0f}")
    for name in medians.keys() - {"mayfly"}:
        print(f"  mayfly / {name}: {medians['mayfly'] / medians[name]:.2f}")


if __name__ == "__main__":
    main()
