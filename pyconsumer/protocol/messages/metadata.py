"""Metadata: brokers, topics, partitions and leaders. Topic ids since version 10."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    BOOL,
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
class MetadataRequestTopic(Struct):
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    name: str | None = field(STRING, "0+", nullable="10+", default="")


@message(ApiKey.METADATA, "request", versions="0-13", flexible="9+")
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+", factory=list)
    allow_auto_topic_creation: bool = field(BOOL, "4+", default=True)
    include_cluster_authorized_operations: bool = field(BOOL, "8-10", default=False)
    include_topic_authorized_operations: bool = field(BOOL, "8+", default=False)


@structure
class MetadataResponseBroker(Struct):
    node_id: int = field(INT32, "0+", default=0)
    host: str = field(STRING, "0+", default="")
    port: int = field(INT32, "0+", default=0)
    rack: str | None = field(STRING, "1+", nullable="1+", default=None, ignorable=True)


@structure
class MetadataResponsePartition(Struct):
    error_code: int = field(INT16, "0+", default=0)
    partition_index: int = field(INT32, "0+", default=0)
    leader_id: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(INT32, "0+", factory=list)
    isr_nodes: list[int] = array(INT32, "0+", factory=list)
    offline_replicas: list[int] = array(INT32, "5+", factory=list, ignorable=True)


@structure
class MetadataResponseTopic(Struct):
    error_code: int = field(INT16, "0+", default=0)
    name: str | None = field(STRING, "0+", nullable="12+", default="")
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = field(BOOL, "1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+", factory=list)
    topic_authorized_operations: int = field(INT32, "8+", default=-2147483648)


@message(ApiKey.METADATA, "response", versions="0-13", flexible="9+")
class MetadataResponse(Message):
    throttle_time_ms: int = field(INT32, "3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+", factory=list)
    cluster_id: str | None = field(STRING, "2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = field(INT32, "1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+", factory=list)
    cluster_authorized_operations: int = field(INT32, "8-10", default=-2147483648)
    error_code: int = field(INT16, "13+", default=0, ignorable=True)
