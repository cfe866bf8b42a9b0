"""Loading: reads a partition of ``__consumer_offsets`` and rebuilds its groups.

A loader lives for one load and owns what it has read so far. The manager caches the groups when the load has ended.
Records take effect in the order of the log: a tombstone removes the commits before it and not those after it, and the
commits of a transaction take effect at its commit marker. Records of consumer groups and share groups are replayed onto
their groups. Records of other group types are skipped. They stay in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.classic.records import group_from_value
from pyconsumer.broker.group.common.load_steps import STEP_S
from pyconsumer.broker.group.common.offset_records import committed_offset
from pyconsumer.broker.group.common.offsets import CommitRecord
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.records import GroupRecord
from pyconsumer.broker.group.share.group import ShareGroup, ShareRecord
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
from pyconsumer.protocol.share_group_records import ShareRecordType, decode_share_key, decode_share_value
from pyconsumer.structs import TopicPartition

__all__ = ["PartitionLoader"]

_log = Log(__name__)

_CONSUMER_GROUP_TYPES = frozenset(map(int, RecordType))
_SHARE_GROUP_TYPES = frozenset(map(int, ShareRecordType))


class _OffsetId(NamedTuple):
    group: str
    partition: TopicPartition


class PartitionLoader:
    """Loads the groups of one partition of ``__consumer_offsets``.

    Args:
        partition: the partition's number. It is used only in messages.
        pieces: the record batches of the partition, from the log's start on.
    """

    def __init__(self, partition: int, pieces: Iterator[bytes | memoryview], clock: Clock) -> None:
        self.partition = partition
        self._pieces = pieces
        self._clock = clock
        self._largest = 0  # size of the largest piece that a warning was logged for
        self._offsets: dict[_OffsetId, CommitRecord] = {}
        self._pending: dict[int, dict[_OffsetId, CommitRecord]] = {}
        self._groups: dict[str, GroupMetadata | ConsumerGroup] = {}
        self._share_groups: dict[str, ShareGroup] = {}
        self.removed_groups: set[str] = set()
        self.record_count = 0
        self.unknown_count = 0

    def read(self, max_bytes: int) -> bool:
        """Read about ``max_bytes``, for about ten milliseconds. Return whether there may be more to read.

        As in Kafka, a piece without records ends the load.

        Raises:
            ProtocolError: a record cannot be decoded (``CorruptRecordError`` if its batch is damaged).
        """
        read, until = 0, self._clock.now() + STEP_S
        while read < max_bytes and self._clock.now() < until:
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
                    # Compaction may have removed the first records, so this may not be the base offset of the append.
                    # It orders the batch among the others all the same.
                    for record in records:
                        self._record(record, records[0].offset, producer_id)
        return True

    def _control_batch(self, producer_id: int, records: list[SimpleRecord]) -> None:
        if not records:
            return
        marker = decode_control_type(records[0].key)
        if marker not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return
        commits = self._pending.pop(producer_id, {})
        if marker is ControlRecordType.COMMIT:
            for offset_id, record in commits.items():
                present = self._offsets.get(offset_id)
                if present is None or present.older_than(record):
                    self._offsets[offset_id] = record

    def _record(self, record: SimpleRecord, batch_offset: int, producer_id: int | None) -> None:
        self.record_count += 1
        if record.key is None:
            raise CorruptRecordError(
                f"__consumer_offsets-{self.partition}: the record at offset {record.offset} has no key"
            )
        try:
            key = decode_key(record.key)
            if isinstance(key, OffsetCommitKey):
                self._offset(key, record.value, batch_offset, producer_id)
            elif isinstance(key, GroupMetadataKey):
                self._group(key.group, record.value)
            elif key.version in _CONSUMER_GROUP_TYPES:
                self._consumer_group(record.key, record.value)
            elif key.version in _SHARE_GROUP_TYPES:
                self._share_group(record.key, record.value)
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
            # A tombstone also removes the commits of open transactions before it.
            for commits in self._pending.values():
                commits.pop(offset_id, None)

    def _group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            if isinstance(self._groups.get(group_id), ConsumerGroup):
                return  # the tombstone of the classic group that was upgraded to this consumer group
            self._groups.pop(group_id, None)
            self.removed_groups.add(group_id)
        else:
            self._groups[group_id] = group_from_value(group_id, decode_group_value(value), self._clock)
            self.removed_groups.discard(group_id)

    def _consumer_group(self, key: bytes, value: bytes | None) -> None:
        record_type, group_id, name = decode_key_of(key)
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # a tombstone of a consumer group that was deleted or has become a classic group
            group = self._groups[group_id] = ConsumerGroup(group_id)
            self.removed_groups.discard(group_id)
        group.replay(GroupRecord(record_type, name, None if value is None else decode_value(record_type, value)))
        if group.is_dead:
            del self._groups[group_id]
            self.removed_groups.add(group_id)

    def _share_group(self, key: bytes, value: bytes | None) -> None:
        record_type, group_id, member_id = decode_share_key(key)
        group = self._share_groups.get(group_id)
        if group is None:
            if value is None:
                return  # a tombstone of a group that was deleted
            group = self._share_groups[group_id] = ShareGroup(group_id)
        decoded = None if value is None else decode_share_value(record_type, value)
        group.replay(ShareRecord(record_type, member_id, decoded))
        if group.is_dead:
            del self._share_groups[group_id]

    def share_groups(self) -> list[ShareGroup]:
        """Return all share groups of the partition."""
        return list(self._share_groups.values())

    def _unknown(self, key: UnknownKey, offset: int) -> None:
        self.unknown_count += 1
        _log.debug(
            "Partition %d of __consumer_offsets: skipped a record of type %d at offset %d",
            self.partition,
            key.version,
            offset,
        )

    def groups(self) -> list[GroupMetadata | ConsumerGroup]:
        """Return all groups of the partition, with their offsets. A group that only has offsets is Empty."""
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
