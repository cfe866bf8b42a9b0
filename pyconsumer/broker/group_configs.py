"""Dynamic settings of single groups: ``GROUP`` resources (KIP-848, KIP-932, KIP-1263).

They are the settings of groups of the consumer protocol and of share groups. Apache Kafka has more, of streams groups.
A group need not exist to have settings. The defaults are the broker's ``group.consumer.*`` and ``group.share.*``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.broker.config import BROKER_SETTINGS, BrokerConfig, Resolved
from pyconsumer.broker.settings import (
    BrokerSetting,
    ConfigSource,
    ConfigType,
    between,
    parse_value,
)
from pyconsumer.broker.share_settings import SHARE_GROUP_SETTINGS
from pyconsumer.errors import InvalidConfigError, InvalidRequestError

__all__ = ["GROUP_SETTINGS", "check_group_config", "resolve_group"]

#: By Kafka's names, in the order of Kafka's responses.
GROUP_SETTINGS: dict[str, BrokerSetting] = {
    setting.name: setting
    for setting in (
        BrokerSetting(
            "consumer.assignment.interval.ms",
            ConfigType.INT,
            1_000,
            "Shortest time between two target assignments.",
            between(0),
        ),
        BrokerSetting(
            "consumer.heartbeat.interval.ms", ConfigType.INT, 5_000, "How often members send heartbeats.", between(1)
        ),
        BrokerSetting(
            "consumer.session.timeout.ms", ConfigType.INT, 45_000, "How long a member may be silent.", between(1)
        ),
        *SHARE_GROUP_SETTINGS,
    )
}

#: Settings that have bounds in the broker's settings.
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
)


def resolve_group(name: str, own: Mapping[str, str], broker: BrokerConfig) -> Resolved:
    """Return the value of a group's setting, and all layers that have a value."""
    setting = GROUP_SETTINGS[name]
    if f"group.{name}" in BROKER_SETTINGS:
        resolved = broker.resolve(f"group.{name}")
    else:
        resolved = Resolved(setting.default, ConfigSource.DEFAULT, [(name, setting.default, ConfigSource.DEFAULT)])
    layers = list(resolved.synonyms)
    if name in own:
        value = parse_value(setting, own[name])
        return Resolved(value, ConfigSource.DYNAMIC_GROUP, [(name, value, ConfigSource.DYNAMIC_GROUP), *layers])
    return Resolved(resolved.value, resolved.source, layers)


def check_group_config(group_id: str, own: Mapping[str, str], broker: BrokerConfig) -> None:
    """Check all settings of a group together.

    Raises:
        InvalidRequestError: the group has no name.
        InvalidConfigError, ConfigurationError: a setting is unknown, cannot be parsed, or is out of range.
    """
    if not group_id:
        raise InvalidRequestError("Default group resources are not allowed.")
    for name in own:
        if name not in GROUP_SETTINGS:
            raise InvalidConfigError(f"Unknown group config name: {name}")
    values = {name: resolve_group(name, own, broker).value for name in GROUP_SETTINGS}
    for name in _BOUNDED:
        kind, _, rest = name.partition(".")
        for bound, word, wrong in (("min", "greater", int.__lt__), ("max", "less", int.__gt__)):
            limit = f"group.{kind}.{bound}.{rest}"
            if wrong(int(str(values[name])), broker.integer(limit)):
                raise InvalidConfigError(f"{name} must be {word} than or equal to {limit}")
    for kind in ("consumer", "share"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if int(str(values[session])) <= int(str(values[heartbeat])):
            raise InvalidConfigError(f"{session} must be greater than {heartbeat}")
