"""DescribeClientQuotas: this broker has no quotas. Kafka's tool for users asks for them beside the credentials."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Return an empty list, because no quota can be set."""
    return DescribeClientQuotasResponse(error_message=None)
