"""RQ: results in streams, dependent, delayed, retried and unique jobs, and a worker that is killed in a job."""

import sys
import time
from datetime import timedelta

import redis
from programs import LIMIT_S, PORT, client, hold_the_first_time, is_held, until, worker
from rq import Queue, Retry
from rq.exceptions import DuplicateJobError
from rq.job import JobStatus
from rq.registry import ScheduledJobRegistry, StartedJobRegistry
from rq.results import Result

connection = redis.Redis(port=PORT)


def add(a: int, b: int) -> int:
    return a + b


def fails_once() -> str:
    with client() as server:
        if server.incr("runs:fails_once") == 1:
            raise ValueError("first run")
    return "done"


def asks_for_another_run() -> str | Retry:
    with client() as server:
        return Retry(max=1, interval=1) if server.incr("runs:asks_for_another_run") == 1 else "done"


def held() -> str:
    hold_the_first_time("rq")
    return "done"


COMMAND = (
    *(sys.executable, "-c", "from rq.cli import main; main()"),
    *("worker", "--with-scheduler", "--url", f"redis://127.0.0.1:{PORT}", "jobs"),
)


def is_finished(job) -> bool:
    return job.get_status(refresh=True) == JobStatus.FINISHED


def main() -> None:
    queue = Queue("jobs", connection=connection)
    from check_rq import add, asks_for_another_run, fails_once, held

    sum_of_two = queue.enqueue(add, 1, 2)
    dependent = queue.enqueue(add, 3, 4, depends_on=sum_of_two)
    retried = queue.enqueue(fails_once, retry=Retry(max=1, interval=1))
    repeated = queue.enqueue(asks_for_another_run)
    delayed = queue.enqueue_in(timedelta(seconds=1), add, 5, 5)
    queue.enqueue(add, 1, 1, job_id="one", unique=True)
    try:
        queue.enqueue(add, 1, 1, job_id="one", unique=True)
        raise AssertionError("a unique job was accepted twice")
    except DuplicateJobError:
        pass
    assert delayed in ScheduledJobRegistry(queue=queue)

    with worker(*COMMAND) as first:
        for job in (sum_of_two, dependent, retried, repeated, delayed):
            until(f"{job} is finished", lambda job=job: is_finished(job))
        assert [job.return_value() for job in (sum_of_two, dependent, retried, repeated, delayed)] == [3, 7, "done", "done", 10]
        # The results are the entries of a stream, here read backwards.
        assert [result.type for result in repeated.results()] == [Result.Type.SUCCESSFUL, Result.Type.RETRIED]
        assert connection.type(Result.get_key(repeated.id)) == b"stream"
        assert queue.enqueue(add, 6, 6).latest_result(timeout=int(LIMIT_S)).return_value == 12
        first.terminate()
    assert not connection.exists("rq:scheduler-lock:jobs"), "the scheduler's lock was not released"

    with worker(*COMMAND) as second:
        delayed = queue.enqueue_in(timedelta(seconds=1), add, 7, 7)
        until("a delayed job ran after the lock was taken again", lambda: is_finished(delayed))
        abandoned = queue.enqueue(held, retry=Retry(max=1))
        until("the job has begun", lambda: is_held("rq"))
        second.kill()
    registry = StartedJobRegistry(queue=queue)
    assert abandoned.get_status() == JobStatus.STARTED
    # Workers do this once the job's heartbeat is a minute old.
    registry.cleanup(timestamp=time.time() + 3600)
    with worker(*COMMAND):
        until("the abandoned job ran again", lambda: is_finished(abandoned))
        assert abandoned.return_value() == "done"


if __name__ == "__main__":
    main()
