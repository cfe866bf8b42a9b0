"""Settings of members and coordinators that the requirement lists name: defaults, bounds, effects."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyconsumer import KafkaConsumer
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.consumer.config import CONSUMER_SETTINGS, ConsumerConfig
from pyconsumer.consumer.coordinator.classic_group_state import PrepareJoin
from pyconsumer.consumer.coordinator.group_state import SendLeave
from pyconsumer.errors import ConfigurationError, InvalidGroupIdError
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import CLIENT_SETTINGS, ClientConfig, Settings
from tests.unit.consumer.coordinator.script import Member

BROKER_LESS = "localhost:9"
OF_THE_TOPICS = {
    f"{topic}.{setting}"
    for topic in ("offsets.topic", "transaction.state.log")
    for setting in ("num.partitions", "replication.factor", "segment.bytes", "min.isr")
}


def build(**options: Any) -> ConsumerConfig:
    return CONSUMER_SETTINGS.build({"bootstrap_servers": BROKER_LESS, **options})


@pytest.mark.parametrize(
    ("item", "name", "default"),
    [
        ("broker:CFG-01", "heartbeat_interval_ms", 3_000),
        ("transactions:CFG-03", "heartbeat_interval_ms", 3_000),
        ("transactions:CFG-04", "max_poll_interval_ms", 300_000),
        ("transactions:CFG-08", "isolation_level", "read_uncommitted"),
        ("client:CF-03", "session_timeout_ms", 45_000),
        ("client:JC-04", "session_timeout_ms", 45_000),
        ("broker:CFG-02", "session_timeout_ms", 45_000),
        ("transactions:CFG-02", "session_timeout_ms", 45_000),
        ("client:CF-08", "partition_assignment_strategy", ("range", "cooperative-sticky")),
        ("broker:CFG-07", "partition_assignment_strategy", ("range", "cooperative-sticky")),
        ("transactions:CFG-01", "partition_assignment_strategy", ("range", "cooperative-sticky")),
        ("transactions:ASG-02", "partition_assignment_strategy", ("range", "cooperative-sticky")),
    ],
)
def test_defaults_of_consumers(item: str, name: str, default: object) -> None:
    assert getattr(build(), name) == default


@pytest.mark.parametrize(
    ("item", "name", "default"),
    [
        ("transactions:IDP-02", "enable_idempotence", True),
        ("transactions:CFG-11", "enable_idempotence", True),
        ("transactions:CFG-12", "retries", 2**31 - 1),
        ("transactions:CFG-13", "acks", -1),
        ("transactions:CFG-14", "max_in_flight_requests_per_connection", 5),
        ("transactions:CFG-15", "transactional_id", None),
        ("transactions:CFG-16", "transaction_timeout_ms", 60_000),
        ("transactions:CFG-17", "max_block_ms", 60_000),
    ],
)
def test_defaults_of_producers(item: str, name: str, default: object) -> None:
    assert getattr(PRODUCER_SETTINGS.build({"bootstrap_servers": BROKER_LESS}), name) == default


@pytest.mark.parametrize(
    ("item", "name", "default"),
    [
        ("transactions:CFG-19", "group.max.session.timeout.ms", 1_800_000),
        ("transactions:CFG-18", "group.min.session.timeout.ms", 6_000),
        ("transactions:CFG-20", "group.initial.rebalance.delay.ms", 3_000),
        ("transactions:CFG-21", "offsets.topic.num.partitions", 50),
        ("transactions:CFG-22", "offsets.topic.replication.factor", 3),
        ("transactions:CFG-23", "offsets.retention.minutes", 10_080),
        ("transactions:CFG-24", "offsets.retention.check.interval.ms", 600_000),
        ("transactions:CFG-25", "offset.metadata.max.bytes", 4_096),
        ("transactions:CFG-26", "offsets.topic.segment.bytes", 104_857_600),
        ("transactions:CFG-28", "transaction.state.log.num.partitions", 50),
        ("transactions:CFG-29", "transaction.state.log.replication.factor", 3),
        ("transactions:CFG-29", "transaction.state.log.min.isr", 2),
        ("transactions:CFG-29", "transaction.state.log.segment.bytes", 104_857_600),
        ("transactions:CFG-30", "transaction.max.timeout.ms", 900_000),
        ("transactions:CFG-31", "transactional.id.expiration.ms", 604_800_000),
        ("transactions:CFG-32", "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000),
    ],
)
def test_defaults_of_coordinators(item: str, name: str, default: int) -> None:
    assert BrokerConfig({}).integer(name) == default
    field = name.replace(".", "_")
    if name not in OF_THE_TOPICS:
        config = GroupConfig if name.startswith(("group.", "offset")) else TransactionConfig
        assert getattr(config.from_settings({}), field) == default


@pytest.mark.parametrize("name", ["inter.broker.protocol.version", "offsets.commit.required.acks"])
def test_settings_that_kafka_dropped_are_unknown(name: str) -> None:
    """With it no version between brokers forbids an instance id, and commits always wait for all in-sync replicas."""
    with pytest.raises(ConfigurationError, match=re.escape(name)):
        BrokerConfig({name: "2.2"})


def test_reset_policies() -> None:
    assert build().auto_offset_reset.name == "latest"
    for policy in ("latest", "earliest", "none"):
        assert build(auto_offset_reset=policy).auto_offset_reset.name == policy
    with pytest.raises(ConfigurationError):
        build(auto_offset_reset="newest")


def test_a_group_needs_its_id() -> None:
    assert build().group_id is None
    with KafkaConsumer(bootstrap_servers=BROKER_LESS) as consumer:
        for call in (consumer.enforce_rebalance, consumer.commit, consumer.group_metadata):
            with pytest.raises(InvalidGroupIdError):
                call()


def test_a_client_has_no_name_of_its_own() -> None:
    settings = Settings("client", CLIENT_SETTINGS, ClientConfig)
    assert settings.build({"bootstrap_servers": BROKER_LESS}).client_id == ""


def test_a_member_is_static_only_with_an_instance_id() -> None:
    assert build().group_instance_id is None
    assert build(group_id="g", group_instance_id="i").group_instance_id == "i"
    with pytest.raises(ConfigurationError):
        build(group_id="g", group_instance_id="")


def test_max_poll_interval_is_the_rebalance_timeout_too() -> None:
    assert build().max_poll_interval_ms == 300_000
    member = Member(rebalance_timeout=build().max_poll_interval_ms / 1000, session_timeout=1000.0)
    assert member.send_join().request.rebalance_timeout_ms == 300_000
    member = Member(rebalance_timeout=300.0, session_timeout=1000.0)
    member.stable()
    member.answer_heartbeat(_heartbeat_at(member, 299.9))
    assert member.core.generation.joined
    member.now = 300.0
    assert isinstance(member.core.next_background(member.now), SendLeave)
    rejoin = member.core.next_action(member.now)
    assert isinstance(rejoin, PrepareJoin)
    assert rejoin.lost


def _heartbeat_at(member: Member, now: float) -> Any:
    member.now = now
    return member.heartbeat()


def test_servers_must_be_given_and_bytes_are_returned_without_deserializers() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        CONSUMER_SETTINGS.build({})
    assert (build().key_deserializer, build().value_deserializer) == (None, None)


class Hooked:
    def on_commit(self, offsets: object) -> None: ...


def test_an_interceptor_has_one_of_the_hooks() -> None:
    one = Hooked()
    assert build(interceptors=[one, Hooked]).interceptors == (one, Hooked)
    assert build(interceptors=one).interceptors == (one,)
    for wrong in (5, "a.Class", len, object(), dict):
        with pytest.raises(
            ConfigurationError, match="interceptors: it must have a method on_consume, on_commit or clo"
        ):
            build(interceptors=[wrong])


@pytest.mark.parametrize(
    ("key", "name", "text", "value"),
    [
        ("partition.assignment.strategy", "partition_assignment_strategy", "sticky,range", ("sticky", "range")),
        ("group.instance.id", "group_instance_id", "i", "i"),
        ("session.timeout.ms", "session_timeout_ms", "9000", 9000),
        ("enable.auto.commit", "enable_auto_commit", "false", False),
    ],
)
def test_kafkas_key_and_the_name_in_python_mean_the_same(key: str, name: str, text: str, value: object) -> None:
    by_key = CONSUMER_SETTINGS.build({"bootstrap.servers": BROKER_LESS, "group.id": "g", key: text})
    by_name = build(group_id="g", **{name: value})
    assert getattr(by_key, name) == getattr(by_name, name) == value


@pytest.mark.parametrize(("rebalance_s", "seconds"), [(300.0, 305.0), (26.0, 31.0), (25.0, 30.0), (1.0, 30.0)])
def test_a_join_may_take_five_seconds_longer_than_the_rebalance(rebalance_s: float, seconds: float) -> None:
    assert Member(rebalance_timeout=rebalance_s).send_join().timeout == seconds
