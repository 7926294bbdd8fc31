"""Thread that removes the expired entries of all caches, and sleeps until the next deadline.

It is a Python thread, because it runs listeners and the destructors of values. It starts with the first
deadline, and again in the child process after a fork. It ends before the interpreter does, because
stopping a thread within a call of the native module would end the process.
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

# Longest sleep in seconds, because a wait accepts no arbitrarily long time.
_LONGEST = 3600.0
# Seconds for which the end of the program waits for a listener that is running.
_LAST_CALL = 10.0

# Caches with deadlines and the instants of their next checks, by number of the cache. This is a
# dictionary, because other threads may add caches at any time: the iteration of a WeakSet would fail then,
# while a list of the dictionary's numbers is made in one step.
_caches: dict[int, weakref.ref[Any]] = {}
_due: dict[int, float] = {}
# This is a queue, because signal handlers and destructors may call schedule() within schedule(): put() is
# re-entrant, unlike the methods of threading.Event.
_wake: queue.SimpleQueue[None] = queue.SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None
_is_ended = False


def _start() -> None:
    global _thread
    # If the lock is taken, its holder starts the thread. This call may have interrupted the holder.
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
        # The loop variable must not keep the last cache alive.
        cache = None
        # A deadline that was set during the check has put an item, which wakes the thread again.
        try:
            _wake.get(timeout=wait)
            is_awake = True
        except queue.Empty:
            is_awake = False


def _end() -> None:
    """Ends the thread after the current call of a listener."""
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


# This is the last definition, so that a signal handler during the import finds all of the module or none.
def schedule(cache: Any, seconds: float) -> None:
    """Makes sure that the thread checks the cache when its next deadline is due."""
    number = id(cache)
    if number not in _caches:

        # Default arguments keep these names available at the end of the program, when the module is empty.
        def forget(
            _: weakref.ref[Any],
            caches: dict[int, weakref.ref[Any]] = _caches,
            due: dict[int, float] = _due,
        ) -> None:
            caches.pop(number, None)
            due.pop(number, None)

        _caches[number] = weakref.ref(cache, forget)
    # One item suffices, which bounds the queue.
    if _wake.empty():
        _wake.put(None)
    if _thread is None and not _is_ended and not sys.is_finalizing():
        _start()
