"""EndTxn: commit or abort a transaction (KIP-98). From version 5 on the client gets a new epoch (KIP-890)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.transaction.metadata import TV_2
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

__all__ = ["handle"]

_KNOWS_FENCED = 2  # the version from which clients know PRODUCER_FENCED
_TV_2 = 5  # the version of clients of transaction version 2


async def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    """Return as soon as the decision is in the log. The markers are written afterwards."""
    found = await wait_for(
        broker.transaction_coordinator.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=TV_2 if context.api_version >= _TV_2 else 0,
        )
    )
    code = found.error_code
    if code == Errors.PRODUCER_FENCED and context.api_version < _KNOWS_FENCED:
        code = Errors.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code, producer_id=found.producer_id, producer_epoch=found.producer_epoch)
