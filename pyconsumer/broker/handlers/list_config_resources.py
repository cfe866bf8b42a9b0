"""ListConfigResources: the names of the resources that have settings, by type (KIP-1142)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.handlers.describe_configs import BROKER, GROUP, TOPIC
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

__all__ = ["handle"]

_BROKER_LOGGER = 8
_CLIENT_METRICS = 16
_ALL = (TOPIC, BROKER, _BROKER_LOGGER, _CLIENT_METRICS, GROUP)


async def handle(
    broker: Broker, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    """Return the resources of the requested types. If no type is requested, return those of all types.

    Version 0 is only about client metrics, and this broker has none.
    """
    wanted = set(request.resource_types) or set(_ALL)
    if context.api_version == 0:
        wanted = {_CLIENT_METRICS}
    if not wanted <= set(_ALL):
        return ListConfigResourcesResponse(error_code=Errors.UNSUPPORTED_VERSION)
    controller = broker.controller
    brokers = [str(node) for node in sorted(controller.brokers)]
    names = {
        TOPIC: list(controller.topics),
        BROKER: brokers,
        _BROKER_LOGGER: brokers,
        GROUP: list(controller.group_configs),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, resource_type)
            for resource_type in _ALL
            if resource_type in wanted
            for name in names.get(resource_type, [])
        ]
    )
