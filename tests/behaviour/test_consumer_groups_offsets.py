"""Offsets of consumer groups by members and others, and their settings: raw messages on both brokers (KIP-848)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_config_resources import ListConfigResourcesRequest
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.behaviour.raw_consumer_members import ConsumerMember, settle
from tests.behaviour.raw_members import Connect, topic_id_of
from tests.support.raw_client import RawClient

GROUP = 32


@pytest.fixture
def topic(connect: Connect, group_id: str) -> str:
    """A topic of two partitions that the coordinator knows."""
    name = f"t-{group_id}"
    connect().create_topic(name, partitions=2)
    probe = ConsumerMember(connect, f"{group_id}-probe", name)
    while probe.count < 2:
        assert probe.send().error_code == 0
    probe.leave()
    return name


def commit(
    client: RawClient, group: str, topic: str, member_id: str, epoch: int, version: int, partition: int = 0
) -> int:
    """Commit offset 5 of a partition and return the error code."""
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)
    named = OffsetCommitRequestTopic(name=topic, topic_id=topic_id_of(client, topic), partitions=[part])
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member_id, topics=[named]
    )
    code: int = client.request(request, version).topics[0].partitions[0].error_code
    return code


def fetch(client: RawClient, group: str, topic: str, member_id: str | None, epoch: int, version: int) -> Any:
    """Return the result of OffsetFetch for partition 0: the group's error code, the offset."""
    named = OffsetFetchRequestTopics(name=topic, topic_id=topic_id_of(client, topic), partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch, topics=[named])
    (found,) = client.request(OffsetFetchRequest(groups=[asked]), version).groups
    return found.error_code, [one.committed_offset for part in found.topics for one in part.partitions]


@pytest.mark.parametrize("version", [9, 10])
def test_commits_of_members(connect: Connect, group_id: str, topic: str, version: int) -> None:
    member = ConsumerMember(connect, group_id, topic)
    settle(member)
    client, own = member.client, member.member_id
    assert commit(client, group_id, topic, own, member.epoch, version) == 0
    assert fetch(client, group_id, topic, own, member.epoch, version) == (0, [5])
    assert fetch(client, group_id, topic, None, -1, version) == (0, [5])
    assert commit(client, group_id, topic, own, member.epoch + 1, version) == Errors.STALE_MEMBER_EPOCH
    assert commit(client, group_id, topic, own, 1, version) == Errors.STALE_MEMBER_EPOCH
    assert commit(client, group_id, topic, "nobody", member.epoch, version) == Errors.UNKNOWN_MEMBER_ID
    assert commit(client, group_id, topic, "", -1, version) == Errors.UNKNOWN_MEMBER_ID
    assert fetch(client, group_id, topic, own, member.epoch + 1, version) == (Errors.STALE_MEMBER_EPOCH, [])
    assert fetch(client, group_id, topic, "nobody", 1, version) == (Errors.UNKNOWN_MEMBER_ID, [])
    assert commit(client, group_id, topic, own, member.epoch, 8) == Errors.UNSUPPORTED_VERSION
    member.leave()
    assert commit(client, group_id, topic, "", -1, version) == 0
    assert commit(client, f"{group_id}-none", topic, own, 1, version) == Errors.GROUP_ID_NOT_FOUND
    assert fetch(client, f"{group_id}-none", topic, own, 1, version) == (0, [-1])


def test_a_member_with_an_old_epoch_may_commit_partitions_that_it_kept(
    connect: Connect, group_id: str, topic: str
) -> None:
    member = ConsumerMember(connect, group_id, topic)
    settle(member)
    other = ConsumerMember(connect, group_id, topic)
    settle(member, other)
    (kept,) = next(iter(member.owned.values()))
    assert member.previous_epoch < member.epoch
    client = member.client
    assert commit(client, group_id, topic, member.member_id, member.previous_epoch, 10, kept) == 0
    gone = Errors.STALE_MEMBER_EPOCH
    assert commit(client, group_id, topic, member.member_id, member.previous_epoch, 10, 1 - kept) == gone
    assert commit(client, group_id, topic, member.member_id, member.epoch, 10, 1 - kept) == 0


