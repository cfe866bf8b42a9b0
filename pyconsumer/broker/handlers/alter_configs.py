"""AlterConfigs: replace all settings of topics, brokers and groups. Settings left out return to their defaults.

Kafka 4.x still serves it beside IncrementalAlterConfigs (KIP-339), and kafkajs and aiokafka send only this one.
"""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.handlers.describe_configs import BROKER, GROUP, TOPIC
from pyconsumer.broker.handlers.incremental_alter_configs import (
    alter_each,
    replace_broker_config,
    replace_group_config,
    replace_topic_config,
)
from pyconsumer.errors import InvalidRequestError
from pyconsumer.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

__all__ = ["handle"]


async def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    """Replace all settings of each resource. If one is invalid, none of the resource is replaced.

    With ``validate_only``, only check them.
    """
    results = alter_each(
        request.resources, lambda resource: _replace(broker, resource, validate_only=request.validate_only)
    )
    return AlterConfigsResponse(responses=[AlterConfigsResourceResponse(*result) for result in results])


def _replace(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    without_value = [config.name for config in resource.configs if config.value is None]
    if without_value:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(without_value)}")
    own = {config.name: config.value for config in resource.configs if config.value is not None}
    if resource.resource_type == TOPIC:
        replace_topic_config(broker, resource.resource_name, own, validate_only=validate_only)
    elif resource.resource_type == BROKER:
        replace_broker_config(broker, resource.resource_name, own, validate_only=validate_only)
    elif resource.resource_type == GROUP:
        replace_group_config(broker, resource.resource_name, own, validate_only=validate_only)
    else:
        raise InvalidRequestError(f"Unsupported resource type: {resource.resource_type}")
