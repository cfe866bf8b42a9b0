"""OffsetCommit and OffsetFetch at every version: the request, and the decoded response."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.requests.offsets import (
    LAST_VERSION_WITH_NAMES,
    offset_commit_request,
    offset_fetch_request,
    read_offset_commit,
    read_offset_fetch,
    topic_ids,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": b"A" * 16, "b": b"B" * 16}
COMMIT_VERSIONS = range(OffsetCommitRequest.MIN_VERSION, OffsetCommitRequest.MAX_VERSION + 1)
FETCH_VERSIONS = range(OffsetFetchRequest.MIN_VERSION, OffsetFetchRequest.MAX_VERSION + 1)


def test_version_2_has_the_bytes_that_kafka_writes() -> None:
    request = offset_commit_request(
        2,
        group_id="consumerGroupId",
        generation_id=1,
        member_id="C0-1",
        group_instance_id=None,
        offsets={TopicPartition("topic-offsets", 30): OffsetAndMetadata(2130, None)},  # type: ignore[arg-type]
        ids=None,
    )
    assert request.encode(2).hex() == (
        "000f636f6e73756d657247726f7570496400000001000443302d31ffffffffffffffff00000001000d746f7069632d6f666673657473"
        "000000010000001e00000000000008520000"
    )


@pytest.mark.parametrize(("version", "follows"), [(2, b"\xff" * 8), (4, b"\xff" * 8), (5, b"")])
def test_the_retention_is_the_brokers_default_and_absent_from_version_5_on(version: int, follows: bytes) -> None:
    request = offset_commit_request(
        version, group_id="g", generation_id=1, member_id="m", group_instance_id=None, offsets={}, ids=None
    )
    assert request.encode(version) == b"\0\1g" + b"\0\0\0\1" + b"\0\1m" + follows + b"\0\0\0\0"


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_has_the_fields_of_its_version(version: int) -> None:
    offsets = {A0: OffsetAndMetadata(5, "m", 3), B0: OffsetAndMetadata(7), A1: OffsetAndMetadata(6)}
    request = offset_commit_request(
        version,
        group_id="g",
        generation_id=4,
        member_id="me",
        group_instance_id="i" if version >= 7 else None,
        offsets=offsets,
        ids=IDS,
    )
    read = OffsetCommitRequest.decode(request.encode(version), version)
    assert (read.group_id, read.generation_id_or_member_epoch, read.member_id) == ("g", 4, "me")
    if version < 10:
        assert [topic.name for topic in read.topics] == ["a", "b"]
    else:
        assert [bytes(topic.topic_id) for topic in read.topics] == [IDS["a"], IDS["b"]]
    first, second = read.topics[0].partitions
    assert (first.partition_index, first.committed_offset, first.committed_metadata) == (0, 5, "m")
    assert first.committed_leader_epoch == (3 if version >= 6 else -1)
    assert (second.partition_index, second.committed_offset, second.committed_metadata) == (1, 6, "")


def test_a_consumer_without_a_group_names_no_member() -> None:
    request = offset_commit_request(
        8, group_id="g", group_instance_id=None, offsets={A0: OffsetAndMetadata(1)}, ids=None
    )
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_each_partition_of_a_commit_has_its_code(version: int) -> None:
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="a",
                topic_id=IDS["a"],
                partitions=[
                    OffsetCommitResponsePartition(partition_index=0, error_code=0),
                    OffsetCommitResponsePartition(partition_index=1, error_code=12),
                ],
            )
        ]
    )
    read = OffsetCommitResponse.decode(response.encode(version), version)
    assert read_offset_commit(version, read, IDS) == {A0: 0, A1: 12}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_offset_fetch_has_partitions_of_one_group(version: int) -> None:
    request = offset_fetch_request(version, group_id="g", partitions=[B0, A1, A0], ids=IDS)
    read = OffsetFetchRequest.decode(request.encode(version), version)
    assert read.require_stable is (version >= 7)
    if version < 8:
        assert read.group_id == "g"
        assert [(t.name, t.partition_indexes) for t in read.topics or ()] == [("a", [0, 1]), ("b", [0])]
    else:
        (group,) = read.groups
        assert group.group_id == "g"
        key = [t.name if version < 10 else bytes(t.topic_id) for t in group.topics or ()]
        assert key == (["a", "b"] if version < 10 else [IDS["a"], IDS["b"]])
        assert [t.partition_indexes for t in group.topics or ()] == [[0, 1], [0]]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetched_offsets_of_every_version(version: int) -> None:
    entries = [(0, 5, 3, "m", 0), (1, -1, -1, "", 0), (2, -1, -1, "", 88)]
    if version < 8:
        response = OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name="a",
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=p, committed_offset=o, committed_leader_epoch=e, metadata=m, error_code=c
                        )
                        for p, o, e, m, c in entries
                    ],
                )
            ],
            error_code=14 if version >= 2 else 0,
        )
    else:
        topic = OffsetFetchResponseTopics(
            name="a",
            topic_id=IDS["a"],
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=p, committed_offset=o, committed_leader_epoch=e, metadata=m, error_code=c
                )
                for p, o, e, m, c in entries
            ],
        )
        other = OffsetFetchResponseGroup(group_id="other")
        mine = OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=14)
        response = OffsetFetchResponse(groups=[other, mine])
    read = OffsetFetchResponse.decode(response.encode(version), version)
    found = read_offset_fetch(version, read, group_id="g", ids=IDS)
    assert found.offsets == {A0: OffsetAndMetadata(5, "m", 3 if version >= 5 else -1), A1: None}
    assert found.errors == {TopicPartition("a", 2): 88}
    assert found.error_code == (14 if version >= 2 else 0)


def test_responses_about_other_partitions_are_protocol_errors() -> None:
    with pytest.raises(ProtocolError, match="lacks group"):
        read_offset_fetch(8, OffsetFetchResponse(), group_id="g", ids=IDS)
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id=b"?" * 16)])
    response.topics[0].partitions.append(OffsetCommitResponsePartition(partition_index=0))
    with pytest.raises(ProtocolError, match="topic id"):
        read_offset_commit(10, response, IDS)


def test_topic_ids_are_used_if_all_are_known() -> None:
    assert topic_ids({"a"}, lambda topic: IDS[topic]) == {"a": IDS["a"]}
    assert topic_ids({"a", "b"}, lambda topic: IDS[topic] if topic == "a" else ZERO_UUID) is None
    assert LAST_VERSION_WITH_NAMES == 9
