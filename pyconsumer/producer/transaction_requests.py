"""Builds the requests of a transaction, and reads the responses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer.errors import BrokerResponseError, Errors, ProtocolError
from pyconsumer.producer.transaction_errors import RequestKind
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyconsumer.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.txn_offset_commit import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.producer.pending_request import PendingRequest
    from pyconsumer.producer.transaction_manager import TransactionManager
    from pyconsumer.protocol.schema import Message

__all__ = ["Call", "call_for", "rejects_topic_id", "take_response"]

_KNOWS_MEMBERS = 3  # the version of TxnOffsetCommit from which a member is checked (KIP-447)
_LAST_BEFORE_V2 = 4  # the last version of TxnOffsetCommit for transactions of version 1 (KIP-890)
_KNOWS_BUMP = 3  # the version of InitProducerId from which a producer can ask for a new epoch (KIP-360)


_NO_IDS: Mapping[str, bytes] = {}


class Call(NamedTuple):
    """A request in the form for the network client."""

    api: ApiKey
    build: Callable[[int], Message]
    min_version: int = 0
    max_version: int | None = None


def call_for(
    manager: TransactionManager, request: PendingRequest, timeout_ms: int, topic_ids: Mapping[str, bytes] = _NO_IDS
) -> Call:
    """Return the call that sends a request.

    Args:
        timeout_ms: how long a transaction may stay open, in ms.
        topic_ids: the known ids of the topics whose offsets are committed. If an id is missing, the request uses the
            names of the topics, as before KIP-1319.
    """
    kind, details = request.kind, request.details
    transactional_id = manager.transactional_id
    producer_id, epoch = manager.producer
    if kind is RequestKind.FIND_COORDINATOR:
        return Call(
            ApiKey.FIND_COORDINATOR,
            lambda version: find_coordinator_request(request.key, version, of_transactions=not details),
            0 if details else 1,
        )
    if kind is RequestKind.INIT_PRODUCER_ID:
        asked = InitProducerIdRequest(transactional_id, timeout_ms, *details)
        return Call(ApiKey.INIT_PRODUCER_ID, lambda _: asked, _KNOWS_BUMP if request.is_bump else 0)
    if kind is RequestKind.ADD_PARTITIONS:
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in sorted(details):
            topics[tp.topic].append(tp.partition)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
        )
        return Call(ApiKey.ADD_PARTITIONS_TO_TXN, lambda _: added, 0, 3)
    if kind is RequestKind.ADD_OFFSETS:
        group = AddOffsetsToTxnRequest(transactional_id, producer_id, epoch, details.group.group_id)
        return Call(ApiKey.ADD_OFFSETS_TO_TXN, lambda _: group)
    if kind is RequestKind.COMMIT_OFFSETS:
        return _commit_offsets(manager, request, topic_ids)
    end = EndTxnRequest(transactional_id, producer_id, epoch, details)
    return Call(ApiKey.END_TXN, lambda _: end, 0, request.max_version)


def _commit_offsets(manager: TransactionManager, request: PendingRequest, topic_ids: Mapping[str, bytes]) -> Call:
    group, left = request.details
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for tp, offset in sorted(left.items()):
        topics[tp.topic].append(
            TxnOffsetCommitRequestPartition(tp.partition, offset.offset, offset.leader_epoch, offset.metadata)
        )
    message = TxnOffsetCommitRequest(
        manager.transactional_id,
        group.group_id,
        *manager.producer,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(name, topic_ids.get(name, ZERO_UUID), partitions)
            for name, partitions in topics.items()
        ],
    )
    most = None if topics.keys() <= topic_ids.keys() else FIRST_VERSION_WITH_TOPIC_IDS - 1
    # A broker that cannot check the member must not be asked to: another one may own the partitions by now.
    is_member = group.generation_id >= 0 or group.member_id or group.group_instance_id is not None
    return Call(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda _: message,
        _KNOWS_MEMBERS if is_member else 0,
        most if manager.is_v2 else _LAST_BEFORE_V2,
    )


def take_response(
    manager: TransactionManager,
    request: PendingRequest,
    message: Any,
    version: int,
    now: float,
    topic_ids: Mapping[str, bytes] = _NO_IDS,
) -> None:
    """Pass the response to a request to the manager.

    Args:
        topic_ids: the topic ids with which the request was made.
        version: the version of the response.
        now: monotonic seconds.
    """
    kind = request.kind
    if kind is RequestKind.FIND_COORDINATOR:
        _take_coordinator(manager, request, message, version, now)
    elif kind is RequestKind.ADD_PARTITIONS:
        errors = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in message.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        manager.on_partitions_added(request, errors, now)
    elif kind is RequestKind.COMMIT_OFFSETS:
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        errors = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index): one.error_code
            for topic in message.topics
            for one in topic.partitions
        }
        manager.on_offsets_committed(request, errors, now)
    elif message.error_code != Errors.NONE:
        manager.on_error(request, message.error_code, now)
    elif kind is RequestKind.INIT_PRODUCER_ID:
        producer = (message.producer_id, message.producer_epoch)
        if min(producer) < 0:
            text = f"the response to InitProducerId names producer id {producer[0]}, epoch {producer[1]}"
            manager.on_refused(request, ProtocolError(f"{text}; both must be 0 or more"))
        else:
            manager.on_producer(request, producer, supports_bump=version >= _KNOWS_BUMP)
    elif kind is RequestKind.ADD_OFFSETS:
        manager.on_offsets_added(request)
    else:
        manager.on_ended(request, (message.producer_id, message.producer_epoch))


def rejects_topic_id(message: Any) -> bool:
    """Return whether a response to TxnOffsetCommit reports an unknown topic id (KIP-1319)."""
    return any(one.error_code == Errors.UNKNOWN_TOPIC_ID for topic in message.topics for one in topic.partitions)


def _take_coordinator(
    manager: TransactionManager, request: PendingRequest, message: Any, version: int, now: float
) -> None:
    what = f"group {request.key!r}" if request.details else f"transactional id {request.key!r}"
    try:
        node = read_coordinator(request.key, version, message, what=what)
    except BrokerResponseError as error:
        manager.on_error(request, error.errno, now, error)
    else:
        manager.on_coordinator(request, node)