@pytest.mark.newest
def test_member_epochs_in_transactions(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, topic)
    settle(member)
    client = member.client
    name = f"tx-{group_id}"
    known = topic_id_of(client, topic)

    def ready() -> Any:
        answer = client.request(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]))
        if answer.coordinators[0].error_code:
            return None
        made = client.request(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000))
        return made if made.error_code == 0 else None

    producer = None
    while producer is None:
        producer = ready()

    def commit_in_transaction(
        member_id: str, epoch: int, version: int = 5, topic_id: bytes = known, partition: int = 0, group: str = group_id
    ) -> int:
        part = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=5)
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(topic, topic_id, [part])],
        )
        code: int = client.request(request, version).topics[0].partitions[0].error_code
        return code

    assert commit_in_transaction(member.member_id, member.epoch) == 0
    assert commit_in_transaction("", -1) == 0
    assert commit_in_transaction(member.member_id, member.epoch + 1) == Errors.ILLEGAL_GENERATION
    assert commit_in_transaction(member.member_id, 1) == Errors.ILLEGAL_GENERATION
    assert commit_in_transaction("nobody", member.epoch) == Errors.UNKNOWN_MEMBER_ID
    # With topic ids, clients know more codes (KIP-1319).
    assert commit_in_transaction(member.member_id, member.epoch, 6) == 0
    assert commit_in_transaction(member.member_id, member.epoch + 1, 6) == Errors.STALE_MEMBER_EPOCH
    assert commit_in_transaction(member.member_id, 1, 6) == Errors.STALE_MEMBER_EPOCH
    assert commit_in_transaction("nobody", member.epoch, 6) == Errors.UNKNOWN_MEMBER_ID
    assert commit_in_transaction("", -1, 6, uuid.uuid4().bytes) == Errors.UNKNOWN_TOPIC_ID
    assert commit_in_transaction("", -1, 6, partition=99) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_of_topics_that_members_read_cannot_be_deleted(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, topic)
    settle(member)
    client = member.client
    assert commit(client, group_id, topic, member.member_id, member.epoch, 9) == 0
    parts = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts)])
    answer = client.request(request)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, Errors.GROUP_SUBSCRIBED_TO_TOPIC)
    member.leave()
    answer = client.request(request)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert fetch(client, group_id, topic, None, -1, 9) == (0, [-1])


def test_groups_are_listed_by_type_and_state(connect: Connect, group_id: str, topic: str) -> None:
    member = ConsumerMember(connect, group_id, topic)
    settle(member)

    def listed(states: list[str], types: list[str]) -> Any:
        answer = member.client.request(ListGroupsRequest(states_filter=states, types_filter=types))
        return [
            (one.protocol_type, one.group_state, one.group_type) for one in answer.groups if one.group_id == group_id
        ]

    assert listed([], []) == listed(["stable"], ["CONSUMER"]) == [("consumer", "Stable", "consumer")]
    assert listed(["Empty"], []) == listed([], ["classic"]) == []
    member.leave()
    assert listed(["EMPTY"], ["consumer"]) == [("consumer", "Empty", "consumer")]


def alter(client: RawClient, group: str, **values: str | None) -> tuple[int, str | None]:
    """Set settings of a group, or remove them (None)."""
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=int(value is None), value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    (result,) = client.request(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return result.error_code, result.error_message


def test_settings_of_a_group(connect: Connect, group_id: str) -> None:
    client = connect()

    def settings(*names: str) -> dict[str, tuple[str | None, int]]:
        keys = [f"consumer.{name}" for name in names]
        resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group_id, configuration_keys=keys)
        (result,) = client.request(DescribeConfigsRequest(resources=[resource])).results
        assert result.error_code == 0
        return {one.name.removeprefix("consumer."): (one.value, one.config_source) for one in result.configs}

    both = ("heartbeat.interval.ms", "session.timeout.ms")
    default = settings(*both)
    assert {source for _, source in default.values()} <= {4, 5}
    assert alter(client, group_id, consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="50000") == (
        0,
        None,
    )
    while settings(*both) != {"heartbeat.interval.ms": ("6000", 8), "session.timeout.ms": ("50000", 8)}:
        pass
    member = ConsumerMember(connect, group_id, "some-topic")
    while member.send().heartbeat_interval_ms != 6000:
        pass
    listed = client.request(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    assert listed.error_code == 0
    assert (group_id, GROUP) in [(one.resource_name, one.resource_type) for one in listed.config_resources]
    assert client.request(ListConfigResourcesRequest(resource_types=[77]), 1).error_code == Errors.UNSUPPORTED_VERSION
    assert client.request(ListConfigResourcesRequest(), 0).error_code == 0
    low = "consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms"
    assert alter(client, group_id, consumer_heartbeat_interval_ms="1") == (Errors.INVALID_CONFIG, low)
    high = "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"
    assert alter(client, group_id, consumer_session_timeout_ms="99999") == (Errors.INVALID_CONFIG, high)
    unknown = "Unknown group config name: consumer.nonsense"
    assert alter(client, group_id, consumer_nonsense="1") == (Errors.INVALID_CONFIG, unknown)
    assert alter(client, "", consumer_session_timeout_ms="45000")[0] == Errors.INVALID_REQUEST
    assert alter(client, group_id, consumer_heartbeat_interval_ms=None, consumer_session_timeout_ms=None) == (0, None)
    while settings(*both) != default:
        pass
