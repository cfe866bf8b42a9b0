"""Ends of logs: a leader that is silent, lost or moved costs its own partitions theirs, and others wait for no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from pyconsumer.admin import log_ends
from pyconsumer.errors import Errors, KafkaConnectionError, RequestTimedOutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import metadata_response

_T = [TopicPartition("t", number) for number in range(4)]


class World:
    """Partition n has the leader n, and the end 10 n. The time passes when nothing else can happen."""

    def __init__(self) -> None:
        self.time = 0.0
        self.silent: set[int] = set()
        self.lost: set[int] = set()
        self.codes: dict[int, int] = {}
        self.leaders = {tp: tp.partition for tp in _T}
        self.updates: list[Callable[[], object]] = [lambda: None]
        self.asked: list[tuple[float, int]] = []
        self._flying: list[tuple[float, RequestFuture[ClientResponse]]] = []
        self.metadata = Metadata(allow_auto_topic_creation=False)
        self.metadata.leader = self._leader  # type: ignore[method-assign,assignment]
        self.calls = Calls(
            self,  # type: ignore[arg-type]
            self.metadata,
            Mock(now=lambda: self.time),
            request_timeout=30.0,
            backoff=Backoff.ms(100, 1000),
        )

    def _leader(self, tp: TopicPartition) -> Any:
        node = self.leaders.get(tp)
        return None if node is None else Mock(leader=node, leader_epoch=0)

    def send(self, node: int, api: Any, request: Any, *, timeout: float, **_: Any) -> RequestFuture[ClientResponse]:
        self.asked.append((self.time, node))
        future: RequestFuture[ClientResponse] = RequestFuture()
        message = request(7) if callable(request) else request
        if node in self.lost:
            future.fail(KafkaConnectionError("refused"))
        elif node in self.silent:
            self._flying.append((self.time + timeout, future))
        else:
            parts = [
                ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=self.codes.get(one.partition_index, 0),
                    offset=10 * one.partition_index,
                )
                for topic in message.topics
                for one in topic.partitions
            ]
            found = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=parts)])
            future.complete(ClientResponse(found, 7, node, 0.0, 0.0))
        return future

    def failures(self) -> str:
        return ""

    def find(self, deadline: float = 30.0) -> log_ends.LogEnds:
        steps = log_ends.find(self.calls, _T, deadline)
        while True:
            try:
                wait = next(steps)
            except StopIteration as stop:
                found: log_ends.LogEnds = stop.value
                return found
            if self.updates:
                self.updates.pop(0)()
                self.metadata.update(metadata_response({}), 12, self.time)
                continue
            flying = [one for one in self._flying if not one[1].done]
            self.time = min([wait.until, *(until for until, _ in flying)])
            for until, future in flying:
                if until <= self.time:
                    future.fail(RequestTimedOutError("no response"))


def test_each_leader_is_asked_once() -> None:
    world = World()
    assert world.find() == ({tp: 10 * tp.partition for tp in _T}, {})
    assert world.asked == [(0.0, node) for node in range(4)]


@pytest.mark.parametrize(("deadline", "bound"), [(30.0, 5.0), (2.0, 2.0)])
def test_a_frozen_leader_costs_a_bound_and_its_own_partitions_alone(deadline: float, bound: float) -> None:
    world = World()
    world.silent = {0, 2}  # the first of the leaders, too
    found = world.find(deadline)
    assert found.ends == {_T[1]: 10, _T[3]: 30}
    assert {tp: text.partition(": ")[0] for tp, text in found.reasons.items()} == {
        _T[0]: "its leader, node 0",
        _T[2]: "its leader, node 2",
    }
    assert world.asked == [(0.0, node) for node in range(4)], "all at once, and once"
    assert world.time == pytest.approx(bound)


def test_a_leader_that_has_moved_or_was_lost_is_looked_for_in_the_time_of_all() -> None:
    world = World()
    world.codes = {0: Errors.NOT_LEADER_OR_FOLLOWER}
    world.lost = {1}
    world.silent = {2}

    def moves() -> None:
        world.codes = {}
        world.leaders[_T[1]] = 3

    world.updates.append(moves)
    found = world.find()
    assert found.ends == {_T[0]: 0, _T[1]: 10, _T[3]: 30}
    assert list(found.reasons) == [_T[2]]
    assert [one for one in world.asked if one[0]] == [(0.1, 0), (0.1, 3)], "the silent one is not waited for"
    assert world.time == log_ends.LONGEST_S


def test_what_cannot_be_read_has_a_reason() -> None:
    world = World()
    world.codes = {0: Errors.TOPIC_AUTHORIZATION_FAILED, 1: Errors.NOT_LEADER_OR_FOLLOWER}
    del world.leaders[_T[2]]
    world.lost = {3}
    found = world.find()
    assert found.ends == {}
    assert found.reasons[_T[0]].startswith("TOPIC_AUTHORIZATION_FAILED")
    assert found.reasons[_T[1]].startswith("NOT_LEADER_OR_FOLLOWER")
    assert found.reasons[_T[2]] == "the partition has no leader"
    assert found.reasons[_T[3]].startswith("its leader, node 3: ")
    assert world.time < log_ends.LONGEST_S
    assert [round(at, 1) for at, node in world.asked if node == 3] == [0, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5]
