"""Admin calls for settings of topics, brokers and groups: read and change them. Also the resources that have any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.admin.types import ConfigEntry, ConfigResource, ConfigResourceType, ConfigSynonym
from pyconsumer.errors import for_code
from pyconsumer.network.calls import Calls, Target
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import describe_configs, incremental_alter_configs, list_config_resources

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["alter", "describe", "list_resources"]

_SET, _DELETE = 0, 1


def _target(calls: Calls, resource: ConfigResource) -> Target | None:
    """Return the node to ask: for the settings of a broker that broker, for all others any (None)."""
    if resource.resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name:
        if not resource.name.isdecimal():
            raise ValueError(
                f"the name of a {resource.resource_type.name} resource is a node id, not {resource.name!r}"
            )
        return calls.node(int(resource.name))
    return None


def list_resources(calls: Calls, types: Iterable[ConfigResourceType], deadline: float) -> Steps[list[ConfigResource]]:
    """Return the resources of these types that have settings, sorted.

    Without types, the resources of all types (KIP-1142).

    Raises:
        UnsupportedVersionError: the broker (before Apache Kafka 4.1) can only list client metrics, or cannot list
            resources at all.
        KafkaError: the broker's error.
    """
    wanted = sorted({int(ConfigResourceType(kind)) for kind in types})
    only_metrics = wanted == [ConfigResourceType.CLIENT_METRICS]
    response = yield from calls.call(
        ApiKey.LIST_CONFIG_RESOURCES,
        list_config_resources.ListConfigResourcesRequest(resource_types=[] if only_metrics else wanted),
        list_config_resources.ListConfigResourcesResponse,
        deadline,
        min_version=0 if only_metrics else 1,
        what="listing the resources that have settings",
    )
    if response.error_code:
        raise for_code(response.error_code, "listing the resources that have settings")
    found = {
        ConfigResource(ConfigResourceType(one.resource_type), one.resource_name) for one in response.config_resources
    }
    return sorted(
        (one for one in found if not only_metrics or one.resource_type == ConfigResourceType.CLIENT_METRICS),
        key=lambda one: (one.resource_type, one.name),
    )


def describe(
    calls: Calls, resources: Iterable[ConfigResource], deadline: float, *, synonyms: bool = False
) -> Steps[dict[ConfigResource, dict[str, ConfigEntry]]]:
    """Return all settings of each resource, by name.

    Args:
        synonyms: also ask for the places that a value may come from.

    Raises:
        KafkaError: the broker's error for a resource.
    """
    found: dict[ConfigResource, dict[str, ConfigEntry]] = {}
    for resource in resources:
        response = yield from calls.call(
            ApiKey.DESCRIBE_CONFIGS,
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(
                        resource_type=int(resource.resource_type),
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                ],
                include_synonyms=synonyms,
            ),
            describe_configs.DescribeConfigsResponse,
            deadline,
            target=_target(calls, resource),
            what=f"reading the settings of {resource.resource_type.name.lower()} {resource.name!r}",
        )
        _raise_first(response.results)
        found[resource] = {
            entry.name: ConfigEntry(
                entry.name,
                entry.value,
                entry.config_source,
                entry.read_only,
                entry.is_sensitive,
                entry.config_type,
                tuple(ConfigSynonym(each.name, each.value, each.source) for each in entry.synonyms),
            )
            for result in response.results
            for entry in result.configs
        }
    return found


def alter(
    calls: Calls,
    changes: Mapping[ConfigResource, Mapping[str, str | None]],
    deadline: float,
    *,
    validate_only: bool = False,
) -> Steps[None]:
    """Set settings. The value None resets a setting to its default. Other settings are not changed (KIP-339).

    Raises:
        KafkaError: the broker's error for one resource. Other resources may have been changed.
    """
    for resource, values in changes.items():
        response = yield from calls.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=int(resource.resource_type),
                        resource_name=resource.name,
                        configs=[
                            incremental_alter_configs.AlterableConfig(
                                name=name, config_operation=_DELETE if value is None else _SET, value=value
                            )
                            for name, value in values.items()
                        ],
                    )
                ],
                validate_only=validate_only,
            ),
            incremental_alter_configs.IncrementalAlterConfigsResponse,
            deadline,
            target=_target(calls, resource),
            what=f"changing the settings of {resource.resource_type.name.lower()} {resource.name!r}",
        )
        _raise_first(response.responses)


def _raise_first(
    results: Iterable[describe_configs.DescribeConfigsResult | incremental_alter_configs.AlterConfigsResourceResponse],
) -> None:
    """Errors are final, also those that pass in other requests: a topic that is missing is a user's mistake here."""
    for result in results:
        if result.error_code:
            raise for_code(result.error_code, result.error_message or result.resource_name)
