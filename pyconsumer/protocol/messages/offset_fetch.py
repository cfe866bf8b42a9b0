"""OffsetFetch: read committed offsets, of several groups at once since version 8 (KIP-709)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
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

FIRST_VERSION_WITH_TOPIC_IDS = 10
"""The first version with topic ids instead of names (KIP-848)."""


@structure
class OffsetFetchRequestTopic(Struct):
    name: str = field(STRING, "0-7", default="")
    partition_indexes: list[int] = array(INT32, "0-7", factory=list)


@structure
class OffsetFetchRequestTopics(Struct):
    name: str = field(STRING, "8-9", default="", ignorable=True)
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array(INT32, "8+", factory=list)


@structure
class OffsetFetchRequestGroup(Struct):
    group_id: str = field(STRING, "8+", default="")
    member_id: str | None = field(STRING, "9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(INT32, "9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+", factory=list)


@message(ApiKey.OFFSET_FETCH, "request", versions="1-10", flexible="6+")
class OffsetFetchRequest(Message):
    group_id: str = field(STRING, "0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7", factory=list)
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", factory=list)
    require_stable: bool = field(BOOL, "7+", default=False)


@structure
class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(INT32, "0-7", default=0)
    committed_offset: int = field(INT64, "0-7", default=0)
    committed_leader_epoch: int = field(INT32, "5-7", default=-1, ignorable=True)
    metadata: str | None = field(STRING, "0-7", nullable="0-7", default="")
    error_code: int = field(INT16, "0-7", default=0)


@structure
class OffsetFetchResponseTopic(Struct):
    name: str = field(STRING, "0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7", factory=list)


@structure
class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(INT32, "8+", default=0)
    committed_offset: int = field(INT64, "8+", default=0)
    committed_leader_epoch: int = field(INT32, "8+", default=-1, ignorable=True)
    metadata: str | None = field(STRING, "8+", nullable="8+", default="")
    error_code: int = field(INT16, "8+", default=0)


@structure
class OffsetFetchResponseTopics(Struct):
    name: str = field(STRING, "8-9", default="", ignorable=True)
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+", factory=list)


@structure
class OffsetFetchResponseGroup(Struct):
    group_id: str = field(STRING, "8+", default="")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", factory=list)
    error_code: int = field(INT16, "8+", default=0)


@message(ApiKey.OFFSET_FETCH, "response", versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    throttle_time_ms: int = field(INT32, "3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", factory=list)
    error_code: int = field(INT16, "2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", factory=list)
