"""Batches of the schedule: their size, their wait, the order in them, and the end of one that failed."""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyconsumer import ConsumerRecord, ConsumerRecords, TopicPartition
from pyconsumer.workers.batches import BatchSchedule, BatchTask, tasks_of
from pyconsumer.workers.settings import Batch, Order, Retry
from tests.unit.consumer.builders import record

A = TopicPartition("a", 0)
FAILURE = ValueError("no")


class World:
    """A schedule, and the time."""

    def __init__(self, order: Order = "key", most: int = 3, *, one_partition: bool = False) -> None:
        self.time = 100.0
        retry = Retry(attempts=2, backoff_ms=1000, jitter=0)
        batch = Batch(max=most, wait_ms=50)
        self.schedule = BatchSchedule(order, retry, lambda: self.time, batch=batch, one_partition=one_partition)

    def add(self, *records: ConsumerRecord[Any, Any]) -> None:
        by_partition: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        for one in records:
            by_partition.setdefault(one.topic_partition, []).append(one)
        self.schedule.add(ConsumerRecords(by_partition))

    def next(self) -> BatchTask | None:
        with self.schedule.lock:
            return self.schedule.next_task()

    def take(self) -> BatchTask:
        batch = self.next()
        assert batch is not None
        return batch

    def later(self, ms: float) -> None:
        self.time += ms / 1000


def keyed(offset: int, key: bytes | None, topic: str = "a") -> ConsumerRecord[Any, Any]:
    return record(offset, key=key, topic=topic)


def offsets(batch: BatchTask | None) -> list[int] | None:
    return None if batch is None else [task.record.offset for task in batch.tasks]


def test_a_batch_begins_when_it_is_full_or_has_waited() -> None:
    world = World(order=None)
    world.add(keyed(0, None), keyed(1, None))
    assert world.next() is None
    assert world.schedule.until_due() is not None
    world.add(keyed(2, None), keyed(3, None))
    assert offsets(world.next()) == [0, 1, 2]
    assert world.next() is None, "the wait of the rest begins"
    world.later(49)
    assert world.next() is None
    world.later(2)
    assert offsets(world.next()) == [3]


def test_the_wait_begins_when_records_come_though_no_worker_is_free() -> None:
    world = World(order=None)
    world.add(keyed(0, None))
    world.later(51)
    assert offsets(world.next()) == [0]


def test_a_batch_has_several_records_of_a_key_in_order_and_the_next_one_waits_for_it() -> None:
    world = World(order="key", most=4)
    world.add(*(keyed(n, b"x") for n in range(5)), keyed(5, b"y"))
    batch = world.take()
    assert offsets(batch) == [0, 1, 2, 3]
    world.later(51)
    assert offsets(world.next()) == [5], "another key is free"
    assert world.next() is None
    world.schedule.finish(batch)
    world.later(51)
    assert offsets(world.next()) == [4]


def test_with_order_by_partition_a_batch_has_records_of_one_partition() -> None:
    world = World(order="partition", most=10)
    world.add(keyed(0, b"x"), keyed(1, b"y"), keyed(0, b"x", "b"))
    world.later(51)
    first = world.take()
    world.later(51)
    second = world.take()
    assert {first.record.topic: offsets(first), second.record.topic: offsets(second)} == {"a": [0, 1], "b": [0]}


def test_with_exactly_once_a_batch_has_records_of_one_partition() -> None:
    world = World(order=None, most=10, one_partition=True)
    world.add(keyed(0, b"x"), keyed(0, b"x", "b"), keyed(1, b"y"))
    world.later(51)
    first = world.take()
    assert offsets(first) == [0, 1]


def test_a_batch_that_failed_is_tried_record_by_record_in_order() -> None:
    world = World(order="key", most=4)
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"x"), keyed(3, b"y"))
    batch = world.take()
    assert offsets(batch) == [0, 1, 2, 3]
    world.add(keyed(4, b"x"))
    world.schedule.split(batch)
    first, other = world.take(), world.take()
    assert (offsets(first), offsets(other)) == ([0], [3]), "at once, without a wait"
    assert first.attempt == 1, "the call of the batch did not count"
    assert world.next() is None
    (task,) = tasks_of(first)
    assert world.schedule.fail(task, FAILURE, 1)
    assert world.next() is None, "1 waits for the repetition of 0"
    world.later(1001)
    again = world.take()
    assert (offsets(again), again.attempt) == ([0], 2)
    world.schedule.finish(again)
    assert offsets(world.next()) == [1]


