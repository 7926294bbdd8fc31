"""Celery: broker and results in the server. Groups, chords, delayed and retried tasks, and a worker that is killed in a task."""

import sys

from celery import Celery, chain, chord, group
from programs import LIMIT_S, client, hold_the_first_time, is_held, until, url, worker

VISIBILITY_S = 3

app = Celery("check_celery", broker=url(1), backend=url(2))
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_S,
        "unacked_restore_interval": 0.5,
        "unacked_restore_throttle": 1,
    },
    task_acks_late=True,
    worker_prefetch_multiplier=1,
)


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(bind=True, max_retries=2)
def fails_twice(self) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def held() -> str:
    hold_the_first_time("celery")
    return "done"


COMMAND = (sys.executable, "-m", "celery", "-A", "check_celery", "worker", "--concurrency", "2", "--loglevel", "INFO")


def main() -> None:
    with worker(*COMMAND) as first:
        assert add.delay(2, 3).get(LIMIT_S) == 5
        assert group(add.s(i, i) for i in range(20))().get(LIMIT_S) == [2 * i for i in range(20)]
        assert chord((add.s(i, i) for i in range(10)), total.s())().get(LIMIT_S) == 90
        assert chain(add.s(1, 2), add.s(4))().get(LIMIT_S) == 7
        assert fails_twice.delay().get(LIMIT_S) == 2
        assert add.apply_async((1, 1), countdown=0.5).get(LIMIT_S) == 2
        assert add.apply_async((1, 2), priority=5).get(LIMIT_S) == 3
        assert app.control.inspect(timeout=LIMIT_S, limit=1).ping()
        result = held.delay()
        until("the task has begun", lambda: is_held("celery"))
        first.kill()
    broker = client(1)
    assert broker.hlen("unacked") == 1
    with worker(*COMMAND):
        # The message is delivered again when its visibility timeout is over. Each sweep for such messages takes a lock.
        assert result.get(LIMIT_S) == "done"
        until("the message is acknowledged", lambda: not broker.exists("unacked", "unacked_index"))
        assert add.delay(4, 5).get(LIMIT_S) == 9
        until("the lock of the sweep is released", lambda: not broker.exists("unacked_mutex"))


if __name__ == "__main__":
    main()
