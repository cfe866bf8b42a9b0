"""DeleteShareGroupOffsets: delete the offsets of topics of an empty share group (KIP-932)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "request", versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic, "0+", factory=list)


@structure
class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "response", versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic, "0+", factory=list
    )
