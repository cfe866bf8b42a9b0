"""Keys and values of ``__consumer_offsets``."""

from __future__ import annotations

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
    group: str = field(STRING, "0")
    topic: str = field(STRING, "0")
    partition: int = field(INT32, "0")


@message(-1, "data", versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int = field(INT64, "0+")
    leader_epoch: int = field(INT32, "3+", default=-1, ignorable=True)
    metadata: str = field(STRING, "0+")
    commit_timestamp: int = field(INT64, "0+")
    expire_timestamp: int = field(INT64, "1", default=-1, ignorable=True)
    topic_id: bytes = field(UUID, "4+", tag=0, ignorable=True)


@message(2, "data", versions="0", flexible="none")
class GroupMetadataKey(Message):
    group: str = field(STRING, "0")


@structure
class MemberMetadata(Struct):
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    rebalance_timeout: int = field(INT32, "1+", default=-1, ignorable=True)
    session_timeout: int = field(INT32, "0+")
    subscription: bytes = field(BYTES, "0+")
    assignment: bytes = field(BYTES, "0+")


@message(-1, "data", versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    protocol_type: str = field(STRING, "0+")
    generation: int = field(INT32, "0+")
    protocol: str | None = field(STRING, "0+", nullable="0+")
    leader: str | None = field(STRING, "0+", nullable="0+")
    current_state_timestamp: int = field(INT64, "2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
