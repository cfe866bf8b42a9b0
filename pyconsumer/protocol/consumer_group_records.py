"""Records of consumer groups (KIP-848) in ``__consumer_offsets``: values by Kafka's names, and their keys. No state.

A key is the type of the record (:class:`RecordType`, int16), the group id, and for most types another name: a member
id, or a regular expression. A value is the version of its schema (int16, 0) and the fields. A null value is a
tombstone. Brokers of today read ``ConsumerGroupPartitionMetadata`` only to replace it by a tombstone: they store the
metadata hash of ``ConsumerGroupMetadata`` instead (KIP-1101). For offsets and classic groups see ``offsets_topic``.
"""

from __future__ import annotations

from enum import IntEnum

from pyconsumer.protocol.offsets_topic import ConsumerGroupMemberMetadataKey, GroupMetadataKey
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    BYTES,
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
    struct,
    structure,
)

__all__ = [
    "VALUES",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "RecordType",
    "TopicPartition",
    "TopicPartitions",
    "decode_key_of",
    "decode_value",
    "encode_key",
]


class RecordType(IntEnum):
    """Types of records. The type is in the first two bytes of a key."""

    GROUP_METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


@message(3, "data", versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    epoch: int = field(INT32, "0+", default=0)
    metadata_hash: int = field(INT64, "0+", default=0, tag=0)


@structure
class PartitionMetadata(Struct):
    partition: int = field(INT32, "0+", default=0)
    racks: list[str] = array(STRING, "0+", factory=list)


@structure
class TopicMetadata(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    topic_name: str = field(STRING, "0+", default="")
    num_partitions: int = field(INT32, "0+", default=0)
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+", factory=list)


@message(4, "data", versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    topics: list[TopicMetadata] = array(TopicMetadata, "0+", factory=list)


@structure
class ClassicProtocol(Struct):
    name: str = field(STRING, "0+", default="")
    metadata: bytes = field(BYTES, "0+", default=b"")


@structure
class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field(INT32, "0+", default=0)
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+", factory=list)


@message(5, "data", versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = field(STRING, "0+", nullable="0+", default="")
    rack_id: str | None = field(STRING, "0+", nullable="0+", default="")
    client_id: str = field(STRING, "0+", default="")
    client_host: str = field(STRING, "0+", default="")
    subscribed_topic_names: list[str] = array(STRING, "0+", factory=list)
    subscribed_topic_regex: str | None = field(STRING, "0+", nullable="0+", default="")
    rebalance_timeout_ms: int = field(INT32, "0+", default=-1)
    server_assignor: str | None = field(STRING, "0+", nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", factory=ClassicMemberMetadata, tag=0
    )
    """Null for a member of the consumer protocol; Kafka's default is an empty one."""


@message(6, "data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field(INT32, "0+", default=0)
    assignment_timestamp: int = field(INT64, "0+", default=0, tag=0, ignorable=True)


@structure
class TopicPartition(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(7, "data", versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+", factory=list)


@structure
class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)
    assignment_epochs: list[int] | None = array(INT32, "0+", nullable="0+", factory=list, tag=0)


@message(8, "data", versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field(INT32, "0+", default=0)
    previous_member_epoch: int = field(INT32, "0+", default=0)
    state: int = field(INT8, "0+", default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)


@message(16, "data", versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = array(STRING, "0+", factory=list)
    version: int = field(INT64, "0+", default=0)
    timestamp: int = field(INT64, "0+", default=0)


#: The value that belongs to a key.
VALUES: dict[RecordType, type[Message]] = {
    RecordType.GROUP_METADATA: ConsumerGroupMetadataValue,
    RecordType.PARTITION_METADATA: ConsumerGroupPartitionMetadataValue,
    RecordType.MEMBER_METADATA: ConsumerGroupMemberMetadataValue,
    RecordType.TARGET_ASSIGNMENT_METADATA: ConsumerGroupTargetAssignmentMetadataValue,
    RecordType.TARGET_ASSIGNMENT_MEMBER: ConsumerGroupTargetAssignmentMemberValue,
    RecordType.CURRENT_MEMBER_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentValue,
    RecordType.REGULAR_EXPRESSION: ConsumerGroupRegularExpressionValue,
}


def encode_key(kind: RecordType, group_id: str, name: str | None = None) -> bytes:
    """Encode a key.

    Args:
        kind: the type of the record.
        group_id: the group.
        name: the member id or the regular expression, for types that have one.
    """
    start = int(kind).to_bytes(2, "big")
    if name is None:
        return start + GroupMetadataKey(group=group_id).encode(0)
    return start + ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name).encode(0)


#: Types whose keys contain only the group id.
_OF_THE_GROUP = frozenset(
    {RecordType.GROUP_METADATA, RecordType.PARTITION_METADATA, RecordType.TARGET_ASSIGNMENT_METADATA}
)


def decode_key_of(key: Buffer) -> tuple[RecordType, str, str | None]:
    """Read a key. Return its type, the group id, and the member id, the regular expression or None.

    Raises:
        ProtocolError: the bytes begin with a type, but are not a key of that type.
        ValueError: the type is not in :class:`RecordType`.
    """
    kind = RecordType(int.from_bytes(key[:2], "big"))
    if kind in _OF_THE_GROUP:
        return kind, GroupMetadataKey.decode(memoryview(key)[2:], 0).group, None
    both = ConsumerGroupMemberMetadataKey.decode(memoryview(key)[2:], 0)
    return kind, both.group_id, both.member_id


def decode_value(kind: RecordType, value: Buffer) -> Message:
    """Read the value of a record.

    Raises:
        ProtocolError: the bytes are not a value of this type.
    """
    return VALUES[kind].decode_with_version(value)[0]
