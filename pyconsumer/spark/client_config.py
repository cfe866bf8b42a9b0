"""Translates the ``kafka.*`` options of the source into settings of a client. Functions without state.

The options travel to the tasks unchanged. Each process builds its own configuration from them, and only there are
references to secrets resolved.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import (
    CLIENT_SETTINGS,
    Choice,
    ClientConfig,
    Duration,
    Flag,
    Integer,
    Setting,
    Settings,
    Text,
    nearest,
)
from pyconsumer.spark.secrets import resolve_references

__all__ = ["ReaderConfig", "Side", "admin_settings", "build_config", "dotted_names", "translate"]

_log = logging.getLogger("pyconsumer.spark")


class ReaderConfig(ClientConfig):
    """The settings for the clients of the source."""

    client_rack: str
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    isolation_level: str

    @property
    def read_committed(self) -> bool:
        """Return whether records of open and aborted transactions are hidden."""
        return self.isolation_level == "read_committed"


_SETTINGS: Final[Settings[ReaderConfig]] = Settings(
    "kafka",
    (
        *CLIENT_SETTINGS,
        Setting(
            "client_id", "pyconsumer-spark", Text(blank=True), "Name of the tasks in the broker's logs and quotas."
        ),
        Setting("client_rack", "", Text(blank=True), "Our rack, to fetch from a replica in the same one (KIP-392)."),
        Setting("fetch_max_bytes", 52_428_800, Integer(1), "Most bytes in one response."),
        Setting("fetch_max_wait_ms", 500, Duration(0, 0x7FFFFFFF), "Longest time that a broker holds a fetch."),
        # Eight times Java's: a task reads only one partition, and each response has a fixed cost.
        Setting("max_partition_fetch_bytes", 8_388_608, Integer(1), "Most bytes of one partition in one response."),
        Setting("check_crcs", True, Flag(), "Check each batch's checksum."),
        Setting(
            "isolation_level",
            "read_uncommitted",
            Choice("read_uncommitted", "read_committed"),
            "`read_committed` hides records of open and aborted transactions.",
        ),
    ),
    ReaderConfig,
)

_REJECTED: Final = {
    "auto.offset.reset": "use the option startingOffsets to choose where to begin; Spark keeps track of offsets itself",
    "key.deserializer": "keys are read as binary; decode them with the functions of DataFrames",
    "value.deserializer": "values are read as binary; decode them with the functions of DataFrames",
    "enable.auto.commit": "this source does not commit offsets by itself; see the option commitToGroup",
    "interceptor.classes": "an interceptor could change records, so none is allowed",
}

#: Settings of Java's consumer that have no effect here. They are accepted so that a job can be moved unchanged.
_WITHOUT_EFFECT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.recording.level",
        "partition.assignment.strategy",
        "security.providers",
        "session.timeout.ms",
        "share.acknowledgement.mode",
    }
)
_SILENT: Final = frozenset({"group.id"})


class Side(NamedTuple):
    """The names of settings that the source or the sink accepts, rejects or ignores.

    Attributes:
        ours: settings that pyconsumer's client has, too.
        rejected: settings that are rejected, with a remedy for the message.
        without_effect: settings that are ignored with a warning. The warning gives ``why`` as the reason.
        silent: settings that are ignored without a warning.
    """

    ours: frozenset[str]
    rejected: Mapping[str, str]
    without_effect: frozenset[str]
    silent: frozenset[str]
    why: str

    @property
    def known(self) -> frozenset[str]:
        return self.ours | self.without_effect | self.silent


def dotted_names(settings: Iterable[Setting]) -> frozenset[str]:
    """Return Kafka's names (with dots) of settings."""
    return frozenset(name for setting in settings for name in (setting.dotted, *setting.aliases) if "." in name)


_SOURCE: Final = Side(
    dotted_names(_SETTINGS), _REJECTED, _WITHOUT_EFFECT, _SILENT, "this source reads partitions without a group"
)
_ADMIN: Final = dotted_names(CLIENT_SETTINGS)


def build_config(options: Mapping[str, str], *, warn: bool = False) -> ReaderConfig:
    """Check ``kafka.*`` options, and return the configuration for a client of the source.

    Args:
        options: the options by Kafka's dotted names, without the prefix ``kafka.``.
        warn: True logs a warning for options that have no effect.

    Raises:
        ConfigurationError: a setting is unknown, invalid or not supported. The message does not contain the values of
            secrets.
    """
    values = translate(options, _SOURCE, warn=warn)
    try:
        return _SETTINGS.build(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"in the kafka.* options: {error}") from None


def admin_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for an admin client of the same cluster with the same login."""
    return translate({name: value for name, value in options.items() if name in _ADMIN}, _SOURCE)


def translate(options: Mapping[str, str], side: Side, *, warn: bool = False) -> dict[str, Any]:
    """Return the settings for pyconsumer's client by Kafka's names.

    Raises:
        ConfigurationError: a setting is unknown or not supported.
    """
    values: dict[str, Any] = {}
    options = {
        name: resolve_references(f"kafka.{name}", value)
        for name, value in options.items()
        if not f"{name}.".startswith("config.providers.")  # references need no declaration
    }
    for name, value in options.items():
        if name in side.rejected:
            raise ConfigurationError(f"option kafka.{name} is not supported: {side.rejected[name]}")
        if name not in side.known:
            if _SETTINGS.ignores(name, value):
                continue
            raise ConfigurationError(_unknown(name, side.known))
        if name in side.ours:
            values[name] = value
        elif warn and name in side.without_effect:
            _log.warning("option kafka.%s has no effect: %s", name, side.why)
    if "bootstrap.servers" not in values:
        raise ConfigurationError(
            "option kafka.bootstrap.servers is required: the addresses of one or more brokers, such as host:9092"
        )
    return values


def _unknown(name: str, known: Iterable[str]) -> str:
    near = nearest(name.replace("_", "."), sorted(known))
    return f"unknown option 'kafka.{name}'" + ("" if near is None else f"; did you mean 'kafka.{near}'?")
