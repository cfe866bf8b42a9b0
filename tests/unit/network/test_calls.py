"""Repeated requests: calls past their deadline, unknown leaders and controllers."""

from __future__ import annotations

from typing import cast

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from pyconsumer.structs import Address, TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest, metadata_response


class Network(FakeNetwork):
    """Fails the first requests as prepared, and answers no others. A wait lasts as long as it may."""

    def __init__(self, *failures: KafkaError) -> None:
        super().__init__(ManualClock(), respond=self._fail)
        self.trouble = "TCP connection to host:1 failed"
        self.metadata = Metadata(bootstrap=[Address("host", 1)])
        self.asked: list[float] = []
        self._failures = list(failures)

    def _fail(self, sent: SentRequest) -> None:
        self.asked.append(self.clock.now())
        if self._failures:
            sent.fail(self._failures.pop(0))

    @property
    def calls(self) -> Calls:
        return Calls(
            cast(NetworkClient, self), self.metadata, self.clock, request_timeout=30.0, backoff=Backoff(0.1, 1.0)
        )

    def know_cluster(self) -> None:
        """Metadata of one broker, the controller and leader, followed by a rebootstrap."""
        self.metadata.set_topics(["t"])
        known = metadata_response({"t": {0: (0, -1)}}, nodes=(0,), controller_id=0)
        self.metadata.update(known, 12, 0.0)
        self.metadata.rebootstrap()

    def list_groups(self, deadline: float) -> object:
        calls = self.calls
        call = calls.call(ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse, deadline, what="listing groups")
        return self.run(call, deadline)


def test_a_request_without_a_response_in_time_is_named_with_the_connection_error() -> None:
    with pytest.raises(KafkaTimeoutError) as raised:
        Network().list_groups(5.0)
    assert str(raised.value) == "listing groups got no response in time: TCP connection to host:1 failed"


def test_a_timeout_names_the_error_of_the_previous_attempt() -> None:
    lost = KafkaConnectionError("host:1 closed the connection")
    with pytest.raises(KafkaTimeoutError, match="listing groups did not succeed in time: host:1 closed"):
        Network(lost).list_groups(5.0)


def test_a_leader_lookup_without_a_broker_times_out_with_the_cause() -> None:
    network = Network()
    network.know_cluster()
    with pytest.raises(KafkaTimeoutError, match="leader of t-0 was not found in time: TCP connection to host:1 failed"):
        network.run(network.calls.leader(TopicPartition("t", 0))(5.0), 5.0)
    assert network.clock.now() == 5.0


def test_an_unknown_controller_is_replaced_by_any_broker() -> None:
    network = Network()
    network.know_cluster()
    assert network.run(network.calls.controller(5.0), 5.0) is None


def test_a_call_is_retried_until_its_deadline() -> None:
    lost = KafkaConnectionError("host:1 closed the connection")
    network = Network(*[lost] * 100)
    with pytest.raises(KafkaTimeoutError, match="listing groups did not succeed in time: host:1 closed"):
        network.list_groups(1.5)
    assert network.asked[-1] > 1.45
    assert len(network.asked) < 20
