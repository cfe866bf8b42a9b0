"""A share group: members, epochs, target assignment, and which share partitions are initialized (KIP-932).

The group owns this state. It changes only by :meth:`ShareGroup.replay` of records, both when records are written and
when a partition of ``__consumer_offsets`` is loaded. The group never waits, writes to the log or sends a reply.

Epochs
------
The *group epoch* rises when subscriptions, members, topics or initialized partitions change. The *assignment epoch* is
the group epoch for which the target assignment was computed. The *member epoch* follows at the member's next heartbeat,
which gives it its whole target at once: a partition may have several members.

Share partitions
----------------
A share partition is *initializing* from the moment in which the share coordinator is asked to begin its state, then
*initialized*. Only initialized ones are assigned. A topic is *deleting* while its states are being deleted.

A group is Empty without members, and else Stable. It is Dead after its deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, cast

from pyconsumer.broker.group.common.epoch_group import EpochGroup
from pyconsumer.broker.group.common.results import SHARE_TYPE, GroupOverview
from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.broker.group.consumer.member import NO_TARGET, Target
from pyconsumer.protocol import share_group_records as wire
from pyconsumer.protocol.schema import Message
from pyconsumer.protocol.share_group_records import ShareRecordType, encode_share_key

__all__ = ["LEAVE_EPOCH", "InitTopic", "ShareGroup", "ShareGroupMember", "SharePartitionsInfo", "ShareRecord"]

#: Member epoch of a heartbeat by which a member leaves.
LEAVE_EPOCH: Final = -1


class ShareRecord(NamedTuple):
    """One record: its type, the member id in its key, and its value. A tombstone's value is None."""

    kind: ShareRecordType
    member_id: str | None
    value: Message | None

    def encode(self, group_id: str) -> KeyValue:
        """Return the record's key and value in ``__consumer_offsets``."""
        key = encode_share_key(self.kind, group_id, self.member_id)
        return key, None if self.value is None else self.value.encode_with_version(0)


