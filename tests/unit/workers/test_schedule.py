"""The schedule of workers: order, retries, partitions that go away, and the end, without threads or a clock."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyconsumer import ConsumerRecord, ConsumerRecords, TopicPartition
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Order, Retry
from tests.unit.consumer.builders import record

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
FAILURE = ValueError("no")


class World:
    """A schedule, and the time."""

    def __init__(self, order: Order = "key", retry: Retry | None = None) -> None:
        self.time = 100.0
        self.schedule = Schedule(order, retry or Retry(), lambda: self.time)

    def add(self, *records: ConsumerRecord[Any, Any]) -> None:
        by_partition: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        for one in records:
            by_partition.setdefault(one.topic_partition, []).append(one)
        self.schedule.add(ConsumerRecords(by_partition))

    def next(self) -> Task | None:
        with self.schedule.lock:
            return self.schedule.next_task()

    def take(self) -> Task:
        task = self.next()
        assert task is not None
        return task

    def ready(self) -> list[int]:
        """Take all tasks that are ready, and return their offsets."""
        found = []
        while (task := self.next()) is not None:
            found.append(task.record.offset)
        return found


def keyed(offset: int, key: bytes | None, topic: str = "a") -> ConsumerRecord[Any, Any]:
    return record(offset, key=key, topic=topic)


def test_records_of_a_key_come_one_after_the_other() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"), keyed(3, b"x"))
    first, other = world.take(), world.take()
    assert (first.record.offset, other.record.offset) == (0, 2)
    assert world.next() is None
    world.schedule.finish(first)
    second = world.take()
    assert second.record.offset == 1
    world.schedule.finish(other)
    assert world.next() is None
    world.schedule.finish(second)
    assert world.ready() == [3]


def test_records_without_a_key_have_no_order() -> None:
    world = World()
    world.add(keyed(0, None), keyed(1, None), keyed(2, None))
    assert world.ready() == [0, 1, 2]


def test_equal_keys_of_two_partitions_have_no_order() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(0, b"x", "b"))
    assert world.ready() == [0, 0]


def test_keys_that_cannot_be_hashed_are_compared_by_their_text() -> None:
    world = World()
    world.add(keyed(0, {"id": 1}), keyed(1, {"id": 1}), keyed(2, {"id": 2}))  # type: ignore[arg-type]
    assert world.ready() == [0, 2]


@pytest.mark.parametrize(("order", "expected"), [("partition", [0, 0]), (None, [0, 1, 0, 1])])
def test_the_other_orders(order: Order, expected: list[int]) -> None:
    world = World(order)
    world.add(keyed(0, b"x"), keyed(1, b"y"), keyed(0, b"x", "b"), keyed(1, b"y", "b"))
    assert world.ready() == expected


def test_a_failed_record_waits_while_other_keys_continue() -> None:
    world = World(retry=Retry(attempts=3, backoff_ms=1000, jitter=0))
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"), keyed(3, b"y"))
    failed, other = world.take(), world.take()
    assert world.schedule.fail(failed, FAILURE, 5_000)
    world.schedule.finish(other)
    assert world.ready() == [3]
    assert world.schedule.until_due() == 1.0
    world.time += 1
    again = world.take()
    assert (again, again.attempt, again.failed_at) == (failed, 2, 5_000)
    assert world.schedule.fail(again, FAILURE, 6_000)
    assert world.schedule.until_due() == 2.0, "the pause doubles"
    world.time += 2
    last = world.take()
    assert not world.schedule.fail(last, FAILURE, 7_000), "the third attempt is the last one"
    assert last.failed_at == 5_000
    world.schedule.finish(last)
    assert world.ready() == [1]


def test_an_error_that_no_repetition_mends_is_the_last_attempt() -> None:
    world = World(retry=Retry(attempts=3, give_up_on=(ValueError,)))
    world.add(keyed(0, b"x"), keyed(1, b"y"))
    assert not world.schedule.fail(world.take(), FAILURE, 1)
    assert world.schedule.fail(world.take(), KeyError(), 1)


def test_only_finished_records_without_a_gap_before_them_are_committed() -> None:
    world = World(None)
    world.add(keyed(0, None), keyed(1, None), keyed(2, None))
    tasks = [world.take() for _ in range(3)]
    world.schedule.finish(tasks[1])
    assert world.schedule.progress.take()[A].offset == 0
    world.schedule.finish(tasks[0])
    assert world.schedule.progress.take()[A].offset == 2


def test_a_dropped_partition_takes_its_tasks_out_of_all_places() -> None:
    world = World(retry=Retry(attempts=2))
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"), keyed(3, b"z"), keyed(0, b"x", "b"))
    runs, fails = world.take(), world.take()
    assert world.schedule.fail(fails, FAILURE, 1)
    world.schedule.drop([A])
    assert world.schedule.undone == 1
    assert [(task.record.topic) for task in [world.take()]] == ["b"]
    world.schedule.finish(runs)
    world.time += 1000
    assert world.next() is None
    assert world.schedule.progress.take() == {}, "its result is ignored"


def test_a_held_partition_starts_no_task_and_running_ones_may_finish() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"))
    runs = world.take()
    world.schedule.hold([A])
    assert world.next() is None
    assert not world.schedule.wait_running([A], 0)
    world.schedule.finish(runs)
    assert world.schedule.wait_running([A], 0)
    assert world.next() is None
    assert world.schedule.progress.take()[A].offset == 1


def test_a_stopped_partition_is_not_committed_beyond_its_record() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"y"), keyed(2, b"z"), keyed(0, b"x", "b"))
    good, bad = world.take(), world.take()
    world.schedule.finish(good)
    world.schedule.stop_partition(bad, FAILURE)
    world.add(keyed(3, b"w"))
    assert world.ready() == [0], "of the other partition"
    assert world.schedule.stopped() == {A: FAILURE}
    assert world.schedule.progress.take()[A].offset == 1


def test_counts_after_a_partition_was_stopped_are_those_of_the_others() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"y"), keyed(0, b"x", "b"))
    bad, runs = world.take(), world.take()
    world.schedule.stop_partition(bad, FAILURE)
    assert world.schedule.counts() == (0, 1, 0)
    world.schedule.finish(runs)
    assert world.schedule.finished == 0


def test_a_task_that_outlasts_the_work_has_no_effect_any_more() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"x"))
    late = world.take()
    world.schedule.close()
    world.schedule.forget_all()
    again = World()
    again.add(keyed(0, b"x"))
    again.schedule.finish(late)
    assert (again.schedule.undone, again.schedule.finished) == (1, 0)
    assert again.ready() == [0]


def test_a_record_that_is_given_back_has_lost_no_attempt() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"y"))
    task = world.take()
    world.schedule.give_back(task)
    again = world.take()
    assert (again, again.attempt) == (task, 1)


def test_a_postponed_record_begins_again_and_has_lost_no_attempt() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"x"))
    task = world.take()
    world.schedule.postpone(task, 1.0)
    assert world.next() is None
    world.time += 1
    again = world.take()
    assert (again, again.attempt) == (task, 1)


def test_closing_starts_no_task_and_wakes_waiting_threads() -> None:
    world = World()
    found: list[Task | None] = []
    thread = threading.Thread(target=lambda: found.append(world.schedule.wait_for_task()))
    thread.start()
    world.schedule.close()
    thread.join(10)
    world.add(keyed(0, b"x"))
    assert (found, world.next()) == ([None], None)


@pytest.mark.concurrent
def test_one_thread_at_a_time_is_woken_and_wakes_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(None)
    schedule = world.schedule
    woken: list[int] = []
    notify = schedule.work.notify

    def counted(count: int = 1) -> None:
        woken.append(count)
        notify(count)

    monkeypatch.setattr(schedule.work, "notify", counted)
    found: list[int] = []
    arrived, leave = threading.Semaphore(0), threading.Event()

    def take() -> None:
        task = schedule.wait_for_task()
        assert task is not None
        found.append(task.record.offset)
        arrived.release()
        leave.wait(30)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    world.add(keyed(0, None), keyed(1, None), keyed(2, None))
    for _ in threads:
        assert arrived.acquire(timeout=30)
    leave.set()
    for thread in threads:
        thread.join(30)
    assert sorted(found) == [0, 1, 2]
    assert all(count == 1 for count in woken), "one for each wakeup, not one for each record"
    assert len(woken) <= 3


def test_a_finished_record_takes_the_lock_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"x"))
    task = world.take()
    entered: list[int] = []

    class Counted:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(world.schedule, "lock", Counted())
    monkeypatch.setattr(world.schedule.progress, "_changed", Counted())
    world.schedule.finish(task)
    assert entered == [1]


def test_records_are_counted_by_partition_while_workers_lack_keys() -> None:
    world = World(retry=Retry(attempts=2))
    world.add(*(keyed(n, b"x") for n in range(6)), *(keyed(n, b"y", "b") for n in range(3)))
    schedule = world.schedule
    assert schedule.held_by_partition(3) == {A: 6, B: 3}
    assert schedule.held_by_partition(2) is None, "two records can be in work"
    first, second = world.take(), world.take()
    assert schedule.held_by_partition(3) == {A: 6, B: 3}
    assert schedule.held_by_partition(2) is None, "those that run count"
    assert schedule.fail(first, FAILURE, 1)
    assert schedule.held_by_partition(2) is None, "those that wait for another attempt count"
    schedule.finish(second)
    assert schedule.held_by_partition(3) == {A: 6, B: 2}
    world.add(*(keyed(n, None, "b") for n in range(3, 6)))
    assert schedule.held_by_partition(4) is None, "records without a key have no order"


def test_room_counts_records_and_bytes_that_are_not_done() -> None:
    world = World()
    world.add(keyed(0, b"x"), keyed(1, b"y"))
    size = world.schedule.room(10, 1 << 20)
    assert size == 8
    assert world.schedule.room(10, 1) == 0
    task = world.take()
    world.schedule.finish(task)
    assert world.schedule.room(10, 1 << 20) == 9
    world.schedule.drop([A])
    assert world.schedule.room(10, 1) == 10, "dropped records hold no bytes"


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_record_is_done_once_in_the_order_of_its_key(data: st.DataObject) -> None:
    order: Order = data.draw(st.sampled_from(["key", "partition", None]))
    world = World(order, Retry(attempts=3, backoff_ms=1, jitter=0))
    count = data.draw(st.integers(1, 25))
    keys = data.draw(st.lists(st.sampled_from([b"x", b"y", None]), min_size=count, max_size=count))
    world.add(*(keyed(n, key, "ab"[n % 2]) for n, key in enumerate(keys)))
    running: list[Task] = []
    done: list[Task] = []
    for _ in range(1000):
        if len(done) == count:
            break
        task = world.next()
        if task is not None:
            running.append(task)
        if running and (task is None or data.draw(st.booleans())):
            chosen = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if data.draw(st.booleans()) and world.schedule.fail(chosen, FAILURE, 1):
                world.time += data.draw(st.sampled_from([0.0, 0.01]))
                continue
            world.schedule.finish(chosen)
            done.append(chosen)
        elif task is None:
            world.time += 0.01
    assert sorted(task.record.offset for task in done) == list(range(count))
    if order is not None:
        by_lane: dict[Any, list[int]] = {}
        for task in done:
            lane = task.record.topic if order == "partition" else (task.record.topic, task.record.key)
            if order == "partition" or task.record.key is not None:
                by_lane.setdefault(lane, []).append(task.record.offset)
        assert all(offsets == sorted(offsets) for offsets in by_lane.values())
    assert world.schedule.counts() == (0, 0, 0)
