"""Builders of requests and readers of responses, at every version."""

from __future__ import annotations

import pytest

from pyconsumer.errors import CoordinatorNotAvailableError, Errors, KafkaError
from pyconsumer.protocol.messages.fetch import FetchRequest
from pyconsumer.protocol.messages.find_coordinator import (
    FIRST_VERSION_WITH_KEYS,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.requests.fetch import FetchSettings, fetch_request, newest_version
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.protocol.requests.list_offsets import first_version, list_offsets_request, read_offsets
from pyconsumer.structs import BrokerMetadata, OffsetAndTimestamp, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FIND_VERSIONS = range(FindCoordinatorRequest.MIN_VERSION, FindCoordinatorRequest.MAX_VERSION + 1)
LIST_VERSIONS = range(ListOffsetsRequest.MIN_VERSION, ListOffsetsRequest.MAX_VERSION + 1)


def found(version: int, code: int = 0) -> FindCoordinatorResponse:
    if version < FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorResponse(node_id=1, host="one", port=9092, error_code=code)
    entry = Coordinator(key="g", node_id=1, host="one", port=9092, error_code=code)
    return FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=7), entry])


@pytest.mark.parametrize("version", FIND_VERSIONS)
def test_find_coordinator_at_every_version(version: int) -> None:
    sent = FindCoordinatorRequest.decode(find_coordinator_request("g", version).encode(version), version)
    assert [sent.key, *sent.coordinator_keys] == (["", "g"] if version >= FIRST_VERSION_WITH_KEYS else ["g"])
    response = FindCoordinatorResponse.decode(found(version).encode(version), version)
    assert read_coordinator("g", version, response) == BrokerMetadata(1, "one", 9092)


@pytest.mark.parametrize("version", FIND_VERSIONS)
def test_find_coordinator_raises_the_error_of_the_response(version: int) -> None:
    with pytest.raises(KafkaError, match="group g") as caught:
        read_coordinator("g", version, found(version, Errors.GROUP_AUTHORIZATION_FAILED))
    assert not caught.value.retriable


def test_find_coordinator_rejects_a_response_without_the_group() -> None:
    with pytest.raises(CoordinatorNotAvailableError, match="does not name group g"):
        read_coordinator("g", FIRST_VERSION_WITH_KEYS, FindCoordinatorResponse())


@pytest.mark.parametrize("version", LIST_VERSIONS)
def test_list_offsets_at_every_version(version: int) -> None:
    request = list_offsets_request({A0: -1, B0: 5, A1: -2})
    sent = ListOffsetsRequest.decode(request.encode(version), version)
    assert [(t.name, [(p.partition_index, p.timestamp) for p in t.partitions]) for t in sent.topics] == [
        ("a", [(0, -1), (1, -2)]),
        ("b", [(0, 5)]),
    ]
    items = [
        ListOffsetsPartitionResponse(0, Errors.NOT_LEADER_OR_FOLLOWER, -1, -1),
        ListOffsetsPartitionResponse(1, 0, 1234, 7),
    ]
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=items)])
    assert read_offsets(ListOffsetsResponse.decode(answer.encode(version), version)) == {
        A0: (Errors.NOT_LEADER_OR_FOLLOWER, None),
        A1: (0, OffsetAndTimestamp(7, 1234)),
    }


def test_list_offsets_needs_the_version_that_can_express_the_request() -> None:
    assert (first_version({A0: 5}), first_version({A0: 5}, 1), first_version({A0: 5, A1: -3})) == (1, 2, 7)


@pytest.mark.parametrize("version", range(FetchRequest.MIN_VERSION, FetchRequest.MAX_VERSION + 1))
def test_a_fetch_at_every_version(version: int) -> None:
    settings = FetchSettings(500, 1, 1 << 20, read_committed=True)
    asked = [(A0, (b"A" * 16, 7, 1000, 3)), (B0, (b"B" * 16, 8, 2000, -1)), (A1, (b"A" * 16, 9, 3000, 4))]
    request = fetch_request(settings, asked)
    read = FetchRequest.decode(request.encode(version), version)

    assert (read.max_wait_ms, read.min_bytes, read.max_bytes, read.isolation_level) == (500, 1, 1 << 20, 1)
    if version >= 13:
        assert [bytes(topic.topic_id) for topic in read.topics] == [b"A" * 16, b"B" * 16]
    else:
        assert [topic.topic for topic in read.topics] == ["a", "b"]
    found = [
        (entry.partition, entry.fetch_offset, entry.partition_max_bytes, entry.current_leader_epoch)
        for topic in read.topics
        for entry in topic.partitions
    ]
    epochs = (3, 4, -1) if version >= 9 else (-1, -1, -1)
    assert found == [(0, 7, 1000, epochs[0]), (1, 9, 3000, epochs[1]), (0, 8, 2000, epochs[2])]


def test_a_fetch_uses_topic_names_if_an_id_is_missing() -> None:
    assert newest_version([b"A" * 16, b"B" * 16]) is None
    assert newest_version([b"A" * 16, ZERO_UUID]) == 12


@pytest.mark.parametrize("version", range(ListOffsetsRequest.MIN_VERSION, ListOffsetsRequest.MAX_VERSION + 1))
def test_list_offsets_has_the_given_leader_epochs(version: int) -> None:
    request = list_offsets_request({A0: -1, A1: -1}, leader_epochs={A0: 5})
    (topic,) = ListOffsetsRequest.decode(request.encode(version), version).topics
    expected = [5, -1] if version >= 4 else [-1, -1]
    assert [entry.current_leader_epoch for entry in topic.partitions] == expected
