"""The wall clock jumps while the server runs. A small preloaded library changes the time for the server only."""

import os
import struct
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from expiry import INDEXES
from server import LIMIT_S, within_limit

HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S
# Both clocks are read one after the other. A busy machine may take this long, far less than any jump.
SLACK_S = HOUR_S // 10
SOURCE = Path(__file__).with_name("shifted_clock.c")


@contextmanager
def jumping(bench, *options: str, begin_s: int = 0):
    """A server, and a function that sets the offset of its clock."""
    with tempfile.TemporaryDirectory(prefix="mayfly-clock-") as folder:
        library = Path(folder) / "shifted_clock.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        offset = os.open(Path(folder) / "offset", os.O_RDWR | os.O_CREAT)

        def jump(seconds: int) -> None:
            os.pwrite(offset, struct.pack("=q", seconds), 0)

        jump(begin_s)
        environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(Path(folder) / "offset")}
        with bench.start(*options, environment=environment) as server, server.client() as r:
            yield r, jump
        os.close(offset)


def off_by(r) -> float:
    """Offset of the server's clock in seconds."""
    seconds, micros = r.time()
    return seconds + micros / 1e6 - time.time()


def test_the_clock_jumps_forward(bench):
    for span in (HOUR_S, 10 * YEAR_S):
        with jumping(bench) as (r, jump):
            r.set("soon", "x", ex=HOUR_S // 2)
            r.set("far", "x", ex=20 * YEAR_S)
            r.set("plain", "x")
            jump(span)
            assert abs(off_by(r) - span) < SLACK_S
            assert r.get("soon") is None and r.get("far") == b"x" and r.get("plain") == b"x"
            assert abs(r.ttl("far") - (20 * YEAR_S - span)) < SLACK_S
            r.set("new", "x", px=50)
            for _ in within_limit():
                if r.dbsize() == 2:
                    break
            assert r.info("stats")["expired_keys"] == 2


def test_the_clock_jumps_back(bench):
    for span in (HOUR_S, 10 * YEAR_S):
        with jumping(bench) as (r, jump):
            r.set("soon", "x", ex=HOUR_S // 2)
            r.set("plain", "x")
            jump(-span)
            assert abs(off_by(r) + span) < SLACK_S
            assert r.get("plain") == b"x" and r.get("soon") == b"x"
            assert abs(r.ttl("soon") - span - HOUR_S // 2) < SLACK_S
            r.set("new", "x", px=50)
            for _ in within_limit():
                if r.dbsize() == 2:
                    break
            assert not r.exists("new") and r.exists("soon")
            jump(HOUR_S)
            for _ in within_limit():
                if r.dbsize() == 1:
                    break
            assert r.exists("plain")


@pytest.mark.only_mayfly
def test_every_index_follows_jumps_in_both_directions(bench):
    for index in INDEXES:
        with jumping(bench, "--expiry", index) as (r, jump):
            r.set("plain", "x")
            r.set("far", "x", ex=40 * YEAR_S)
            before = 0
            for number, to in enumerate((HOUR_S, 0, 10 * YEAR_S, 0, -HOUR_S, 0, -10 * YEAR_S, 0)):
                half, new = f"half{number}", f"new{number}"
                r.set(half, "x", ex=HOUR_S // 2)
                jump(to)
                assert abs(off_by(r) - to) < SLACK_S, index
                if to > before:
                    assert r.get(half) is None, (index, to)
                else:
                    assert abs(r.ttl(half) - (HOUR_S // 2 + before - to)) < SLACK_S, (index, to)
                    r.delete(half)
                # A key that is dead now is removed, however late the index expected its next step.
                r.set(new, "x", px=50)
                for _ in within_limit():
                    if (r.exists(new) == 0) if index == "lazy" else (r.dbsize() == 2):
                        break
                assert r.dbsize() == 2, (index, to, r.keys("*"))
                assert r.get("plain") == b"x" and r.get("far") == b"x", (index, to)
                before = to


def test_a_sleeping_server_notices_a_jump(bench):
    with jumping(bench) as (r, jump):
        r.config_set("notify-keyspace-events", "Ex")
        listener = r.pubsub()
        listener.psubscribe("__keyevent@0__:expired")
        assert listener.get_message(timeout=LIMIT_S)["type"] == "psubscribe"
        r.set("soon", "x", ex=HOUR_S // 2)
        jump(HOUR_S)
        message = listener.get_message(timeout=LIMIT_S)
        assert message is not None and message["data"] == b"soon"


def test_an_unsteady_clock_loses_no_keys(bench):
    with jumping(bench) as (r, jump):
        for i in range(40):
            jump(HOUR_S * ((i * 7) % 5 - 2))
            with r.pipeline(transaction=False) as p:
                for k in range(100):
                    p.set(f"{i}:{k}", "x", ex=20 * HOUR_S)
                    p.set(f"short:{i}:{k}", "x", ex=HOUR_S // 2)
                p.execute()
        jump(3 * HOUR_S)
        for _ in within_limit():
            if r.dbsize() == 4000:
                break
        assert len(r.keys("*")) == 4000
        jump(30 * HOUR_S)
        for _ in within_limit():
            if r.dbsize() == 0:
                break


@pytest.mark.only_mayfly
def test_the_append_only_file_is_read_by_a_clock_that_was_set_back(bench):
    # Regression: commands ran at the instant of the base, at which the deadlines that they set had passed. A key that was
    # persisted afterwards was missing, and a counter began again at 0 without a deadline.
    with tempfile.TemporaryDirectory(prefix="mayfly-clock-") as folder:
        options = ("--dir", folder, "--appendonly", "yes", "--appendfsync", "always")
        with jumping(bench, *options, begin_s=HOUR_S) as (r, jump):
            jump(0)
            for key in ("persisted", "counted"):
                r.set(key, 5, ex=HOUR_S // 4)
            r.persist("persisted")
            r.incr("counted")
            r.expire("counted", 10 * HOUR_S)
            r.sadd("set", "member", "other")
            r.execute_command("SEXPIRE", "set", HOUR_S // 4, "MEMBERS", 1, "member")
            r.restore("copy", 0, r.dump("set"))
            for key in ("set", "copy"):
                r.execute_command("SPERSIST", key, "MEMBERS", 1, "member")
        with jumping(bench, *options, begin_s=HOUR_S // 2) as (r, _):
            assert (r.get("persisted"), r.get("counted"), r.ttl("persisted")) == (b"5", b"6", -1)
            assert r.ttl("counted") > 8 * HOUR_S
            assert r.smembers("set") == r.smembers("copy") == {b"member", b"other"}
