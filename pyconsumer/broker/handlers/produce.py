"""Produce: append record batches, and acknowledge them as ``acks`` demands."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.acls import ResourceType
from pyconsumer.background_log import Log
from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import code_and_text, error_response, storage_error
from pyconsumer.broker.log.validation import InvalidRecordsError, InvalidTimestampsError, complete_size, only_batch
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.broker.transaction.verification import RequestingProducer, Verified, is_enabled, verify
from pyconsumer.errors import (
    BrokerResponseError,
    CorruptMessageError,
    Errors,
    InvalidRequiredAcksError,
    InvalidTopicError,
    TopicAuthorizationFailedError,
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
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import Codec
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, CODEC_MASK
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_log = Log(__name__)

_LEADERSHIP_ERRORS = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})
_TRANSACTIONAL_FLAG = 0x10  # in the low byte of a batch's attributes
_MAGIC_AT = 16
_ATTRIBUTES_AT = 22
_ADDS_PARTITIONS = 12  # the version from which producing adds a partition to the transaction (KIP-890)
_KNOWS_ABORTABLE = 11  # the version from which clients know TRANSACTION_ABORTABLE
_PRODUCER = Struct(">qqhii")  # of a batch's header: max timestamp, producer id, epoch, first sequence, record count
_PRODUCER_AT = 35
_ALL = -1
_NONE: Final[frozenset[str]] = frozenset()
_BY_TOPIC_ID = 13
_HAS_LEADERS = 10  # the version from which a partition's error comes with its leader (KIP-951)


async def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append to each partition. If there is an error with ``acks=0``, close the connection, as Kafka does."""
    whole = _whole_problem(request)
    if whole is None and context.access is not None:
        whole = _without_right(request, context.access)
    if whole is not None:
        _log.info("refusing all batches of a request of %s: %s", context.client_id, whole)
        if request.acks == 0:
            context.session.end()
            return None
        refused = error_response(request, context.api_version, whole.errno, str(whole.args[0]))
        assert isinstance(refused, ProduceResponse)
        return refused
    responses = []
    failed = False
    denied = _NONE if context.access is None else _denied(broker, request, context)
    verified = {} if request.transactional_id is None else await _verify(broker, request, context.api_version, denied)
    unreplicated: list[_Unreplicated] = []
    for topic in request.topic_data if len(request.topic_data) < 2 else _merged(request.topic_data):
        name, problem = _resolve(broker, topic, context.api_version, denied)
        partitions: list[PartitionProduceResponse] = []
        for data in topic.partition_data if len(topic.partition_data) < 2 else _distinct(topic.partition_data):
            if problem is not None:
                partitions.append(_failed(data.index, problem, None, broker, context.api_version))
                failed = True
                continue
            verification = verified.get(TopicPartition(name, data.index))
            response, appended = _append(broker, name, data, request, context, verification)
            if appended is not None and appended.outcome != 0:
                unreplicated.append(_Unreplicated(partitions, len(partitions), appended))
            failed = failed or response.error_code != Errors.NONE
            partitions.append(response)
        responses.append(TopicProduceResponse(topic.name, topic.topic_id, partitions))
    if unreplicated:
        until = context.now + request.timeout_ms / 1000
        failed |= await _replicate(broker, unreplicated, until, context.api_version)
    if request.acks == 0:
        if failed:
            _log.info("closing the connection of %s: a produce request with acks=0 failed", context.client_id)
            context.session.end()
        return None
    has_leaders = failed and context.api_version >= _HAS_LEADERS
    return ProduceResponse(responses, node_endpoints=_leaders(broker, responses, context) if has_leaders else [])


class _Unreplicated(NamedTuple):
    """An append that is not replicated yet, and the ``position`` of its response in ``responses``."""

    responses: list[PartitionProduceResponse]
    position: int
    appended: AppendProgress

    def fail(self, code: int, leader: LeaderIdAndEpoch) -> None:
        """Replace the response with an error response that has the same offset."""
        old = self.responses[self.position]
        self.responses[self.position] = PartitionProduceResponse(
            old.index, code, old.base_offset, old.log_append_time_ms, old.log_start_offset, current_leader=leader
        )


def _resolve(
    broker: Broker, topic: TopicProduceData, version: int, denied: frozenset[str]
) -> tuple[str, BrokerResponseError | None]:
    name = topic.name if version < _BY_TOPIC_ID else broker.topic_name(topic.topic_id)
    if name is None:
        return "", UnknownTopicIdError("there is no topic with this id")
    return name, TopicAuthorizationFailedError("Topic authorization failed.") if name in denied else None


def _denied(broker: Broker, request: ProduceRequest, context: RequestContext) -> frozenset[str]:
    """Return the names of the topics to which the client may not write."""
    assert context.access is not None
    by_id = context.api_version >= _BY_TOPIC_ID
    names = [broker.topic_name(topic.topic_id) if by_id else topic.name for topic in request.topic_data]
    return context.access.denied(ResourceType.TOPIC, [name for name in names if name is not None])


def _without_right(request: ProduceRequest, access: Access) -> BrokerResponseError | None:
    """Return the error of a transactional request whose client may not use the transactional id."""
    name = request.transactional_id
    if name is None or access.may(ResourceType.TRANSACTIONAL_ID, name, log_denied=False):
        return None
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records and len(data.records) >= BATCH_OVERHEAD and _is_transactional(data.records):
                access.may(ResourceType.TRANSACTIONAL_ID, name)  # logs
                return TransactionalIdAuthorizationFailedError("Transactional Id authorization failed.")
    return None


