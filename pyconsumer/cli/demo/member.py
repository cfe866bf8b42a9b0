"""One member of the demo's group: a process that reads flights, sums up delays and commits.

It reports its work to the parent after committing it, with the range of offsets. So the parent can check that no record
was lost or counted twice, in spite of rebalances.
"""

from __future__ import annotations

import enum
import json
import logging
import signal
from collections.abc import Collection, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from pyconsumer.errors import CommitFailedError

__all__ = ["Assigned", "Done", "Failed", "Job", "Order", "Revoked", "Work", "main"]


class Job(NamedTuple):
    """The parent's first message. It has the member's number (from 1), the topic, and the settings of the consumer."""

    number: int
    topic: str
    options: dict[str, Any]


class Order(enum.Enum):
    """The parent's later messages."""

    HOLD = enum.auto()
    CONTINUE = enum.auto()
    STOP = enum.auto()


class Assigned(NamedTuple):
    """A message: the member was assigned these partitions in a generation of the group."""

    member: int
    generation: int
    partitions: tuple[int, ...]


class Revoked(NamedTuple):
    """A message: these partitions were revoked from the member."""

    member: int
    partitions: tuple[int, ...]


class Work(NamedTuple):
    """A message about committed work: the offsets of a partition from ``first`` up to, but not including, ``after``.

    ``delays`` has three numbers for each carrier: the flights, the flights with a known departure delay, and the sum of
    these delays in minutes.
    """

    member: int
    partition: int
    first: int
    after: int
    delays: dict[str, tuple[int, int, int]]


class Done(NamedTuple):
    """A message: the member has ended normally."""

    member: int


class Failed(NamedTuple):
    """A message: the member has ended with an error."""

    member: int
    reason: str


class _Member(ConsumerRebalanceListener):
    def __init__(self, number: int, topic: str, consumer: KafkaConsumer, pipe: Connection[Any, Any]) -> None:
        self.number = number
        self.topic = topic
        self.consumer = consumer
        self.pipe = pipe
        self.pending: dict[int, Work] = {}
        self.held = False

    # Listener: runs inside poll.

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        partitions = tuple(sorted(tp.partition for tp in assigned))
        self.held = False
        self.pipe.send(Assigned(self.number, self.consumer.group_metadata().generation_id, partitions))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.commit()
        if revoked:
            self.pipe.send(Revoked(self.number, tuple(sorted(tp.partition for tp in revoked))))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.pending.clear()  # not committed: the new owners read these records again

    # Work.

    def process(self, records: Any) -> None:
        for tp, batch in records.items():
            work = self.pending.get(tp.partition)
            first = batch[0].offset if work is None else work.first
            delays = {} if work is None else work.delays
            for record in batch:
                flight = json.loads(record.value)
                flights, known, total = delays.get(flight["carrier"], (0, 0, 0))
                delay = flight["dep_delay"]
                delays[flight["carrier"]] = (
                    (flights + 1, known, total) if delay is None else (flights + 1, known + 1, total + delay)
                )
            self.pending[tp.partition] = Work(self.number, tp.partition, first, batch[-1].offset + 1, delays)

    def commit(self) -> None:
        if not self.pending:
            return
        try:
            self.consumer.commit()
        except CommitFailedError:
            self.pending.clear()
            return
        for work in self.pending.values():
            self.pipe.send(work)
        self.pending.clear()

    def hold(self, wanted: bool) -> None:
        """Pause or resume reading. The member keeps polling, so it stays in the group."""
        if wanted and not self.held:
            self.consumer.pause(*self.consumer.assignment())
        elif self.held and not wanted:
            self.consumer.resume(*self.consumer.paused())
        self.held = wanted


def main(handle: int) -> None:
    """Run the member: the main function of the process.

    Args:
        handle: the file descriptor of the pipe to the parent. If the pipe is closed, the parent has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    logging.getLogger("pyconsumer.records").setLevel(logging.ERROR)  # a slow decoder: the parent has warned of it
    pipe: Connection[Any, Any] = Connection(handle)
    try:
        job = pipe.recv()
        if isinstance(job, Order):
            return  # the demo was interrupted before it had sent the job
        _run(job.number, job.topic, job.options, pipe)
        pipe.send(Done(job.number))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has ended
    except Exception as error:
        pipe.send(Failed(job.number, f"{type(error).__name__}: {error}"))
        raise SystemExit(1) from None
    finally:
        pipe.close()


def _run(number: int, topic: str, options: Mapping[str, Any], pipe: Connection[Any, Any]) -> None:
    with KafkaConsumer(dict(options)) as consumer:
        member = _Member(number, topic, consumer, pipe)
        consumer.subscribe([topic], listener=member)
        polls = 0
        order = Order.CONTINUE
        while True:
            while order is not Order.STOP and pipe.poll():
                order = pipe.recv()
            if order is Order.STOP:
                break
            records = consumer.poll(timeout_ms=100)
            if records:
                member.process(records)
                polls += 1
            if polls % 10 == 0 or not records:
                member.commit()
            member.hold(order is Order.HOLD)
        member.commit()
