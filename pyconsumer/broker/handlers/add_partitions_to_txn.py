"""AddPartitionsToTxn: add partitions to transactions, or verify that they belong to them (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyconsumer.acls import ResourceType
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.transaction.metadata import TV_2
from pyconsumer.broker.transaction.verification import add_partitions
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_MANY = 4  # the version from which one request has many transactions. Only brokers send it.
_TV_2 = 5  # the version of brokers that know transaction version 2
_KNOWS_FENCED = 2  # the version from which clients know PRODUCER_FENCED


async def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction. If one of them does not exist, none of the transaction is added.

    Clients may not add partitions of internal topics.
    """
    if context.api_version >= _MANY:
        results = [
            AddPartitionsToTxnResult(one.transactional_id, await _handle(broker, one, context))
            for one in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        False,
        request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _handle(broker, only, context))


async def _handle(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    version = context.api_version
    wanted = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    unknown = [tp for tp in wanted if not 0 <= tp.partition < (broker.partition_count(tp.topic) or 0)]
    denied: frozenset[str] = INTERNAL_TOPICS if version < _MANY else frozenset()
    if context.access is not None and version < _MANY:
        denied |= context.access.denied(ResourceType.TOPIC, (tp.topic for tp in wanted if tp.topic not in denied))
    refused = [tp for tp in wanted if tp.topic in denied]
    coordinator = broker.transaction_coordinator
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    errors: Mapping[TopicPartition, int]
    if unknown or refused:
        errors = (
            dict.fromkeys(wanted, Errors.OPERATION_NOT_ATTEMPTED)
            | dict.fromkeys(unknown, Errors.UNKNOWN_TOPIC_OR_PARTITION)
            | dict.fromkeys(refused, Errors.TOPIC_AUTHORIZATION_FAILED)
        )
    elif transaction.verify_only:
        errors = coordinator.verify_partitions(*producer, wanted)
    else:
        client_version = TV_2 if version >= _TV_2 else 0
        code = await add_partitions(coordinator, *producer, wanted, client_version=client_version)
        if code == Errors.PRODUCER_FENCED and version < _KNOWS_FENCED:
            code = Errors.INVALID_PRODUCER_EPOCH
        errors = dict.fromkeys(wanted, code)
    return _results(transaction.topics, errors)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: Mapping[TopicPartition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, errors[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
