"""Produce: record batches are appended as they were sent, and acknowledged as the producer asks."""

from __future__ import annotations

import logging
from struct import Struct

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext, wait_for
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.error_responses import code_and_text, storage_error
from pyconsumer.broker.log.validation import InvalidRecordsError, InvalidTimestampsError
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.broker.transaction.verification import Producer, Verified, is_enabled, verify
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
    for_code,
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
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_log = logging.getLogger(__name__)

_LEADERSHIP_ERRORS = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})
_STAMPED_TRANSACTIONAL = 0x10
_ADDS_PARTITIONS = 12  # the version from which producing adds a partition to the transaction (KIP-890)
_KNOWS_ABORTABLE = 11
_PRODUCER = Struct(">qqhii")  # of a batch's header: greatest timestamp, producer id, epoch, first sequence, records
_PRODUCER_AT = 35
_ALL = -1
_NAMES_LEADERS = 10


async def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append to each partition. With acks=0 there is no answer; an error then closes the connection, as Kafka does."""
    responses = []
    failed = False
    verified = {} if request.transactional_id is None else await _verify(broker, request, context.api_version)
    waiting: list[tuple[PartitionProduceResponse, AppendProgress]] = []
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, context.api_version)
        partitions = []
        for data in topic.partition_data:
            if problem is not None:
                partitions.append(_failed(data.index, problem, None, broker, context.api_version))
                failed = True
                continue
            outcome = verified.get(TopicPartition(name, data.index))
            answer, appended = _append(broker, name, data, request, context, outcome)
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


async def _verify(broker: Broker, request: ProduceRequest, version: int) -> dict[TopicPartition, Verified]:
    """Ask the transaction coordinator for the partitions in which this request would open a transaction."""
    producers: dict[tuple[int, int], dict[TopicPartition, int]] = {}
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, version)
        for data in topic.partition_data if problem is None else ():
            batch = data.records
            if batch and len(batch) >= BATCH_OVERHEAD and batch[22] & _STAMPED_TRANSACTIONAL:
                _, producer_id, epoch, sequence, _ = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
                producers.setdefault((producer_id, epoch), {})[TopicPartition(name, data.index)] = sequence
    if len(producers) > 1:
        refused = Verified(Errors.INVALID_PRODUCER_ID_MAPPING)
        return {tp: refused for sequences in producers.values() for tp in sequences}
    found: dict[TopicPartition, Verified] = {}
    for (producer_id, epoch), sequences in producers.items():
        producer = Producer(
            request.transactional_id or "",
            producer_id,
            epoch,
            adds=version >= _ADDS_PARTITIONS,
            knows_abortable=version >= _KNOWS_ABORTABLE,
        )
        found = await verify(broker, producer, sequences)
    return found


def _append(
    broker: Broker,
    topic: str,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: RequestContext,
    verified: Verified | None,
) -> tuple[PartitionProduceResponse, AppendProgress | None]:
    try:
        records = data.records
        if request.acks not in (-1, 0, 1):
            raise InvalidRequiredAcksError(f"acks must be -1, 0 or 1, not {request.acks}")
        if topic in INTERNAL_TOPICS and context.client_id != "__admin_client":
            raise InvalidTopicError(f"the topic {topic} is internal: clients cannot write to it")
        if not records or len(records) < 61:
            raise InvalidRecordError("a produce request must hold exactly one record batch for each partition")
        guard, verifies = None, False
        if records[22] & _STAMPED_TRANSACTIONAL:
            if request.transactional_id is None:
                raise TransactionalIdAuthorizationFailedError("a transactional batch came without a transactional id")
            if verified is not None and verified.error_code:
                text = "the coordinator of the transactional id does not let this partition into a transaction"
                raise for_code(verified.error_code, text)
            guard, verifies = None if verified is None else verified.guard, is_enabled(broker)
        if context.api_version < 7 and records[22] & 7 == Codec.ZSTD:
            raise UnsupportedCompressionTypeError("zstd needs version 7 of Produce")
        partition = broker.partition(topic, data.index)
        result = partition.append(records, acks=request.acks, guard=guard, verify=verifies)
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
