"""The settings of the share group that a member reads."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.group_settings import REFRESH_S, GroupSettings
from pyconsumer.errors import Errors, KafkaConnectionError
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


class World:
    """A group's settings, a clock, and a client that keeps requests."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self.time = 100.0
        self.sent: list[tuple[Any, RequestFuture[Any]]] = []
        config = SHARE_CONSUMER_SETTINGS.build(
            {"bootstrap_servers": "b:1", "group_id": "g", "share_delivery_count_limit": 7}
        )
        context: Any = ShareContext(config, self, None, self)  # type: ignore[arg-type]
        self.group = GroupSettings(context)
        if is_wanted:
            self.group.want()

    def now(self) -> float:
        return self.time

    def send_any(self, api: object, request: Any) -> RequestFuture[Any]:
        future: RequestFuture[Any] = RequestFuture()
        self.sent.append((request, future))
        return future

    def respond(self, code: int = 0, **values: str) -> None:
        configs = [DescribeConfigsResourceResult(name.replace("_", "."), value) for name, value in values.items()]
        result = DescribeConfigsResult(code, "no", 32, "g", configs)
        self.sent.pop(0)[1].complete(ClientResponse(DescribeConfigsResponse(0, [result]), 4, 1, 0.0, 0.0))


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_asked_while_nothing_needs_the_settings() -> None:
    world = World(is_wanted=False)
    assert world.group.is_settled
    assert not world.group.refresh()


def test_they_are_read_at_the_start_and_every_five_minutes(world: World) -> None:
    assert not world.group.is_settled
    assert world.group.refresh()
    assert not world.group.refresh(), "one request at a time"
    (resource,) = world.sent[0][0].resources
    assert (resource.resource_type, resource.resource_name) == (32, "g")
    world.respond(share_delivery_count_limit="3", share_renew_acknowledge_enable="false")
    assert world.group.is_settled
    assert (world.group.delivery_limit, world.group.renews) == (3, False)
    world.time += REFRESH_S - 1
    assert not world.group.refresh()
    world.time += 1
    assert world.group.refresh()
    world.respond(share_delivery_count_limit="9")
    assert (world.group.delivery_limit, world.group.renews) == (9, True)


def test_without_the_right_to_read_them_the_setting_of_the_consumer_is_used(world: World) -> None:
    world.group.refresh()
    world.respond(Errors.GROUP_AUTHORIZATION_FAILED)
    assert world.group.is_settled
    assert (world.group.delivery_limit, world.group.renews) == (7, True)
    world.time += REFRESH_S - 1
    assert not world.group.refresh()


def test_a_broker_that_does_not_know_the_setting_leaves_that_of_the_consumer(world: World) -> None:
    world.group.refresh()
    world.respond(share_session_timeout_ms="45000", share_delivery_count_limit="many")
    assert world.group.delivery_limit == 7


def test_after_an_error_that_passes_they_are_read_again_soon_and_the_last_answer_stays(world: World) -> None:
    world.group.refresh()
    world.respond(share_delivery_count_limit="3")
    world.time += REFRESH_S
    world.group.refresh()
    world.sent.pop(0)[1].fail(KafkaConnectionError("lost"))
    assert world.group.delivery_limit == 3
    world.time += 6
    assert world.group.refresh()
