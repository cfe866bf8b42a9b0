"""The pool of worker processes: its end."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from typing import Any

import pytest

from pyconsumer import ConsumerRecords, KafkaConsumer
from pyconsumer.workers import Batch, Workers, blocking, process_pool
from pyconsumer.workers.child import serve
from pyconsumer.workers.process_pool import ProcessPool
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Retry
from tests.support.worker_functions import keeps_table, never_returns
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


def test_a_process_imports_the_modules_of_its_records_before_a_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a short ``timeout_ms`` would end each process in its first record."""
    module = "wave"  # of the standard library, and nothing else needs it
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process goes on
    there: list[bool] = []

    class Pipe:
        def send(self, _: Any) -> None:
            there.append(module in sys.modules)

        def recv(self) -> Any:
            raise EOFError

    pipe: Any = Pipe()
    serve(pipe, never_returns, bytearray(1), threading.Lock(), modules=[module])
    assert there == [True]


@pytest.mark.parametrize(("form", "modules"), [("list", ()), ("arrow", ("pyarrow",))])
def test_processes_for_tables_import_pyarrow_first(monkeypatch: pytest.MonkeyPatch, form: Any, modules: Any) -> None:
    found: dict[str, Any] = {}
    monkeypatch.setattr(blocking, "ProcessPool", lambda *_, **settings: found.update(settings))
    with KafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g", enable_auto_commit=False) as consumer:
        Workers(consumer, keeps_table, run_in="processes", batch=Batch(form=form))._pool()
    assert found["modules"] == modules
