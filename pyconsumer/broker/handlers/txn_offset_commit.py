"""TxnOffsetCommit: commit the offsets of a group as part of a transaction (KIP-98, KIP-447, KIP-890, KIP-1319)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.storage import from_append
from pyconsumer.broker.transaction.verification import RequestingProducer, Verified, is_enabled, verify
from pyconsumer.errors import BrokerResponseError, CoordinatorNotAvailableError, Errors
from pyconsumer.protocol.messages.txn_offset_commit import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_ADDS_PARTITIONS = 5  # the version from which this request adds the group's partition to the transaction (KIP-890)
_KNOWS_ABORTABLE = 4  # the version from which clients know TRANSACTION_ABORTABLE
_KNOWS_LOADING = 2  # the version from which clients handle COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)


async def handle(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Store the offsets of existing partitions. They become valid when the transaction is committed."""
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    names = [broker.topic_name(topic.topic_id) if by_id else topic.name for topic in request.topics]
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic, name in zip(request.topics, names, strict=True):
        count = 0 if name is None else broker.partition_count(name) or 0
        for partition in topic.partitions:
            if name is not None and 0 <= partition.partition_index < count:
                offsets[TopicPartition(name, partition.partition_index)] = CommittedOffset(
                    partition.committed_offset,
                    max(partition.committed_leader_epoch, -1),
                    partition.committed_metadata or "",
                    topic_id=broker.topic_id(name) or bytes(16),
                )
    results = await _commit(broker, request, offsets, context.api_version) if offsets else {}
    if context.api_version < _KNOWS_LOADING:
        loading, unavailable = Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE
        results = {tp: unavailable if code == loading else code for tp, code in results.items()}
    response = TxnOffsetCommitResponse()
    for topic, name in zip(request.topics, names, strict=True):
        unknown = Errors.UNKNOWN_TOPIC_ID if name is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            TxnOffsetCommitResponsePartition(
                one.partition_index, results.get(TopicPartition(name or "", one.partition_index), unknown)
            )
            for one in topic.partitions
        ]
        response.topics.append(
            TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response


async def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, offsets: dict[TopicPartition, CommittedOffset], version: int
) -> dict[TopicPartition, int]:
    coordinator = broker.group_coordinator
    try:
        tp = TopicPartition(OFFSETS_TOPIC, coordinator.partition_for(request.group_id))
    except CoordinatorNotAvailableError as error:
        return dict.fromkeys(offsets, error.errno)
    producer = RequestingProducer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds=version >= _ADDS_PARTITIONS,
        knows_abortable=version >= _KNOWS_ABORTABLE,
    )
    verified = (await verify(broker, producer, {tp: 0})).get(tp, Verified(Errors.NOT_COORDINATOR))
    code = verified.error_code or _check_guard(broker, tp, producer, verified)
    if code != Errors.NONE:
        return dict.fromkeys(offsets, from_append(code))
    return await wait_for(
        coordinator.commit_transactional_offsets(
            request.group_id,
            request.producer_id,
            request.producer_epoch,
            offsets,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            version=version,
        )
    )


def _check_guard(broker: Broker, tp: TopicPartition, producer: RequestingProducer, verified: Verified) -> int:
    """Return an error code if the transaction has ended during the verification."""
    try:
        producers = broker.partition(tp.topic, tp.partition).log.producers
    except BrokerResponseError:
        return Errors.NOT_COORDINATOR
    if not is_enabled(broker) or producers.is_open(producer.producer_id, producer.producer_epoch):
        return Errors.NONE
    if producers.is_verified(producer.producer_id, verified.guard):
        return Errors.NONE
    return Errors.INVALID_TXN_STATE
