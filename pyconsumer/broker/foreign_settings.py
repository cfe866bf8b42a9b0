"""Settings that a client may give a broker, as on Apache Kafka, but that no part of this broker reads.

Apache Kafka keeps a setting that it does not know, for a plugin may know it. It also keeps those of its TLS and SASL
classes, for one broker at a time. Programs that administer Kafka rely on both, so the controller keeps such settings
here too, and a line in the log says that they have no effect.

When a broker starts, an unknown name is an error: it is a mistake of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyconsumer.broker.config import BROKER_SETTINGS, Resolved
from pyconsumer.broker.settings import SECRET_TYPES, BrokerSetting, ConfigSource, ConfigType
from pyconsumer.errors import InvalidRequestError

__all__ = ["check_foreign", "foreign_settings"]

#: Settings that are fixed when a broker of Apache Kafka starts. This broker has options instead.
_FIXED: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
    }
)
#: Beginnings of the names that Apache Kafka takes for one broker only.
_OF_ONE_BROKER: Final = ("cordoned.log.dirs", "listener.name.", "principal.builder.", "sasl.", "ssl.")
_SECRETS: Final = ("credential", "jaas", "password", "secret", "keystore.key")


def check_foreign(name: str, broker: str) -> None:
    """Check whether Apache Kafka would keep a setting that this broker does not know.

    Args:
        broker: the id of the broker whose setting it is, or "" for all brokers.

    Raises:
        InvalidRequestError: it is fixed at the start, or one for a single broker.
    """
    if name in _FIXED:
        raise InvalidRequestError(f"Cannot update these configs dynamically: {name}")
    if not broker and name.startswith(_OF_ONE_BROKER):
        raise InvalidRequestError(
            f"Cannot update these configs at default cluster level, broker id must be specified: {name}"
        )


def foreign_settings(
    configs: Mapping[str, Mapping[str, str]], broker: str
) -> Iterator[tuple[BrokerSetting, Resolved, bool]]:
    """Return the settings that this broker does not know, each with its value and its read-only flag.

    As in Apache Kafka, the value of a setting that Kafka does not know either is not shown, since it may be a secret.

    Args:
        configs: the dynamic settings by the id of the broker, with those of all brokers under "".
        broker: the id of the broker, or "" for the settings of all brokers alone.
    """
    found = dict.fromkeys(configs.get("", {}), ConfigSource.DYNAMIC_DEFAULT_BROKER)
    if broker:
        found |= dict.fromkeys(configs.get(broker, {}), ConfigSource.DYNAMIC_BROKER)
    for name in sorted(found.keys() - BROKER_SETTINGS.keys()):
        source = found[name]
        is_kafkas = name.startswith(_OF_ONE_BROKER)
        kind = ConfigType.UNKNOWN
        if is_kafkas:
            kind = ConfigType.PASSWORD if any(part in name for part in _SECRETS) else ConfigType.STRING
        own = configs[broker if source is ConfigSource.DYNAMIC_BROKER else ""]
        value = None if kind in SECRET_TYPES else own[name]
        read_only = not is_kafkas or name.startswith("listener.name.")
        yield BrokerSetting(name, kind, None, ""), Resolved(value, source, [(name, value, source)]), read_only