def test_records_that_come_later_join_no_batch_with_one_that_failed() -> None:
    world = World(order=None)
    world.add(keyed(0, None), keyed(1, None), keyed(2, None))
    world.schedule.split(world.take())
    world.add(keyed(3, None), keyed(4, None), keyed(5, None))
    assert [offsets(world.take()) for _ in range(4)] == [[0], [1], [2], [3, 4, 5]]


def test_a_batch_that_is_given_back_comes_again_whole() -> None:
    world = World(order="key")
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"))
    batch = world.take()
    world.schedule.give_back(batch)
    assert offsets(world.next()) == [0, 1, 2]


def test_a_batch_that_waits_for_a_schema_begins_again_after_the_pause() -> None:
    world = World(order="key")
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(2, b"y"))
    world.schedule.postpone(world.take(), 1.0)
    world.later(999)
    assert world.next() is None
    world.later(2)
    assert offsets(world.next()) == [0, 1, 2]


def test_records_of_a_dropped_partition_are_in_no_batch() -> None:
    world = World(order="key")
    world.add(keyed(0, b"x"), keyed(1, b"x"), keyed(0, b"x", "b"), keyed(1, b"y"))
    batch = world.take()
    world.schedule.drop([A])
    world.schedule.finish(batch)
    world.later(51)
    assert [(one.record.topic, one.record.offset) for one in world.take().tasks] == [("b", 0)]
    assert world.schedule.undone == 1


def test_one_worker_at_a_time_waits_for_a_batch() -> None:
    schedule = BatchSchedule(None, Retry(), lambda: 100.0, batch=Batch(max=4), one_partition=False)
    taken: list[Any] = []
    threads = [threading.Thread(target=lambda: taken.append(schedule.wait_for_task())) for _ in range(3)]
    for thread in threads:
        thread.start()
    schedule.add(ConsumerRecords({A: [keyed(n, None) for n in range(4)]}))
    while not taken:
        threads[0].join(0.01)
    schedule.close()
    for thread in threads:
        thread.join()
    assert [offsets(batch) for batch in taken] == [[0, 1, 2, 3], None, None]


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    order=st.sampled_from(["key", "partition", None]),
    keys=st.lists(st.sampled_from([b"a", b"b", None]), min_size=1, max_size=16),
    most=st.integers(1, 6),
)
def test_every_record_is_done_once_in_its_order(data: Any, order: Order, keys: list[bytes | None], most: int) -> None:
    world = World(order=order, most=most)
    world.add(*(keyed(n, key) for n, key in enumerate(keys)))
    running: list[BatchTask] = []
    done: list[int] = []
    for _ in range(1000):
        world.later(51)
        if (batch := world.next()) is not None:
            running.append(batch)
        elif not running and not world.schedule.undone:
            break
        if running and data.draw(st.booleans()):
            batch = running.pop(data.draw(st.integers(0, len(running) - 1)))
            outcome = data.draw(st.sampled_from(["finish", "fail", "give back"]))
            if outcome == "finish" or (outcome == "fail" and batch.attempt == 2):
                done += [task.record.offset for task in batch.tasks]
                world.schedule.finish(batch)
            elif outcome == "give back":
                world.schedule.give_back(batch)
            elif len(batch.tasks) > 1:
                world.schedule.split(batch)
            else:
                assert world.schedule.fail(batch.tasks[0], FAILURE, 1)
        if order == "partition":
            assert len(running) <= 1
        if order == "key":
            busy = [key for one in running for key in {task.record.key for task in one.tasks} - {None}]
            assert len(busy) == len(set(busy)), "a key is in one batch at a time"
    else:
        for batch in running:
            world.schedule.finish(batch)
            done += [task.record.offset for task in batch.tasks]
        return
    assert sorted(done) == list(range(len(keys)))
    for key in {b"a", b"b"} if order == "key" else set():
        of_key = [n for n in done if keys[n] == key]
        assert of_key == sorted(of_key)
    if order == "partition":
        assert done == sorted(done)
