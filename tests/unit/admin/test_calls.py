"""Calls of the admin client whose time is up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyconsumer.admin.calls import Calls
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaTimeoutError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.future import RequestFuture
from pyconsumer.network.metadata import Metadata
from pyconsumer.network.waiting import drive
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class Network:
    """Gives the prepared answers, then none; a wait lasts as long as it may."""

    def __init__(self, *answers: RequestFuture[Any]) -> None:
        self.clock = ManualClock()
        self.answers = list(answers)

    def send_any(self, *request: object, **options: object) -> RequestFuture[Any]:
        return self.answers.pop(0) if self.answers else RequestFuture()

    def failures(self) -> str:
        return "TCP connection to host:1 failed"

    def list_groups(self, deadline: float) -> object:
        calls = Calls(
            ADMIN_SETTINGS.build({"bootstrap_servers": "host:1"}), cast(NetworkClient, self), Metadata(), self.clock
        )
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
