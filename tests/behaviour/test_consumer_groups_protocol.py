"""The consumer protocol (KIP-848) as raw messages, on the embedded broker and on Apache Kafka: Kafka's answers."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import Errors
from tests.behaviour.raw_consumer_members import ConsumerMember, described, settle
from tests.behaviour.raw_members import Connect
from tests.support.cluster import Cluster


@pytest.fixture
def topic(connect: Connect, group_id: str) -> str:
    """A topic of four partitions that the coordinator knows."""
    name = f"t-{group_id}"
    connect().create_topic(name, partitions=4)
    probe = ConsumerMember(connect, f"{group_id}-probe", name)
    while probe.count < 4:
        assert probe.send().error_code == 0
    probe.leave()
    return name


def test_the_life_of_one_member(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, topic)
    own_id = member.member_id
    joined = member.send()
    assert (joined.error_code, joined.error_message, joined.member_id) == (0, None, own_id)
    assert (joined.member_epoch, joined.heartbeat_interval_ms) == (2, 200), "as the clusters of tests are configured"
    assert [one.partitions for one in joined.assignment.topic_partitions] == [[0, 1, 2, 3]]
    quiet = member.sparse()
    assert (quiet.error_code, quiet.member_epoch, quiet.assignment) == (0, 2, None)
    full = member.send()
    assert (full.member_epoch, full.assignment == joined.assignment) == (2, True)
    found = described(member.client, group_id)
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    (one,) = found.members
    assert (one.member_id, one.member_epoch, one.member_type, one.subscribed_topic_names) == (own_id, 2, 1, [topic])
    assert (one.client_id, one.client_host[:1], one.subscribed_topic_regex or "") == ("raw", "/", "")
    assert [(part.topic_name, part.partitions) for part in one.assignment.topic_partitions] == [(topic, [0, 1, 2, 3])]
    assert one.target_assignment == one.assignment
    left = member.leave()
    assert (left.error_code, left.member_epoch, left.member_id) == (0, -1, own_id)
    found = described(member.client, group_id)
    assert (found.group_state, found.group_epoch, found.members) == ("Empty", 3, [])
    gone = member.sparse(member_epoch=2)
    assert (gone.error_code, gone.error_message) == (
        Errors.UNKNOWN_MEMBER_ID,
        f"Member {own_id} is not a member of group {group_id}.",
    )


def test_a_second_member_gets_the_partitions_that_the_first_revokes(
    connect: Connect, group_id: str, topic: str
) -> None:
    first = ConsumerMember(connect, group_id, topic)
    settle(first)
    first.holds = True
    second = ConsumerMember(connect, group_id, topic)
    while second.epoch < 3:
        second.send()
    assert (second.epoch, second.count) == (3, 0)
    told = first.send()
    assert (told.error_code, told.member_epoch) == (0, 2)
    assert len(told.assignment.topic_partitions[0].partitions) == 2
    assert second.send().assignment.topic_partitions == []
    assert described(first.client, group_id).group_state == "Reconciling"
    first.holds = False
    first.send()
    assert first.count == 2
    assert first.send().member_epoch == 3
    taken = second.send()
    assert (taken.member_epoch, second.count) == (3, 2)
    assert not set(first.owned.values().__iter__().__next__()) & set(next(iter(second.owned.values())))
    assert described(first.client, group_id).group_state == "Stable"


_JOIN_ERRORS: dict[str, tuple[dict[str, Any], Errors, str]] = {
    "no group": ({"group_id": ""}, Errors.INVALID_REQUEST, "GroupId can't be empty."),
    "blank group": ({"group_id": "  "}, Errors.INVALID_REQUEST, "GroupId can't be empty."),
    "no member id": ({"member_id": ""}, Errors.INVALID_REQUEST, "MemberId can't be empty."),
    "no instance": ({"instance_id": ""}, Errors.INVALID_REQUEST, "InstanceId can't be empty."),
    "no rack": ({"rack_id": ""}, Errors.INVALID_REQUEST, "RackId can't be empty."),
    "no timeout": (
        {"rebalance_timeout_ms": -1},
        Errors.INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "owns nothing known": (
        {"topic_partitions": None},
        Errors.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "no subscription": (
        {"subscribed_topic_names": None},
        Errors.INVALID_REQUEST,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "epoch": ({"member_epoch": -3}, Errors.INVALID_REQUEST, "MemberEpoch is invalid."),
    "away without a name": ({"member_epoch": -2}, Errors.INVALID_REQUEST, "InstanceId can't be null."),
    "assignor": (
        {"server_assignor": "sticky"},
        Errors.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    ),
}


@pytest.mark.parametrize("name", _JOIN_ERRORS)
def test_requests_that_are_wrong_by_themselves(connect: Connect, group_id: str, name: str) -> None:
    changes, code, text = _JOIN_ERRORS[name]
    answer = ConsumerMember(connect, group_id, "some-topic").send(**changes)
    assert (answer.error_code, answer.error_message) == (code, text)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)


def test_epochs_from_the_past_and_the_future(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, topic)
    ahead = member.send(member_epoch=5)
    assert (ahead.error_code, ahead.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        f"Consumer group {group_id} not found.",
    )
    settle(member)
    other = ConsumerMember(connect, group_id, topic)
    settle(member, other)
    now = member.epoch
    ahead = member.sparse(member_epoch=now + 1)
    assert (ahead.error_code, ahead.error_message) == (
        Errors.FENCED_MEMBER_EPOCH,
        (
            f"The consumer group member has a greater member epoch ({now + 1}) than the one known by the group "
            f"coordinator ({now}). The member must abandon all its partitions and rejoin."
        ),
    )
    behind = member.sparse(member_epoch=1)
    assert (behind.error_code, behind.error_message) == (
        Errors.FENCED_MEMBER_EPOCH,
        (
            f"The consumer group member has a smaller member epoch (1) than the one known by the group "
            f"coordinator ({now}). The member must abandon all its partitions and rejoin."
        ),
    )
    previous = member.client.request(member.request(member_epoch=member.previous_epoch), 1)
    assert (previous.error_code, previous.member_epoch) == (0, now)
    quiet = member.sparse(member_epoch=member.previous_epoch)
    assert quiet.error_code == Errors.FENCED_MEMBER_EPOCH
    again = member.client.request(member.request(member_epoch=0, topic_partitions=[]), 1)
    assert (again.error_code, again.member_epoch, again.assignment is None) == (0, now, False)


def test_a_static_member_leaves_for_a_while(connect: Connect, group_id: str, topic: str) -> None:
    first = ConsumerMember(connect, group_id, topic, instance="one")
    second = ConsumerMember(connect, group_id, topic, instance="two")
    settle(first, second)
    claim = ConsumerMember(connect, group_id, topic, instance="one")
    refused = claim.send()
    assert (refused.error_code, refused.error_message) == (
        Errors.UNRELEASED_INSTANCE_ID,
        (
            f"Static member {claim.member_id} with instance id one cannot join the group because the instance id is "
            f"owned by {first.member_id} member."
        ),
    )
    owned, epoch = dict(first.owned), first.epoch
    left = first.leave(-2)
    assert (left.error_code, left.member_epoch) == (0, -2)
    found = described(second.client, group_id)
    away = next(one for one in found.members if one.instance_id == "one")
    assert (away.member_epoch, found.group_epoch) == (-2, epoch)
    back = claim.send()
    assert (back.error_code, back.member_epoch, claim.owned) == (0, epoch, owned)
    assert described(second.client, group_id).group_epoch == epoch
    fenced = first.sparse(member_epoch=epoch, instance_id="one")
    assert (fenced.error_code, fenced.error_message) == (
        Errors.FENCED_INSTANCE_ID,
        f"Static member {first.member_id} with instance id one was fenced by member {claim.member_id}.",
    )
    unknown = first.sparse(member_epoch=epoch, instance_id="three")
    assert (unknown.error_code, unknown.error_message) == (Errors.UNKNOWN_MEMBER_ID, "Instance id three is unknown.")


def test_regular_expressions(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, regex=f"t-{group_id}.*")
    member.topics = None
    assert member.send().error_code == 0
    settle(member)
    while member.count == 0:
        assert member.send().error_code == 0
    found = described(member.client, group_id)
    assert (found.members[0].subscribed_topic_regex, found.members[0].subscribed_topic_names) == (member.regex, [])
    assert [one.topic_name for one in found.members[0].assignment.topic_partitions] == [topic]
    for wrong in ("a(", "[b", "*", "(?=x)", r"\1", "a**", "x{1001}"):
        refused = ConsumerMember(connect, group_id, regex=wrong).send()
        assert refused.error_code == Errors.INVALID_REGULAR_EXPRESSION, wrong
        assert refused.error_message.startswith(f"SubscribedTopicRegex `{wrong}` is not a valid regular expression: ")


def test_partitions_are_added_and_a_topic_is_recreated(connect: Connect, group_id: str, topic: str) -> None:
    client = connect()
    member = ConsumerMember(connect, group_id, topic, f"{topic}-later")
    settle(member)
    while member.count < 4:
        assert member.send().error_code == 0
    client.create_topic(f"{topic}-later", partitions=3)
    while member.count < 7:
        assert member.send().error_code == 0
    client.delete_topic(topic)
    while member.count > 3:
        assert member.send().error_code == 0
    client.create_topic(topic, partitions=2)
    while member.count < 5:
        assert member.send().error_code == 0
    settle(member)


def test_range_and_a_vote_for_the_assignor(connect: Connect, group_id: str, topic: str) -> None:
    members = [ConsumerMember(connect, group_id, topic, assignor="range", instance=name) for name in ("b", "a", "c")]
    found = settle(*members)
    assert found.assignor_name == "range"
    by_instance = {one.instance_id: one.target_assignment.topic_partitions[0].partitions for one in found.members}
    assert by_instance == {"a": [0, 1], "b": [2], "c": [3]}


def test_the_member_id_of_version_0_is_made_by_the_broker(cluster: Cluster, connect: Connect, group_id: str) -> None:
    member = ConsumerMember(connect, group_id, "no-such-topic")
    member.member_id = ""
    answer = member.send(0)
    assert (answer.error_code, len(answer.member_id) >= 22, answer.assignment.topic_partitions) == (0, True, [])