class InitTopic(NamedTuple):
    """Share partitions of one topic, and when they began to be initialized (ms since the epoch)."""

    name: str
    partitions: frozenset[int]
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class SharePartitionsInfo:
    """The share partitions of a group by the state of their initialization. See the module."""

    initializing: Mapping[bytes, InitTopic] = field(default_factory=dict)
    initialized: Mapping[bytes, InitTopic] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def begin(self, topics: Mapping[bytes, InitTopic]) -> SharePartitionsInfo:
        """Return the state after partitions have begun to be initialized."""
        return replace(
            self,
            initializing=_union(self.initializing, topics),
            deleting={topic: name for topic, name in self.deleting.items() if topic not in topics},
        )

    def end(self, topics: Mapping[bytes, InitTopic], *, successful: bool) -> SharePartitionsInfo:
        """Return the state after the initialization has ended."""
        initializing = {}
        for topic, one in self.initializing.items():
            left = one.partitions - topics[topic].partitions if topic in topics else one.partitions
            if left:
                initializing[topic] = one._replace(partitions=left)
        initialized = _union(self.initialized, topics) if successful else self.initialized
        return replace(self, initializing=initializing, initialized=initialized)

    def delete(self, topics: Iterable[bytes]) -> SharePartitionsInfo:
        """Return the state while the states of topics are being deleted."""
        gone = {topic: self.name_of(topic) for topic in topics}
        left = self.without(gone)
        return replace(left, deleting={**left.deleting, **gone})

    def end_delete(self, topics: Iterable[bytes]) -> SharePartitionsInfo:
        """Return the state after the states of topics were deleted. What has begun since then stays."""
        gone = set(topics)
        return replace(self, deleting={topic: name for topic, name in self.deleting.items() if topic not in gone})

    def begun_of(self, topics: Mapping[bytes, InitTopic]) -> dict[bytes, InitTopic]:
        """Return those of some partitions that are still being initialized."""
        found = {}
        for topic, one in topics.items():
            begun = self.initializing.get(topic)
            left = frozenset() if begun is None else one.partitions & begun.partitions
            if left:
                found[topic] = one._replace(partitions=left)
        return found

    def without(self, topics: Iterable[bytes]) -> SharePartitionsInfo:
        """Return the state without topics."""
        gone = set(topics)
        return SharePartitionsInfo(
            {topic: one for topic, one in self.initializing.items() if topic not in gone},
            {topic: one for topic, one in self.initialized.items() if topic not in gone},
            {topic: name for topic, name in self.deleting.items() if topic not in gone},
        )

    def name_of(self, topic: bytes) -> str:
        """Return the name of a topic that is in one of the states."""
        found = self.initialized.get(topic) or self.initializing.get(topic)
        return found.name if found is not None else self.deleting.get(topic, "<UNKNOWN>")

    @property
    def topics(self) -> set[bytes]:
        return {*self.initializing, *self.initialized, *self.deleting}

    def known_partitions(self) -> dict[bytes, frozenset[int]]:
        """Return all partitions that may have a state."""
        return {topic: one.partitions for topic, one in _union(self.initializing, self.initialized).items()}

    def as_record(self) -> ShareRecord:
        def infos(topics: Mapping[bytes, InitTopic]) -> list[wire.TopicPartitionsInfo]:
            return [
                wire.TopicPartitionsInfo(topic_id=topic, topic_name=one.name, partitions=sorted(one.partitions))
                for topic, one in topics.items()
            ]

        value = wire.ShareGroupStatePartitionMetadataValue(
            initializing_topics=infos(self.initializing),
            initialized_topics=infos(self.initialized),
            deleting_topics=[wire.TopicInfo(topic_id=topic, topic_name=name) for topic, name in self.deleting.items()],
        )
        return ShareRecord(ShareRecordType.STATE_PARTITION_METADATA, None, value)

    @classmethod
    def of(cls, value: wire.ShareGroupStatePartitionMetadataValue, timestamp: int) -> SharePartitionsInfo:
        def topics(infos: Iterable[wire.TopicPartitionsInfo]) -> dict[bytes, InitTopic]:
            return {
                bytes(one.topic_id): InitTopic(one.topic_name, frozenset(one.partitions), timestamp) for one in infos
            }

        return cls(
            topics(value.initializing_topics),
            topics(value.initialized_topics),
            {bytes(one.topic_id): one.topic_name for one in value.deleting_topics},
        )


def _union(a: Mapping[bytes, InitTopic], b: Mapping[bytes, InitTopic]) -> dict[bytes, InitTopic]:
    found = dict(a)
    for topic, one in b.items():
        other = found.get(topic)
        found[topic] = one if other is None else one._replace(partitions=one.partitions | other.partitions)
    return found


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member of a share group. ``assigned`` has its partitions by topic id."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Target = field(default_factory=lambda: NO_TARGET)

    def replace(self, **changes: object) -> ShareGroupMember:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def metadata_record(self) -> ShareRecord:
        """Return the record of the member's subscription."""
        value = wire.ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
        )
        return ShareRecord(ShareRecordType.MEMBER_METADATA, self.member_id, value)

    def assignment_record(self) -> ShareRecord:
        """Return the record of the member's epochs and partitions."""
        value = wire.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            assigned_partitions=[
                wire.TopicPartitions(topic_id=topic, partitions=sorted(indexes))
                for topic, indexes in self.assigned.items()
            ],
        )
        return ShareRecord(ShareRecordType.CURRENT_MEMBER_ASSIGNMENT, self.member_id, value)


class ShareGroup(EpochGroup):
    """A share group. See the module.

    Attributes:
        targets: the target assignment of each member.
        subscribed: the number of members that subscribe to each topic.
        partitions: the share partitions by state.
    """

    group_type = SHARE_TYPE
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, ShareGroupMember] = {}
        self.targets: dict[str, Target] = {}
        self.subscribed: Counter[str] = Counter()
        self.partitions = SharePartitionsInfo()

    def __repr__(self) -> str:
        return f"<ShareGroup {self.group_id!r} {self.state} epoch {self.group_epoch} of {len(self.members)}>"

    @property
    def state(self) -> str:
        if self.is_dead:
            return "Dead"
        return "Stable" if self.members else "Empty"

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type, self.state, self.group_type)

    def has_unassigned(self, exists: Callable[[bytes], object]) -> bool:
        """Return whether initialized partitions of subscribed topics are not exactly those that are assigned.

        Args:
            exists: returns a true value if there is a topic with an id. Others cannot be assigned.
        """
        if not self.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic, indexes in target.items():
                assigned.setdefault(topic, set()).update(indexes)
        return any(
            one.name in self.subscribed and assigned.get(topic, set()) != one.partitions and exists(topic)
            for topic, one in self.partitions.initialized.items()
        )

    def tombstones(self) -> list[ShareRecord]:
        """Return the records that remove the group."""
        types = ShareRecordType
        return [
            *(ShareRecord(types.CURRENT_MEMBER_ASSIGNMENT, member, None) for member in self.members),
            *(ShareRecord(types.TARGET_ASSIGNMENT_MEMBER, member, None) for member in self.members),
            ShareRecord(types.TARGET_ASSIGNMENT_METADATA, None, None),
            *(ShareRecord(types.MEMBER_METADATA, member, None) for member in self.members),
            ShareRecord(types.STATE_PARTITION_METADATA, None, None),
            ShareRecord(types.GROUP_METADATA, None, None),
        ]

    # Records

    def replay(self, record: ShareRecord, now_ms: int = 0) -> None:
        """Apply one record. ``now_ms`` is when initializing partitions count as begun."""
        kind, member_id, value = record.kind, record.member_id or "", record.value
        if kind is ShareRecordType.GROUP_METADATA:
            if value is None:
                self.end()
            else:
                found = cast("wire.ShareGroupMetadataValue", value)
                self.group_epoch, self.metadata_hash = found.epoch, found.metadata_hash
        elif kind is ShareRecordType.MEMBER_METADATA:
            self._replay_member(member_id, cast("wire.ShareGroupMemberMetadataValue | None", value))
        elif kind is ShareRecordType.TARGET_ASSIGNMENT_METADATA:
            target = cast("wire.ShareGroupTargetAssignmentMetadataValue | None", value)
            self.assignment_epoch = -1 if target is None else target.assignment_epoch
            self.assignment_timestamp = 0 if target is None else target.assignment_timestamp
        elif kind is ShareRecordType.TARGET_ASSIGNMENT_MEMBER:
            if value is None:
                self.targets.pop(member_id, None)
            else:
                listed = cast("wire.ShareGroupTargetAssignmentMemberValue", value).topic_partitions
                self.targets[member_id] = {bytes(one.topic_id): frozenset(one.partitions) for one in listed}
        elif kind is ShareRecordType.CURRENT_MEMBER_ASSIGNMENT:
            self._replay_assignment(member_id, cast("wire.ShareGroupCurrentMemberAssignmentValue | None", value))
        else:
            info = cast("wire.ShareGroupStatePartitionMetadataValue | None", value)
            self.partitions = SharePartitionsInfo() if info is None else SharePartitionsInfo.of(info, now_ms)

    def _replay_member(self, member_id: str, value: wire.ShareGroupMemberMetadataValue | None) -> None:
        present = self.members.pop(member_id, None)
        if present is not None:
            self.subscribed = +(self.subscribed - Counter(present.topic_names))
        if value is not None:
            member = self.members[member_id] = (present or ShareGroupMember(member_id)).replace(
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
            )
            self.subscribed.update(member.topic_names)

    def _replay_assignment(self, member_id: str, value: wire.ShareGroupCurrentMemberAssignmentValue | None) -> None:
        present = self.members.get(member_id)
        if value is not None:
            self.members[member_id] = (present or ShareGroupMember(member_id)).replace(
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned={bytes(one.topic_id): frozenset(one.partitions) for one in value.assigned_partitions},
            )
        elif present is not None:
            self.members[member_id] = present.replace(
                member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned=NO_TARGET
            )
