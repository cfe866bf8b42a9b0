"""Requests that are repeated: calls whose time is up, leaders and controllers that are not known."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, drive
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.structs import Address, TopicPartition


class Network:
    """Gives the prepared answers, then none; a wait lasts as long as it may."""

    def __init__(self, *answers: RequestFuture[Any]) -> None:
        self.clock = ManualClock()
        self.answers = list(answers)
        self.metadata = Metadata(bootstrap=[Address("host", 1)])
        self.asked: list[float] = []

    def send_any(self, *request: object, **options: object) -> RequestFuture[Any]:
        self.asked.append(self.clock.now())
        return self.answers.pop(0) if self.answers else RequestFuture()

    def failures(self) -> str:
        return "TCP connection to host:1 failed"

    @property
    def calls(self) -> Calls:
        return Calls(
            cast(NetworkClient, self), self.metadata, self.clock, request_timeout=30.0, backoff=Backoff(0.1, 1.0)
        )

    def know_cluster(self) -> None:
        """Metadata of one broker, the controller and leader, which is then started over from."""
        partition = MetadataResponsePartition(partition_index=0, leader_id=0)
        self.metadata.set_topics(["t"])
        self.metadata.update(
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=0, host="host", port=1)],
                controller_id=0,
                topics=[MetadataResponseTopic(name="t", partitions=[partition])],
            ),
            12,
            0.0,
        )
        self.metadata.rebootstrap()

    def run(self, steps: Any, deadline: float) -> Any:
        return drive(steps, deadline, lambda until, future: self.clock.advance_to(until), self.clock.now)

    def list_groups(self, deadline: float) -> object:
        calls = self.calls
        call = calls.call(ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse, deadline, what="listing groups")
        return drive(call, deadline, lambda until, future: self.clock.advance_to(until), self.clock.now)


def test_a_request_that_outlives_the_call_is_named_with_what_failed() -> None:
    with pytest.raises(KafkaTimeoutError) as raised:
        Network().list_groups(5.0)
    assert str(raised.value) == "listing groups got no answer in time: TCP connection to host:1 failed"


def test_the_error_of_the_attempt_before_is_told() -> None:
    lost = RequestFuture.failure(KafkaConnectionError("host:1 closed the connection"))
    with pytest.raises(KafkaTimeoutError, match="listing groups did not succeed in time: host:1 closed"):
        Network(lost).list_groups(5.0)


def test_a_leader_that_is_not_found_as_nobody_answers_is_a_timeout_with_the_cause() -> None:
    network = Network()
    network.know_cluster()
    with pytest.raises(KafkaTimeoutError, match="leader of t-0 was not found in time: TCP connection to host:1 failed"):
        network.run(network.calls.leader(TopicPartition("t", 0))(5.0), 5.0)
    assert network.clock.now() == 5.0


def test_a_controller_that_is_not_known_any_more_is_any_broker() -> None:
    network = Network()
    network.know_cluster()
    assert network.run(network.calls.controller(5.0), 5.0) is None


def test_attempts_are_made_until_the_time_is_up() -> None:
    lost = KafkaConnectionError("host:1 closed the connection")
    network = Network(*(RequestFuture.failure(lost) for _ in range(100)))
    with pytest.raises(KafkaTimeoutError, match="listing groups did not succeed in time: host:1 closed"):
        network.list_groups(1.5)
    assert network.asked[-1] > 1.45
    assert len(network.asked) < 20
