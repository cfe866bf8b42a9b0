"""Produce: record batches are appended as they were sent, and acknowledged as the producer asks."""

from __future__ import annotations

import logging

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaStorageError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from pyconsumer.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pyconsumer.protocol.records import Codec

__all__ = ["handle"]

_log = logging.getLogger(__name__)

_LEADERSHIP_ERRORS = frozenset({6, 74})  # not the leader, or an older epoch of it
_STAMPED_TRANSACTIONAL = 0x10


async def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append to each partition. With acks=0 there is no answer; an error then closes the connection, as Kafka does."""
    responses = []
    failed = False
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, context.api_version)
        partitions = []
        for data in topic.partition_data:
            answer = (
                _append(broker, name, data, request, context)
                if problem is None
                else _failed(data.index, problem, None, broker)
            )
            failed = failed or answer.error_code != 0
            partitions.append(answer)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    if request.acks == 0:
        if failed:
            _log.info("closing the connection of %s: a produce request with acks=0 failed", context.client_id)
            context.session.close_after = True
        return None
    response = ProduceResponse(responses)
    if failed and context.api_version >= 10:
        response.node_endpoints = _leaders(broker, response, context)
    return response


def _resolve(broker: Broker, topic: TopicProduceData, version: int) -> tuple[str, BrokerResponseError | None]:
    if version < 13:
        return topic.name, None
    name = broker.topic_name(topic.topic_id)
    return (name, None) if name is not None else ("", UnknownTopicIdError("there is no topic with this id"))


def _append(
    broker: Broker, topic: str, data: PartitionProduceData, request: ProduceRequest, context: RequestContext
) -> PartitionProduceResponse:
    try:
        records = data.records
        if request.acks not in (-1, 0, 1):
            raise InvalidRequiredAcksError(f"acks must be -1, 0 or 1, not {request.acks}")
        if topic in INTERNAL_TOPICS and context.client_id != "__admin_client":
            raise InvalidTopicError(f"the topic {topic} is internal: clients cannot write to it")
        if not records or len(records) < 61:
            raise InvalidRecordError("a produce request must hold exactly one record batch for each partition")
        if request.transactional_id is not None or records[22] & _STAMPED_TRANSACTIONAL:
            raise UnsupportedVersionError("this broker has no transactions yet")
        if context.api_version < 7 and records[22] & 7 == Codec.ZSTD:
            raise UnsupportedCompressionTypeError("zstd needs version 7 of Produce")
        partition = broker.partition(topic, data.index)
        result = partition.append(records, acks=request.acks)
    except BrokerResponseError as error:
        return _failed(data.index, error, topic, broker)
    except OSError as error:
        _log.error("cannot write to %s-%d: %s", topic, data.index, error)
        return _failed(data.index, KafkaStorageError(str(error)), topic, broker)
    return PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, partition.log.log_start_offset
    )


def _failed(index: int, error: BrokerResponseError, topic: str | None, broker: Broker) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index, error.errno, -1, error_message=error.args[0] if error.args else None)
    if isinstance(error, InvalidRecordError):
        answer.record_errors = [BatchIndexAndErrorMessage(0, answer.error_message)]
    if error.errno in _LEADERSHIP_ERRORS and topic is not None:
        known = broker.controller.topics.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            state = known.partitions[index]
            answer.current_leader = LeaderIdAndEpoch(state.leader, state.leader_epoch)
    return answer


def _leaders(broker: Broker, response: ProduceResponse, context: RequestContext) -> list[NodeEndpoint]:
    """Addresses of the leaders that the answer names (KIP-951)."""
    named = {part.current_leader.leader_id for topic in response.responses for part in topic.partition_responses}
    return [NodeEndpoint(*node) for node in broker.endpoints(context.listener) if node.node_id in named]
