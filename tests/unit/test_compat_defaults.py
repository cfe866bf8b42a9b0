"""Settings of the originals: every default may be given, alone and with all others. ``config`` has the given form."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import math
import selectors
import warnings
from collections.abc import Mapping
from typing import Any, Final

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.aiokafka.admin import AIOKafkaAdminClient
from pyconsumer.compat.aiokafka.producer.producer import _missing
from pyconsumer.compat.kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor
from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pyconsumer.compat.kafka.partitioner.default import DefaultPartitioner
from pyconsumer.errors import ConfigurationError

NOWHERE = "127.0.0.1:1"
_OF_KAFKA: Final = {
    "KafkaConsumer": KafkaConsumer,
    "KafkaProducer": KafkaProducer,
    "KafkaAdminClient": KafkaAdminClient,
}
_OF_AIOKAFKA: Final = {
    "AIOKafkaConsumer": AIOKafkaConsumer,
    "AIOKafkaProducer": AIOKafkaProducer,
    "AIOKafkaAdminClient": AIOKafkaAdminClient,
}

#: Defaults of kafka-python 2.2.15 that 3.0.12 does not have, or that differ there.
_IN_2_2: Final[dict[str, dict[str, Any]]] = {
    "KafkaConsumer": {
        "client_id": "kafka-python-2.2.15",
        "request_timeout_ms": 305_000,
        "session_timeout_ms": 10_000,
        "sock_chunk_bytes": 4096,
        "sock_chunk_buffer_count": 1000,
        "api_version_auto_timeout_ms": 2000,
        "partition_assignment_strategy": (RangePartitionAssignor, RoundRobinPartitionAssignor),
        "socks5_proxy": None,
    },
    "KafkaProducer": {
        "enable_idempotence": False,
        "acks": 1,
        "bootstrap_topics_filter": set(),
        "sock_chunk_bytes": 4096,
        "sock_chunk_buffer_count": 1000,
        "api_version_auto_timeout_ms": 2000,
        "socks5_proxy": None,
    },
    "KafkaAdminClient": {
        "client_id": "kafka-python-2.2.15",
        "sock_chunk_bytes": 4096,
        "sock_chunk_buffer_count": 1000,
        "api_version_auto_timeout_ms": 2000,
        "socks5_proxy": None,
    },
}

_LOGIN: Final[dict[str, Any]] = {
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "connections_max_idle_ms": 540_000,
    "sasl_mechanism": "PLAIN",
    "sasl_plain_password": None,
    "sasl_plain_username": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "loop": None,
    "metadata_max_age_ms": 300_000,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
}
#: Defaults of aiokafka 0.12 and 0.14, which differ in ``api_version`` and ``client_rack`` alone.
_BOTH_AIOKAFKAS: Final[dict[str, dict[str, Any]]] = {
    "AIOKafkaConsumer": {
        **_LOGIN,
        "client_id": "aiokafka-0.12.0",
        "group_id": None,
        "group_instance_id": None,
        "key_deserializer": None,
        "value_deserializer": None,
        "fetch_max_wait_ms": 500,
        "fetch_max_bytes": 52_428_800,
        "fetch_min_bytes": 1,
        "max_partition_fetch_bytes": 1_048_576,
        "auto_offset_reset": "latest",
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5000,
        "check_crcs": True,
        "partition_assignment_strategy": (RoundRobinPartitionAssignor,),
        "max_poll_interval_ms": 300_000,
        "rebalance_timeout_ms": None,
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3000,
        "consumer_timeout_ms": 200,
        "max_poll_records": None,
        "exclude_internal_topics": True,
        "isolation_level": "read_uncommitted",
    },
    "AIOKafkaProducer": {
        **_LOGIN,
        "client_id": None,
        "acks": _missing,
        "key_serializer": None,
        "value_serializer": None,
        "compression_type": None,
        "max_batch_size": 16_384,
        "partitioner": DefaultPartitioner(),
        "max_request_size": 1_048_576,
        "linger_ms": 0,
        "enable_idempotence": False,
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
    },
    "AIOKafkaAdminClient": {**_LOGIN, "client_id": "aiokafka-0.12.0"},
}


@pytest.fixture(autouse=True)
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in _OF_KAFKA.values():
        monkeypatch.setattr(importlib.import_module(made.__module__), "connect", lambda *given: None)


def _close(client: Any) -> None:
    async def end() -> None:
        await (client.stop() if hasattr(client, "stop") else client.close())

    if type(client).__name__ in _OF_AIOKAFKA:
        asyncio.run(end())
    else:
        client.close()


def _refused(make: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that are refused alone, and under "all" the error when they are given together."""
    found = {}
    trials: dict[str, Mapping[str, Any]] = {name: {name: value} for name, value in given.items()}
    for name, each in {**trials, "all": given}.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                _close(make(**{**each, "bootstrap_servers": NOWHERE}))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


