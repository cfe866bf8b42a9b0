"""IncrementalAlterConfigs: single settings of topics and brokers are set, removed, or changed as lists (KIP-339)."""

from __future__ import annotations

from collections import Counter

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig, parse_topic_config, resolve_topic
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import check_topic_name
from pyconsumer.broker.error_answers import code_and_text
from pyconsumer.broker.handlers.describe_configs import BROKER, TOPIC
from pyconsumer.broker.settings import ConfigType, nearest
from pyconsumer.errors import (
    BrokerResponseError,
    ConfigurationError,
    InvalidConfigError,
    InvalidRequestError,
)
from pyconsumer.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["handle"]

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Change each resource as a whole or not at all; only check with ``validate_only``."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        response = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            _alter(broker, resource, validate_only=request.validate_only)
        except (BrokerResponseError, OSError) as error:
            response.error_code, response.error_message = code_and_text(error)
        except ConfigurationError as error:
            response.error_code = InvalidConfigError.errno
            response.error_message = str(error)
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    repeated = [key for key, count in Counter(change.name for change in resource.configs).items() if count > 1]
    if repeated:
        raise InvalidRequestError(f"Error due to duplicate config keys: {repeated[0]}")
    if resource.resource_type == TOPIC:
        check_topic_name(name)
        own = dict(broker.controller.topic(name).config)
        for change in resource.configs:
            if change.name not in TOPIC_SETTINGS and change.name not in own:
                parse_topic_config({change.name: change.value or ""})  # raises for a name that is not known
            before = own.get(change.name)
            if before is None and change.name in TOPIC_SETTINGS:
                before = ",".join(_as_list(resolve_topic(change.name, own, broker.config).value))
            kind = TOPIC_SETTINGS[change.name].type if change.name in TOPIC_SETTINGS else ConfigType.INT
            _apply(own, change, kind, before)
        parse_topic_config(own)
        if not validate_only:
            broker.controller.set_topic_config(name, own)
    elif resource.resource_type == BROKER:
        _alter_broker(broker, resource, validate_only=validate_only)
    else:
        raise InvalidRequestError(f"Unsupported resource type: {resource.resource_type}")


def _alter_broker(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    if name and (not name.isdigit() or int(name) not in broker.controller.brokers):
        raise InvalidRequestError(f"there is no broker {name!r}")
    own = dict(broker.controller.broker_configs.get(name, {}))
    for change in resource.configs:
        setting = BROKER_SETTINGS.get(change.name)
        if setting is None:
            raise InvalidConfigError(f"Unknown broker setting {change.name!r}{nearest(change.name, BROKER_SETTINGS)}")
        if not BrokerConfig.is_dynamic(change.name):
            raise InvalidRequestError(f"Cannot update these configs dynamically: {change.name}")
        before = own.get(change.name, ",".join(_as_list(broker.config.value(change.name))))
        _apply(own, change, setting.type, before)
    BrokerConfig.parse(own)
    if not validate_only:
        broker.controller.set_broker_config(name, own)


def _as_list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _apply(own: dict[str, str], change: AlterableConfig, kind: ConfigType, before: str | None) -> None:
    operation, value = change.config_operation, change.value
    if operation == _DELETE:
        own.pop(change.name, None)
        return
    if operation not in (_SET, _APPEND, _SUBTRACT):
        raise InvalidRequestError(f"Unknown operation type {operation}")
    if value is None:
        raise InvalidRequestError(f"Null value not supported for : {change.name}")
    if operation == _SET:
        own[change.name] = value
        return
    if kind is not ConfigType.LIST:
        raise InvalidConfigError(
            f"{change.name} is not a list, so that nothing can be appended to it or subtracted from it"
        )
    items = [item for item in (before or "").split(",") if item]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == _APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    own[change.name] = ",".join(items)
