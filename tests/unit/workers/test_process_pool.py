"""The pool of worker processes: its end."""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import Any

import pytest

from pyconsumer import ConsumerRecords
from pyconsumer.workers import process_pool
from pyconsumer.workers.process_pool import ProcessPool
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Retry
from tests.support.worker_functions import never_returns
from tests.unit.consumer.builders import record

pytestmark = pytest.mark.concurrent


class Owner:
    """Passes the records on."""

    def argument(self, task: Task) -> Any:
        return task.record

    def succeeded(self, returned: list[tuple[Task, Any]]) -> None:
        raise AssertionError(returned)

    def after_failure(self, task: Task, error: Exception) -> None:
        raise error

    def not_deserialized(self, task: Task, error: Exception) -> None:
        raise error


def test_a_process_that_is_being_started_while_the_pool_closes_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would call its function, and the pool's thread would wait for that."""
    started, closed = threading.Event(), threading.Event()

    class Child(process_pool._Child):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.set()
            assert closed.wait(60)  # close has ended those that it knows

    class Children(set[Any]):
        def __iter__(self) -> Any:
            closed.set()
            return super().__iter__()

    monkeypatch.setattr(process_pool, "_Child", Child)
    one = record(0)
    schedule = Schedule("key", Retry(), time.monotonic)
    schedule.add(ConsumerRecords({one.topic_partition: [one]}))
    pool = ProcessPool(schedule, Owner(), never_returns, 1, None)
    monkeypatch.setattr(pool, "_children", Children())
    pool.start()
    assert started.wait(60)
    schedule.forget_all()
    schedule.close()
    pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "pyconsumer-worker-0"]


@pytest.mark.parametrize(
    ("methods", "chosen"), [(["fork", "spawn", "forkserver"], "forkserver"), (["fork", "spawn"], "spawn")]
)
def test_processes_are_never_forked(monkeypatch: pytest.MonkeyPatch, methods: list[str], chosen: str) -> None:
    """A fork would copy locks that other threads hold, for ever."""
    asked: list[str | None] = []
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: methods)
    monkeypatch.setattr(multiprocessing, "get_context", asked.append)
    ProcessPool(Schedule("key", Retry(), time.monotonic), Owner(), never_returns, 1, None)
    assert asked == [chosen]
