"""Transactions of workers, with a producer in memory: whole prefixes, refused results, failures and their end."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import ConsumerGroupMetadata, ConsumerRecords, OffsetAndMetadata, TopicPartition
from pyconsumer.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from pyconsumer.workers.results import ProducerRecord
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Retry
from pyconsumer.workers.steps import run_steps
from pyconsumer.workers.transactions import RETRIES, Transactions
from tests.unit.consumer.builders import record

A = TopicPartition("a", 0)
GROUP = ConsumerGroupMetadata("g", 3, "member", None)


class Future:
    def __init__(self) -> None:
        self.exception: Exception | None = None


class Producer:
    """Keeps what was committed. ``failures`` has the errors of its next calls, by name."""

    def __init__(self) -> None:
        self.is_initialized = True
        self.open: list[tuple[str, Any, Future]] = []
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.committed: list[Any] = []
        self.positions: dict[TopicPartition, int] = {}
        self.calls: list[str] = []
        self.failures: dict[str, list[Exception]] = {}

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    def begin_transaction(self) -> None:
        self._call("begin")

    def send(self, topic: str, value: Any, **_: Any) -> Future:
        if value == b"too large":
            raise RecordTooLargeError("too large")
        self.open.append((topic, value, Future()))
        return self.open[-1][-1]

    def send_offsets_to_transaction(self, offsets: Any, group: Any) -> None:
        self._call("offsets")
        self.offsets = dict(offsets)

    def commit_transaction(self) -> None:
        for _, value, future in self.open:
            if value == b"refused":
                future.exception = RecordTooLargeError("refused")
                raise TransactionAbortableError("a record was not delivered")
        self._call("commit")
        self.committed += [value for _, value, _ in self.open]
        self.positions |= {tp: found.offset for tp, found in self.offsets.items()}
        self.open.clear()

    def abort_transaction(self) -> None:
        for _, _, future in self.open:
            future.exception = future.exception or TransactionAbortedError("aborted")
        self.open.clear()
        self._call("abort")


class World:
    """Transactions with dead letters or without, and a schedule that makes tasks."""

    def __init__(self, *, letters: bool = True) -> None:
        self.producer = Producer()
        self.pauses: list[float] = []
        self.refusals: list[int] = []
        self.transactions = Transactions(self.producer, self, self.pauses.append)
        self.schedule = Schedule(None, Retry(), lambda: 0.0)
        self._letters = letters

    def refused(self, task: Task, error: Exception) -> ProducerRecord:
        self.refusals.append(task.record.offset)
        if not self._letters:
            raise error
        return ProducerRecord("dead", b"dead %d" % task.record.offset)

    def tasks(self, *offsets: int) -> list[Task]:
        self.schedule.add(ConsumerRecords({A: [record(offset, topic="a") for offset in offsets]}))
        with self.schedule.lock:
            found = [self.schedule.next_task() for _ in offsets]
        return [task for task in found if task is not None]

    def hold(self, tasks: list[Task], value: bytes) -> None:
        self.transactions.hold(tasks, [ProducerRecord("t", value)])

    def commit(self, end: int, group: ConsumerGroupMetadata = GROUP) -> bool:
        return run_steps(self.transactions.commit({A: OffsetAndMetadata(end, "gaps", 5)}, group, in_group=True))


def test_a_transaction_has_the_results_below_the_offset_in_order() -> None:
    world = World()
    one, two, three = world.tasks(0, 1, 2)
    world.hold([three], b"2")
    world.hold([two], b"1")
    world.hold([one], b"0")
    assert world.commit(2)
    assert (world.producer.committed, world.producer.positions) == ([b"0", b"1"], {A: 2})
    assert world.producer.offsets[A] == OffsetAndMetadata(2, "", 5), "no metadata of finished records"
    assert (world.transactions.count, world.transactions.first_held()) == (1, {A: 2})
    assert world.commit(2)
    assert world.producer.calls.count("begin") == 1, "nothing is new"
    assert world.commit(3)
    assert world.producer.committed == [b"0", b"1", b"2"]
    assert (world.transactions.count, world.transactions.size) == (0, 0)


def test_a_prefix_does_not_cut_a_batch_in_two() -> None:
    world = World()
    tasks = world.tasks(*range(6))
    world.hold([tasks[0]], b"0")
    world.hold([tasks[1], tasks[3]], b"1 and 3")
    world.hold([tasks[2], tasks[5]], b"2 and 5")
    assert world.commit(5)
    assert (world.producer.committed, world.producer.positions) == ([b"0"], {A: 1})
    assert world.commit(6)
    assert (world.producer.committed, world.producer.positions) == ([b"0", b"1 and 3", b"2 and 5"], {A: 6})


@pytest.mark.parametrize("value", [b"too large", b"refused"])
def test_a_result_that_is_refused_aborts_the_transaction_which_then_has_its_dead_letter(value: bytes) -> None:
    world = World()
    one, two = world.tasks(0, 1)
    world.hold([one], b"0")
    world.hold([two], value)
    assert world.commit(2)
    assert (world.producer.committed, world.producer.positions) == ([b"0", b"dead 1"], {A: 2})
    sent = ["offsets"] if value == b"refused" else []
    assert world.producer.calls == ["begin", *sent, "abort", "begin", "offsets", "commit"]
    assert world.refusals == [1]


def test_a_result_that_is_refused_without_dead_letters_ends_the_work() -> None:
    world = World(letters=False)
    world.hold(world.tasks(0), b"refused")
    with pytest.raises(RecordTooLargeError):
        world.commit(1)
    assert (world.producer.committed, world.producer.positions) == ([], {})


def test_a_dead_letter_that_is_refused_ends_the_work() -> None:
    world = World()
    world.transactions.hold(world.tasks(0), [ProducerRecord("dead", b"refused")], is_letter=True)
    with pytest.raises(RecordTooLargeError):
        world.commit(1)


@pytest.mark.parametrize("call", ["offsets", "commit"])
def test_a_transaction_that_fails_is_repeated_with_the_same_results(call: str) -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    world.producer.failures[call] = [TransactionAbortableError("no")]
    assert not world.commit(1)
    assert (world.producer.calls[-1], world.transactions.pause_s) == ("abort", 0.1)
    assert world.commit(1)
    assert (world.producer.committed, world.transactions.pause_s) == ([b"0"], 0.0)


def test_after_too_many_failures_the_error_is_raised() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    world.producer.failures["offsets"] = [TransactionAbortableError("no")] * (RETRIES + 1)
    with pytest.raises(TransactionAbortableError):
        run_steps(world.transactions.commit_all({A: OffsetAndMetadata(1, "", -1)}, GROUP, in_group=True))
    assert world.pauses == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_a_member_that_was_expelled_does_not_count_as_a_failure() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    error = TransactionAbortableError("no")
    error.__cause__ = CommitFailedError("expelled")
    world.producer.failures["offsets"] = [error] * 10
    for _ in range(10):
        assert not world.commit(1)
    assert run_steps(world.transactions.commit_all({A: OffsetAndMetadata(1, "", -1)}, GROUP, in_group=True))


def test_without_a_generation_nothing_is_committed() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    assert not world.commit(1, ConsumerGroupMetadata("g", -1, "", None))
    assert world.producer.calls == []


def test_an_unknown_outcome_is_waited_for_once_more_and_then_ends_the_work_without_an_abort() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    world.producer.failures["commit"] = [KafkaTimeoutError("slow")]
    assert world.commit(1)
    world.hold(world.tasks(1), b"1")
    world.producer.failures["commit"] = [KafkaTimeoutError("slow"), KafkaTimeoutError("slow")]
    with pytest.raises(KafkaTimeoutError):
        world.commit(2)
    assert world.producer.calls[-2:] == ["commit", "commit"]
    assert not world.commit(2), "the producer cannot go on"


def test_a_fenced_producer_ends_the_work() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    world.producer.failures["begin"] = [ProducerFencedError("another one")]
    with pytest.raises(ProducerFencedError):
        world.commit(1)
    assert not world.commit(1)


def test_an_abort_that_was_not_confirmed_is_repeated_first() -> None:
    world = World()
    world.hold(world.tasks(0), b"0")
    world.producer.failures = {"offsets": [TransactionAbortableError("no")], "abort": [KafkaTimeoutError("slow")]}
    assert not world.commit(1)
    assert world.commit(1)
    assert world.producer.calls == ["begin", "offsets", "abort", "abort", "begin", "offsets", "commit"]


def test_results_of_a_partition_that_went_away_are_dropped_also_late_ones() -> None:
    world = World()
    one, two = world.tasks(0, 1)
    world.hold([one], b"0")
    world.schedule.drop([A])
    world.transactions.drop([A])
    world.hold([two], b"1")  # a worker that was slow
    world.transactions.restore(A, OffsetAndMetadata(0, "", -1))
    world.hold([two], b"1")
    assert (world.transactions.first_held(), world.transactions.count, world.transactions.size) == ({}, 0, 0)
    assert world.commit(2)
    assert (world.producer.committed, world.producer.positions) == ([], {A: 2})


@pytest.mark.parametrize("when", ["before", "after", "taken"])
def test_the_outcome_of_an_interrupted_commit_is_learned_before_the_next_one(when: str) -> None:
    world = World()
    producer = world.producer
    world.hold(world.tasks(0), b"0")
    commit = producer.commit_transaction

    def interrupted() -> None:
        producer.commit_transaction = again  # type: ignore[method-assign]
        if when != "before":
            commit()
        raise KeyboardInterrupt

    def again() -> None:
        producer.commit_transaction = commit  # type: ignore[method-assign]
        if when == "before":
            commit()
        elif when == "taken":
            raise IllegalStateError("no transaction is open")

    producer.commit_transaction = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.commit(1)
    assert "abort" not in producer.calls
    world.hold(world.tasks(1), b"1")
    assert world.commit(2)
    assert (producer.committed, producer.positions) == ([b"0", b"1"], {A: 2})
    assert world.transactions.first_held() == {}
