"""Keys and values of ``__consumer_offsets``."""

from __future__ import annotations

from pyconsumer.protocol.primitives import ZERO_UUID
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
