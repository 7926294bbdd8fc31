"""memcached's protocol: times, errors and statistics as memcached 1.6 has them."""

import re

import pytest
from harness import Connection

ENGINES = ("slab", "segment")
# What the usual exporters for Prometheus and the clients' own tests read.
FIELDS = """pid uptime time version pointer_size rusage_user rusage_system max_connections curr_connections total_connections rejected_connections
connection_structures cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses
incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read
bytes_written limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes
hash_is_expanding malloc_fails bytes curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active evictions reclaimed
crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped""".split()


def found(client: Connection, key: str) -> bool:
    """Whether `get` returns the key."""
    first = client.ask(b"get " + key.encode())
    if first == b"END":
        return False
    assert first.startswith(b"VALUE "), first
    client.line()
    assert client.line() == b"END"
    return True


def lines_to_end(client: Connection, request: bytes) -> list[bytes]:
    lines = [client.ask(request)]
    while lines[-1] not in (b"END", b"ERROR", b"RESET", b"OK") and b"ERROR" not in lines[-1]:
        lines.append(client.line())
    return lines


@pytest.mark.engines(*ENGINES)
def test_exptime_has_32_bits(bench):
    """An exptime of 2,147,483,648 or more is negative, as libmemcached sends −1: the item is gone at once."""
    problems = []
    with bench.start() as server, server.memcached() as client:
        for time in ("4294967295", "2147483648", "-1"):
            for name, lines in (
                ("set", [f"set k 0 {time} 1\r\nx"]), ("touch", ["set k 0 0 1\r\nx", f"touch k {time}"]), ("ms", [f"ms k 1 T{time}\r\nx"]),
                ("gat", ["set k 0 0 1\r\nx", f"gat {time} k"]), ("add", [f"add k 0 {time} 1\r\nx"]),
            ):
                replies = [client.ask(line.encode()) for line in lines]
                if replies[-1].startswith(b"VALUE"):
                    client.line(), client.line()
                if found(client, "k"):
                    problems.append(f"{name} {time}: {replies[-1]} and the item is found")
                    client.ask(b"delete k")
    assert not problems, "; ".join(problems)


def test_version_is_a_number_that_clients_accept(bench):
    """`version` returns 1.6 with more parts. Further words are ignored, which memccapable of libmemcached requires of 1.6."""
    with bench.start() as server, server.memcached() as client:
        assert re.fullmatch(rb"VERSION 1\.6\.\d+\S*", client.ask(b"version")), client.ask(b"version")
        reply = client.ask(b"version foo")
        assert reply.startswith(b"VERSION 1.6."), reply


