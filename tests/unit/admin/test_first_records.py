"""First records of many partitions: a broker that does not answer costs its own partitions their results."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from pyconsumer.admin import first_records
from pyconsumer.errors import KafkaError, KafkaTimeoutError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client_requests import ClientResponse, RequestTimeoutError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition
from tests.unit.consumer.builders import batch

_SILENT = 2


class World:
    """Brokers of which node 2 does not answer. Partition n has the leader n modulo ``nodes``, plus 1."""

    def __init__(self, nodes: int) -> None:
        self.time = 0.0
        self.most: dict[int, int] = {}
        self.messages: list[Any] = []
        self.gap = 0
        self._flying: list[tuple[int, float, RequestFuture[ClientResponse], Any]] = []
        metadata = Metadata(allow_auto_topic_creation=False)
        metadata.leader = lambda tp: Mock(leader=tp.partition % nodes + 1)  # type: ignore[method-assign,assignment]
        self.calls = Calls(
            self,  # type: ignore[arg-type]
            metadata,
            Mock(now=lambda: self.time),
            request_timeout=30.0,
            backoff=Backoff.ms(100, 1000),
        )

    def send(self, node: int, api: Any, request: Any, *, timeout: float, **_: Any) -> RequestFuture[ClientResponse]:
        future: RequestFuture[ClientResponse] = RequestFuture()
        message = request(12) if callable(request) else request
        self.messages.append(message)
        self._flying.append((node, self.time + timeout, future, message))
        in_flight = [one for one in self._flying if not one[2].done]
        self.most[0] = max(self.most.get(0, 0), len(in_flight))
        self.most[node] = max(self.most.get(node, 0), sum(one[0] == node for one in in_flight))
        return future

    def failures(self) -> str:
        return "node 2 is silent"

    def _answer(self) -> bool:
        """Answer the oldest request. Without one, let the first one time out."""
        pending = [one for one in self._flying if not one[2].done]
        for node, _, future, message in pending:
            if node != _SILENT:
                (topic,) = message.topics
                (part,) = topic.partitions
                data = PartitionData(partition_index=part.partition, records=batch(part.fetch_offset + self.gap, 1))
                parts = [FetchableTopicResponse(topic=topic.topic, partitions=[data])]
                future.complete(ClientResponse(FetchResponse(responses=parts), 12, node, 0.0, 0.0))
                return True
        if pending:
            _, until, future, _ = min(pending, key=lambda one: one[1])
            self.time = max(self.time, until)
            future.fail(RequestTimeoutError("no response"))
        return bool(pending)

    def find(self, offsets: dict[TopicPartition, int], deadline: float = 30.0) -> Any:
        steps = first_records.find(self.calls, offsets, deadline)
        error: KafkaError | None = None
        while True:
            try:
                wait = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            while wait.future is not None and not wait.future.done and self._answer():
                pass
            if wait.future is None or not wait.future.done:
                error = KafkaTimeoutError("the time given has passed")


@pytest.mark.parametrize(("deadline", "bound"), [(30.0, 5.0), (4.0, 2.0)], ids=["5 s", "half of the time"])
def test_a_silent_broker_costs_its_own_partitions_their_results_and_a_bound(deadline: float, bound: float) -> None:
    """It has more partitions than requests at once. Those that wait are given up with the first."""
    world = World(nodes=3)
    offsets = {TopicPartition("t", number): 7 for number in range(300)}
    found, reasons = world.find(offsets, deadline)
    silent = {tp for tp in offsets if tp.partition % 3 + 1 == _SILENT}
    assert set(found) == set(offsets) - silent
    assert reasons == dict.fromkeys(silent, "its leader, node 2: no response")
    assert {(one.offset, one.timestamp) for one in found.values()} == {(7, 1007)}
    assert world.time == pytest.approx(bound, abs=0.01)
    assert world.most[0] <= 64
    assert {world.most[node] for node in (1, 2, 3)} == {64 // 3}


def test_one_broker_gets_all_of_the_requests_in_flight() -> None:
    world = World(nodes=1)
    found, reasons = world.find({TopicPartition("t", number): 0 for number in range(200)})
    assert reasons == {}
    assert len(found) == 200
    assert isinstance(found[TopicPartition("t", 0)], OffsetAndTimestamp)
    assert world.most[1] == 64
    asked = [(one.max_bytes, part) for one in world.messages for topic in one.topics for part in topic.partitions]
    assert sorted(part.partition for _, part in asked) == list(range(200)), "one fetch of each"
    assert {(most, part.partition_max_bytes) for most, part in asked} == {(1, 1)}, "one batch"


def test_a_gap_of_compaction_costs_no_further_fetch() -> None:
    world = World(nodes=1)
    world.gap = 5
    found, reasons = world.find({TopicPartition("t", 0): 7})
    assert reasons == {}
    assert [(one.offset, one.timestamp) for one in found.values()] == [(12, 1012)]
    assert len(world.messages) == 1


def test_without_any_result_the_timeout_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(nodes=3)
    monkeypatch.setattr(world.calls.metadata, "leader", lambda tp: None)
    with pytest.raises(KafkaTimeoutError):
        world.find({TopicPartition("t", 0): 0})
