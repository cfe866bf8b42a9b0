"""The future that ``send_many`` and ``send_arrow`` return: one for all records of a call."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from pyconsumer.producer.future import in_sender_thread
from pyconsumer.producer.implementation import BatchResult
from pyconsumer.structs import TopicPartition

__all__ = ["FutureRecords", "SentRange"]


class SentRange(NamedTuple):
    """Consecutive records in a partition: the offset of the first record (-1 with ``acks=0``), and their number."""

    topic_partition: TopicPartition
    offset: int
    record_count: int


class FutureRecords:
    """The result of sending many records.

    Args:
        runs: consecutive records, in the order in which they were sent. Each entry is the result of a batch, the index
            of the first record in it, and the number of records.
    """

    __slots__ = ("_runs",)

    @property
    def runs(self) -> Sequence[tuple[BatchResult, int, int]]:
        """Return the runs, as given."""
        return self._runs

    def __init__(self, runs: Sequence[tuple[BatchResult, int, int]]) -> None:
        self._runs = runs

    def __len__(self) -> int:
        """Return the number of records that were sent."""
        return sum(count for _, _, count in self._runs)

    def done(self) -> bool:
        """Return whether every record has been acknowledged or has failed."""
        return all(result.done for result, _, _ in self._runs)

    @property
    def exception(self) -> KafkaError | None:
        """Return the error of the first failed record, in the order of the records.

        None if no record has failed so far.
        """
        for result, _, _ in self._ranges():
            if result.done and result.error is not None:
                return result.error
        return None

    @property
    def failed_count(self) -> int:
        """Return the number of records that have failed so far."""
        return sum(count for result, _, count in self._ranges() if result.done and result.error is not None)

    def get(self, timeout: float | None = None) -> list[SentRange]:
        """Wait for all records.

        Args:
            timeout: seconds. None waits at most for the delivery timeout, after which every record has a result.

        Returns:
            The partitions and offsets of the records, in the order in which they were sent.

        Raises:
            KafkaTimeoutError: some results are not there in time. The records may still be sent.
            IllegalStateError: the call was made in a callback of a record, and some results are not there yet.
            KafkaError: a record could not be sent. This is the error of the first such record. ``failed_count`` is the
                number of all of them.
        """
        if in_sender_thread() and not self.done():
            raise IllegalStateError(
                "a callback of a record cannot wait for other records: its thread is the one that sends"
            )
        until = None if timeout is None else time.monotonic() + timeout
        for result, _, _ in self._runs:
            if not result.wait(None if until is None else max(0.0, until - time.monotonic())):
                missing = sum(count for each, _, count in self._runs if not each.done)
                text = f"no result for {missing} of {len(self)} records within {timeout:g} s"
                cause = result.last_failure
                raise KafkaTimeoutError(text if cause is None else f"{text}. The last error was: {cause}") from cause
        return self._outcome()

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        """Wait for all records in a coroutine: ``ranges = await producer.send_many(...)``. Raises as :meth:`get`."""
        return self._awaited().__await__()

    async def _awaited(self) -> list[SentRange]:
        from pyconsumer.producer.loop_bridge import settled  # asyncio takes long to import, and few programs use it

        for result, _, _ in self._runs:
            await settled(result)
        return self._outcome()

    def _outcome(self) -> list[SentRange]:
        error = self.exception
        if error is not None:
            raise error
        return [
            SentRange(result.topic_partition, result.base_offset + first if result.base_offset >= 0 else -1, count)
            for result, first, count in self._ranges()
        ]

    result = get

    def _ranges(self) -> list[tuple[BatchResult, int, int]]:
        """The runs, with the batches that were split as they were sent at last."""
        return [each for result, first, count in self._runs for each in result.ranges(first, count)]
