"""Conversion of groups between the protocols while they have members (``group.consumer.migration.policy``).

The state is that of the groups. A conversion is one change: the records remove the old group and create the new one,
which replaces the old one in the manager's cache when the records have been accepted.

* An empty group of the other protocol is always replaced. The new one has its offsets.
* *Upgrade*: a member of the consumer protocol joins a classic group of consumers. All classic members become members of
  a consumer group with their present assignments, and continue to use JoinGroup and SyncGroup. Under cooperative
  rebalancing a member may still own partitions that it listed in its JoinGroup and that the present assignment gives to
  no member. They are pending revocation until it joins again without them. (Kafka 4.3.1 takes them for free and assigns
  them at once: two members may own one.)
  A group in its first rebalance has no generation, no protocol and no assignments yet: its members get no partitions,
  and REBALANCE_IN_PROGRESS makes them join again. (Kafka 4.3.1 looks for the protocol's name, and the response is
  UNKNOWN_SERVER_ERROR.)
* *Downgrade*: the last member of the consumer protocol has left, and only classic members remain. If they have to
  rebalance, the group's record has no leader. A coordinator that loads it, because the leader of the partition changed
  just then, begins the rebalance. (Kafka 4.3.1 does not, and the partitions of the last member have no owner.)

A group is not upgraded if an assignment has user data of a custom assignor, which would be lost.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pyconsumer.background_log import Log
from pyconsumer.broker.group.classic.group_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    GroupMetadata,
    GroupState,
    MemberMetadata,
)
from pyconsumer.broker.group.classic.rebalance import GroupRebalancer
from pyconsumer.broker.group.classic.records import group_record, group_tombstone
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.consumer import records
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import (
    ClassicMember,
    ConsumerGroupMember,
    MemberState,
    Target,
    assigned_in,
)
from pyconsumer.broker.group.consumer.metadata_hash import MetadataHasher
from pyconsumer.broker.group.consumer.timers import MemberTimers
from pyconsumer.broker.group.consumer.topics import TopicImage, from_names, to_names
from pyconsumer.broker.group.consumer.writer import Change, ConsumerGroupStore
from pyconsumer.clock import Clock
from pyconsumer.errors import GroupIdNotFoundError, ProtocolError
from pyconsumer.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

__all__ = ["Migration", "encode_target", "read_subscription"]

_log = Log(__name__)


class _CustomAssignor(Exception):
    """An assignment has user data."""


class Migration:
    """Converts groups. Call its methods inside ``with replies``."""

    def __init__(
        self,
        config: GroupConfig,
        manager: ConsumerGroupStore,
        rebalancer: GroupRebalancer,
        timers: MemberTimers,
        clock: Clock,
        image: TopicImage,
        hasher: MetadataHasher,
    ) -> None:
        self._config = config
        self._manager = manager
        self._rebalancer = rebalancer
        self._timers = timers
        self._clock = clock
        self._image = image
        self._hasher = hasher

    # Upgrade

    def to_consumer(self, group: GroupMetadata) -> Change:
        """Return a change that converts a classic group to the consumer protocol. The caller adds records to it.

        Raises:
            GroupIdNotFoundError: the group has members and cannot be converted. The message has the reason.
        """
        group_id = group.group_id
        if group.is_empty:
            new = ConsumerGroup(group_id, group.offsets)
            change = Change(new, first=[group_tombstone(group_id)])
            change.on_accepted.append(partial(self._replace_classic, group, new))
            return change
        problem = None
        if not self._config.migration_policy.allows_upgrade:
            problem = "online upgrade is disabled"
        elif not group.uses_consumer_protocol():
            problem = "the group does not use the consumer embedded protocol"
        elif group.size > self._config.group_consumer_max_size:
            problem = "the group size exceeds the consumer group maximum size"
        else:
            try:
                converted = [self._to_member(group, member) for member in group.members.values()]
                members = _with_pending(converted)
            except (ProtocolError, ValueError):
                problem = "the embedded consumer protocol is malformed"
            except _CustomAssignor:
                problem = (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                    "default assignor before re-attempting the upgrade"
                )
        if problem is not None:
            text = f"Cannot upgrade classic group {group_id} to consumer group because {problem}."
            _log.info("%s", text)
            raise GroupIdNotFoundError(text)
        return self._upgraded(group, members)

    def _upgraded(self, group: GroupMetadata, members: list[tuple[ConsumerGroupMember, Target]]) -> Change:
        new = ConsumerGroup(group.group_id, group.offsets)
        epoch = group.generation_id
        created = [records.member_metadata(member) for member, _ in members]
        topics = frozenset[str]().union(*(member.topic_names for member, _ in members))
        created.append(records.group_epoch(epoch, self._hasher.of_topics(topics)))
        created += [records.target_assignment(member.member_id, target) for member, target in members]
        created.append(records.target_metadata(epoch, 0))
        created += [records.current_assignment(member) for member, _ in members]
        for record in created:
            new.replay(record)
        change = Change(new, first=[group_tombstone(group.group_id)], records=created)
        change.on_accepted.append(partial(self._replace_classic, group, new))
        _log.info("Group %s: the classic group becomes a consumer group", group.group_id)
        return change

    def _to_member(self, group: GroupMetadata, member: MemberMetadata) -> tuple[ConsumerGroupMember, Target, Target]:
        """Return a classic member as one of a consumer group, its assignment, and the partitions that it owned."""
        target: Target = {}
        if member.assignment:
            assignment, _ = ConsumerProtocolAssignment.decode_with_version(member.assignment)
            if assignment.user_data:
                raise _CustomAssignor
            named = ((one.topic, one.partitions) for one in assignment.assigned_partitions)
            target = from_names(named, self._image)
        subscription = read_subscription(member.metadata(group.protocol_name or _first_protocol(member)))
        epoch = group.generation_id
        made = ConsumerGroupMember(
            member.member_id,
            epoch,
            epoch,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            assigned=assigned_in(epoch, target),
            classic=ClassicMember(member.session_timeout_ms, tuple(member.supported_protocols)),
        )
        named = ((one.topic, one.partitions) for one in subscription.owned_partitions)
        return made, target, from_names(named, self._image)

    def _replace_classic(self, group: GroupMetadata, new: ConsumerGroup) -> None:
        self._rebalancer.convert(group)
        self._manager.replace_group(new)

    # Downgrade

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Return whether the group becomes a classic group when these members leave."""
        remaining = [member for member_id, member in group.members.items() if member_id not in leaving]
        if not remaining or not all(member.uses_classic_protocol for member in remaining):
            return False
        return self._may_be_classic(group, len(remaining))

    def may_downgrade_with(self, group: ConsumerGroup, replaced: ConsumerGroupMember | None) -> bool:
        """Return whether the group becomes a classic group when a classic member replaces this member."""
        if replaced is None or replaced.uses_classic_protocol or group.classic_count != len(group.members) - 1:
            return False
        return self._may_be_classic(group, len(group.members))

    def _may_be_classic(self, group: ConsumerGroup, size: int) -> bool:
        if not self._config.migration_policy.allows_downgrade:
            _log.info("Group %s cannot become a classic group: online downgrade is disabled", group.group_id)
            return False
        if size > self._config.group_max_size:
            _log.info("Group %s cannot become a classic group: it is larger than group.max.size", group.group_id)
            return False
        return True

    def to_classic(
        self,
        group: ConsumerGroup,
        leaving: Collection[str] = (),
        *,
        joining: ConsumerGroupMember | None = None,
        rebalance: str | None,
        change: Change | None = None,
    ) -> Change:
        """Return the change that converts the group to a classic group.

        Args:
            leaving: ids of the members that leave.
            joining: a static member of the classic protocol that replaces the member with the same instance id, or
                None.
            rebalance: the reason for a rebalance after the conversion. None if the assignments stay.
            change: the change so far, which has the records of ``joining``.
        """
        change = change or Change(group)
        replaced = None if joining is None else group.static_member(joining.instance_id)
        for record in group.tombstones():
            if replaced is not None and joining is not None and record.name == replaced.member_id:
                record = record._replace(name=joining.member_id)
            change.records.append(record)
        members, targets = [], {}
        for member_id, member in group.members.items():
            if member_id not in leaving and (replaced is None or member_id != replaced.member_id):
                members.append(_to_classic_member(group, member))
                targets[member_id] = _held(group, member) if rebalance else group.targets.get(member_id, {})
        if joining is not None and replaced is not None:
            members.append(_to_classic_member(group, joining))
            targets[joining.member_id] = group.targets.get(replaced.member_id, {})
        classic = GroupMetadata.converted(
            group.group_id, self._clock, generation_id=group.group_epoch, members=members, offsets=group.offsets
        )
        assignments = {
            one.member_id: encode_target(
                to_names(targets[one.member_id], self._image), one.metadata(classic.protocol_name or "")
            )
            for one in classic.members.values()
        }
        classic.set_assignments(assignments)
        change.last.append(group_record(classic, assignments, rebalance_is_due=rebalance is not None))
        change.on_accepted.append(partial(self._replace_consumer, group, classic, rebalance))
        return change

    def _replace_consumer(self, group: ConsumerGroup, classic: GroupMetadata, rebalance: str | None) -> None:
        self._timers.cancel_group(group.group_id)
        group.end()
        self._manager.replace_group(classic)
        self._rebalancer.start_sessions(classic)
        _log.info("Group %s: the consumer group becomes a classic group", group.group_id)
        if rebalance is not None and classic.is_(GroupState.STABLE):
            self._rebalancer.prepare(classic, rebalance)


