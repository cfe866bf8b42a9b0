"""Keys and values of ``__consumer_offsets``: offsets and classic groups. No state.

Both begin with an int16 version. That of a *key* is the type of the record: 0 and 1 a committed offset (1 is written),
2 the metadata of a classic group. Higher ones belong to newer group protocols. That of a *value* is the version of its
schema. A null value is a tombstone, an empty value is an error.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    BYTES,
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


@message(1, "data", versions="0", flexible="none")
class OffsetCommitKey(Message):
    group: str = field(STRING, "0", default="")
    topic: str = field(STRING, "0", default="")
    partition: int = field(INT32, "0", default=0)


@message(-1, "data", versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int = field(INT64, "0+", default=0)
    leader_epoch: int = field(INT32, "3+", default=-1, ignorable=True)
    metadata: str = field(STRING, "0+", default="")
    commit_timestamp: int = field(INT64, "0+", default=0)
    expire_timestamp: int = field(INT64, "1", default=-1, ignorable=True)
    topic_id: bytes = field(UUID, "4+", default=ZERO_UUID, tag=0, ignorable=True)


@message(2, "data", versions="0", flexible="none")
class GroupMetadataKey(Message):
    group: str = field(STRING, "0", default="")


@structure
class MemberMetadata(Struct):
    member_id: str = field(STRING, "0+", default="")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(STRING, "0+", default="")
    client_host: str = field(STRING, "0+", default="")
    rebalance_timeout: int = field(INT32, "1+", default=-1, ignorable=True)
    session_timeout: int = field(INT32, "0+", default=0)
    subscription: bytes = field(BYTES, "0+", default=b"")
    assignment: bytes = field(BYTES, "0+", default=b"")


@message(-1, "data", versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    protocol_type: str = field(STRING, "0+", default="")
    generation: int = field(INT32, "0+", default=0)
    protocol: str | None = field(STRING, "0+", nullable="0+", default="")
    leader: str | None = field(STRING, "0+", nullable="0+", default="")
    current_state_timestamp: int = field(INT64, "2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+", factory=list)


@message(5, "data", versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey(Message):
    """The key of a record with a group id and another name. All such keys have the same schema."""

    group_id: str = field(STRING, "0", default="")
    member_id: str = field(STRING, "0", default="")


#: The versions that brokers of today write. Only version 1 of an offset has an expiration time of its own.
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

#: Types of records of the newer group protocols, consumer groups (KIP-848), share groups (KIP-932) and streams groups
#: (KIP-1071), by the version of their keys.
NEWER_KINDS = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
#: Those whose keys contain more than the group id: a member id or a regular expression.
_KINDS_OF_MEMBERS = (5, 7, 8, 10, 13, 14, 16, 19, 21, 22)

_OFFSET_KEY_VERSIONS = (0, 1)
_GROUP_KEY_VERSION = 2

M = TypeVar("M", bound=Message)


class UnknownKey(NamedTuple):
    """The key of a record of another type. ``version`` is the type."""

    version: int


class NewerKey(NamedTuple):
    """The key of a record whose type is in :data:`NEWER_KINDS`.

    Attributes:
        kind: Kafka's name of the type.
        group: the group id.
        member: the member id. For ``ConsumerGroupRegularExpression`` it is the expression. None if the record is about
            the whole group.
    """

    kind: str
    group: str
    member: str | None


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encode the key of a committed offset."""
    return b"\0\1" + OffsetCommitKey(group=group, topic=topic, partition=partition).encode(0)


def encode_group_key(group: str) -> bytes:
    """Encode the key of a classic group's metadata."""
    return b"\0\2" + GroupMetadataKey(group=group).encode(0)


def encode_offset_value(value: OffsetCommitValue) -> bytes:
    """Encode a committed offset in the version that present brokers write."""
    expires = value.expire_timestamp != -1
    return value.encode_with_version(OFFSET_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_VALUE_VERSION)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """Encode a group's metadata in the version that present brokers write."""
    return value.encode_with_version(GROUP_VALUE_VERSION)


def decode_key(key: Buffer) -> OffsetCommitKey | GroupMetadataKey | UnknownKey:
    """Read a key.

    Raises:
        ProtocolError: the bytes are too short for a version, or are not a key of their version.
    """
    version = _version(key)
    body = memoryview(key)[2:]
    if version in _OFFSET_KEY_VERSIONS:
        return OffsetCommitKey.decode(body, 0)
    if version == _GROUP_KEY_VERSION:
        return GroupMetadataKey.decode(body, 0)
    return UnknownKey(version)


def decode_newer_key(key: Buffer) -> NewerKey | None:
    """Read a key whose type is in :data:`NEWER_KINDS`. Return None for another key.

    Raises:
        ProtocolError: the bytes are too short for a version, or are not a key of their version.
    """
    version = _version(key)
    kind = NEWER_KINDS.get(version)
    if kind is None:
        return None
    if version in _KINDS_OF_MEMBERS:
        both = ConsumerGroupMemberMetadataKey.decode(memoryview(key)[2:], 0)
        return NewerKey(kind, both.group_id, both.member_id)
    return NewerKey(kind, GroupMetadataKey.decode(memoryview(key)[2:], 0).group, None)


def decode_offset_value(value: Buffer) -> OffsetCommitValue:
    """Read a committed offset of any known version. Raises ``ProtocolError``."""
    return _decode_value(OffsetCommitValue, value)


def decode_group_value(value: Buffer) -> GroupMetadataValue:
    """Read a group's metadata of any known version. Raises ``ProtocolError``."""
    return _decode_value(GroupMetadataValue, value)


def _decode_value(cls: type[M], value: Buffer) -> M:
    version = _version(value)
    if version not in cls.SCHEMA.versions:
        raise ProtocolError(f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}")
    return cls.decode(memoryview(value)[2:], version)


def _version(data: Buffer) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too short for a version")
    return int.from_bytes(data[:2], "big", signed=True)


def format_record(key: Buffer, value: Buffer | None) -> str | None:
    """Return a record as a line of text, in the format of Kafka's dump tools up to 2.0.

    Return None for an unknown type.

    An offset is ``[group,topic,partition]::[OffsetMetadata[offset,metadata],CommitTime t,ExpirationTime t]``, with
    ``NO_METADATA`` for empty metadata and -1 for no expiration time. A group is ``group::[group,type,state,members]``.
    The value of a tombstone is ``NULL``.

    Raises:
        ProtocolError: the bytes are not a record of their version.
    """
    kind = decode_key(key)
    if isinstance(kind, OffsetCommitKey):
        return f"[{kind.group},{kind.topic},{kind.partition}]::{_format_offset(value)}"
    if isinstance(kind, GroupMetadataKey):
        return f"{kind.group}::{_format_group(kind.group, value)}"
    return None


def _format_offset(value: Buffer | None) -> str:
    if value is None:
        return "NULL"
    commit = decode_offset_value(value)
    return (
        f"[OffsetMetadata[{commit.offset},{commit.metadata or 'NO_METADATA'}],"
        f"CommitTime {commit.commit_timestamp},ExpirationTime {commit.expire_timestamp}]"
    )


def _format_group(group: str, value: Buffer | None) -> str:
    if value is None:
        return "NULL"
    metadata = decode_group_value(value)
    members = ", ".join(
        f"{one.member_id} -> [{one.member_id},{one.client_id},{one.client_host},{one.session_timeout}]"
        for one in metadata.members
    )
    kind = f"Some({metadata.protocol_type})" if metadata.protocol_type else "None"
    return f"[{group},{kind},{'Stable' if metadata.members else 'Empty'},Map({members})]"
