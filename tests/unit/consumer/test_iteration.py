"""``for record in consumer``: decoded records come without a call for each, with the same result as ``poll``."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import KafkaConsumer
from pyconsumer.consumer import arrow  # imported here, as an interrupted import is another matter
from pyconsumer.consumer.delegate import CHECK_LIFETIME_S
from pyconsumer.errors import ConcurrentAccessError, IllegalStateError, WakeupError
from pyconsumer.structs import OffsetAndMetadata
from tests.unit.consumer.builders import interrupted_at
from tests.unit.consumer.worlds import A, B, Reader


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.consumer.close(0)


def test_the_position_moves_past_the_record_that_was_returned_and_no_further(reader: Reader) -> None:
    reader.fill(A, 0, 10)
    for taken in range(1, 11):
        assert reader.take(1) == [taken - 1]
        assert reader.position(A) == taken
        assert reader.delegate.offsets_to_commit(None)[A] == OffsetAndMetadata(taken, "", 3)


def test_decoded_records_are_returned_without_a_poll(reader: Reader) -> None:
    reader.fill(A, 0, 10)
    ahead = []
    for _ in range(10):
        reader.take(1)
        ahead.append(reader.steps_aside)
    assert ahead == [3, 2, 1, 0] * 2 + [1, 0]
    assert reader.position(A) == 10
    metrics = reader.consumer.metrics()["consumer-fetch-manager-metrics"]
    assert (metrics["records-consumed-total"], metrics["buffered-bytes"]) == (10, 0)


def test_each_call_sees_the_records_returned_so_far(reader: Reader) -> None:
    reader.fill(A, 0, 10)
    assert reader.take(3) == [0, 1, 2]
    assert reader.consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] == 3
    assert reader.take(2) == [3, 4]
    assert [record.offset for record in reader.consumer.poll(0, 2).records()] == [5, 6]
    assert reader.take(1) == [7]
    assert reader.consumer.poll_arrow(0).column("offset").to_pylist() == [8, 9]


@pytest.mark.parametrize("place", ["take", "batch"])
def test_poll_arrow_without_memory_puts_the_records_back(
    reader: Reader, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    reader.fill(A, 0, 4)
    with monkeypatch.context() as patch:
        if place == "take":
            patch.setattr(type(reader.delegate.metrics), "on_records", fail)  # the positions have moved before it
        else:
            patch.setattr(arrow.ArrowColumns, "batch", fail)
        with pytest.raises(MemoryError):
            reader.consumer.poll_arrow(0)
    assert reader.position(A) == 0


def test_calls_in_the_loop_affect_the_next_record(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    reader.fill(B, 0, 4)
    assert reader.take(2) == [0, 1]
    reader.consumer.pause(A)
    assert reader.take(2) == [0, 1]
    reader.consumer.seek(B, 3)
    assert reader.take(9) == []
    reader.consumer.resume(A)
    assert reader.take(9) == [2, 3]
    assert (reader.position(A), reader.delegate.subscriptions.state(B).position) == (4, 3)


def test_a_wakeup_comes_before_the_next_record(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    assert reader.take(2) == [0, 1]
    thread = threading.Thread(target=reader.consumer.wakeup)
    thread.start()
    thread.join()
    with pytest.raises(WakeupError):
        next(reader.consumer)
    assert reader.take(9) == [2, 3]


def test_a_wakeup_that_comes_while_records_are_decoded_is_not_overlooked(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.fill(A, 0, 4)
    prefetched = reader.delegate.prefetched
    monkeypatch.setattr(reader.delegate, "prefetched", lambda: (reader.consumer.wakeup(), prefetched())[1])
    assert reader.take(1) == [0]
    with pytest.raises(WakeupError):
        next(reader.consumer)
    assert reader.take(1) == [1]


def test_after_close_there_is_no_record(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    assert reader.take(1) == [0]
    reader.consumer.close(0)
    with pytest.raises(IllegalStateError):
        next(reader.consumer)


def test_another_thread_is_rejected_during_a_call(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    assert reader.take(1) == [0]
    caught: list[BaseException] = []

    def iterate() -> None:
        try:
            next(reader.consumer)
        except ConcurrentAccessError as error:
            caught.append(error)

    with reader.consumer._guard:
        thread = threading.Thread(target=iterate)
        thread.start()
        thread.join()
    assert len(caught) == 1
    assert reader.take(1) == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_rejected(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    assert reader.take(1) == [0]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            next(reader.consumer)
        except ConcurrentAccessError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert reader.take(1) == [1]


def test_iteration_runs_all_checks_after_10_ms(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    assert reader.take(1) == [0]
    looks = []
    prefetched = reader.delegate.prefetched
    reader.delegate.prefetched = lambda: (looks.append(1), prefetched())[1]  # type: ignore[method-assign, func-returns-value]
    began = reader.delegate.clock.now()
    reader.consumer._prefetched.until = began + CHECK_LIFETIME_S
    reader.consumer._now = lambda: began + CHECK_LIFETIME_S / 2
    assert (reader.take(1), looks) == ([1], [])
    reader.consumer._now = lambda: began + CHECK_LIFETIME_S
    assert (reader.take(1), looks) == ([2], [1])


def test_group_callbacks_come_before_decoded_records(reader: Reader) -> None:
    reader.fill(A, 0, 4)
    polls: list[float] = []
    group: Any = SimpleNamespace(
        note_poll=polls.append, next_due_at=float("inf"), has_user_output=False, awaits_response=False
    )
    reader.delegate.coordinator = group
    assert reader.take(1) == [0]
    assert reader.steps_aside == 3
    assert polls, "max_poll_interval_ms counts from here"
    group.has_user_output = True
    assert reader.delegate.prefetched()[0] == []
    group.has_user_output, group.next_due_at = False, -1.0
    assert reader.delegate.prefetched()[1] == -1.0, "something is due at once"
    reader.delegate.coordinator = None


def test_a_group_change_in_the_heartbeat_thread_ends_it_at_once() -> None:
    """Lost partitions may be read by other members, including the records decoded here."""
    reader = Reader(group_id="g", enable_auto_commit=False)
    reader.fill(A, 0, 4)
    assert reader.take(1) == [0]
    assert reader.steps_aside == 3
    assert reader.delegate.coordinator is not None
    thread = threading.Thread(target=reader.delegate.coordinator._changed_in_background)
    thread.start()
    thread.join()
    assert reader.steps_aside == 0
    assert (reader.position(A), reader.take(1)) == (1, [1])
    reader.consumer.close(0)


@pytest.mark.slow
def test_ctrl_c_at_any_line_loses_no_record_and_gives_none_twice() -> None:
    for first in range(3):  # of four records that are decoded at a time, one by a call and three without
        for step in itertools.count(1):
            reader = Reader()
            reader.fill(A, 0, 6)
            found = reader.take(first)

            def run(reader: Reader = reader, add: Any = found.append) -> None:
                for record in itertools.islice(reader.consumer, 3):
                    add(record.offset)

            came = interrupted_at(step, run)
            assert found == list(range(len(found)))
            assert reader.position(A) == len(found)
            reader.go_to(A, len(found))
            reader.fill(A, len(found), 6 - len(found))
            assert found + reader.take(9) == list(range(6))
            reader.consumer.close(0)
            if not came:
                break
        assert step > 3


@pytest.mark.parametrize("call", ["poll", "poll_arrow"])
def test_ctrl_c_at_any_line_of_a_poll_undoes_that_poll_alone(call: str) -> None:
    assert arrow
    step = 0
    while True:
        step += 1
        reader = Reader()
        reader.fill(A, 0, 6)
        came_out: list[Any] = []

        def run(consumer: KafkaConsumer = reader.consumer, add: Any = came_out.append) -> None:
            for _ in range(2):
                add(consumer.poll(0, 2) if call == "poll" else consumer.poll_arrow(0, 2, ["offset"]))

        came = interrupted_at(step, run)
        found: list[int] = []
        for each in came_out:
            found += [record.offset for record in each.records()] if call == "poll" else each["offset"].to_pylist()
        assert found == list(range(len(found)))
        assert reader.position(A) == len(found)
        reader.consumer.close(0)
        if not came:
            break
    assert found == [0, 1, 2, 3]
    assert step > 100