def _with_pending(
    converted: list[tuple[ConsumerGroupMember, Target, Target]],
) -> list[tuple[ConsumerGroupMember, Target]]:
    """Make partitions pending revocation that a member owned when it joined and that no member is assigned."""
    held = {
        (topic_id, one) for _, target, _ in converted for topic_id, partitions in target.items() for one in partitions
    }
    members: list[tuple[ConsumerGroupMember, Target]] = []
    for member, target, owned in converted:
        pending: dict[bytes, dict[int, int]] = {}
        for topic_id, partitions in owned.items():
            unassigned = [one for one in sorted(partitions) if (topic_id, one) not in held]
            if unassigned:
                pending[topic_id] = dict.fromkeys(unassigned, member.member_epoch)
                held.update((topic_id, one) for one in unassigned)
        if pending:
            member = member.replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
        members.append((member, target))
    return members


def _first_protocol(member: MemberMetadata) -> str:
    """Return the member's first protocol, to read its topics from while the group has not chosen a protocol."""
    return next((name for name, _ in member.supported_protocols), "")


def _held(group: ConsumerGroup, member: ConsumerGroupMember) -> Target:
    """Return the partitions that a member holds, assigned or pending revocation.

    Apache Kafka writes the target instead. If the next upgrade came before the rebalance, it would assign partitions to
    others that the member still reads.
    """
    held = group.assignment_with_pending(member)
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}


def _to_classic_member(group: ConsumerGroup, member: ConsumerGroupMember) -> MemberMetadata:
    assert member.classic is not None
    return MemberMetadata(
        member.member_id,
        group.group_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        supported_protocols=member.classic.protocols,
    )


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription in a classic member's protocol metadata. Raises ``ProtocolError`` if it is invalid."""
    return ConsumerProtocolSubscription.decode_with_version(metadata)[0]


def encode_target(assigned: list[tuple[str, list[int]]], subscription: bytes) -> bytes:
    """Encode partitions as an assignment of the classic protocol, in the version of the member's subscription."""
    version = int.from_bytes(subscription[:2], "big", signed=True)
    parts = [ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=list(ids)) for name, ids in assigned]
    message = ConsumerProtocolAssignment(assigned_partitions=parts)
    return message.encode_with_version(min(max(version, 0), ConsumerProtocolAssignment.MAX_VERSION))
