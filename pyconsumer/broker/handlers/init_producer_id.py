"""InitProducerId: a producer id for an idempotent or a transactional producer (KIP-98, KIP-360)."""

from __future__ import annotations

from pyconsumer.acls import ResourceType
from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["handle"]

_KNOWS_FENCED = 4  # the version from which clients know PRODUCER_FENCED


async def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Return a new producer id. If the request has a transactional id, its coordinator returns the id's producer id."""
    if context.access is not None:
        code = _refusal(context.access, request.transactional_id)
        if code != Errors.NONE:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=broker.next_producer_id(), producer_epoch=0)
    if (request.producer_id == -1) is not (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=Errors.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    found = await wait_for(
        broker.transaction_coordinator.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    )
    code = found.error_code
    if code == Errors.PRODUCER_FENCED and context.api_version < _KNOWS_FENCED:
        code = Errors.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=found.producer_id, producer_epoch=found.producer_epoch)


def _refusal(access: Access, transactional_id: str | None) -> int:
    """Return an error code without the right. The right to write to any topic is enough for idempotence (KIP-679)."""
    if transactional_id is not None:
        allowed = access.may(ResourceType.TRANSACTIONAL_ID, transactional_id)
        return Errors.NONE if allowed else access.error(ResourceType.TRANSACTIONAL_ID)
    return Errors.NONE if access.may_any(ResourceType.TOPIC) else access.error(ResourceType.CLUSTER)
