"""IncrementalAlterConfigs: set, remove, append to and subtract from settings of topics, brokers, groups (KIP-339).

AlterConfigs uses the same functions to replace the settings of a resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from pyconsumer.background_log import Log
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    known_settings,
    parse_topic_config,
    resolve_topic,
)
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import check_topic_name
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.foreign_settings import check_foreign
from pyconsumer.broker.group_configs import GROUP_SETTINGS, check_group_config
from pyconsumer.broker.handlers.describe_configs import BROKER, GROUP, TOPIC
from pyconsumer.broker.settings import ConfigType, did_you_mean
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

__all__ = ["alter_each", "handle", "replace_broker_config", "replace_group_config", "replace_topic_config"]

_log = Log(__name__)

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class _Change(Protocol):
    """The change of one setting of a resource."""

    name: str


class _Resource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs, with the changes of its settings."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[_Change]: ...


_R = TypeVar("_R", bound=_Resource)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Apply all changes of each resource. If one is invalid, none of the resource is applied.

    With ``validate_only``, only check them.
    """
    results = alter_each(
        request.resources, lambda resource: _alter(broker, resource, validate_only=request.validate_only)
    )
    return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(*result) for result in results])


def alter_each(resources: Sequence[_R], alter: Callable[[_R], None]) -> list[tuple[int, str | None, int, str]]:
    """Call ``alter`` for each resource. Resources that occur twice, or that have a setting twice, get an error instead.

    Returns:
        For each resource, in order: error code, error message, resource type and name.
    """
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    results: list[tuple[int, str | None, int, str]] = []
    for resource in resources:
        resource_type, name = resource.resource_type, resource.resource_name
        code, text = 0, None
        try:
            if counts[resource_type, name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            repeated = [key for key, count in Counter(change.name for change in resource.configs).items() if count > 1]
            if repeated:
                raise InvalidRequestError(f"Error due to duplicate config keys: {repeated[0]}")
            alter(resource)
        except (BrokerResponseError, OSError) as error:
            code, text = code_and_text(error)
        except ConfigurationError as error:
            code, text = InvalidConfigError.errno, str(error)
        results.append((code, text, resource_type, name))
    return results


def replace_topic_config(broker: Broker, name: str, own: Mapping[str, str], *, validate_only: bool) -> None:
    """Check a topic's new settings, and replace its present settings. Errors are those of the controller."""
    check_topic_name(name)
    broker.controller.topic(name)  # raises if the topic does not exist
    parse_topic_config(own)
    if not validate_only:
        broker.controller.set_topic_config(name, own)


def replace_broker_config(broker: Broker, name: str, own: Mapping[str, str], *, validate_only: bool) -> None:
    """Check the new dynamic settings of a broker, or ("") of all brokers, and replace the present ones with them."""
    _check_broker_name(broker, name)
    for key in own:
        _type_of(key, name)
    known = known_settings(own)
    try:
        BrokerConfig.parse(known)
    except ConfigurationError as error:  # Apache Kafka's code for settings of brokers
        raise InvalidRequestError(str(error)) from None
    if not validate_only:
        for key in own.keys() - known.keys() - broker.controller.broker_configs.get(name, {}).keys():
            _log.warning("the setting %r of a broker has no effect%s", key, did_you_mean(key, BROKER_SETTINGS))
        broker.controller.set_broker_config(name, own)


def replace_group_config(broker: Broker, name: str, own: Mapping[str, str], *, validate_only: bool) -> None:
    """Check the new dynamic settings of a group, and replace its present ones with them."""
    check_group_config(name, own, broker.config)
    if not validate_only:
        broker.controller.set_group_config(name, own)


def _check_broker_name(broker: Broker, name: str) -> None:
    if name and (not name.isdigit() or int(name) not in broker.controller.brokers):
        raise InvalidRequestError(f"there is no broker {name!r}")


def _type_of(key: str, name: str) -> ConfigType:
    """Return the type of a setting of broker ``name`` that may change while it runs, unknown ones included.

    Raises:
        InvalidRequestError: it may not change.
    """
    setting = BROKER_SETTINGS.get(key)
    if setting is None:
        check_foreign(key, name)
        return ConfigType.UNKNOWN
    if not BrokerConfig.is_dynamic(key):
        raise InvalidRequestError(f"Cannot update these configs dynamically: {key}")
    return setting.type


def _alter(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        if not name:
            raise InvalidRequestError("Default topic resources are not allowed.")
        check_topic_name(name)
        own = dict(broker.controller.topic(name).config)
        for change in resource.configs:
            if change.name not in TOPIC_SETTINGS and change.name not in own and change.config_operation != _DELETE:
                parse_topic_config({change.name: change.value or ""})  # raises for an unknown name
            before = own.get(change.name)
            if before is None and change.name in TOPIC_SETTINGS:
                before = ",".join(_as_list(resolve_topic(change.name, own, broker.config).value))
            config_type = TOPIC_SETTINGS[change.name].type if change.name in TOPIC_SETTINGS else ConfigType.INT
            _apply(own, change, config_type, before)
        replace_topic_config(broker, name, own, validate_only=validate_only)
    elif resource.resource_type == BROKER:
        _check_broker_name(broker, name)
        own = dict(broker.controller.broker_configs.get(name, {}))
        for change in resource.configs:
            config_type = _type_of(change.name, name)
            before = own.get(change.name)
            if before is None and config_type is not ConfigType.UNKNOWN:
                before = ",".join(_as_list(broker.config.value(change.name)))
            _apply(own, change, config_type, before)
        replace_broker_config(broker, name, own, validate_only=validate_only)
    elif resource.resource_type == GROUP:
        own = dict(broker.controller.group_configs.get(name, {}))
        for change in resource.configs:
            config_type = GROUP_SETTINGS[change.name].type if change.name in GROUP_SETTINGS else ConfigType.INT
            _apply(own, change, config_type, own.get(change.name))
        replace_group_config(broker, name, own, validate_only=validate_only)
    else:
        raise InvalidRequestError(f"Unsupported resource type: {resource.resource_type}")


def _as_list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _apply(own: dict[str, str], change: AlterableConfig, config_type: ConfigType, before: str | None) -> None:
    """Apply one change to a resource's own settings. ``before`` is the present value of a list."""
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
    if config_type is not ConfigType.LIST:
        raise InvalidConfigError(f"{change.name} is not a list, so APPEND and SUBTRACT are not possible")
    items = [item for item in (before or "").split(",") if item]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == _APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    own[change.name] = ",".join(items)
