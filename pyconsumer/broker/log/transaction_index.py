"""The transaction index of a segment: the aborted transactions, in Kafka's file format.

An entry has 34 bytes, big-endian: i16 version (0), i64 producer id, i64 first offset, i64 last offset (of the marker),
i64 last stable offset of the log right after the marker was appended. Entries are in the order of the markers. A
``read_committed`` fetch gets those that overlap with the offsets that it reads (KIP-98).

The index is owned by its segment. The file exists only if there is an entry. It is written when the segment is closed
or flushed. After a crash the entries are rebuilt from the batches, together with the state of the producers.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.broker.log.storage import Storage

__all__ = ["AbortedTransaction", "TransactionIndex"]

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction of a partition. ``last_offset`` is the offset of its marker.

    ``last_stable_offset`` is the last stable offset when the marker was appended. No offset before it belonged to an
    open transaction.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment.

    Args:
        name: name of the file. If the file exists, it is loaded.
        exists: False if the caller knows that the file does not exist.

    Attributes:
        damaged: True if the file could not be decoded. The entries must then be rebuilt from the batches.
    """

    __slots__ = ("_entries", "_name", "_storage", "_unwritten", "damaged")

    def __init__(self, storage: Storage, name: str, *, exists: bool = True) -> None:
        self._storage = storage
        self._name = name
        self._entries: list[AbortedTransaction] = []
        self._unwritten = False
        self.damaged = False
        content = storage.read_small(name) if storage.durable and exists else None
        if content:
            self._load(content)

    def _load(self, content: bytes) -> None:
        last = -1
        for version, *fields in _ENTRY.iter_unpack(content[: len(content) // _ENTRY.size * _ENTRY.size]):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or entry.last_offset <= last or entry.first_offset > entry.last_offset:
                self.damaged = True
                return
            last = entry.last_offset
            self._entries.append(entry)
        self.damaged = len(content) % _ENTRY.size != 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries, the oldest marker first."""
        return list(self._entries)

    def append(self, entries: Iterable[AbortedTransaction]) -> None:
        """Add the entries of markers that were appended to the segment."""
        for entry in entries:
            self._entries.append(entry)
            self._unwritten = True

    def truncate(self, offset: int) -> None:
        """Remove the entries of markers at or after ``offset``."""
        kept = [entry for entry in self._entries if entry.last_offset < offset]
        if len(kept) != len(self._entries) or self.damaged:
            self._entries, self._unwritten, self.damaged = kept, True, False

    def write(self, *, sync: bool = False) -> None:
        """Write the file if the entries have changed.

        If that fails, ``OSError`` is raised, and the next call tries again.
        """
        if not self._unwritten or not self._storage.durable:
            return
        if self._entries:
            content = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self._entries)
            self._storage.write_small(self._name, content, sync=sync)
        else:
            self._storage.remove(self._name)
        self._unwritten = False

    def rename(self, name: str) -> None:
        """Rename the file."""
        if self._storage.durable and self._entries:
            self.write()
            self._storage.rename(self._name, name)
        self._name = name

    def remove(self) -> None:
        """Remove the file if it exists."""
        self._storage.remove(self._name)
