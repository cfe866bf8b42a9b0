"""AddOffsetsToTxn: add the partition of a group's offsets to a transaction (KIP-98)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.transaction.verification import add_partitions
from pyconsumer.errors import CoordinatorNotAvailableError, Errors
from pyconsumer.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_KNOWS_FENCED = 2  # the version from which clients know PRODUCER_FENCED


async def handle(broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    """Add the group's partition of ``__consumer_offsets``."""
    try:
        number = broker.group_coordinator.partition_for(request.group_id)
    except CoordinatorNotAvailableError as error:
        return AddOffsetsToTxnResponse(error_code=error.errno)
    code = await add_partitions(
        broker.transaction_coordinator,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [TopicPartition(OFFSETS_TOPIC, number)],
    )
    if code == Errors.PRODUCER_FENCED and context.api_version < _KNOWS_FENCED:
        code = Errors.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
