"""Fault rules, and responses in which every part has failed."""

from __future__ import annotations

import pytest

from pyconsumer.broker.error_responses import error_response
from pyconsumer.broker.faults import FaultRule, Faults, api_key_of, topics_of
from pyconsumer.broker.handlers import SERVED
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.api_keys import API
from pyconsumer.protocol.messages import load, response_type
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_apis_are_named_as_in_kafka_or_by_number() -> None:
    assert api_key_of("Fetch") == api_key_of("FETCH") == api_key_of(1) == 1
    assert api_key_of("OFFSET_FOR_LEADER_EPOCH") == api_key_of("OffsetForLeaderEpoch") == 23
    with pytest.raises(ConfigurationError):
        api_key_of("Fetsch")


def test_a_rule_is_used_up_after_its_count() -> None:
    faults = Faults()
    rule = faults.add(FaultRule("drop_request", "Fetch", count=2))
    assert [faults.take(1, 0, "", set()) is not None for _ in range(3)] == [True, True, False]
    assert faults.hits(rule) == 2


def test_a_rule_may_be_for_one_node_topic_or_client() -> None:
    faults = Faults()
    faults.add(FaultRule("error", "Produce", node=1, topic="t", client_id="c", count=None))
    assert faults.take(0, 1, "c", {"t", "u"})
    for api, node, client, topics in ((1, 1, "c", {"t"}), (0, 0, "c", {"t"}), (0, 1, "d", {"t"}), (0, 1, "c", {"u"})):
        assert faults.take(api, node, client, topics) is None


def test_the_first_matching_rule_is_used_and_rules_can_be_removed() -> None:
    faults = Faults()
    first = faults.add(FaultRule("delay", 0, count=None))
    faults.add(FaultRule("cut", 0, count=None))
    taken = faults.take(0, 0, "", set())
    assert taken is not None
    assert taken.kind == "delay"
    faults.remove(first)
    taken = faults.take(0, 0, "", set())
    assert taken is not None
    assert taken.kind == "cut"
    faults.clear()
    assert not faults
    with pytest.raises(ConfigurationError):
        faults.add(FaultRule("explode", 0))


def test_topics_are_found_by_name_and_by_id() -> None:
    topic_id = bytes(range(16))
    produce = ProduceRequest(topic_data=[TopicProduceData("a"), TopicProduceData(topic_id=topic_id)])
    assert topics_of(produce, {topic_id: "b"}) == {"a", "b", ""}
    assert topics_of(FetchRequest(topics=[FetchTopic("x")]), {}) == {"x"}
    assert topics_of(DeleteTopicsRequest(topic_names=["p", "q"]), {}) == {"p", "q"}


class TestErrorResponses:
    def test_partitions_are_named_as_in_the_request(self) -> None:
        request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(3)])])
        response = error_response(request, 9, 6)
        part = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        assert (response.responses[0].name, part.index, part.error_code, part.base_offset) == ("t", 3, 6, -1)  # type: ignore[attr-defined]

    def test_a_fetch_fails_as_a_whole_only_for_its_session(self) -> None:
        request = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(2)])], session_id=9)
        response = error_response(request, 12, 6)
        part = response.responses[0].partitions[0]  # type: ignore[attr-defined]
        assert (response.error_code, part.partition_index, part.error_code) == (0, 2, 6)  # type: ignore[attr-defined]
        assert error_response(request, 12, 71).error_code == 71  # type: ignore[attr-defined]
        assert error_response(FetchRequest(), 12, 6).error_code == 6  # type: ignore[attr-defined]

    def test_offsets(self) -> None:
        listed = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(1)])])
        part = error_response(listed, 7, 6).topics[0].partitions[0]  # type: ignore[attr-defined]
        assert (part.partition_index, part.error_code) == (1, 6)
        commit = OffsetCommitRequest(
            topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(4)])]
        )
        part = error_response(commit, 8, 16).topics[0].partitions[0]  # type: ignore[attr-defined]
        assert (part.partition_index, part.error_code) == (4, 16)

    def test_lists_of_names(self) -> None:
        groups = error_response(DescribeGroupsRequest(groups=["g"]), 5, 16).groups  # type: ignore[attr-defined]
        assert [(group.group_id, group.error_code) for group in groups] == [("g", 16)]
        for version, request in (
            (5, DeleteTopicsRequest(topic_names=["p"])),
            (6, DeleteTopicsRequest(topics=[DeleteTopicState("p")])),
        ):
            responses = error_response(request, version, 41).responses  # type: ignore[attr-defined]
            assert [(each.name, each.error_code) for each in responses] == [("p", 41)]

    @pytest.mark.parametrize("api", SERVED, ids=lambda api: API[api].name)
    def test_every_served_api_has_one_in_every_version(self, api: ApiKey) -> None:
        request_class, _ = load(api)
        for version in range(API[api].min_version, API[api].max_version + 1):
            response = error_response(request_class(), version, 16)
            data = response.encode(version)
            assert isinstance(response_type(api).decode(data, version), response_type(api))
