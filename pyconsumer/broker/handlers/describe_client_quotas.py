"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from pyconsumer.broker.access.quotas import Component
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that the filter selects."""
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    try:
        found = broker.controller.quotas.describe(components, strict=request.strict)
    except BrokerResponseError as error:
        return DescribeClientQuotasResponse(0, *code_and_text(error), entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                [EntityData(kind, name) for kind, name in entity],
                [ValueData(key, value) for key, value in values.items()],
            )
            for entity, values in found
        ],
    )
