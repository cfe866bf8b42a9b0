"""``aiokafka.admin.config_resource``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["ConfigResource", "ConfigResourceType"]


class ConfigResourceType(IntEnum):
    """The types of resources that have settings, with Kafka's numbers."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """A resource, and the settings of it that are read or changed.

    Args:
        resource_type: the type or its name, such as ``"topic"``.
        name: the name of a topic, or the id of a broker.
        configs: values by name of setting. For reading, only the names are used. None means all settings.

    Raises:
        KeyError: there is no such type.
    """

    def __init__(
        self, resource_type: ConfigResourceType | str, name: str | int, configs: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[str(resource_type).upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs
