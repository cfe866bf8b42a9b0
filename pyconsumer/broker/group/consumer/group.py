"""A group of the consumer protocol (KIP-848): members, epochs, target assignment.

The group owns this state. Members, epochs and assignments change only by :meth:`ConsumerGroup.replay` of records, both
when records are written and when a partition of ``__consumer_offsets`` is loaded. The group never waits, writes to the
log or sends a reply.

Epochs
------
1. The *group epoch* rises whenever subscriptions, members or topics change.
2. The *assignment epoch* is the group epoch for which the target assignment was computed. While it is behind the group
   epoch, the group is Assigning.
3. Each *member epoch* follows the assignment epoch. While one is behind, or a member has not all of its target, the
   group is Reconciling, otherwise it is Stable. Without members it is Empty.

One owner for each partition
----------------------------
``_owners`` has each partition that a member holds, assigned or pending revocation, with the epoch of that member. A
member only gets partitions that are not in it. :meth:`ConsumerGroup.replay` raises ``IllegalStateError`` for a record
that would break this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import cast

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata
from pyconsumer.broker.group.common.epoch_group import EpochGroup
from pyconsumer.broker.group.common.offsets import GroupOffsets
from pyconsumer.broker.group.common.results import CONSUMER_TYPE, GroupOverview
from pyconsumer.broker.group.consumer import records
from pyconsumer.broker.group.consumer.member import (
    LEAVE_EPOCH,
    NO_ASSIGNMENT,
    NO_TARGET,
    Assignment,
    ConsumerGroupMember,
    MemberState,
    Target,
)
from pyconsumer.broker.group.consumer.records import GroupRecord, ResolvedRegex
from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol import consumer_group_records as wire
from pyconsumer.protocol.consumer_group_records import RecordType

__all__ = ["ConsumerGroup", "ConsumerGroupState", "Group", "TopicCounts"]

_NEVER = -1


class ConsumerGroupState(Enum):
    """The state of a group. The value is the state's name in the protocol."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"

    def __str__(self) -> str:
        return self.value


class TopicCounts:
    """Counts, for each topic, the members that subscribe to it by name, and the regular expressions that match it."""

    __slots__ = ("names", "regexes")

    def __init__(self, names: Mapping[str, int] = {}, regexes: Mapping[str, int] = {}) -> None:
        self.names: Counter[str] = Counter(names)
        self.regexes: Counter[str] = Counter(regexes)

    def copy(self) -> TopicCounts:
        return TopicCounts(self.names, self.regexes)

    def change(self, counter: Counter[str], removed: Iterable[str], added: Iterable[str]) -> None:
        for topic in removed:
            counter[topic] -= 1
            if counter[topic] <= 0:
                del counter[topic]
        counter.update(added)

    def __contains__(self, topic: object) -> bool:
        return topic in self.names or topic in self.regexes

    def topics(self) -> set[str]:
        return self.names.keys() | self.regexes.keys()

    def is_homogeneous(self, regexes: Mapping[str, int], member_count: int) -> bool:
        """Return whether all members subscribe to the same topics: all by name, or all by one regular expression."""
        if not regexes:
            return all(count == member_count for count in self.names.values()) and not self.regexes
        if next(iter(regexes.values())) != member_count:
            return False
        return not self.names and all(count == 1 for count in self.regexes.values())


class ConsumerGroup(EpochGroup):
    """A group of the consumer protocol.

    Args:
        offsets: the offsets of the classic group that this group replaces, or None.

    Attributes:
        static_members: the member ids of static members by instance id.
        targets: the target assignment of each member.
        subscribed: counts for the topics of all subscriptions.
        regexes: the number of members that use each regular expression. ``resolved`` has the topics that each has
            matched.
        assignors: the number of members that ask for each assignor.
        classic_count: the number of members that use the classic protocol.
        has_partition_metadata: True if the log has a record of type PARTITION_METADATA, which Kafka wrote before 4.1.
    """

    group_type = CONSUMER_TYPE
    protocol_type = "consumer"

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        super().__init__(group_id)
        self.offsets = offsets if offsets is not None else GroupOffsets()
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Target] = {}
        self.subscribed = TopicCounts()
        self.regexes: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedRegex] = {}
        self.assignors: Counter[str] = Counter()
        self.classic_count = 0
        self._owners: dict[bytes, dict[int, int]] = {}
        self.has_partition_metadata = False
        self.received_transactional_commits = False
        self.received_consumer_commits = False

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.group_id!r} {self.state} epoch {self.group_epoch} of {len(self.members)}>"

    # State

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def note_commits(self, *, transactional: bool) -> None:
        """Record that offsets were committed by a transaction, or by a member."""
        if transactional:
            self.received_transactional_commits = True
        else:
            self.received_consumer_commits = True

    @property
    def generation_id(self) -> int:
        """The group epoch. Classic groups have it under this name."""
        return self.group_epoch

    def uses_consumer_protocol(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with this instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None = None) -> Target:
        """Return the target of a member.

        With an instance id, return the target of the member that has this instance id now.
        """
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_TARGET)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Return whether no member holds the partition."""
        return partition not in self._owners.get(topic_id, ())

    def waits_for_others(self, member: ConsumerGroupMember) -> bool:
        """Return whether another member still holds a partition of the member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, NO_TARGET).items()
            for partition in partitions
        )

    def subscribed_topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the names of the topics to which a member is subscribed.

        Topics of a regular expression are included if it has been evaluated.
        """
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    @property
    def classic_protocols(self) -> Counter[str]:
        """For each classic protocol, the number of members that support it."""
        return Counter(
            name
            for member in self.members.values()
            if member.classic is not None
            for name in dict(member.classic.protocols)
        )

    def preferred_assignor(
        self, old: ConsumerGroupMember | None = None, new: ConsumerGroupMember | None = None
    ) -> str | None:
        """Return the assignor that most members ask for, after ``old`` is replaced by ``new``.

        None if no member asks for one.
        """
        counts = self.assignors.copy()
        if old is not None and old.server_assignor is not None:
            counts[old.server_assignor] -= 1
        if new is not None and new.server_assignor is not None:
            counts[new.server_assignor] += 1
        wanted = +counts
        return max(wanted, key=wanted.__getitem__) if wanted else None

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type, self.state.value, self.group_type)

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that remove the group and its members, but not its offsets."""
        return [
            *(records.tombstone(RecordType.CURRENT_MEMBER_ASSIGNMENT, member_id) for member_id in self.members),
            *(records.tombstone(RecordType.TARGET_ASSIGNMENT_MEMBER, member_id) for member_id in self.members),
            records.tombstone(RecordType.TARGET_ASSIGNMENT_METADATA),
            *(records.tombstone(RecordType.MEMBER_METADATA, member_id) for member_id in self.members),
            *(records.tombstone(RecordType.REGULAR_EXPRESSION, regex) for regex in self.resolved),
            records.tombstone(RecordType.PARTITION_METADATA),
            records.tombstone(RecordType.GROUP_METADATA),
        ]

    # Records

    def replay(self, record: GroupRecord) -> None:
        """Apply one record.

        Raises:
            IllegalStateError: the record assigns a partition that another member holds.
        """
        value, name = record.value, record.name or ""
        if record.kind is RecordType.GROUP_METADATA:
            self._replay_group(cast("wire.ConsumerGroupMetadataValue | None", value))
        elif record.kind is RecordType.PARTITION_METADATA:
            self.has_partition_metadata = value is not None
        elif record.kind is RecordType.MEMBER_METADATA:
            self._replay_member(name, cast("wire.ConsumerGroupMemberMetadataValue | None", value))
        elif record.kind is RecordType.TARGET_ASSIGNMENT_METADATA:
            self._replay_target_metadata(cast("wire.ConsumerGroupTargetAssignmentMetadataValue | None", value))
        elif record.kind is RecordType.TARGET_ASSIGNMENT_MEMBER:
            if value is None:
                self.targets.pop(name, None)
            else:
                self.targets[name] = records.decode_target(cast("wire.ConsumerGroupTargetAssignmentMemberValue", value))
        elif record.kind is RecordType.CURRENT_MEMBER_ASSIGNMENT:
            self._replay_assignment(name, cast("wire.ConsumerGroupCurrentMemberAssignmentValue | None", value))
        else:
            self._replay_regex(name, cast("wire.ConsumerGroupRegularExpressionValue | None", value))

    def _replay_group(self, value: wire.ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
            return
        self.end()

    def _replay_target_metadata(self, value: wire.ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.assignment_epoch, self.assignment_timestamp = value.assignment_epoch, value.assignment_timestamp
            return
        self.assignment_epoch, self.assignment_timestamp = _NEVER, 0

    def _replay_member(self, member_id: str, value: wire.ConsumerGroupMemberMetadataValue | None) -> None:
        present = self.members.get(member_id)
        if value is not None:
            self._update(records.with_metadata(present or ConsumerGroupMember(member_id), value))
        elif present is not None:
            self._remove(present)

    def _replay_assignment(self, member_id: str, value: wire.ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        present = self.members.get(member_id)
        if value is not None:
            self._update(records.with_assignment(present or ConsumerGroupMember(member_id), value))
        elif present is not None:
            self._update(
                present.replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=NO_ASSIGNMENT,
                    pending_revocation=NO_ASSIGNMENT,
                )
            )

    def _replay_regex(self, regex: str, value: wire.ConsumerGroupRegularExpressionValue | None) -> None:
        before = self.resolved.pop(regex, ResolvedRegex(frozenset()))
        now = ResolvedRegex(frozenset())
        if value is not None:
            now = self.resolved[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        self.subscribed.change(self.subscribed.regexes, before.topics, now.topics)

    # Members

    def _update(self, member: ConsumerGroupMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None and (old.assigned or old.pending_revocation):
            self._release(old)
        self._hold(member)
        self.members[member.member_id] = member
        self._recount(old, member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member: ConsumerGroupMember) -> None:
        self._release(member)
        del self.members[member.member_id]
        self._recount(member, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _recount(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        old_names = frozenset() if old is None else old.topic_names
        new_names = frozenset() if new is None else new.topic_names
        if old_names is not new_names and old_names != new_names:
            self.subscribed.change(self.subscribed.names, old_names, new_names)
        _swap(self.regexes, old.topic_regex if old else None, new.topic_regex if new else None)
        _swap(self.assignors, old.server_assignor if old else None, new.server_assignor if new else None)
        self.classic_count += (new is not None and new.uses_classic_protocol) - (
            old is not None and old.uses_classic_protocol
        )

    def _release(self, member: ConsumerGroupMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                owners = self._owners.get(topic_id)
                if owners is None:
                    continue
                for partition in partitions:
                    # Another member may own it by now, in a later epoch.
                    if owners.get(partition) == member.member_epoch:
                        del owners[partition]
                if not owners:
                    del self._owners[topic_id]

    def _hold(self, member: ConsumerGroupMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                self._hold_topic(topic_id, partitions, member)

    def _hold_topic(self, topic_id: bytes, partitions: Iterable[int], member: ConsumerGroupMember) -> None:
        owners = self._owners.setdefault(topic_id, {})
        for partition in partitions:
            epoch = owners.get(partition)
            if epoch is not None and epoch >= member.member_epoch:
                raise IllegalStateError(
                    f"group {self.group_id}: member {member.member_id} cannot have partition {partition} of a topic in "
                    f"epoch {member.member_epoch}, because it is held in epoch {epoch}"
                )
            owners[partition] = member.member_epoch

    def assignment_with_pending(self, member: ConsumerGroupMember) -> Assignment:
        """Return all partitions that a member holds, whether assigned or pending revocation."""
        found: dict[bytes, Mapping[int, int]] = dict(member.assigned)
        for topic_id, partitions in member.pending_revocation.items():
            found[topic_id] = {**found.get(topic_id, {}), **partitions}
        return found


def _swap(counter: Counter[str], old: str | None, new: str | None) -> None:
    if old == new:
        return
    if old:
        counter[old] -= 1
        if counter[old] <= 0:
            del counter[old]
    if new:
        counter[new] += 1


#: A group of either protocol.
Group = GroupMetadata | ConsumerGroup
