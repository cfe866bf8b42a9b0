"""Reads one partition of ``__consumer_offsets`` and rebuilds the groups in it.

The order of records is everything: a commit after a tombstone stands, a tombstone after a commit removes it, and what
was committed in a transaction counts from its commit marker on. Records of consumer groups are replayed onto their
groups. Kinds of other group protocols are skipped; they stay in the log.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.records import GroupRecord
from pyconsumer.broker.group.offsets import CommitRecord
from pyconsumer.broker.group.records import committed_offset, group_from_value
from pyconsumer.clock import Clock
from pyconsumer.errors import CorruptRecordError, ProtocolError
from pyconsumer.protocol.consumer_group_records import RecordType, decode_key_of, decode_value
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    OffsetCommitKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from pyconsumer.protocol.records import ControlRecordType, SimpleRecord, decode_control_type, iter_records, scan
from pyconsumer.structs import TopicPartition

__all__ = ["PartitionLoader"]

_log = logging.getLogger(__name__)

_KINDS = frozenset(map(int, RecordType))


class _OffsetId(NamedTuple):
    group: str
    partition: TopicPartition


class PartitionLoader:
    """The groups read so far.

    Args:
        partition: of ``__consumer_offsets``; for messages only.
        pieces: its record batches, from the log start on.
    """

    def __init__(self, partition: int, pieces: Iterator[bytes | memoryview], clock: Clock) -> None:
        self.partition = partition
        self._pieces = pieces
        self._clock = clock
        self._largest = 0  # piece that was warned of
        self._offsets: dict[_OffsetId, CommitRecord] = {}
        self._pending: dict[int, dict[_OffsetId, CommitRecord]] = {}
        self._groups: dict[str, GroupMetadata | ConsumerGroup] = {}
        self.removed_groups: set[str] = set()
        self.record_count = 0
        self.unknown_count = 0

    def read(self, max_bytes: int) -> bool:
        """Read on for about ``max_bytes``; whether there may be more.

        Raises:
            ProtocolError: a record cannot be understood (``CorruptRecordError`` if its batch is damaged).
        """
        read = 0
        while read < max_bytes:
            piece = next(self._pieces, None)
            if piece is None or len(piece) == 0:
                return False
            if len(piece) > max(max_bytes, self._largest):
                self._largest = len(piece)
                _log.warning(
                    "Partition %d of __consumer_offsets: read %d bytes at once, more than offsets.load.buffer.size %d",
                    self.partition,
                    len(piece),
                    max_bytes,
                )
            read += len(piece)
            view = memoryview(piece)
            for info in scan(view):
                records = list(iter_records(view[info.position : info.end_position]))
                if info.is_control:
                    self._control_batch(info.producer_id, records)
                elif records:
                    producer_id = info.producer_id if info.is_transactional else None
                    # The first record that compaction has left stands for the place of the batch.
                    for record in records:
                        self._record(record, records[0].offset, producer_id)
        return True

    def _control_batch(self, producer_id: int, records: list[SimpleRecord]) -> None:
        if not records:
            return
        kind = decode_control_type(records[0].key)
        if kind not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return
        commits = self._pending.pop(producer_id, {})
        if kind is ControlRecordType.COMMIT:
            for offset_id, record in commits.items():
                present = self._offsets.get(offset_id)
                if present is None or present.older_than(record):
                    self._offsets[offset_id] = record

    def _record(self, record: SimpleRecord, batch_offset: int, producer_id: int | None) -> None:
        self.record_count += 1
        if record.key is None:
            raise CorruptRecordError(f"__consumer_offsets-{self.partition}: the record at {record.offset} has no key")
        try:
            key = decode_key(record.key)
            if isinstance(key, OffsetCommitKey):
                self._offset(key, record.value, batch_offset, producer_id)
            elif isinstance(key, GroupMetadataKey):
                self._group(key.group, record.value)
            elif key.version in _KINDS:
                self._consumer_group(record.key, record.value)
            else:
                self._unknown(key, record.offset)
        except ProtocolError as error:
            raise ProtocolError(f"__consumer_offsets-{self.partition} at offset {record.offset}: {error}") from error

    def _offset(self, key: OffsetCommitKey, value: bytes | None, batch_offset: int, producer_id: int | None) -> None:
        offset_id = _OffsetId(key.group, TopicPartition(key.topic, key.partition))
        target = self._offsets if producer_id is None else self._pending.setdefault(producer_id, {})
        if value is not None:
            target[offset_id] = CommitRecord(batch_offset, committed_offset(decode_offset_value(value)))
            return
        target.pop(offset_id, None)
        if producer_id is None:
            # A removal by the coordinator covers what open transactions have staged as well.
            for commits in self._pending.values():
                commits.pop(offset_id, None)

    def _group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if isinstance(self._groups.get(group_id), ConsumerGroup):
                return  # it had been a classic one before
            self._groups.pop(group_id, None)
            self.removed_groups.add(group_id)
        else:
            self._groups[group_id] = group_from_value(group_id, decode_group_value(value), self._clock)
            self.removed_groups.discard(group_id)

    def _consumer_group(self, key: bytes, value: bytes | None) -> None:
        kind, group_id, name = decode_key_of(key)
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # tombstones of a group that is gone, or a classic one since
            group = self._groups[group_id] = ConsumerGroup(group_id)
            self.removed_groups.discard(group_id)
        group.replay(GroupRecord(kind, name, None if value is None else decode_value(kind, value)))
        if group.is_dead:
            del self._groups[group_id]
            self.removed_groups.add(group_id)

    def _unknown(self, key: UnknownKey, offset: int) -> None:
        self.unknown_count += 1
        _log.debug(
            "Partition %d of __consumer_offsets: skipped a record of kind %d at offset %d",
            self.partition,
            key.version,
            offset,
        )

    def groups(self) -> list[GroupMetadata | ConsumerGroup]:
        """Every group that the partition holds, with its offsets in it; those with offsets alone are Empty."""
        offsets: dict[str, dict[TopicPartition, CommitRecord]] = defaultdict(dict)
        for (group_id, partition), record in self._offsets.items():
            offsets[group_id][partition] = record
        pending: dict[str, dict[int, dict[TopicPartition, CommitRecord]]] = defaultdict(lambda: defaultdict(dict))
        for producer_id, commits in self._pending.items():
            for (group_id, partition), record in commits.items():
                pending[group_id][producer_id][partition] = record
        groups = dict(self._groups)
        for group_id in [*offsets, *pending]:
            if group_id not in groups:
                groups[group_id] = GroupMetadata(group_id, GroupState.EMPTY, self._clock)
        for group_id, group in groups.items():
            group.offsets.initialize(offsets.get(group_id, {}), pending.get(group_id, {}))
        return list(groups.values())
