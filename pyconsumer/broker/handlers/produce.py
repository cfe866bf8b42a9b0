"""Produce: record batches are appended as they were sent, and acknowledged as the producer asks."""

from __future__ import annotations

import logging

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext, wait_for
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.error_responses import code_and_text, storage_error
from pyconsumer.broker.log.validation import InvalidRecordsError, InvalidTimestampsError
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
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
_ALL = -1
_NAMES_LEADERS = 10


async def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append to each partition. With acks=0 there is no answer; an error then closes the connection, as Kafka does."""
    responses = []
    failed = False
    waiting: list[tuple[PartitionProduceResponse, AppendProgress]] = []
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, context.api_version)
        partitions = []
        for data in topic.partition_data:
            if problem is not None:
                partitions.append(_failed(data.index, problem, None, broker, context.api_version))
                failed = True
                continue
            answer, appended = _append(broker, name, data, request, context)
            if appended is not None and appended.outcome != 0:
                waiting.append((answer, appended))
            failed = failed or answer.error_code != 0
            partitions.append(answer)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    if waiting:
        await _replicate(broker, waiting, context.now + request.timeout_ms / 1000, context.api_version)
        failed = failed or any(answer.error_code for answer, _ in waiting)
    if request.acks == 0:
        if failed:
            _log.info("closing the connection of %s: a produce request with acks=0 failed", context.client_id)
            context.session.close_after = True
        return None
    response = ProduceResponse(responses)
    if failed and context.api_version >= _NAMES_LEADERS:
        response.node_endpoints = _leaders(broker, response, context)
    return response


def _resolve(broker: Broker, topic: TopicProduceData, version: int) -> tuple[str, BrokerResponseError | None]:
    if version < 13:
        return topic.name, None
    name = broker.topic_name(topic.topic_id)
    return (name, None) if name is not None else ("", UnknownTopicIdError("there is no topic with this id"))


async def _replicate(
    broker: Broker, waiting: list[tuple[PartitionProduceResponse, AppendProgress]], until: float, version: int
) -> None:
    """Wait until the replicas in sync have what was appended; answers get an error where that did not come about."""
    wait = DelayedProduce(broker.timer, broker.call_soon, until, [appended for _, appended in waiting])
    try:
        outcomes = await wait_for(wait.deferred)
    finally:
        wait.cancel()
    for (answer, appended), code in zip(waiting, outcomes, strict=True):
        if code:
            answer.error_code = code
            _name_leader(answer, broker, appended.partition.tp.topic, version)


def _append(
    broker: Broker, topic: str, data: PartitionProduceData, request: ProduceRequest, context: RequestContext
) -> tuple[PartitionProduceResponse, AppendProgress | None]:
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
        return _failed(data.index, error, topic, broker, context.api_version), None
    except OSError as error:
        refused = storage_error("append to", topic, data.index, broker.logs.folder, error)
        return _failed(data.index, refused, topic, broker, context.api_version), None
    answer = PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, partition.log.log_start_offset
    )
    if request.acks != _ALL or len(partition.replicas) == 1:
        return answer, None
    return answer, AppendProgress(partition, result.last_offset + 1, partition.leader_epoch)


def _failed(
    index: int, error: BrokerResponseError, topic: str | None, broker: Broker, version: int
) -> PartitionProduceResponse:
    code, text = code_and_text(error)
    answer = PartitionProduceResponse(index, code, -1, error_message=text)
    if isinstance(error, InvalidRecordsError | InvalidTimestampsError):
        answer.record_errors = [BatchIndexAndErrorMessage(*each) for each in error.record_errors]
    if topic is not None:
        _name_leader(answer, broker, topic, version)
    return answer


def _name_leader(answer: PartitionProduceResponse, broker: Broker, topic: str, version: int) -> None:
    """Name the leader to a producer whose request failed for want of leadership (KIP-951)."""
    if version < _NAMES_LEADERS or answer.error_code not in _LEADERSHIP_ERRORS:
        return
    known = broker.controller.topics.get(topic)
    if known is not None and 0 <= answer.index < len(known.partitions):
        state = known.partitions[answer.index]
        answer.current_leader = LeaderIdAndEpoch(state.leader, state.leader_epoch)


def _leaders(broker: Broker, response: ProduceResponse, context: RequestContext) -> list[NodeEndpoint]:
    """Addresses of the leaders that the answer names (KIP-951)."""
    named = {part.current_leader.leader_id for topic in response.responses for part in topic.partition_responses}
    return [NodeEndpoint(*node) for node in broker.endpoints(context.listener) if node.node_id in named]
