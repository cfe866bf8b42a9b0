"""Records of share groups (KIP-932) in ``__consumer_offsets``: values by Kafka's names, and their keys. No state.

Keys and values are built as those of consumer groups (:mod:`.consumer_group_records`). The other name in a key is a
member id.
"""

from __future__ import annotations

from enum import IntEnum

from pyconsumer.protocol.offsets_topic import ConsumerGroupMemberMetadataKey, GroupMetadataKey
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    INT8,
    INT32,
    INT64,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

__all__ = [
    "VALUES",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareRecordType",
    "TopicInfo",
    "TopicPartition",
    "TopicPartitions",
    "TopicPartitionsInfo",
    "decode_share_key",
    "decode_share_value",
    "encode_share_key",
]


class ShareRecordType(IntEnum):
    """Types of records. The type is in the first two bytes of a key."""

    MEMBER_METADATA = 10
    GROUP_METADATA = 11
    TARGET_ASSIGNMENT_METADATA = 12
    TARGET_ASSIGNMENT_MEMBER = 13
    CURRENT_MEMBER_ASSIGNMENT = 14
    STATE_PARTITION_METADATA = 15


@message(10, "data", versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = field(STRING, "0+", nullable="0+", default="")
    client_id: str = field(STRING, "0+", default="")
    client_host: str = field(STRING, "0+", default="")
    subscribed_topic_names: list[str] = array(STRING, "0+", factory=list)


@message(11, "data", versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    epoch: int = field(INT32, "0+", default=0)
    metadata_hash: int = field(INT64, "0+", default=0)


@message(12, "data", versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field(INT32, "0+", default=0)
    assignment_timestamp: int = field(INT64, "0+", default=0, tag=0, ignorable=True)


@structure
class TopicPartition(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(13, "data", versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+", factory=list)


@structure
class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(14, "data", versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field(INT32, "0+", default=0)
    previous_member_epoch: int = field(INT32, "0+", default=0)
    state: int = field(INT8, "0+", default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)


@structure
class TopicPartitionsInfo(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    topic_name: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class TopicInfo(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    topic_name: str = field(STRING, "0+", default="")


@message(15, "data", versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", factory=list)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", factory=list)
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+", factory=list)


#: The value that belongs to a key.
VALUES: dict[ShareRecordType, type[Message]] = {
    ShareRecordType.MEMBER_METADATA: ShareGroupMemberMetadataValue,
    ShareRecordType.GROUP_METADATA: ShareGroupMetadataValue,
    ShareRecordType.TARGET_ASSIGNMENT_METADATA: ShareGroupTargetAssignmentMetadataValue,
    ShareRecordType.TARGET_ASSIGNMENT_MEMBER: ShareGroupTargetAssignmentMemberValue,
    ShareRecordType.CURRENT_MEMBER_ASSIGNMENT: ShareGroupCurrentMemberAssignmentValue,
    ShareRecordType.STATE_PARTITION_METADATA: ShareGroupStatePartitionMetadataValue,
}

#: Types whose keys contain only the group id.
_OF_THE_GROUP = frozenset(
    {
        ShareRecordType.GROUP_METADATA,
        ShareRecordType.TARGET_ASSIGNMENT_METADATA,
        ShareRecordType.STATE_PARTITION_METADATA,
    }
)


def encode_share_key(kind: ShareRecordType, group_id: str, member_id: str | None = None) -> bytes:
    """Encode a key. ``member_id`` is for the types that have one."""
    start = int(kind).to_bytes(2, "big")
    if member_id is None:
        return start + GroupMetadataKey(group=group_id).encode(0)
    return start + ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id).encode(0)


def decode_share_key(key: Buffer) -> tuple[ShareRecordType, str, str | None]:
    """Read a key. Return its type, the group id, and the member id or None.

    Raises:
        ProtocolError: the bytes begin with a type, but are not a key of that type.
        ValueError: the type is not in :class:`ShareRecordType`.
    """
    kind = ShareRecordType(int.from_bytes(key[:2], "big"))
    if kind in _OF_THE_GROUP:
        return kind, GroupMetadataKey.decode(memoryview(key)[2:], 0).group, None
    both = ConsumerGroupMemberMetadataKey.decode(memoryview(key)[2:], 0)
    return kind, both.group_id, both.member_id


def decode_share_value(kind: ShareRecordType, value: Buffer) -> Message:
    """Read the value of a record. Raises ``ProtocolError`` if the bytes are not a value of this type."""
    return VALUES[kind].decode_with_version(value)[0]
