"""DescribeConfigs: the settings of topics, brokers and groups, with their sources (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Callable

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BROKER_SETTINGS, TOPIC_SETTINGS, Resolved, resolve_topic
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import check_topic_name
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.foreign_settings import foreign_settings
from pyconsumer.broker.group_configs import GROUP_SETTINGS, resolve_group
from pyconsumer.broker.settings import SECRET_TYPES, BrokerSetting, ConfigSource, ConfigType, Value, format_value
from pyconsumer.errors import BrokerResponseError, InvalidRequestError
from pyconsumer.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

__all__ = ["BROKER", "GROUP", "TOPIC", "handle"]

#: Resource types, with Kafka's numbers.
TOPIC = 2
BROKER = 4
GROUP = 32


async def handle(broker: Broker, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Return the settings of each resource: the requested keys, or all."""
    results = []
    for resource in request.resources:
        name = resource.resource_type, resource.resource_name
        try:
            results.append(DescribeConfigsResult(0, None, *name, _describe(broker, resource, request)))
        except BrokerResponseError as error:
            results.append(DescribeConfigsResult(*code_and_text(error), *name))
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        check_topic_name(name)
        own = broker.controller.topic(name).config
        known = TOPIC_SETTINGS
        read_only: Callable[[str], bool] = _never
        get: Callable[[str], Resolved | None] = lambda key: resolve_topic(key, own, broker.config)  # noqa: E731
    elif resource.resource_type == BROKER:
        known, read_only = BROKER_SETTINGS, _not_dynamic(broker)
        if not name:  # the settings of all brokers
            get = lambda key: _cluster_default(broker, key)  # noqa: E731
        elif name == str(broker.node_id):
            get = broker.config.resolve
        else:
            raise InvalidRequestError(
                f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
            )
    elif resource.resource_type == GROUP:
        if not name:
            raise InvalidRequestError("Group name must not be empty")
        own = broker.controller.group_configs.get(name, {})
        known, read_only = GROUP_SETTINGS, _never
        get = lambda key: resolve_group(key, own, broker.config)  # noqa: E731
    else:
        raise InvalidRequestError(f"Unsupported resource type: {resource.resource_type}")
    keys = resource.configuration_keys
    wanted = [key for key in known if keys is None or key in keys]
    found = []
    for key in wanted:
        resolved = get(key)
        if resolved is not None:
            found.append(_entry(known[key], resolved, read_only(key), request))
    if resource.resource_type == BROKER:
        others = [*foreign_settings(broker.controller.broker_configs, name), *(_identity(broker) if name else [])]
        found += [_entry(*one, request) for one in others if keys is None or one[0].name in keys]
    return found


def _identity(broker: Broker) -> list[tuple[BrokerSetting, Resolved, bool]]:
    """Return the settings that are fixed at a broker's start: id, listeners and folder, each with its read-only flag.

    Types, flags and synonyms are those of Apache Kafka 4.3.1, in which two of the listener settings are not read-only.
    A broker that keeps its data in memory has no folder.
    """
    addresses = [
        f"{listener}://{node.host}:{node.port}"
        for listener in broker.config.protocols
        for node in broker.endpoints(listener)
        if node.node_id == broker.node_id
    ]
    folder = broker.logs.folder
    folders = None if folder is None else [str(folder)]
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in broker.config.protocols.items())
    shown: tuple[tuple[str, ConfigType, Value, Value, bool, str], ...] = (
        (
            "advertised.listeners",
            ConfigType.LIST,
            addresses,
            None,
            True,
            "Where clients reach the broker, by listener.",
        ),
        ("broker.id", ConfigType.INT, broker.node_id, -1, True, "The broker's id."),
        ("inter.broker.listener.name", ConfigType.STRING, None, None, True, "Not used: all brokers share a process."),
        ("listener.security.protocol.map", ConfigType.STRING, None, protocols, False, "Security protocol by listener."),
        ("listeners", ConfigType.LIST, addresses, ["PLAINTEXT://:9092"], False, "The broker's listeners."),
        ("log.dir", ConfigType.LIST, folders, None, True, "The folder of the logs; none if they are in memory."),
        ("log.dirs", ConfigType.LIST, folders, None, True, "The folder of the logs; none if they are in memory."),
        ("node.id", ConfigType.INT, broker.node_id, None, True, "The broker's id."),
    )
    found = []
    for name, config_type, value, default, read_only, doc in shown:
        layers = [(name, value, ConfigSource.STATIC_BROKER), (name, default, ConfigSource.DEFAULT)]
        layers = [layer for layer in layers if layer[1] is not None]
        _, first, source = layers[0] if layers else (name, None, ConfigSource.DEFAULT)
        found.append((BrokerSetting(name, config_type, None, doc), Resolved(first, source, layers), read_only))
    return found


def _never(name: str) -> bool:
    return False


def _not_dynamic(broker: Broker) -> Callable[[str], bool]:
    return lambda name: not broker.config.is_dynamic(name)


def _cluster_default(broker: Broker, key: str) -> Resolved | None:
    resolved = broker.config.resolve(key)
    layers = [layer for layer in resolved.synonyms if layer[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER]
    return Resolved(layers[0][1], layers[0][2], layers) if layers else None


def _entry(
    setting: BrokerSetting, resolved: Resolved, read_only: bool, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    is_secret = setting.type in SECRET_TYPES
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name, format_value(value), int(source))
            for name, value, source in resolved.synonyms
            if value is not None or is_secret  # as in Kafka, a default without a value is no synonym
        ]
    return DescribeConfigsResourceResult(
        setting.name,
        format_value(resolved.value),
        read_only,
        int(resolved.source),
        is_secret,
        synonyms,
        int(setting.type),
        setting.doc if request.include_documentation else None,
    )
