"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from pyconsumer.broker.access.quotas import Entity, QuotaAlteration
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    """Change the entities that can be changed. The other entities get the controller's errors."""
    alterations = [
        QuotaAlteration(_entity(entry.entity), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    results: dict[Entity, BrokerResponseError | OSError | None]
    try:
        results = dict(broker.controller.quotas.alter(alterations, validate_only=request.validate_only))
    except OSError as error:
        results = dict.fromkeys((one.entity for one in alterations), error)
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(
                *((0, None) if error is None else code_and_text(error)),
                [EntityData(kind, name) for kind, name in entity],
            )
            for entity, error in results.items()
        ]
    )


def _entity(parts: list[EntityData]) -> Entity:
    """Return the entity. As in Kafka, the last name of a type counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items()))
