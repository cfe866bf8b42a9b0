"""Settings: names, types, layers, and the defaults that Apache Kafka has."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import pyconsumer.broker
from pyconsumer.broker.config import (
    _SYNONYMS,
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    TopicConfig,
    parse_topic_config,
)
from pyconsumer.broker.config import resolve_topic as resolve
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.settings import ConfigSource, ConfigType, format_value, parse_value
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", "3", 3),
        ("num.partitions", 3, 3),
        ("log.retention.ms", "-1", -1),
        ("auto.create.topics.enable", "false", False),
        ("auto.create.topics.enable", True, True),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.cleanup.policy", "compact, delete", ["compact", "delete"]),
        ("compression.type", "zstd", "zstd"),
    ],
)
def test_values_are_read(name: str, text: object, value: object) -> None:
    assert BrokerConfig({name: text}).value(name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.partitions", "three"),
        ("num.partitions", "0"),
        ("num.partitions", True),
        ("num.partitions", 2**31),
        ("auto.create.topics.enable", "yes"),
        ("log.cleanup.policy", "shred"),
        ("compression.type", "brotli"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleaner.min.cleanable.ratio", "x"),
        ("offsets.topic.compression.codec", "9"),
    ],
)
def test_invalid_values_are_rejected_by_name(name: str, text: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        BrokerConfig({name: text})


def test_a_setting_with_a_documented_effect_is_read() -> None:
    by_topics = {name for synonyms in _SYNONYMS.values() for name, _ in synonyms}
    by_groups = {
        item.name.replace("_", ".")
        for config in (GroupConfig, TransactionConfig)
        for item in dataclasses.fields(config)
    }
    folder = Path(pyconsumer.broker.__file__).parent
    code = "".join(path.read_text("utf-8") for path in folder.rglob("*.py") if path != folder / "config.py")
    for setting in BROKER_SETTINGS.values():
        if setting.used and setting.name not in by_topics | by_groups | {"pyconsumer.validate.records"}:
            end = setting.name.removeprefix("offsets.topic").removeprefix("transaction.state.log")
            assert f'"{setting.name}"' in code or f'"{{prefix}}{end}"' in code, setting.name


def test_kafkas_own_list_of_group_protocols_is_taken() -> None:
    given = BrokerConfig({"group.coordinator.rebalance.protocols": "classic,consumer,streams,share"})
    assert given.strings("group.coordinator.rebalance.protocols") == [
        "classic",
        "consumer",
        "streams",
        "share",
    ]


def test_an_unknown_setting_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean num\.partitions\?"):
        BrokerConfig({"num.partition": 3})
    with pytest.raises(ConfigurationError, match=r"did you mean retention\.ms\?"):
        parse_topic_config({"retention.m": 3})
    with pytest.raises(ConfigurationError, match=r"'advertised\.host\.name' \(use --advertised-host of"):
        BrokerConfig({"advertised.host.name": "h"})


def test_every_default_passes_its_own_check() -> None:
    for setting in [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()]:
        if setting.default is not None:
            assert parse_value(setting, setting.default) == setting.default
            assert setting.doc


@pytest.mark.parametrize(
    ("given", "retention_ms", "source_name"),
    [
        ({}, 604_800_000, "log.retention.hours"),
        ({"log.retention.hours": 2}, 7_200_000, "log.retention.hours"),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, 180_000, "log.retention.minutes"),
        ({"log.retention.minutes": 3, "log.retention.ms": 4}, 4, "log.retention.ms"),
        ({"log.retention.hours": -1}, -1, "log.retention.hours"),
    ],
)
def test_the_finest_unit_that_is_set_wins(given: dict[str, object], retention_ms: int, source_name: str) -> None:
    config = BrokerConfig(given)
    assert TopicConfig.of({}, config).retention_ms == retention_ms
    found = resolve("retention.ms", {}, config)
    assert (found.value, found.synonyms[0][0]) == (retention_ms, source_name)


def test_layers_from_strong_to_weak() -> None:
    config = BrokerConfig({"message.max.bytes": 1})
    config.set_dynamic({"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    found = resolve("max.message.bytes", {"max.message.bytes": "4"}, config)
    assert found.source is ConfigSource.TOPIC
    assert [(value, source.name) for _, value, source in found.synonyms] == [
        (4, "TOPIC"),
        (3, "DYNAMIC_BROKER"),
        (2, "DYNAMIC_DEFAULT_BROKER"),
        (1, "STATIC_BROKER"),
        (1048588, "DEFAULT"),
    ]
    config.set_dynamic({}, {})
    assert TopicConfig.of({}, config).max_message_bytes == 1


def test_compaction_lags_must_be_consistent() -> None:
    with pytest.raises(ConfigurationError, match="greater"):
        parse_topic_config({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 4})


def test_values_are_written_as_kafka_does() -> None:
    assert [format_value(value) for value in (None, True, False, ["a", "b"], 5, 0.5)] == [
        *(None, "true", "false", "a,b", "5", "0.5")
    ]
    assert ConfigType.LIST == 7


def test_kafkas_defaults_of_groups() -> None:
    config = BrokerConfig()
    assert config.integer("group.min.session.timeout.ms") == 6000
    assert config.integer("group.max.session.timeout.ms") == 1_800_000
    assert config.integer("group.max.size") == 2**31 - 1
    assert config.integer("group.initial.rebalance.delay.ms") == 3000
    assert config.integer("offsets.retention.check.interval.ms") == 600_000


def test_kafkas_defaults_of_the_offsets_topic() -> None:
    config = BrokerConfig()
    assert config.integer("offset.metadata.max.bytes") == 4096
    assert config.integer("offsets.topic.num.partitions") == 50
    assert config.integer("offsets.topic.compression.codec") == 0
    assert config.integer("offsets.topic.segment.bytes") == 104_857_600
    assert config.integer("offsets.load.buffer.size") == 5_242_880
