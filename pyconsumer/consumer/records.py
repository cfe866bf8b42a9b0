"""``ConsumerRecords``, the result of a poll."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic

from pyconsumer.generic import K, V, generic_alias
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerRecords", "NextOffsets", "empty_records"]

NextOffsets = Mapping[TopicPartition, tuple[int, str, int]]
"""Offset, metadata and leader epoch of each partition: the fields of an :class:`OffsetAndMetadata`."""


class ConsumerRecords(dict[TopicPartition, "list[ConsumerRecord[K, V]]"], Generic[K, V]):
    """Records by partition, in offset order.

    It is a ``dict`` from :class:`TopicPartition` to lists of records, and no list is empty.

    It is false if there are no records. ``len()`` counts partitions, :meth:`count` counts records. Java:
    ``ConsumerRecords``.
    """

    __slots__ = ("_next_offsets",)

    def __init__(
        self,
        records: Mapping[TopicPartition, list[ConsumerRecord[K, V]]] | None = None,
        next_offsets: NextOffsets | None = None,
    ) -> None:
        super().__init__(records or {})
        self._next_offsets = next_offsets

    def records(self, of: TopicPartition | str | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate over all records, or over the records of one partition or of one topic."""
        if of is None:
            return chain.from_iterable(self.values())
        if isinstance(of, str):
            return chain.from_iterable(found for tp, found in self.items() if tp.topic == of)
        return iter(self.get(of, ()))

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions of which there are records."""
        return set(self)

    def count(self) -> int:
        """Return the number of records."""
        return sum(map(len, self.values()))

    @property
    def is_empty(self) -> bool:
        """Return whether there are no records."""
        return not self

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit once these records have been processed (KIP-1094).

        For each partition this is the position after its records, with leader epoch. If transaction markers or
        compacted records follow the last record, the position is higher than that record's offset plus 1.
        """
        if self._next_offsets is not None:
            return {tp: OffsetAndMetadata(*found) for tp, found in self._next_offsets.items()}
        return {tp: OffsetAndMetadata(r[-1].offset + 1, "", r[-1].leader_epoch) for tp, r in self.items() if r}

    def __repr__(self) -> str:
        counts = ", ".join(f"{tp}: {len(found)}" for tp, found in self.items())
        return f"<ConsumerRecords {counts or 'empty'}>"

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


def empty_records(next_offsets: NextOffsets) -> ConsumerRecords[Any, Any]:
    """Return an empty ``ConsumerRecords`` that can be filled.

    It skips ``__init__``, which is too slow for every poll.
    """
    made: ConsumerRecords[Any, Any] = ConsumerRecords.__new__(ConsumerRecords)
    made._next_offsets = next_offsets
    return made
