"""Conversion of the state of transactional ids to records of ``__transaction_state`` and back, by plain functions."""

from __future__ import annotations

from collections import defaultdict

from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.broker.transaction.metadata import TransactionMetadata, TransactionRecord, TransactionState
from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.transaction_topic import (
    PartitionsSchema,
    TransactionLogValue,
    decode_value,
    encode_key,
)
from pyconsumer.structs import TopicPartition

__all__ = ["metadata_from_value", "state_record", "tombstone"]


def state_record(transactional_id: str, record: TransactionRecord, transaction_version: int) -> KeyValue:
    """Return the record for a state.

    Args:
        transaction_version: the cluster's transaction version. With 0 the record has version 0, which lacks some
            fields.
    """
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(record.partitions):
        topics[topic].append(partition)
    schemas = [PartitionsSchema(topic, partitions) for topic, partitions in topics.items()]
    tagged: dict[str, int] = {}  # fields that a value of version 0 cannot have
    if transaction_version >= 1:
        tagged = {
            "previous_producer_id": record.previous_producer_id,
            "next_producer_id": record.next_producer_id,
            "client_transaction_version": record.client_version,
        }
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=int(record.state),
        transaction_partitions=None if record.state is TransactionState.EMPTY else schemas,
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        **tagged,
    )
    return encode_key(transactional_id), value.encode_with_version(min(transaction_version, 1))


def tombstone(transactional_id: str) -> KeyValue:
    """Return the record that removes a transactional id."""
    return encode_key(transactional_id), None


def metadata_from_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """Return the state in the value of a record. Raises ``ProtocolError`` if the value is damaged."""
    found = decode_value(value)
    try:
        state = TransactionState(found.transaction_status)
    except ValueError:
        raise ProtocolError(f"{found.transaction_status} is not a transaction state") from None
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in found.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    record = TransactionRecord(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        timeout_ms=found.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=found.transaction_start_timestamp_ms,
        last_update_ms=found.transaction_last_update_timestamp_ms,
        client_version=found.client_transaction_version,
    )
    return TransactionMetadata(transactional_id, record)
