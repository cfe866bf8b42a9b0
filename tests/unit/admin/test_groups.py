"""Calls for many groups: a coordinator that is missing, or that does not answer, costs its own groups their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any
from unittest.mock import Mock

import pytest

from pyconsumer.admin import ShareOffset, groups, share_groups
from pyconsumer.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from pyconsumer.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pyconsumer.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

Answer = Callable[[int, ApiKey, Any], "RequestFuture[ClientResponse]"]


class World:
    """Calls whose coordinators and answers are given. Time passes with each wait."""

    def __init__(self, coordinators: list[dict[str, int | KafkaError]], answer: Answer) -> None:
        self.time = 0.0
        self.rounds: list[list[str]] = []
        self._coordinators = iter(coordinators)
        self._answer = answer

        metadata = Metadata(allow_auto_topic_creation=False)
        metadata.broker = lambda node: BrokerMetadata(node, "localhost", 1)  # type: ignore[method-assign,assignment]
        self.calls = Calls(
            self,  # type: ignore[arg-type]
            metadata,
            Mock(now=lambda: self.time),
            request_timeout=5.0,
            backoff=Backoff.ms(100, 1000),
        )
        self.calls.coordinators = self._found  # type: ignore[method-assign]

    def _found(self, wanted: list[str], deadline: float) -> Steps[dict[str, int | KafkaError]]:
        self.rounds.append(list(wanted))
        found = next(self._coordinators)
        yield from ()
        return {name: found[name] for name in wanted}

    def send(self, node: int, api: ApiKey, request: Any, **_: Any) -> RequestFuture[ClientResponse]:
        return self._answer(node, api, request)

    def failures(self) -> str:
        return "node 2 is silent"

    def run(self, steps: Generator[Wait, None, Any], deadline: float = 30.0) -> Any:
        """Run steps as a driver does: at the deadline, the wait raises."""
        error: KafkaError | None = None
        while True:
            try:
                wait = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            assert error is None or wait.future is None, "nothing is waited for after the deadline"
            if self.time >= deadline:
                error = KafkaTimeoutError("the time given has passed")
            else:
                self.time = min(deadline, wait.until if math.isfinite(wait.until) else deadline)


def described(*names: str) -> RequestFuture[ClientResponse]:
    groups_of = [DescribedGroup(group_id=name, group_state="Empty", protocol_type="consumer") for name in names]
    return RequestFuture.of(ClientResponse(DescribeGroupsResponse(groups=groups_of), 5, 1, 0.0, 0.0))


def test_a_group_without_a_coordinator_is_asked_for_again_and_holds_up_no_other() -> None:
    missing = CoordinatorNotAvailableError("no leader")
    world = World([{"a": 1, "b": missing}, {"b": 1}], lambda node, api, request: described(*request.groups))
    found = world.run(groups.describe_all(world.calls, ["a", "b"], 30.0))
    assert {name: one.state for name, one in found.items()} == {"a": "Empty", "b": "Empty"}
    assert world.rounds == [["a", "b"], ["b"]]


def test_at_the_deadline_the_others_have_their_results() -> None:
    def silent(node: int, api: ApiKey, request: Any) -> RequestFuture[ClientResponse]:
        return RequestFuture() if node == 2 else described(*request.groups)

    world = World([{"a": 1, "b": 2, "c": 2, "d": 3}], silent)
    found = world.run(groups.describe_all(world.calls, ["a", "b", "c", "d"], 30.0))
    assert [found[name].state for name in ("a", "d")] == ["Empty", "Empty"]
    for name in ("b", "c"):
        assert isinstance(found[name], KafkaTimeoutError)
    assert "node 2 is silent" in str(found["b"])


def test_a_refused_request_is_the_result_of_its_groups() -> None:
    def refusing(node: int, api: ApiKey, request: Any) -> RequestFuture[ClientResponse]:
        if node == 2:
            return RequestFuture.failure(GroupAuthorizationFailedError("no"))
        return described(*request.groups)

    world = World([{"a": 1, "b": 2}], refusing)
    found = world.run(groups.describe_all(world.calls, ["a", "b"], 30.0))
    assert found["a"].state == "Empty"
    assert isinstance(found["b"], GroupAuthorizationFailedError)


def test_one_old_coordinator_is_asked_group_by_group_for_offsets() -> None:
    tp = TopicPartition("t", 0)
    sent: list[tuple[int, int]] = []

    def answer(node: int, api: ApiKey, build: Any) -> RequestFuture[ClientResponse]:
        try:
            request = build(8 if node == 1 else 7)
        except ValueError:  # several groups in a request of before 8: the client would not have sent it
            return RequestFuture.failure(UnsupportedVersionError("OffsetFetch 8 is needed"))
        partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=5)
        names = [group.group_id for group in request.groups] if node == 1 else [request.group_id]
        sent.append((node, len(names)))
        topics = [OffsetFetchResponseTopics(name="t", partitions=[partition])]
        if node == 1:
            response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=n, topics=topics) for n in names])
        else:
            response = OffsetFetchResponse(topics=topics)  # type: ignore[arg-type]
        return RequestFuture.of(ClientResponse(response, 8, node, 0.0, 0.0))

    world = World([{"a": 1, "b": 1, "c": 2, "d": 2}, {"c": 2, "d": 2}], answer)
    found = world.run(groups.offsets_of(world.calls, dict.fromkeys("abcd"), 30.0))
    assert found == {name: {tp: OffsetAndMetadata(5)} for name in "abcd"}
    assert sent == [(1, 2), (2, 1), (2, 1)]


@pytest.mark.parametrize("coordinators", [[{"a": GroupAuthorizationFailedError("no"), "b": 1}]])
def test_the_error_of_a_lookup_is_the_result_of_its_group(coordinators: list[dict[str, Any]]) -> None:
    world = World(coordinators, lambda node, api, request: described(*request.groups))
    found = world.run(groups.describe_all(world.calls, ["a", "b"], 30.0))
    assert isinstance(found["a"], GroupAuthorizationFailedError)
    assert found["b"].state == "Empty"


def test_the_offsets_of_many_share_groups_are_one_request_to_each_coordinator() -> None:
    sent: list[tuple[int, list[str]]] = []

    def answer(node: int, api: ApiKey, request: Any) -> RequestFuture[ClientResponse]:
        assert api is ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
        names = [group.group_id for group in request.groups]
        sent.append((node, names))
        partitions = [
            DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=5, lag=2),
            DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=-1, lag=-1),
        ]
        topics = [DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=partitions)]
        found = [
            DescribeShareGroupOffsetsResponseGroup(group_id=name, topics=topics, error_code=30 * (name == "c"))
            for name in names
            if name != "d"
        ]
        return RequestFuture.of(ClientResponse(DescribeShareGroupOffsetsResponse(groups=found), 1, node, 0.0, 0.0))

    world = World([{"a": 1, "b": 2, "c": 1, "d": 2, "e": 1}], answer)
    found = world.run(share_groups.offsets_of(world.calls, dict.fromkeys("abcde"), 30.0))
    assert sorted(sent) == [(1, ["a", "c", "e"]), (2, ["b", "d"])]
    assert [found[name] for name in "abe"] == [{TopicPartition("t", 0): ShareOffset(5, 0, 2)}] * 3
    assert isinstance(found["c"], GroupAuthorizationFailedError)
    assert isinstance(found["d"], ProtocolError)
