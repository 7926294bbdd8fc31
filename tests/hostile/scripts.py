"""Scripts that try to end the process, to fill its memory, or to run forever."""

import time

import pytest
from harness import MIB, Bench, Connection, Refusal, Server, encoded

pytestmark = pytest.mark.only_mayfly

OPTIONS = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--client-output-buffer-limit", "normal 67108864 0 0")
# An error or a value is due within this time, beyond the limit of the script's time.
LATE_S = 3.0

# Calls of C functions with ranges whose size exceeds 32 bits, and deep calls with deep data.
NESTED = "local function d(k) if k>0 then string.gsub('a','a',function() d(k-1) end) else %s end end d(192) return 1"
FATAL = {
    "unpack from 0": "return {unpack({},0,2147483647)}",
    "unpack from -1": "return {unpack({},-1,2147483647)}",
    "unpack of 32 bits": "return {unpack({},-2147483648,2147483647)}",
    "deep calls": NESTED % "return 1",
    "deep calls and cjson.decode": NESTED % "cjson.decode(string.rep('[',990)..string.rep(']',990))",
    "deep calls and cmsgpack.unpack": NESTED % "cmsgpack.unpack(string.rep('\\x91',990)..'\\x01')",
    "deep calls and cjson.encode": NESTED % "local t={} for i=1,990 do t={t} end cjson.encode(t)",
    "deep calls and a pattern": NESTED % "string.find(string.rep('a',900),string.rep('a-',990)..'b')",
    "insert": "table.insert({1},-2147483648,5) return 1",
    "bytes of a function": "return string.dump and string.dump(function() end)",
}
LARGE = "local s=string.rep('x',20000000) local t={} for i=1,1000 do t[i]=s t['k'..i]=s end "
FILLING = {
    "cmsgpack.pack": LARGE + "return #cmsgpack.pack(t)",
    "cjson.encode": LARGE + "return #cjson.encode(t)",
    "struct.pack": LARGE + "return #struct.pack(string.rep('s',1000),unpack(t))",
    "redis.pcall": LARGE + "return redis.pcall('ECHO',unpack(t))",
    "redis.log": LARGE + "redis.log(redis.LOG_DEBUG,unpack(t)) return 1",
    "a reply": LARGE + "return t",
}
ENDLESS = {
    "a loop": "while true do end",
    "a reply that contains itself": "local a={} a[1]=a a[2]=a return a",
    "cmsgpack.pack": "local t={1,2} for i=1,14 do local n={} for j=1,10 do n[j]=t end t=n end return #cmsgpack.pack(t)",
    "cjson.encode": "local t={1,2} for i=1,900 do t={t,t} end return #cjson.encode(t)",
    "a pattern": "return string.find(string.rep('a',200000),string.rep('a-',60)..'b')",
    "a replacement": "return string.gsub(string.rep('a',200000),'(.-)(.-)(.-)b','x')",
    "long strings": "while true do local s=string.rep('x',10000000) end",
    "a long table": "local t={} for i=1,500000 do t[i]=i end while true do table.insert(t,1,0) table.remove(t,1) end",
    "commands": "while true do redis.call('SUNIONSTORE','d','s','s') end",
}


def is_settled(client: Connection, code: str, limit_s: float) -> tuple[object, float]:
    """Runs a script. Returns its reply, or the exception of a closed connection, and the seconds."""
    started = time.monotonic()
    client.socket.settimeout(limit_s)
    try:
        reply = client.say("EVAL", code, "0")
    except ConnectionError as error:
        reply = error
    return reply, time.monotonic() - started


def run_all(bench: Bench, scripts: dict, *options: str) -> None:
    for name, code in scripts.items():
        with bench.start(*OPTIONS, *options) as server, server.connect() as client:
            reply, seconds = is_settled(client, code, 30)
            server.assert_running()
            with server.connect() as other:
                other.must("PING")
            assert server.peak() < 500 * MIB, f"{name}: {server.peak() // MIB} MB, {reply!r}"
            bench.note(name, f"{seconds:.2f} s, {server.peak() // MIB} MB", "1 s, 300 MB")


def test_no_script_ends_the_process(bench):
    """Ranges beyond 32 bits, and deep calls with deep data, are errors."""
    run_all(bench, FATAL)


def test_no_script_fills_the_memory(bench):
    """What the libraries of scripts write is bounded by script-memory-limit."""
    run_all(bench, FILLING)


def fill(server: Server) -> None:
    with server.connect() as client:
        for start in range(0, 100_000, 10_000):
            client.must("SADD", "s", *range(start, start + 10_000))


def test_every_script_ends(bench):
    """script-time-limit ends a script within one call of a function, within a command, and while its reply is written."""
    with bench.start(*OPTIONS, "--script-time-limit", "500") as server:
        fill(server)
        for name, code in ENDLESS.items():
            with server.connect() as client:
                reply, seconds = is_settled(client, code, 30)
                server.assert_running()
                assert isinstance(reply, (Refusal, ConnectionError)), f"{name}: {reply!r}"
                assert seconds < 0.5 + LATE_S, f"{name} ends after {seconds:.1f} s"
                bench.note(name, f"{seconds:.2f} s", "0.6 s")


def test_a_library_is_loaded_within_its_limit(bench):
    """The limit of FUNCTION LOAD applies to calls of C functions."""
    with bench.start(*OPTIONS) as server, server.connect() as client:
        started = time.monotonic()
        reply = client.say("FUNCTION", "LOAD", "#!lua name=l\nwhile true do local s = string.rep('x',10000000) end")
        assert isinstance(reply, Refusal) and time.monotonic() - started < 0.5 + LATE_S, reply


def test_a_stop_ends_a_script(bench):
    """SIGTERM ends the process while a script runs, with and without a limit of its time and with save points."""
    for options in ((), ("--script-time-limit", "0"), ("--script-time-limit", "0", "--save", "1000 1000")):
        for name in ("a loop", "commands", "a pattern", "a long table"):
            with bench.start(*OPTIONS, *options) as server:
                fill(server)
                with server.connect() as client:
                    client.socket.sendall(encoded("EVAL", ENDLESS[name], "0"))
                    time.sleep(0.3)
                    seconds = server.seconds_to_end(20)
                assert seconds < 1 + LATE_S, f"{name} {options}: SIGTERM after {seconds:.1f} s"
                bench.note(f"{name} {' '.join(options)}", f"{seconds:.2f} s", "1 s")
