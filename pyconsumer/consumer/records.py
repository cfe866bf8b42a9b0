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
    """Records by partition, in offset order: a ``dict`` of :class:`TopicPartition` to lists, none of them empty.

    False if there are no records. ``len()`` counts partitions, :meth:`count` counts records. Java: ``ConsumerRecords``.
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
        """Iterate over all records, or over those of one partition or of one topic."""
        if of is None:
            return chain.from_iterable(self.values())
        if isinstance(of, str):
            return chain.from_iterable(found for tp, found in self.items() if tp.topic == of)
        return iter(self.get(of, ()))

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that have records here."""
        return set(self)

    def count(self) -> int:
        """Return the number of records."""
        return sum(map(len, self.values()))

    @property
    def is_empty(self) -> bool:
        """True if there are no records."""
        return not self

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit once these records have been processed (KIP-1094).

        These are the positions after the records of each partition, with leader epochs. They may be higher than the
        last offset plus 1, if transaction markers or compacted records follow.
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
    """Return an empty ``ConsumerRecords`` to fill in place. Bypasses ``__init__``, which is too slow for every poll."""
    made: ConsumerRecords[Any, Any] = ConsumerRecords.__new__(ConsumerRecords)
    made._next_offsets = next_offsets
    return made
