"""The states of a member under the consumer protocol, compared with those of Java's consumer."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyconsumer.consumer.coordinator.consumer_group_state import TRANSITIONS, ConsumerMemberState
from tests.support.java import KafkaTools


@pytest.mark.kafka
def test_the_transitions_are_those_of_javas_member_state(kafka_tools: KafkaTools) -> None:
    printed = kafka_tools.run_source(Path(__file__).with_name("MemberStates.java")).stdout.splitlines()
    java = {name: set(before.split(",")) - {"", name} for name, before in (line.split("\t") for line in printed)}
    ours = {
        after.name: {before.name for before in ConsumerMemberState if after in TRANSITIONS[before]}
        for after in ConsumerMemberState
    }
    assert java == ours
