"""InitProducerId: a fresh producer id for an idempotent producer (KIP-98, KIP-360)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.errors import InvalidRequestError, UnsupportedVersionError
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["handle"]


async def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Give an id that no producer of this cluster has had.

    A transactional id is refused with UNSUPPORTED_VERSION, as there are no transactions here yet.
    """
    if request.transactional_id is not None:
        code = InvalidRequestError.errno if not request.transactional_id else UnsupportedVersionError.errno
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=broker.next_producer_id(), producer_epoch=0)
