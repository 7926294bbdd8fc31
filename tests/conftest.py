"""Options and markers of all checks that pytest runs. What a machine lacks skips a check with its reason."""

import os
import shutil
from pathlib import Path

import pytest

PEERS = ("redis-server", "valkey-server", "memcached")


def pytest_addoption(parser) -> None:
    parser.addoption("--server", default="target/release/mayfly", help="path of mayfly, or a name or path of a peer, which checks the checks")
    parser.addoption("--threads", help="worker threads of mayfly [default: its own]")


def pytest_configure() -> None:
    # Debian has servers in a folder that is not in the PATH of every user.
    os.environ["PATH"] += ":/usr/sbin"


def pytest_runtest_setup(item) -> None:
    if item.get_closest_marker("only_mayfly") and Path(item.config.option.server).name in PEERS:
        pytest.skip("it concerns Mayfly alone")
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
