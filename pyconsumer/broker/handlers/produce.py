"""Produce: record batches are appended as they were sent, and acknowledged as the producer asks."""

from __future__ import annotations

import logging
from struct import Struct
from typing import NamedTuple

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import code_and_text, storage_error
from pyconsumer.broker.log.validation import InvalidRecordsError, InvalidTimestampsError
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.broker.transaction.verification import RequestingProducer, Verified, is_enabled, verify
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
    waiting: list[_Waiting] = []
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, context.api_version)
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            if problem is not None:
                partitions.append(_failed(data.index, problem, None, broker, context.api_version))
                failed = True
                continue
            outcome = verified.get(TopicPartition(name, data.index))
            answer, appended = _append(broker, name, data, request, context, outcome)
            if appended is not None and appended.outcome != 0:
                waiting.append(_Waiting(partitions, len(partitions), appended))
            failed = failed or answer.error_code != 0
            partitions.append(answer)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    if waiting:
        until = context.now + request.timeout_ms / 1000
        failed |= await _replicate(broker, waiting, until, context.api_version)
    if request.acks == 0:
        if failed:
            _log.info("closing the connection of %s: a produce request with acks=0 failed", context.client_id)
            context.session.end()
        return None
    names_leaders = failed and context.api_version >= _NAMES_LEADERS
    return ProduceResponse(responses, node_endpoints=_leaders(broker, responses, context) if names_leaders else [])


class _Waiting(NamedTuple):
    """An answer, by its place in a list, that waits until what was appended is replicated."""

    answers: list[PartitionProduceResponse]
    place: int
    appended: AppendProgress

    def fail(self, code: int, leader: LeaderIdAndEpoch) -> None:
        """Put an error in the place of the answer, which keeps the offset."""
        was = self.answers[self.place]
        self.answers[self.place] = PartitionProduceResponse(
            was.index, code, was.base_offset, was.log_append_time_ms, was.log_start_offset, current_leader=leader
        )


def _resolve(broker: Broker, topic: TopicProduceData, version: int) -> tuple[str, BrokerResponseError | None]:
    if version < 13:
        return topic.name, None
    name = broker.topic_name(topic.topic_id)
    return (name, None) if name is not None else ("", UnknownTopicIdError("there is no topic with this id"))


async def _replicate(broker: Broker, waiting: list[_Waiting], until: float, version: int) -> bool:
    """Wait until the replicas in sync have what was appended; return whether some of it failed, and answers say so."""
    wait = DelayedProduce(broker.timer, broker.call_soon, until, [one.appended for one in waiting])
    try:
        outcomes = await wait_for(wait.deferred)
    finally:
        wait.cancel()
    for one, code in zip(waiting, outcomes, strict=True):
        if code:
            tp = one.appended.partition.tp
            one.fail(code, _leader(broker, tp.topic, tp.partition, code, version))
    return any(outcomes)


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
        producer = RequestingProducer(
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
    records = error.record_errors if isinstance(error, InvalidRecordsError | InvalidTimestampsError) else ()
    return PartitionProduceResponse(
        index,
        code,
        -1,
        record_errors=[BatchIndexAndErrorMessage(*each) for each in records],
        error_message=text,
        current_leader=_leader(broker, topic, index, code, version),
    )


def _leader(broker: Broker, topic: str | None, index: int, code: int, version: int) -> LeaderIdAndEpoch:
    """Return the leader for a producer whose request failed for want of leadership (KIP-951); none otherwise."""
    if topic is not None and version >= _NAMES_LEADERS and code in _LEADERSHIP_ERRORS:
        known = broker.controller.topics.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            state = known.partitions[index]
            return LeaderIdAndEpoch(state.leader, state.leader_epoch)
    return LeaderIdAndEpoch()


def _leaders(broker: Broker, responses: list[TopicProduceResponse], context: RequestContext) -> list[NodeEndpoint]:
    """Return the addresses of the leaders that the answer names (KIP-951)."""
    named = {part.current_leader.leader_id for topic in responses for part in topic.partition_responses}
    return [NodeEndpoint(*node) for node in broker.endpoints(context.listener) if node.node_id in named]
