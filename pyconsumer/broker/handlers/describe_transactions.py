"""DescribeTransactions: the state, producer and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from collections import defaultdict

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    """Return each id. An id that is unknown, or that this broker does not coordinate, gets an error code."""
    return DescribeTransactionsResponse(transaction_states=[_state(broker, name) for name in request.transactional_ids])


def _state(broker: Broker, transactional_id: str) -> TransactionState:
    code, record = broker.transaction_coordinator.describe(transactional_id)
    if record is None:
        return TransactionState(code, transactional_id)
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(record.partitions):
        topics[topic].append(partition)
    return TransactionState(
        code,
        transactional_id,
        record.state.label,
        record.timeout_ms,
        record.start_ms,
        record.producer_id,
        record.producer_epoch,
        [TopicData(topic, partitions) for topic, partitions in topics.items()],
    )
