"""Lock of redis-py: released, extended, expired and acquired again, also after its holder was killed."""

import asyncio
import sys
import threading

import redis.asyncio
from programs import LIMIT_S, PORT, client, until, worker
from redis.exceptions import LockError, LockNotOwnedError

server = client()


def released_and_acquired_again() -> None:
    lock, other = server.lock("released", timeout=LIMIT_S), server.lock("released", timeout=LIMIT_S)
    for _ in range(2):
        assert lock.acquire(blocking=False)
        assert lock.owned() and lock.locked()
        assert not other.acquire(blocking=False)
        lock.release()
        assert other.acquire(blocking=False)
        other.release()
    try:
        lock.release()
        raise AssertionError("a lock was released twice")
    except LockError:
        pass


def extended() -> None:
    lock = server.lock("extended", timeout=10)
    assert lock.acquire(blocking=False)
    assert lock.extend(100)
    assert server.pttl("extended") > 100_000
    assert lock.reacquire()
    assert server.pttl("extended") <= 10_000
    lock.release()


def acquired_by_another_after_it_expired() -> None:
    lock = server.lock("expired", timeout=0.2)
    assert lock.acquire(blocking=False)
    with server.lock("expired", timeout=LIMIT_S, blocking_timeout=LIMIT_S, sleep=0.01):
        try:
            lock.release()
            raise AssertionError("an expired lock was released by its earlier owner")
        except LockNotOwnedError:
            pass
        assert server.exists("expired")


def one_holder_at_a_time() -> None:
    def add() -> None:
        for _ in range(20):
            with server.lock("counter-lock", timeout=LIMIT_S, sleep=0.001):
                server.set("counter", int(server.get("counter") or 0) + 1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.get("counter") == "80"
    assert not server.exists("counter-lock")


def acquired_after_its_holder_was_killed() -> None:
    with worker(sys.executable, __file__, "hold") as holder:
        until("the lock is held", lambda: server.exists("killed"))
        assert not server.lock("killed").acquire(blocking=False)
        holder.kill()
    with server.lock("killed", timeout=LIMIT_S, blocking_timeout=LIMIT_S, sleep=0.01):
        pass
    assert not server.exists("killed")


async def asynchronous() -> None:
    async with redis.asyncio.Redis(port=PORT) as connection:
        for _ in range(2):
            async with connection.lock("asynchronous", timeout=LIMIT_S):
                assert not await connection.lock("asynchronous").acquire(blocking=False)
        assert not await connection.exists("asynchronous")


if __name__ == "__main__":
    if sys.argv[1:] == ["hold"]:
        server.lock("killed", timeout=2).acquire()
        server.blpop(["never"])
    released_and_acquired_again()
    extended()
    acquired_by_another_after_it_expired()
    one_holder_at_a_time()
    acquired_after_its_holder_was_killed()
    asyncio.run(asynchronous())
