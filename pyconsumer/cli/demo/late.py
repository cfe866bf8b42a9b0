"""The demo's last step: late flights are copied to another topic exactly once, although the program fails half-way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pyconsumer import ConsumerRecords, KafkaConsumer, KafkaProducer, TopicPartition, process_exactly_once

__all__ = ["Copied", "copy_late"]

_LATE_MINUTES = 60
_DELAY = re.compile(rb'"dep_delay":(-?\d+)')
_IDLE_MS = 1500

Output = tuple[str, bytes, bytes | None]


class Copied(NamedTuple):
    """The numbers of flights in the topic.

    Attributes:
        expected: the number of late flights in the source.
        committed: the number of flights that a consumer with ``read_committed`` sees.
        written: the number of all flights, including those of aborted transactions.
    """

    expected: int
    committed: int
    written: int


class _Failure(Exception):
    """The failure of the program, on purpose."""


def is_late(value: bytes) -> bool:
    """Return whether a flight departed more than an hour late."""
    found = _DELAY.search(value)
    return found is not None and int(found[1]) > _LATE_MINUTES


def copy_late(
    options: dict[str, object], source: str, sink: str, partitions: int, total: int, on_read: Callable[[int], None]
) -> Copied:
    """Copy late flights. Fail in the middle of a transaction, start again, and count the flights that consumers see.

    Args:
        options: settings of the clients.
        partitions: the number of partitions of ``sink``.
        total: the number of flights in ``source``.
        on_read: called with the number of flights that were read in committed transactions.
    """
    program = _Program(source, sink, total // 2, on_read)
    try:
        program.run(options, total)
    except _Failure:
        program.run(options, total)
    committed, written = (_count(options, sink, partitions, level) for level in ("read_committed", "read_uncommitted"))
    return Copied(program.expected(), committed, written)


class _Program:
    """The program, and the flights that it has read.

    Args:
        fails_after: the number of flights after which it fails once.
    """

    def __init__(self, source: str, sink: str, fails_after: int, on_read: Callable[[int], None]) -> None:
        self._source = source
        self._sink = sink
        self._fails_after: int | None = fails_after
        self._on_read = on_read
        self._late: dict[tuple[int, int], bool] = {}
        self._read = 0

    def expected(self) -> int:
        """Return the number of late flights, each counted once by partition and offset."""
        return sum(self._late.values())

    def run(self, options: dict[str, object], total: int) -> None:
        """Consume, transform and produce until all flights have been read."""
        with (
            KafkaConsumer(
                options,
                self._source,
                group_id=f"{self._sink}-program",
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                max_poll_records=10_000,
            ) as consumer,
            KafkaProducer(options, transactional_id=f"{self._sink}-0", transaction_timeout_ms=10_000) as producer,
        ):
            process_exactly_once(
                consumer,
                producer,
                lambda records: self._transform(records, producer),
                stop=lambda: self._read >= total,
                idle_ms=_IDLE_MS,
                poll_timeout_ms=200,
            )

    def _transform(self, records: ConsumerRecords, producer: KafkaProducer) -> Iterator[Output]:
        written = False
        for record in records.records():
            value = record.value or b""
            late = self._late[record.partition, record.offset] = is_late(value)
            if late:
                written = True
                yield self._sink, value, record.key
        if written and self._fails_after is not None and len(self._late) > self._fails_after:
            self._fails_after = None
            producer.flush()  # an abort drops unsent records, and then there is nothing to show
            raise _Failure
        self._read = len(self._late)
        self._on_read(self._read)


def _count(options: dict[str, object], topic: str, partitions: int, level: str) -> int:
    chosen = [TopicPartition(topic, number) for number in range(partitions)]
    count = 0
    with KafkaConsumer({**options, "isolation_level": level}) as consumer:
        consumer.assign(chosen)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(chosen)
        while any(consumer.position(tp) < ends[tp] for tp in chosen):
            count += consumer.poll(timeout_ms=1000, max_records=50_000).count()
    return count