@pytest.mark.parametrize("name", _OF_KAFKA)
def test_every_default_of_kafka_python_is_taken(name: str) -> None:
    ours: Any = _OF_KAFKA[name]
    assert _refused(ours, ours.DEFAULT_CONFIG) == {}
    assert _refused(ours, {**ours.DEFAULT_CONFIG, **_IN_2_2[name]}) == {}
    kafka = pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    theirs = getattr(kafka, name).DEFAULT_CONFIG
    assert _refused(ours, theirs) == {}
    assert theirs.keys() == ours.DEFAULT_CONFIG.keys()
    plain = (str, int, float, bool, type(None), list)
    assert {key: value for key, value in theirs.items() if isinstance(value, plain)} == {
        key: value for key, value in ours.DEFAULT_CONFIG.items() if isinstance(value, plain)
    }


@pytest.mark.parametrize("name", _OF_AIOKAFKA)
def test_every_default_of_aiokafka_is_taken(name: str) -> None:
    ours: Any = _OF_AIOKAFKA[name]
    known = _BOTH_AIOKAFKAS[name]
    newer = {"client_rack": None} if name == "AIOKafkaConsumer" else {}
    assert _refused(ours, {**known, "api_version": "auto"}) == {}
    assert _refused(ours, {**known, "api_version": None, **newer}) == {}
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    theirs = getattr(importlib.import_module("aiokafka.admin" if "Admin" in name else "aiokafka"), name)
    given = {
        each.name: each.default
        for each in inspect.signature(theirs).parameters.values()
        if each.kind == each.KEYWORD_ONLY or (each.default is not each.empty)
    }
    assert _refused(ours, given) == {}
    assert given.keys() - {"bootstrap_servers", "api_version"} == known.keys() | newer.keys()


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_mechanism": "", "sasl_plain_username": "", "sasl_plain_password": ""},
        {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"},
        {"security_protocol": "PLAINTEXT", "ssl_cafile": "/no/such/file"},
        {"client_rack": None},
        {"connections_max_idle_ms": None},
        {"linger_ms": 1.5},
        {"retry_backoff_ms": 12.5},
        {"transactional_id": "a", "enable_idempotence": False},
        {"transactional_id": "a", "acks": "all"},
    ],
    ids=str,
)
def test_settings_without_a_use_are_taken_where_the_original_takes_them(given: dict[str, Any]) -> None:
    of = {name for name in ("linger_ms", "transactional_id") if name in given}
    for each in (*_OF_KAFKA.values(), *_OF_AIOKAFKA.values()):
        make: Any = each
        if of and "Producer" not in make.__name__:
            continue
        if "client_rack" in given and "Consumer" not in make.__name__:
            continue
        if make is KafkaProducer and given.get("enable_idempotence") is False:
            with pytest.raises(ConfigurationError, match="idempoten"):  # as there
                make(bootstrap_servers=NOWHERE, **given)
            continue
        _close(make(bootstrap_servers=NOWHERE, **given))


def test_a_part_of_a_millisecond_is_rounded_up_and_a_transaction_is_idempotent() -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=NOWHERE, transactional_id="a", enable_idempotence=False, linger_ms=1.5
    )
    config = producer.producer.config
    _close(producer)
    assert (config.linger_ms, config.enable_idempotence, config.acks) == (2, True, -1)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL"])
def test_settings_with_a_use_are_still_checked(protocol: str) -> None:
    given: dict[str, Any] = {"sasl_mechanism": "PLAIN"} if "SASL" in protocol else {"ssl_cafile": "/no/such/file"}
    for make in _OF_KAFKA.values():
        with pytest.raises(ConfigurationError):
            make(bootstrap_servers=NOWHERE, security_protocol=protocol, **given)


def _load(data: bytes) -> bytes:
    return data


def test_config_is_a_dictionary_of_what_was_given_over_the_defaults() -> None:
    servers = [NOWHERE, "127.0.0.1:2"]
    with KafkaConsumer(
        bootstrap_servers=servers, group_id="g", value_deserializer=_load, sasl_plain_password="secret"
    ) as consumer:
        config = consumer.config
        assert isinstance(config, dict)
        assert config["bootstrap_servers"] is servers
        assert config["value_deserializer"] is _load
        assert config.get("group_id") == "g"
        assert config.get("no_such_setting", 1) == 1
        assert "max_poll_records" in config
        assert "no_such_setting" not in config
        assert dict(config.items()) == {**config} == {**KafkaConsumer.DEFAULT_CONFIG, **config}
        assert config["selector"] is selectors.DefaultSelector
        assert config["consumer_timeout_ms"] == math.inf
        assert config["client_id"] == "kafka-python-3.0.12"
        assert "secret" not in repr(config)
        assert config["group_protocol"] == "classic"  # a setting of ours
        with pytest.raises(KeyError):
            config["no_such_setting"]
        assert config.max_poll_records == 500  # our settings, as attributes
    with KafkaProducer(bootstrap_servers=NOWHERE, acks="all") as producer:
        assert producer.config["acks"] == "all"
        assert producer.config["client_id"] is not None
        assert {**producer.config}["linger_ms"] == 0
    with KafkaAdminClient(bootstrap_servers=NOWHERE) as admin:
        assert admin.config["bootstrap_servers"] == NOWHERE
        assert admin.config.get("request_timeout_ms") == 30_000
