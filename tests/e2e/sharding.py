"""Three nodes behind twemproxy (Debian's nutcracker), for both protocols: what is served with all nodes, without one, and with
that one again."""

import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis
from server import END_LIMIT_S, LIMIT_S, Server, free_port, within_limit

pytestmark = [pytest.mark.only_mayfly, pytest.mark.needs("nutcracker")]

KEYS = [f"key:{number}" for number in range(600)]
# Time after which the proxy tries an ejected node again.
RETRY_MS = 500
POOL = """{name}:
  listen: 127.0.0.1:{port}
  hash: murmur
  distribution: ketama
  redis: {is_redis}
  timeout: 2000
  auto_eject_hosts: true
  server_retry_timeout: {retry}
  server_failure_limit: 1
  servers:
"""


class Memcached:
    """A connection in memcached's text protocol, with the calls of a Redis client that the check needs."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.lines = self.socket.makefile("rb")

    def _call(self, request: str) -> str:
        self.socket.sendall(request.encode())
        line = self.lines.readline().decode().rstrip("\r\n")
        if not line or line.startswith(("SERVER_ERROR", "ERROR", "CLIENT_ERROR")):
            raise redis.RedisError(line)
        return line

    def set(self, key: str, value: str, px: int) -> None:
        assert self._call(f"set {key} 0 {px // 1000} {len(value)}\r\n{value}\r\n") == "STORED"

    def get(self, key: str) -> str | None:
        line = self._call(f"get {key}\r\n")
        if line == "END":
            return None
        value = self.lines.read(int(line.split()[3]) + 2)[:-2].decode()
        assert self.lines.readline() == b"END\r\n"
        return value

    def mget(self, keys: list[str]) -> list[str | None]:
        return [self.get(key) for key in keys]

    def close(self) -> None:
        self.socket.close()


class Proxy:
    """Debian's nutcracker in front of nodes. The names of the nodes, not their ports, place keys on the ring."""

    def __init__(self, ports: list[int], is_redis: bool):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-proxy-")
        self.port = free_port()
        text = POOL.format(name="pool", port=self.port, is_redis=str(is_redis).lower(), retry=RETRY_MS)
        text += "".join(f"   - 127.0.0.1:{port}:1 node{number}\n" for number, port in enumerate(ports))
        path = Path(self.folder.name) / "nutcracker.yml"
        path.write_text(text)
        command = ["nutcracker", "--conf-file", str(path), "--stats-addr", "127.0.0.1", "--stats-port", str(free_port())]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in within_limit():
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None, "nutcracker has ended"

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(END_LIMIT_S)
        self.folder.cleanup()


def persist(call):
    """Repeats a request while the proxy reports that the node is away: each attempt to reach it again costs one request."""
    for _ in within_limit():
        try:
            return call()
        except redis.RedisError as error:
            last = error
    raise last


def held(nodes: list[Server]) -> list[set[str]]:
    """Keys on each node."""
    sets = []
    for node in nodes:
        with node.client(decode_responses=True) as direct:
            sets.append(set(direct.scan_iter(count=1000)))
    return sets


def check_nodes(nodes: list[Server], client) -> None:
    for key in KEYS:
        client.set(key, f"value of {key}", px=3_600_000)
    before = held(nodes)
    assert all(before) and sum(map(len, before)) == len(KEYS), [len(keys) for keys in before]
    assert client.mget(KEYS) == [f"value of {key}" for key in KEYS]
    with nodes[0].client() as direct:
        # The deadline has passed through the proxy.
        assert 3_500_000 < direct.pttl(next(iter(before[0]))) <= 3_600_000

    lost = nodes[1]
    lost.process.kill()
    lost.process.wait(END_LIMIT_S)
    for key in KEYS:
        expected = None if key in before[1] else f"value of {key}"
        assert persist(lambda: client.get(key)) == expected, key
    # Keys of the lost node are cached again by the other two, and no other key moves.
    for key in before[1]:
        persist(lambda: client.set(key, "again", px=3_600_000))
    rest = held([nodes[0], nodes[2]])
    assert rest[0] >= before[0] and rest[1] >= before[2]
    assert rest[0] | rest[1] == set(KEYS)
    for key in before[1]:
        assert persist(lambda: client.get(key)) == "again", key

    # The node returns, empty. The proxy sends it its keys, and the copies on the others are not read any more.
    lost.restart()
    with lost.client(decode_responses=True) as direct:
        for _ in within_limit():
            persist(lambda: client.set("probe" if not before[1] else min(before[1]), "new", px=3_600_000))
            if direct.dbsize() > 0:
                break
    for key in before[1]:
        assert persist(lambda: client.get(key)) in (None, "new"), key
        persist(lambda: client.set(key, "new", px=3_600_000))
    assert held([lost])[0] == before[1]
    assert [persist(lambda: client.get(key)) for key in KEYS] == ["new" if key in before[1] else f"value of {key}" for key in KEYS]


@pytest.mark.parametrize("is_redis", (True, False), ids=("redis", "memcached"))
def test_three_nodes_behind_a_proxy_serve_clients_without_one_of_them(bench, is_redis):
    ports = [free_port() for _ in range(3)]
    nodes = [bench.start(*([] if is_redis else ["--memcached", str(port)])) for port in ports]
    proxy = Proxy([node.port for node in nodes] if is_redis else ports, is_redis)
    try:
        client = redis.Redis(port=proxy.port, socket_timeout=LIMIT_S, decode_responses=True, protocol=2, driver_info=None) if is_redis else Memcached(proxy.port)
        check_nodes(nodes, client)
        client.close()
    finally:
        proxy.end()
        for node in nodes:
            node.end()
