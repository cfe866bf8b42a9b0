"""DeleteTopics: delete topics by name, or by id since version 6."""

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
class DeleteTopicState(Struct):
    name: str | None = field(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = field(UUID, "6+", default=ZERO_UUID)


@message(ApiKey.DELETE_TOPICS, "request", versions="1-6", flexible="4+")
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", factory=list)
    topic_names: list[str] = array(STRING, "0-5", factory=list, ignorable=True)
    timeout_ms: int = field(INT32, "0+", default=0)


@structure
class DeletableTopicResult(Struct):
    name: str | None = field(STRING, "0+", nullable="6+", default="")
    topic_id: bytes = field(UUID, "6+", default=ZERO_UUID, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)


@message(ApiKey.DELETE_TOPICS, "response", versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+", factory=list)
