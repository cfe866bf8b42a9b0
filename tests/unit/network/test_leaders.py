"""Requests to the leaders of partitions, some of which fail: a scripted cluster, no socket."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from pyconsumer.admin import topics
from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaConnectionError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, Steps, drive
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest, metadata_response

TP = TopicPartition("t", 0)


class Network(FakeNetwork):
    """Node 1 leads the partition and does not answer. Node 2 answers, and leads it as soon as metadata is requested.

    Args:
        left: the nodes in metadata from then on.
        leader: the new leader.
        retries: of a call.
    """

    def __init__(self, left: tuple[int, ...] = (2,), leader: int = 2, retries: float = math.inf) -> None:
        super().__init__(ManualClock(), respond=self._respond)
        self.metadata = Metadata()
        self.asked: list[int] = []
        self._left, self._leader = left, leader
        self.calls = Calls(
            cast(NetworkClient, self),
            self.metadata,
            self.clock,
            request_timeout=30.0,
            backoff=Backoff(0.1, 1.0),
            retries=retries,
        )
        self.metadata.add_topic("t")
        self._metadata_arrives((1, 2), 1, 1)

    def _metadata_arrives(self, nodes: tuple[int, ...], leader: int, epoch: int) -> None:
        response = metadata_response({"t": {0: (leader, epoch)}}, nodes=nodes)
        self.metadata.update(response, 12, self.clock.now())

    def _respond(self, sent: SentRequest) -> None:
        assert sent.node is not None
        self.asked.append(sent.node)
        if sent.node == 1:
            sent.fail(KafkaConnectionError("connection to host:1 lost"))
        elif isinstance(sent.request, ListOffsetsRequest):
            offsets = ListOffsetsPartitionResponse(partition_index=0, offset=7)
            sent.answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[offsets])]))
        else:
            deleted = DeleteRecordsPartitionResult(partition_index=0, low_watermark=7)
            sent.answer(DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=[deleted])]))

    def ask(self, question: Callable[[Calls, float], Steps[Any]]) -> Any:
        deadline = self.clock.now() + 60.0
        return drive(question(self.calls, deadline), deadline, self._poll, self.clock.now)

    def _poll(self, until: float, future: RequestFuture[Any] | None) -> None:
        self.clock.advance_to(until)
        if self.metadata.update_requested:
            self._metadata_arrives(self._left, self._leader, 2)


QUESTIONS: dict[str, tuple[Callable[[Calls, float], Steps[Any]], Any]] = {
    "list_offsets": (
        lambda calls, deadline: calls.list_offsets({TP: -1}, deadline),
        {TP: OffsetAndTimestamp(7, -1, -1)},
    ),
    "delete_records": (lambda calls, deadline: topics.delete_before(calls, {TP: 7}, deadline), {TP: 7}),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("left", [(2,), (1, 2)], ids=["gone", "still listed"])
def test_the_new_leader_is_used_when_the_old_one_fails(question: str, left: tuple[int, ...]) -> None:
    network = Network(left)
    ask, expected = QUESTIONS[question]

    assert network.ask(ask) == expected
    assert network.asked == [1, 2]
    assert network.clock.now() < 1.0


def test_without_another_leader_the_call_times_out_with_the_last_error() -> None:
    network = Network((1, 2), leader=1)
    with pytest.raises(
        KafkaTimeoutError, match="no response for 1 partitions in time, last error: connection to host:1"
    ):
        network.ask(QUESTIONS["list_offsets"][0])
    assert set(network.asked) == {1}
    assert network.clock.now() <= 60.0


def test_attempts_are_counted() -> None:
    network = Network((1, 2), leader=1, retries=2)
    with pytest.raises(KafkaConnectionError, match="host:1 lost"):
        network.ask(QUESTIONS["list_offsets"][0])
    assert network.asked == [1, 1, 1]
