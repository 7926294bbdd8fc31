"""Huey: results, delayed and retried tasks, priorities, locks, and a consumer that is killed in a task."""

import sys

from huey import PriorityRedisExpireHuey
from huey.exceptions import TaskException, TaskLockedException
from programs import LIMIT_S, PORT, client, hold_the_first_time, is_held, until, worker

huey = PriorityRedisExpireHuey("check", port=PORT, db=1)


@huey.task()
def add(a: int, b: int) -> int:
    return a + b


@huey.task(retries=2, retry_delay=1)
def fails_once() -> int:
    with client() as server:
        runs = server.incr("runs:fails_once")
    if runs < 2:
        raise ValueError("first run")
    return runs


@huey.task()
@huey.lock_task("only-one")
def held() -> str:
    hold_the_first_time("huey")
    return "done"


COMMAND = (sys.executable, "-m", "huey.bin.huey_consumer", "check_huey.huey", "--workers", "2", "--scheduler-interval", "1")


def lock_is_released_and_acquired_again() -> None:
    for _ in range(2):
        with huey.lock_task("a-lock"):
            try:
                with huey.lock_task("a-lock"):
                    raise AssertionError("the lock was acquired twice")
            except TaskLockedException:
                pass


def result(task):
    return task.get(blocking=True, timeout=LIMIT_S)


def result_of_retries(task):
    """Returns the result of a task whose first runs fail. Each failure is a result, which the next run replaces."""
    try:
        return task.get()
    except TaskException:
        task.reset()
        return None


def main() -> None:
    lock_is_released_and_acquired_again()
    from check_huey import add, fails_once, held

    with worker(*COMMAND) as first:
        assert result(add(1, 2)) == 3
        assert [result(task) for task in [add(i, i, priority=i) for i in range(20)]] == [2 * i for i in range(20)]
        assert result(add.schedule((3, 4), delay=1)) == 7
        retried = fails_once()
        assert until("the failed task ran again", lambda: result_of_retries(retried)) == 2
        held()
        until("the task has begun", lambda: is_held("huey"))
        first.kill()
    # Huey does not deliver a task twice: the one that was running is lost, the waiting ones are not.
    waiting, delayed = add(5, 6), add.schedule((7, 8), delay=1)
    assert huey.is_locked("only-one")
    with worker(*COMMAND, "--flush-locks"):
        assert result(waiting) == 11
        assert result(delayed) == 15
        assert result(held()) == "done", "the lock of the killed task was not acquired again"


if __name__ == "__main__":
    main()
