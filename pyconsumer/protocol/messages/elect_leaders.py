"""ElectLeaders: make the preferred replica the leader of partitions, or any replica of one without a leader."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class TopicPartitions(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.ELECT_LEADERS, "request", versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    election_type: int = field(INT8, "1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", factory=list)
    timeout_ms: int = field(INT32, "0+", default=60000)


@structure
class PartitionResult(Struct):
    partition_id: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class ReplicaElectionResult(Struct):
    topic: str = field(STRING, "0+", default="")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+", factory=list)


@message(ApiKey.ELECT_LEADERS, "response", versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+", factory=list)