@pytest.mark.engines(*ENGINES)
def test_http_requests_close_the_connection(bench):
    """A request of HTTP ends the connection; commands in its body are not executed."""
    problems = []
    for verb in ("GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "CONNECT", "PATCH"):
        # memcached itself looks for five of these verbs.
        if bench.is_peer and verb in ("OPTIONS", "CONNECT", "PATCH", "HEAD", "DELETE"):
            continue
        with bench.start() as server, server.memcached() as client, server.memcached() as other:
            client.socket.sendall(f"{verb} / HTTP/1.1\r\nHost: x\r\nContent-Length: 22\r\n\r\nset smuggled 0 0 1\r\nx\r\n".encode())
            if not client.is_closed(2):
                problems.append(f"{verb}: the connection stays open")
            if found(other, "smuggled"):
                problems.append(f"{verb}: the command in its body was executed")
    assert not problems, "; ".join(problems)


@pytest.mark.engines(*ENGINES)
def test_a_get_line_may_have_a_megabyte(bench):
    """`get` with 300,000 keys in a line of 0.9 MB is answered; a line without an end is refused at a bound."""
    with bench.start() as server:
        with server.memcached() as client:
            client.ask(b"set kk 0 0 1\r\nx")
            client.socket.sendall(b"get" + b" kk" * 300_000 + b"\r\n")
            count = 0
            while (line := client.line()) not in (b"END", b""):
                count += line.startswith(b"VALUE")
            # 1.6.18 stops at the 60,000th value.
            assert count == 300_000 or bench.is_peer, f"{count} values, then {line[:80]}"
        with server.memcached() as client:
            try:
                for _ in range(64):
                    client.socket.sendall(b"k" * 1_000_000)
                is_refused = client.is_closed(3)
            except OSError:
                is_refused = True
            assert is_refused, "64 MB without the end of a line are accepted"


@pytest.mark.engines(*ENGINES)
def test_meta_flags_are_those_of_1_6(bench):
    """Meta commands: `u` leaves an item's access time, `E` on a read is an error or ignored, an append returns the total size."""
    with bench.start() as server, server.memcached() as client:
        assert client.ask(b"ms m 2\r\nab") == b"HD"
        appended = client.ask(b"ms m 2 MA s\r\ncd")
        # 1.6.18 does not return the size of a value that was stored.
        assert appended == b"HD s4" or bench.is_peer, appended
        assert client.ask(b"mg m s v") == b"VA 4 s4" and client.line() == b"abcd"
        before = client.ask(b"mg m h t u")
        assert before.startswith(b"HD h1 t-1"), before
        client.ask(b"ms n 1\r\nx")
        assert client.ask(b"mg n u v") == b"VA 1" and client.line() == b"x"
        assert client.ask(b"mg n h") == b"HD h0", "`u` counted as an access"
        reply = client.ask(b"mg n E99 v")
        assert reply.startswith(b"CLIENT_ERROR invalid flag") or reply == b"VA 1" and client.line() == b"x", reply


@pytest.mark.engines(*ENGINES)
def test_statistics_have_the_fields_that_exporters_read(bench):
    """`stats` has the fields that exporters read, and `stats reset` clears counters."""
    with bench.start() as server, server.memcached() as client:
        client.ask(b"set k 0 0 1\r\nx")
        found(client, "k")
        fields = dict(line.split(b" ", 2)[1:] for line in lines_to_end(client, b"stats") if line.startswith(b"STAT "))
        missing = [name for name in FIELDS if name.encode() not in fields]
        assert not missing, f"{len(missing)} of {len(FIELDS)} fields are missing: {' '.join(missing)}"
        assert (fields[b"cmd_set"], fields[b"get_hits"], fields[b"curr_items"]) == (b"1", b"1", b"1"), fields
        assert client.ask(b"stats reset") == b"RESET"
        fields = dict(line.split(b" ", 2)[1:] for line in lines_to_end(client, b"stats") if line.startswith(b"STAT "))
        assert (fields[b"cmd_set"], fields[b"curr_items"]) == (b"0", b"1"), fields


def test_keys_can_be_listed(bench):
    """`stats cachedump`, `lru_crawler metadump` and `stats detail` are answered; `cache_memlimit` sets the limit."""
    with bench.start() as server, server.memcached() as client:
        client.ask(b"set listed 0 0 1\r\nx")
        classes = {line.split(b":")[1] for line in lines_to_end(client, b"stats items") if line.startswith(b"STAT items:")} or {b"1"}
        dumped = [line for number in classes for line in lines_to_end(client, b"stats cachedump " + number + b" 100")]
        # 1.6 dumps what its background thread has moved to the colder list.
        assert any(line.startswith(b"ITEM listed [1 b; ") for line in dumped) or bench.is_peer, dumped
        assert any(line.startswith(b"key=listed exp=-1 ") for line in lines_to_end(client, b"lru_crawler metadump all")), "metadump lacks the key"
        assert client.ask(b"stats detail on") == b"OK"
        assert lines_to_end(client, b"stats detail dump")[-1] == b"END"
        assert client.ask(b"stats detail off") == b"OK"
        assert client.ask(b"cache_memlimit 128") == b"OK"
        limit = [line for line in lines_to_end(client, b"stats") if line.startswith(b"STAT limit_maxbytes ")]
        assert limit == [b"STAT limit_maxbytes %d" % (128 << 20)], limit


@pytest.mark.engines(*ENGINES)
def test_the_binary_protocol_is_served_or_refused(bench):
    """The first byte of the binary protocol is answered, or the connection ends at once."""
    with bench.start() as server:
        with server.memcached() as client:
            # The request `version`.
            client.socket.sendall(b"\x80\x0b" + bytes(22))
            client.socket.settimeout(2)
            try:
                first = client.socket.recv(24)
            except TimeoutError:
                raise AssertionError("no reply, and the connection stays open") from None
            assert not first or first[:2] == b"\x81\x0b" or first.startswith(b"CLIENT_ERROR"), first
