"""Dramatiq: results, delayed and retried messages, and a worker that is killed in a message."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimiterBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from programs import LIMIT_S, client, hold_the_first_time, is_held, until, url, worker

# A worker whose last heartbeat is this old has lost its messages to the others, which look with every command.
HEARTBEAT_MS = 2_000
broker = RedisBroker(url=url(1), heartbeat_timeout=HEARTBEAT_MS, maintenance_chance=1_000_000)
broker.add_middleware(Results(backend=RedisBackend(url=url(2))))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def add(a: int, b: int) -> int:
    return a + b


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=100, max_backoff=200)
def fails_twice() -> int:
    with client() as server:
        runs = server.incr("runs:fails_twice")
    if runs < 3:
        raise ValueError(f"run {runs}")
    return runs


@dramatiq.actor(store_results=True)
def held() -> str:
    hold_the_first_time("dramatiq")
    return "done"


COMMAND = (sys.executable, "-m", "dramatiq", "check_dramatiq", "--processes", "1", "--threads", "2")


def result(message):
    return message.get_result(block=True, timeout=int(LIMIT_S * 1000))


def limiter_is_released_and_acquired_again() -> None:
    backend = LimiterBackend(url=url(3))
    limiter = ConcurrentRateLimiter(backend, "one-at-a-time", limit=1)
    for _ in range(2):
        with limiter.acquire(raise_on_failure=False) as is_acquired:
            assert is_acquired
            with limiter.acquire(raise_on_failure=False) as is_acquired_twice:
                assert not is_acquired_twice


def main() -> None:
    limiter_is_released_and_acquired_again()
    from check_dramatiq import add, fails_twice, held

    with worker(*COMMAND) as first:
        assert result(add.send(1, 2)) == 3
        assert [result(message) for message in [add.send(i, i) for i in range(50)]] == [2 * i for i in range(50)]
        assert result(fails_twice.send()) == 3
        assert result(add.send_with_options(args=(3, 4), delay=300)) == 7
        message = held.send()
        until("the message is being processed", lambda: is_held("dramatiq"))
        first.kill()
    with worker(*COMMAND):
        assert result(message) == "done"
        assert result(add.send(5, 6)) == 11
        until("all messages are acknowledged", lambda: not client(1).exists("dramatiq:default.msgs"))


if __name__ == "__main__":
    main()
