"""Removes expired entries of all caches on one thread, which sleeps until the next deadline.

The thread is Python's, because listeners and the destructors of values run on it. It starts with the
first deadline, and again in the child after a fork. It ends before the interpreter does: a thread that
the interpreter stops within a call of the native module ends the process.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import time
import weakref
from typing import Any

from ._native import end_expiry

# The longest sleep, so that a deadline beyond what a wait accepts is no error.
_LONGEST = 3600.0
# Seconds that the end of the program waits for a listener that is under way.
_LAST_CALL = 10.0

# Caches with deadlines, and the instants of their next looks, by the caches' numbers. A dictionary of
# references, because other threads add caches at any time: an iteration of a WeakSet would fail then, and
# a list of the dictionary's numbers is made in one step.
_caches: dict[int, weakref.ref[Any]] = {}
_due: dict[int, float] = {}
# A queue, because signal handlers and destructors may call schedule() within schedule(): put() is
# re-entrant, other than the methods of threading.Event.
_wake: queue.SimpleQueue[None] = queue.SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None
_is_ended = False


def _start() -> None:
    global _thread
    # A call that finds the lock taken leaves the start to the holder, which it may have interrupted.
    if not _starting.acquire(blocking=False):
        return
    try:
        if _thread is None:
            _thread = threading.Thread(target=_serve, name="mayfly-expiry", daemon=True)
            _thread.start()
    except RuntimeError:
        # No thread can start, as at the end of the program. Look-ups still hide what has
        # expired, and insertions remove a few expired entries.
        _thread = None
    finally:
        _starting.release()


def _serve() -> None:
    is_awake = True
    while not _is_ended:
        now = time.monotonic()
        wait = _LONGEST
        for number in list(_caches):
            reference = _caches.get(number)
            cache = reference() if reference is not None else None
            if reference is None or cache is None:
                continue
            if is_awake or _due.get(number, 0.0) <= now:
                left = cache._expire_some()
                if left is None:
                    _caches.pop(number, None)
                    # Another thread may have set a deadline before the last line.
                    left = cache._expire_some()
                    if left is None:
                        _due.pop(number, None)
                        continue
                    _caches[number] = reference
                _due[number] = now + left
            wait = min(wait, max(_due[number] - now, 0.0))
        # The last cache must not be kept alive by the name of the loop.
        cache = None
        # A deadline set during the look has put an item, which wakes the thread again.
        try:
            _wake.get(timeout=wait)
            is_awake = True
        except queue.Empty:
            is_awake = False


def _end() -> None:
    """Ends the thread, after the call of a listener that is under way."""
    global _is_ended
    _is_ended = True
    end_expiry()
    _wake.put(None)
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join(_LAST_CALL)


def _restart() -> None:
    """Replaces, in the child of a fork, the thread that exists only in the parent."""
    global _thread, _wake, _starting
    _thread = None
    _wake = queue.SimpleQueue()
    _starting = threading.Lock()
    for reference in list(_caches.values()):
        cache = reference()
        if cache is not None:
            schedule(cache, 0.0)


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)


# The last definition: a signal handler within the import of this module finds all or none of it.
def schedule(cache: Any, seconds: float) -> None:
    """Makes sure that the cache is looked at when its next deadline is due."""
    number = id(cache)
    if number not in _caches:

        # The arguments are there at the end of the program, too, when the module is empty.
        def forget(
            _: weakref.ref[Any],
            caches: dict[int, weakref.ref[Any]] = _caches,
            due: dict[int, float] = _due,
        ) -> None:
            caches.pop(number, None)
            due.pop(number, None)

        _caches[number] = weakref.ref(cache, forget)
    # One item is enough, and bounds the queue.
    if _wake.empty():
        _wake.put(None)
    if _thread is None and not _is_ended and not sys.is_finalizing():
        _start()
