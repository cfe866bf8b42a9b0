"""Groups of the consumer protocol on a fake clock: deadlines, policies, sizes, and state after a restart (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.common.config import GroupConfig, MigrationPolicy
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import MemberState
from pyconsumer.broker.group.consumer.membership import HeartbeatResult
from pyconsumer.clock import ManualClock
from pyconsumer.errors import ConfigurationError, Errors
from pyconsumer.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from pyconsumer.protocol.consumer_protocol import TopicPartition as OwnedPartitions
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import MemoryStorage, Topics, World, value_of

GROUP = "g"


class ConsumerGroupWorld(World):
    """A coordinator of one partition, in a cluster with topics."""

    def __init__(
        self, storage: MemoryStorage | None = None, topics: dict[str, int] | None = None, **config: Any
    ) -> None:
        counts = {"t": 4} if topics is None else topics
        self.topic_ids = {name: index.to_bytes(16, "big") for index, name in enumerate(counts, 1)}
        defaults = {"group_consumer_assignment_interval_ms": 0, "group_initial_rebalance_delay_ms": 0}
        super().__init__(
            storage=storage or MemoryStorage(ManualClock(100.0), partitions=1),
            topics=Topics({name: (self.topic_ids[name], count) for name, count in counts.items()}),
            **defaults | config,
        )

    @property
    def consumer_group(self) -> ConsumerGroup:
        found = self.manager.get_group(GROUP)
        assert isinstance(found, ConsumerGroup)
        return found

    def beat(
        self, member: str, epoch: int = 0, owned: dict[str, list[int]] | None = None, **more: Any
    ) -> HeartbeatResult:
        parts = [
            TopicPartitions(topic_id=self.topic_ids[topic], partitions=ids) for topic, ids in (owned or {}).items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=20_000,
            subscribed_topic_names=["t"],
            topic_partitions=parts,
        )
        for name, value in more.items():
            setattr(request, name, value)
        return value_of(self.coordinator.consumer_group_heartbeat(request, version=1, client_id="c", client_host="/h"))

    def join_classic(self, *topics: str, member_id: str = "", owned: Sequence[int] = ()) -> Any:
        partitions = [OwnedPartitions(topic=topics[0], partitions=list(owned))] if owned else []
        subscribed = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions)
        metadata = subscribed.encode_with_version(1)
        request = JoinRequest(
            group_id=GROUP,
            member_id=member_id,
            require_known_member_id=False,
            client_id="old",
            client_host="/h",
            rebalance_timeout_ms=20_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", metadata),),
        )
        return self.coordinator.join_group(request)

    def stable_classic(self) -> str:
        joined = self.join_classic("t")
        self.advance(0.1)
        result = value_of(joined)
        value_of(self.coordinator.sync_group(GROUP, result.generation_id, result.member_id, {result.member_id: b""}))
        return str(result.member_id)


def test_a_member_that_is_silent_is_removed_after_its_session() -> None:
    world = ConsumerGroupWorld()
    world.beat("a")
    world.advance(44.9)
    assert world.beat("a", 2, {"t": [0, 1, 2, 3]}).error_code == 0
    world.advance(44.9)
    assert set(world.consumer_group.members) == {"a"}
    world.advance(0.2)
    assert world.consumer_group.is_empty
    assert world.beat("a", 2).error_code == Errors.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout() -> None:
    world = ConsumerGroupWorld()
    world.beat("a")
    world.beat("b")
    everything = {"t": [0, 1, 2, 3]}
    assert world.beat("a", 2, everything).member_epoch == 2
    world.advance(19)
    assert world.beat("a", 2, everything).error_code == 0
    assert world.consumer_group.members["b"].assigned == {}
    world.advance(1.1)
    assert set(world.consumer_group.members) == {"b"}
    answer = world.beat("b", 3)
    assert [sorted(partitions) for partitions in (answer.assignment or {}).values()] == [[0, 1, 2, 3]]


def test_a_failed_append_changes_no_state_and_deadlines_are_kept_later() -> None:
    world = ConsumerGroupWorld()
    world.beat("a")
    world.storage.fail_with = Errors.NOT_ENOUGH_REPLICAS
    assert world.beat("b").error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert set(world.consumer_group.members) == {"a"}
    assert world.consumer_group.group_epoch == 2
    world.advance(60)
    assert set(world.consumer_group.members) == {"a"}
    world.storage.fail_with = 0
    world.advance(0.6)
    assert world.consumer_group.is_empty


def test_state_of_groups_after_a_restart() -> None:
    world = ConsumerGroupWorld()
    world.beat("a", instance_id="i")
    world.beat("b", server_assignor="range")
    value = {TopicPartition("t", 0): CommittedOffset(7)}
    commit = world.coordinator.commit_offsets(GROUP, value, generation_id=2, member_id="a")
    assert value_of(commit) == {TopicPartition("t", 0): 0}
    before = world.consumer_group
    after = ConsumerGroupWorld(world.storage).consumer_group
    assert after.members == before.members
    assert (after.group_epoch, after.assignment_epoch, after.metadata_hash) == (3, 3, before.metadata_hash)
    assert (after.targets, after.static_members, after.assignors) == (
        before.targets,
        before.static_members,
        before.assignors,
    )
    assert after.offsets.committed[TopicPartition("t", 0)].value.offset == 7
    again = ConsumerGroupWorld(world.storage)
    again.advance(46)
    assert again.consumer_group.is_empty


def test_targets_are_computed_once_in_an_interval() -> None:
    world = ConsumerGroupWorld(group_consumer_assignment_interval_ms=1000)
    world.beat("a")
    assert (world.beat("b").member_epoch, world.consumer_group.group_epoch, world.consumer_group.assignment_epoch) == (
        2,
        3,
        2,
    )
    assert str(world.consumer_group.state) == "Assigning"
    world.advance(0.9)
    world.beat("c")
    assert (world.consumer_group.group_epoch, world.consumer_group.assignment_epoch) == (4, 2)
    world.advance(0.1)
    world.beat("b", 2)
    assert world.consumer_group.assignment_epoch == 4


def test_an_empty_group_expires_with_its_offsets_and_leaves_tombstones() -> None:
    world = ConsumerGroupWorld(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    world.beat("a")
    value = {TopicPartition("t", 0): CommittedOffset(7)}
    assert value_of(world.coordinator.commit_offsets(GROUP, value, generation_id=2, member_id="a"))
    world.advance(30)
    world.beat("a", 2)
    world.advance(40)
    assert world.consumer_group.offsets.committed, "a member reads the topic"
    world.beat("a", -1)
    world.advance(70)
    assert world.coordinator.manager.get_group(GROUP) is None
    assert ConsumerGroupWorld(world.storage).coordinator.manager.get_group(GROUP) is None


@pytest.mark.slow
def test_a_thousand_members_and_ten_thousand_topics() -> None:
    topics = {f"topic-{index}": 1 for index in range(10_000)}
    world = ConsumerGroupWorld(topics=topics)
    names = list(topics)
    for index in range(3):
        answer = world.beat(f"m{index}", subscribed_topic_names=names)
        assert answer.error_code == 0
    assert sum(len(target) for target in world.consumer_group.targets.values()) == 10_000
    crowd = ConsumerGroupWorld(topics={"t": 1500}, group_consumer_assignment_interval_ms=1000)
    for index in range(1000):
        assert crowd.beat(f"m{index}").error_code == 0
    crowd.advance(1.0)
    crowd.beat("m0", crowd.consumer_group.members["m0"].member_epoch)
    sizes = {sum(map(len, target.values())) for target in crowd.consumer_group.targets.values()}
    assert (len(crowd.consumer_group.members), sizes) == (1000, {1, 2})


def test_a_full_group_rejects_new_members() -> None:
    world = ConsumerGroupWorld(group_consumer_max_size=1)
    world.beat("a")
    refused = world.beat("b")
    assert (refused.error_code, refused.error_message) == (
        Errors.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    assert world.beat("a", 2, {"t": [0]}).error_code == 0


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_four_policies(policy: MigrationPolicy) -> None:
    world = ConsumerGroupWorld(migration_policy=policy)
    classic = world.stable_classic()
    joined = world.beat("new")
    if not policy.allows_upgrade:
        assert joined.error_code == Errors.GROUP_ID_NOT_FOUND
        assert joined.error_message == (
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
        )
        assert isinstance(world.coordinator.manager.get_group(GROUP), GroupMetadata)
        return
    assert set(world.consumer_group.members) == {classic, "new"}
    assert world.beat("new", -1).error_code == 0
    kind = GroupMetadata if policy.allows_downgrade else ConsumerGroup
    assert isinstance(world.coordinator.manager.get_group(GROUP), kind)


def test_partitions_that_a_classic_member_must_revoke_stay_unassigned_at_an_upgrade() -> None:
    world = ConsumerGroupWorld()
    joining = world.join_classic("t", owned=[0, 1, 2, 3])
    world.advance(0.1)
    joined = value_of(joining)
    assigned = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 1])
    assignment = ConsumerProtocolAssignment(assigned_partitions=[assigned]).encode_with_version(1)
    classic = joined.member_id
    value_of(world.coordinator.sync_group(GROUP, joined.generation_id, classic, {classic: assignment}))

    world.beat("new")
    assert world.consumer_group.members[classic].state is MemberState.UNREVOKED_PARTITIONS
    assert world.consumer_group.members["new"].assigned == {}
    assert value_of(world.join_classic("t", member_id=classic, owned=[0, 1, 2])).generation_id == joined.generation_id

    value_of(world.join_classic("t", member_id=classic, owned=[0, 1]))
    world.beat("new", world.consumer_group.members["new"].member_epoch, {})
    (partitions,) = world.consumer_group.members["new"].assigned.values()
    assert set(partitions) == {2, 3}


def test_a_coordinator_that_takes_over_after_a_downgrade_starts_the_rebalance() -> None:
    world = ConsumerGroupWorld()
    classic = world.stable_classic()
    world.beat("new")
    assert world.beat("new", -1).error_code == 0
    assert world.coordinator.manager.get_group(GROUP).is_(GroupState.PREPARING_REBALANCE)

    world.coordinator.on_resign(0, 2)
    world.coordinator.on_become_leader(0, 3)
    world.advance(0.1)

    group = world.coordinator.manager.get_group(GROUP)
    assert (set(group.members), group.state) == ({classic}, GroupState.PREPARING_REBALANCE)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_classic_members_of_a_consumer_group_by_policy(policy: MigrationPolicy) -> None:
    world = ConsumerGroupWorld(migration_policy=policy)
    world.beat("new")
    result = value_of(world.join_classic("t"))
    expected = Errors.NONE if policy.allows_classic_members else Errors.INCONSISTENT_GROUP_PROTOCOL
    assert result.error_code == expected


def test_a_removed_classic_member_rejoins_only_without_owned_partitions() -> None:
    world = ConsumerGroupWorld()
    world.beat("new")
    refused = value_of(world.join_classic("t", member_id="old", owned=[2, 3]))
    assert (refused.error_code, set(world.consumer_group.members)) == (Errors.UNKNOWN_MEMBER_ID, {"new"})

    assert value_of(world.join_classic("t", member_id="old")).error_code == 0
    assert set(world.consumer_group.members) == {"new", "old"}
    assert value_of(world.join_classic("t", member_id="old", owned=[2, 3])).error_code == 0


def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    world = ConsumerGroupWorld()
    world.beat("new")
    old = value_of(world.join_classic("t"))
    assert value_of(world.coordinator.sync_group(GROUP, old.generation_id, old.member_id, {})).error_code == 0
    world.beat("new", 2, {"t": [0, 1]})
    for _ in range(7):
        world.beat("new", world.consumer_group.members["new"].member_epoch, {"t": [0, 1]})
        code = world.coordinator.heartbeat(GROUP, old.generation_id, old.member_id)
        assert code == Errors.REBALANCE_IN_PROGRESS
        world.advance(3)
    assert set(world.consumer_group.members) == {"new"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_consumer_session_timeout_ms": 1},
        {"group_consumer_heartbeat_interval_ms": 20_000},
        {"group_consumer_assignment_interval_ms": 20_000},
        {"assignors": ("sticky",)},
        {"assignors": ()},
        {"group_consumer_max_size": 0},
    ],
)
def test_settings_that_contradict_each_other(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        GroupConfig(**wrong)
