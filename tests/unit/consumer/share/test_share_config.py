"""The settings of a share consumer."""

from __future__ import annotations

import pytest

from pyconsumer import KafkaShareConsumer
from pyconsumer.consumer.share.config import IN_THE_GROUP, SHARE_CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError

_NEEDED = {"bootstrap_servers": "b:1", "group_id": "g"}


def test_the_ten_settings_that_java_refuses_are_refused() -> None:
    assert len(IN_THE_GROUP) == 10
    assert IN_THE_GROUP.keys().isdisjoint(SHARE_CONSUMER_SETTINGS.by_name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("isolation_level", "share.isolation.level"),
        ("auto.offset.reset", "share.auto.offset.reset"),
        ("enable_auto_commit", "share_acknowledgement_mode"),
        ("group_instance_id", "never static"),
        ("partition_assignment_strategy", "group.share.assignors"),
        ("interceptor.classes", "set_acknowledgement_commit_callback"),
        ("session_timeout_ms", "share.session.timeout.ms"),
        ("heartbeat_interval_ms", "share.heartbeat.interval.ms"),
        ("group_protocol", "its own protocol"),
        ("group_remote_assignor", "group.share.assignors"),
    ],
)
def test_the_error_names_what_takes_the_place_of_a_refused_setting(name: str, instead: str) -> None:
    with pytest.raises(ConfigurationError, match="a share consumer does not have it") as caught:
        KafkaShareConsumer("t", {**_NEEDED, name: "1"})
    assert instead in str(caught.value)
    advice = str(caught.value).partition("does not have it. ")[2]
    assert advice[0].isupper() or "_" in advice.partition(" ")[0], "it is a sentence"


def test_a_group_id_is_required() -> None:
    with pytest.raises(ConfigurationError, match="group_id is required"):
        KafkaShareConsumer(bootstrap_servers="b:1")


def test_kafkas_names_are_taken() -> None:
    config = SHARE_CONSUMER_SETTINGS.build(
        {"bootstrap.servers": "b:1", "group.id": "g", "share.acknowledgement.mode": "explicit"}
    )
    assert config.is_explicit
    assert not config.limits_records
    assert config.client_id.startswith("share-consumer-g-")
