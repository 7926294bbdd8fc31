"""Malformed, misleading and hostile input over raw sockets: a clear error, a closed connection, no effect on others."""

import socket
import struct
import threading

import redis
from server import within_limit


def talk(bench, sent: bytes, server=None) -> bytes:
    """Sends bytes, closes the sending side, and returns everything until the server closes."""
    with (server or bench.server).raw() as s:
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)
        return read_to_end(s)


def read_to_end(s: socket.socket) -> bytes:
    got = b""
    try:
        while chunk := s.recv(1 << 16):
            got += chunk
    except ConnectionResetError:
        pass  # a close with unread input is a reset
    return got


def read_exactly(s: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        chunk = s.recv(min(1 << 20, count - len(got)))
        assert chunk, f"closed after {len(got)} of {count} bytes"
        got += chunk
    return bytes(got)


def closes_with(bench, sent: bytes, wanted: bytes) -> None:
    """The server replies and closes the connection without waiting for more."""
    with bench.server.raw() as s:
        s.sendall(sent)
        got = read_to_end(s)
    assert got == wanted, (sent[:60], got)


def test_malformed_input_gets_an_error_and_is_closed(bench):
    error = b"-ERR Protocol error: "
    closes_with(bench, b"*1\r\n$-5\r\n", error + b"invalid bulk length\r\n")
    closes_with(bench, b"*1\r\n$x\r\n", error + b"invalid bulk length\r\n")
    closes_with(bench, b"*1\r\n$536870913\r\n", error + b"invalid bulk length\r\n")
    closes_with(bench, b"*1\r\n$99999999999999999999\r\n", error + b"invalid bulk length\r\n")
    closes_with(bench, b"*2147483648\r\n", error + b"invalid multibulk length\r\n")
    closes_with(bench, b"*99999999999999999999\r\n", error + b"invalid multibulk length\r\n")
    closes_with(bench, b"*x\r\n", error + b"invalid multibulk length\r\n")
    closes_with(bench, b"*2\r\n+GET\r\n", error + b"expected '$', got '+'\r\n")
    closes_with(bench, b"*1\r\n$" + b"1" * 70_000, error + b"too big bulk count string\r\n")
    closes_with(bench, b"*" + b"1" * 70_000, error + b"too big mbulk count string\r\n")
    closes_with(bench, b"a" * 70_000, error + b"too big inline request\r\n")
    closes_with(bench, b'SET a "b\r\n', error + b"unbalanced quotes in request\r\n")


def test_replies_before_a_malformed_frame_are_sent(bench):
    got = talk(bench, b"*1\r\n$4\r\nPING\r\nECHO x\r\n*1\r\n$-9\r\n")
    assert got == b"+PONG\r\n$1\r\nx\r\n-ERR Protocol error: invalid bulk length\r\n", got


def test_empty_frames_are_skipped(bench):
    got = talk(bench, b"*0\r\n*-1\r\n\r\n\n*1\r\n$4\r\nPING\r\n")
    assert got == b"+PONG\r\n", got


def test_inline_commands(bench):
    sent = b"PING\r\nSET a \"b \\x41\\n\"\nGET a\r\n  ECHO   'it\\'s'  \r\n"
    got = talk(bench, sent)
    assert got == b"+PONG\r\n+OK\r\n$4\r\nb A\n\r\n$4\r\nit's\r\n", got


def test_wrong_commands_keep_the_connection(bench):
    sent = b"NOSUCH a b\r\nGET\r\nGET a b\r\n" + b"x" * 300 + b"\r\nCLIENT NOSUCH\r\nPING\r\n"
    lines = talk(bench, sent).split(b"\r\n")
    assert lines[0] == b"-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ", lines[0]
    assert lines[1] == lines[2] == b"-ERR wrong number of arguments for 'get' command", lines
    assert lines[3].startswith(b"-ERR unknown command 'xxx") and len(lines[3]) < 250, lines[3]
    assert lines[4].startswith(b"-ERR unknown subcommand") and lines[5] == b"+PONG", lines


def test_a_subscriber_of_resp2_may_only_subscribe_and_ping(bench):
    got = talk(bench, b"SUBSCRIBE a\r\nPING\r\nGET a\r\nUNSUBSCRIBE a\r\nGET a\r\n")
    wanted = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n-ERR Can't execute 'get': only "
    assert got.startswith(wanted), got
    assert got.endswith(b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n"), got


def test_bytes_one_at_a_time(bench):
    sent = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n\r\n\0\r\nGET a\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
    with bench.server.raw() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(sent)):
            s.sendall(sent[i : i + 1])
        s.shutdown(socket.SHUT_WR)
        assert read_to_end(s) == b"+OK\r\n" + b"$3\r\n\r\n\0\r\n" * 2


def test_truncated_frames_have_no_effect(bench):
    whole = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$10\r\n0123456789\r\n"
    for end in range(len(whole)):
        got = talk(bench, whole[:end])
        assert got == b"", (end, got)
    with bench.server.client() as r:
        assert r.exists("a") == 0


def test_keys_and_values_may_contain_any_byte(bench):
    every = bytes(range(256))
    with bench.server.client() as r:
        for key in (every, b"", b"\r\n", b"$3\r\nabc", "ключ".encode(), every * 100):
            assert r.set(key, every) and r.get(key) == every and r.delete(key) == 1


def test_large_values(bench):
    size = 64 << 20
    with bench.server.client() as r:
        value = bytes(range(256)) * (size // 256)
        assert r.set("large", value) and r.strlen("large") == size
        assert r.get("large") == value and r.delete("large") == 1


def test_the_largest_value_and_one_byte_more(bench):
    limit = 512 << 20
    with bench.server.client() as r:
        assert r.setrange("large", limit - 1, "x") == limit
        for call in (lambda: r.append("large", "y"), lambda: r.setrange("large", limit, "y")):
            try:
                call()
                raise AssertionError("taken")
            except redis.ResponseError as error:
                assert "exceeds maximum allowed size" in str(error), error
        assert r.getrange("large", limit - 2, -1) == b"\0x" and r.delete("large") == 1


def wait_for_clients(r: redis.Redis, count: int) -> None:
    """Waits until this number of clients is connected."""
    for _ in within_limit():
        if r.info("clients")["connected_clients"] == count:
            return


def test_clients_that_disconnect_in_a_pipeline(bench):
    with bench.server.client() as r:
        r.set("a", b"x" * 10_000)
        before = r.info("clients")["connected_clients"]
        for i in range(100):
            s = bench.server.raw()
            s.sendall(b"GET a\r\n" * 500 + b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$100\r\nhalf")
            if i % 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        wait_for_clients(r, before)
        assert r.exists("b") == 0


def test_a_slow_reader_is_not_read_from_and_others_are_served(bench):
    count, size = 300, 1 << 20
    with bench.start() as server, server.client() as r:
        r.set("a", b"x" * size)
        resident = server.resident_bytes()
        with server.raw() as s:
            sender = threading.Thread(target=s.sendall, args=(b"GET a\r\n" * count,))
            sender.start()
            # The 300 MB are not read yet. Others are served while the slow client is not.
            for _ in range(300):
                assert r.ping()
            grown = server.resident_bytes() - resident
            reply = b"$%d\r\n" % size + b"x" * size + b"\r\n"
            for _ in range(count):
                assert read_exactly(s, len(reply)) == reply
            sender.join()
        # Redis stores all replies of a normal client; Mayfly stops reading its requests.
        assert bench.is_redis or grown < 64 << 20, grown


def test_a_subscriber_that_does_not_read_is_dropped(bench):
    with bench.start("--client-output-buffer-limit", "pubsub 4mb 2mb 60") as server, server.client() as r:
        with server.raw() as s:
            s.sendall(b"SUBSCRIBE news\r\n")
            read_exactly(s, len(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"))
            for _ in within_limit():
                if r.publish("news", b"x" * (1 << 20)) == 0:
                    break
            assert len(read_to_end(s)) < 100 << 20


def test_a_client_above_maxclients_is_refused(bench):
    with bench.start("--maxclients", "10") as server, server.client() as r:
        wait_for_clients(r, 1)
        clients = [server.raw() for _ in range(9)]
        for s in clients:
            s.sendall(b"PING\r\n")
            assert read_exactly(s, 7) == b"+PONG\r\n"
        with server.raw() as s:
            assert read_to_end(s) == b"-ERR max number of clients reached\r\n"
        clients.pop().close()
        for _ in within_limit():
            with server.raw() as s:
                try:
                    s.sendall(b"PING\r\n")
                    if read_exactly(s, 7) == b"+PONG\r\n":
                        break
                except (AssertionError, OSError):
                    continue
        for s in clients:
            s.close()


def test_stricter_limits_apply_before_authentication(bench):
    with bench.start("--requirepass", "secret") as server:
        error = b"-ERR Protocol error: unauthenticated "
        assert talk(bench, b"*11\r\n", server) == error + b"multibulk length\r\n"
        assert talk(bench, b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", server) == error + b"bulk length\r\n"
        got = talk(bench, b"GET a\r\nAUTH wrong\r\nAUTH secret\r\nGET a\r\n", server).split(b"\r\n")
        assert got[0] == b"-NOAUTH Authentication required." and got[1].startswith(b"-WRONGPASS "), got
        assert got[2:4] == [b"+OK", b"$-1"], got


def test_many_connections_come_and_go(bench):
    with bench.server.client() as r:
        before = r.info("clients")["connected_clients"]
        for _ in range(20):
            crowd = [bench.server.raw() for _ in range(50)]
            for s in crowd:
                s.sendall(b"PING\r\n")
            for s in crowd:
                assert read_exactly(s, 7) == b"+PONG\r\n"
                s.close()
        wait_for_clients(r, before)