def _whole_problem(request: ProduceRequest) -> BrokerResponseError | None:
    """Return the error of a batch for which Kafka refuses the whole request, or None if there is none.

    Kafka first looks for a transactional batch, and reads headers for that.
    """
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return None  # the partition gets its own error
    for topic in request.topic_data:
        for data in topic.partition_data:
            try:
                if not data.records or not complete_size(data.records, 0) or not _is_transactional(data.records):
                    continue
            except CorruptMessageError as error:
                return error
            if request.transactional_id is None:
                return TransactionalIdAuthorizationFailedError("a transactional batch needs a transactional id")
            return None
    return None


def _merged(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Return each topic once, with all of its partitions: a client may list a topic several times."""
    found: dict[tuple[str, bytes], list[PartitionProduceData]] = {}
    for topic in topics:
        found.setdefault((topic.name, topic.topic_id), []).extend(topic.partition_data)
    return [TopicProduceData(*key, partitions) for key, partitions in found.items()]


def _distinct(partitions: list[PartitionProduceData]) -> Iterable[PartitionProduceData]:
    """Return each partition once. As in Kafka, the last batch of a partition is the one that counts."""
    return {data.index: data for data in partitions}.values()


async def _replicate(broker: Broker, unreplicated: list[_Unreplicated], until: float, version: int) -> bool:
    """Wait until the in-sync replicas have the appends. Fail the other responses. Return whether any failed."""
    wait = DelayedProduce(broker.timer, broker.call_soon, until, [one.appended for one in unreplicated])
    try:
        outcomes = await wait_for(wait.deferred)
    finally:
        wait.cancel()
    for one, code in zip(unreplicated, outcomes, strict=True):
        if code:
            tp = one.appended.partition.tp
            one.fail(code, _leader(broker, tp.topic, tp.partition, code, version))
    return any(outcomes)


async def _verify(
    broker: Broker, request: ProduceRequest, version: int, denied: frozenset[str]
) -> dict[TopicPartition, Verified]:
    """Verify the partitions in which this request would open a transaction (KIP-890)."""
    producers: dict[tuple[int, int], dict[TopicPartition, int]] = {}
    for topic in request.topic_data:
        name, problem = _resolve(broker, topic, version, denied)
        for data in topic.partition_data if problem is None else ():
            batch = data.records
            if batch and len(batch) >= BATCH_OVERHEAD and _is_transactional(batch):
                _, producer_id, epoch, sequence, _ = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
                if producer_id < 0:
                    continue
                producers.setdefault((producer_id, epoch), {})[TopicPartition(name, data.index)] = sequence
    if len(producers) > 1:
        invalid = Verified(Errors.INVALID_PRODUCER_ID_MAPPING)
        return {tp: invalid for sequences in producers.values() for tp in sequences}
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


def _is_transactional(batch: Buffer) -> bool:
    return batch[_MAGIC_AT] == 2 and batch[_ATTRIBUTES_AT] & _TRANSACTIONAL_FLAG != 0


def _append(
    broker: Broker,
    topic: str,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: RequestContext,
    verified: Verified | None,
) -> tuple[PartitionProduceResponse, AppendProgress | None]:
    try:
        partition = broker.partition(topic, data.index)
        records = only_batch(data.records)
        if context.api_version < 7 and records[_ATTRIBUTES_AT] & CODEC_MASK == Codec.ZSTD:
            raise UnsupportedCompressionTypeError("zstd needs version 7 of Produce")
        if request.acks not in (-1, 0, 1):
            raise InvalidRequiredAcksError(f"acks must be -1, 0 or 1, not {request.acks}")
        if topic in INTERNAL_TOPICS and context.client_id != "__admin_client":
            raise InvalidTopicError(f"the topic {topic} is internal: clients cannot write to it")
        guard, verifies = None, False
        if records[_ATTRIBUTES_AT] & _TRANSACTIONAL_FLAG:
            if request.transactional_id is None:
                raise TransactionalIdAuthorizationFailedError("a transactional batch needs a transactional id")
            if verified is not None and verified.error_code:
                text = "the transaction coordinator did not accept this partition as part of the transaction"
                raise for_code(verified.error_code, text)
            guard, verifies = None if verified is None else verified.guard, is_enabled(broker)
        result = partition.append(records, acks=request.acks, guard=guard, verify=verifies)
    except BrokerResponseError as error:
        return _failed(data.index, error, topic, broker, context.api_version), None
    except OSError as error:
        failure = storage_error("append to", topic, data.index, broker.logs.folder, error)
        return _failed(data.index, failure, topic, broker, context.api_version), None
    response = PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, partition.log.log_start_offset
    )
    if request.acks != _ALL or len(partition.replicas) == 1:
        return response, None
    return response, AppendProgress(partition, result.last_offset + 1, partition.leader_epoch)


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
    """Return the partition's leader if it is another broker (KIP-951), otherwise an empty value."""
    if topic is not None and version >= _HAS_LEADERS and code in _LEADERSHIP_ERRORS:
        known = broker.controller.topics.get(topic)
        if known is not None and 0 <= index < len(known.partitions):
            state = known.partitions[index]
            return LeaderIdAndEpoch(state.leader, state.leader_epoch)
    return LeaderIdAndEpoch()


def _leaders(broker: Broker, responses: list[TopicProduceResponse], context: RequestContext) -> list[NodeEndpoint]:
    """Return the addresses of the leaders in the response (KIP-951)."""
    leader_ids = {part.current_leader.leader_id for topic in responses for part in topic.partition_responses}
    return [NodeEndpoint(*node) for node in broker.endpoints(context.listener) if node.node_id in leader_ids]
