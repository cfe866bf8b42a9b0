"""The schedule of records that a share group has acquired."""

from __future__ import annotations

from pyconsumer import TopicPartition
from pyconsumer.consumer.share.acknowledgements import Delivery, Source
from pyconsumer.structs import AcknowledgeType
from pyconsumer.workers.batches import BatchTask
from pyconsumer.workers.schedule import Task
from pyconsumer.workers.settings import Batch, Retry
from pyconsumer.workers.share_schedule import ShareBatchSchedule, ShareSchedule
from tests.unit.consumer.builders import record

A = TopicPartition("a", 0)
FAILURE = ValueError("no")


class World:
    """A schedule, and the time. The group delivers a record three times."""

    def __init__(self, *, attempts: int = 10, batch: Batch | None = None) -> None:
        self.time = 100.0
        self.renews = True
        retry = Retry(attempts=attempts, backoff_ms=5000, jitter=0)
        if batch is None:
            self.schedule = ShareSchedule(None, retry, lambda: self.time)
        else:
            self.schedule = ShareBatchSchedule(None, retry, lambda: self.time, batch=batch, one_partition=False)
        self.schedule.follow(lambda: 3, lambda: self.renews)

    def deliver(self, first: int, last: int, *, count: int = 1, lock_s: float = 30.0) -> Delivery:
        records = [record(offset, topic="a") for offset in range(first, last + 1)]
        source = Source(1, b"i" * 16, A)
        made = Delivery(source, records, [(first, last)], [(first, last, count)], self.time + lock_s)
        self.schedule.take_over([made])
        return made

    def take(self) -> Task:
        with self.schedule.lock:
            task = self.schedule.next_task()
        assert task is not None
        return task

    def settled(self) -> list[tuple[int, AcknowledgeType]]:
        return [(offset, kind) for _, offset, kind in self.schedule.take_settled()]


def test_a_record_that_is_done_is_accepted_and_one_that_is_left_out_is_rejected() -> None:
    world = World()
    world.deliver(0, 1)
    world.schedule.finish(world.take())
    world.schedule.leave_out(world.take())
    assert world.settled() == [(0, AcknowledgeType.ACCEPT), (1, AcknowledgeType.REJECT)]
    assert world.settled() == []
    assert world.schedule.undone == 0


def test_attempts_count_deliveries() -> None:
    world = World(attempts=2)
    world.deliver(0, 0, count=2)
    task = world.take()
    assert task.attempt == 2
    assert not world.schedule.fail(task, FAILURE, 0), "it was the last attempt"


def test_no_attempt_follows_in_the_last_delivery() -> None:
    world = World()
    world.deliver(0, 0, count=3)
    assert not world.schedule.fail(world.take(), FAILURE, 0)
    assert world.settled() == []


def test_a_failed_record_is_held_if_its_lock_can_be_renewed() -> None:
    world = World()
    world.deliver(0, 0, lock_s=3)
    assert world.schedule.fail(world.take(), FAILURE, 0)
    assert world.settled() == []
    world.time += 6
    assert world.take().attempt == 2


def test_a_failed_record_is_held_if_its_lock_lasts_and_else_released() -> None:
    world = World()
    world.renews = False
    world.deliver(0, 0, lock_s=7)
    world.deliver(1, 1, lock_s=5)
    held, released = world.take(), world.take()
    assert world.schedule.fail(held, FAILURE, 0)
    assert world.schedule.fail(released, FAILURE, 0)
    assert world.settled() == [(1, AcknowledgeType.RELEASE)]
    assert world.schedule.counts() == (0, 0, 1)
    assert world.schedule.retries == 2


def test_records_whose_lock_has_ended_are_not_begun() -> None:
    world = World()
    gone = world.deliver(0, 2)
    world.deliver(3, 3)
    running = world.take()
    assert world.schedule.forget([gone]) == 2
    assert world.take().record.offset == 3
    world.schedule.finish(running)
    assert world.schedule.undone == 1
    assert [task.record.offset for task in world.schedule.not_done()] == [3]
    world.time += 2
    assert world.schedule.unfinished() == {A: (3, 2.0)}


def test_batches_settle_each_of_their_records() -> None:
    world = World(batch=Batch(max=3, wait_ms=0))
    world.deliver(0, 4)
    batch = world.take()
    assert isinstance(batch, BatchTask)
    assert [task.record.offset for task in batch.tasks] == [0, 1, 2]
    world.schedule.finish(batch)
    assert world.settled() == [(offset, AcknowledgeType.ACCEPT) for offset in range(3)]
    rest = world.take()
    world.time += 2
    world.deliver(5, 5)
    assert world.schedule.unfinished() == {A: (3, 2.0)}
    world.schedule.split(rest)  # type: ignore[attr-defined]
    world.schedule.leave_out(world.take())
    assert world.settled() == [(3, AcknowledgeType.REJECT)]


def test_a_record_that_has_ended_the_work_is_not_done() -> None:
    world = World()
    world.deliver(0, 1, count=3)
    task = world.take()
    world.schedule.abort(task, FAILURE)
    assert sorted(one.record.offset for one in world.schedule.not_done()) == [0, 1]
    world.schedule.leave_out(task)
    assert world.settled() == [(0, AcknowledgeType.REJECT)]
