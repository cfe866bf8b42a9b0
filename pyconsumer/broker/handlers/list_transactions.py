"""ListTransactions: the transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

__all__ = ["handle"]


async def handle(broker: Broker, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """Return the ids that match all filters."""
    code, unknown, found = broker.transaction_coordinator.list_transactions(
        request.state_filters,
        request.producer_id_filters,
        request.duration_filter,
        request.transactional_id_pattern,
    )
    states = [TransactionState(name, record.producer_id, record.state.label) for name, record in found]
    return ListTransactionsResponse(error_code=code, unknown_state_filters=unknown, transaction_states=states)
