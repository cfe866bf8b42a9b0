"""CreateTopics: create topics, with partitions, replicas and settings."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    BOOL,
    INT8,
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
class CreatableReplicaAssignment(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    broker_ids: list[int] = array(INT32, "0+", factory=list)


@structure
class CreatableTopicConfig(Struct):
    name: str = field(STRING, "0+", default="")
    value: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class CreatableTopic(Struct):
    name: str = field(STRING, "0+", default="")
    num_partitions: int = field(INT32, "0+", default=0)
    replication_factor: int = field(INT16, "0+", default=0)
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+", factory=list)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+", factory=list)


@message(ApiKey.CREATE_TOPICS, "request", versions="2-7", flexible="5+")
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = array(CreatableTopic, "0+", factory=list)
    timeout_ms: int = field(INT32, "0+", default=60000)
    validate_only: bool = field(BOOL, "1+", default=False)


@structure
class CreatableTopicConfigs(Struct):
    name: str = field(STRING, "5+", default="")
    value: str | None = field(STRING, "5+", nullable="5+", default="")
    read_only: bool = field(BOOL, "5+", default=False)
    config_source: int = field(INT8, "5+", default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL, "5+", default=False)


@structure
class CreatableTopicResult(Struct):
    name: str = field(STRING, "0+", default="")
    topic_id: bytes = field(UUID, "7+", default=ZERO_UUID, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "1+", nullable="0+", default="", ignorable=True)
    topic_config_error_code: int = field(INT16, "5+", default=0, tag=0, ignorable=True)
    num_partitions: int = field(INT32, "5+", default=-1, ignorable=True)
    replication_factor: int = field(INT16, "5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", factory=list, ignorable=True
    )


@message(ApiKey.CREATE_TOPICS, "response", versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    throttle_time_ms: int = field(INT32, "2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+", factory=list)
