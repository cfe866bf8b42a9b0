"""A group of the classic protocol: its state machine, members, generation, protocol and assignment.

:class:`GroupMetadata` owns its members (:class:`MemberMetadata`) and has the rules that depend on the group
alone. The coordinator calls it. It never waits, writes to the log or sends a reply. A member's pending request is
a :class:`Deferred` that the group only keeps: ``take_*`` returns it to the coordinator, which sets it.

States, with their transitions in :data:`PREDECESSORS`:

1. *Empty*: no members. A new group, one whose last member left, or one that only stores offsets.
2. *PreparingRebalance*: members are joining. JoinGroups are held until all members have joined or the time is over.
3. *CompletingRebalance*: the generation has begun, and the coordinator waits for the leader's assignment.
4. *Stable*: every member of the generation has its assignment.
5. *Dead*: deleted, expired, converted, or another broker's. No other state follows.

No state follows itself, except Dead: a group may be ended twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.offsets import GroupOffsets
from pyconsumer.broker.group.common.results import (
    CLASSIC_TYPE,
    GroupOverview,
    GroupSummary,
    JoinMember,
    JoinResult,
    MemberSummary,
    SyncResult,
)
from pyconsumer.broker.timer import TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import IllegalStateError, ProtocolError
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolSubscription

__all__ = [
    "CONSUMER_PROTOCOL_TYPE",
    "PREDECESSORS",
    "GroupMetadata",
    "GroupState",
    "MemberMetadata",
    "Protocols",
    "plain_protocol_set",
    "require_unique",
]

#: The protocol type of groups of consumers; other clients, such as Kafka Connect, have their own.
CONSUMER_PROTOCOL_TYPE = "consumer"

#: The protocols (names of assignors) that a member supports, in its order of preference, each with its metadata. For
#: consumers the metadata is the subscription.
Protocols = Sequence[tuple[str, bytes]]


class GroupState(Enum):
    """The state of a group. The value is the state's name in the protocol."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    def __str__(self) -> str:
        return self.value


#: The states that each state may follow.
PREDECESSORS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


def plain_protocol_set(protocols: Protocols) -> frozenset[str]:
    """Return the names of the protocols."""
    return frozenset(name for name, _ in protocols)


class MemberMetadata:
    """A member: its ids, timeouts, protocols, assignment and pending requests.

    Args:
        member_id: the member id, made by the coordinator. A static member that rejoins without it gets a new one.
        group_instance_id: the instance id of a static member (KIP-345). None for a dynamic member.
        client_host: the address of the member's client, such as ``/127.0.0.1``.
        rebalance_timeout_ms: how long a rebalance waits for this member. It is the client's ``max.poll.interval.ms``.
        session_timeout_ms: the longest time without a heartbeat, in ms.
        protocol_type: the purpose of the group, such as ``consumer`` or ``connect``.
        supported_protocols: the protocols that the member supports, the preferred one first.
        is_new: True if the member's first JoinGroup is pending. See the attribute.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_id",
        "group_instance_id",
        "heartbeat",
        "is_new",
        "join_waiter",
        "member_id",
        "protocol_type",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "supported_protocols",
        "sync_waiter",
    )

    def __init__(
        self,
        member_id: str,
        group_id: str,
        *,
        group_instance_id: str | None = None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        supported_protocols: Protocols,
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.supported_protocols = tuple(supported_protocols)
        self.assignment = assignment
        #: Its pending JoinGroup and its pending SyncGroup.
        self.join_waiter: Deferred[JoinResult] | None = None
        self.sync_waiter: Deferred[SyncResult] | None = None
        #: Its first JoinGroup is pending: it does not know its member id yet, and so cannot send heartbeats.
        self.is_new = is_new
        #: The timer of its session timeout.
        self.heartbeat: TimerHandle | None = None

    def update(self, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Replace the member's protocols and timeouts."""
        self.supported_protocols = tuple(protocols)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms

    def rename(self, member_id: str) -> None:
        """Replace the member id, for a static member that rejoins."""
        self.member_id = member_id

    def assign(self, assignment: bytes) -> None:
        """Replace the member's assignment."""
        self.assignment = assignment

    def joined(self) -> None:
        """Record that the member has received its member id, so it can send heartbeats."""
        self.is_new = False

    def wait_for_join(self, waiter: Deferred[JoinResult] | None) -> None:
        """Set the member's pending JoinGroup.

        Only :class:`GroupMetadata` calls this, because it counts these requests.
        """
        self.join_waiter = waiter

    def wait_for_sync(self, waiter: Deferred[SyncResult]) -> None:
        """Set the member's pending SyncGroup."""
        self.sync_waiter = waiter

    def take_sync_waiter(self) -> Deferred[SyncResult] | None:
        """Remove and return the member's pending SyncGroup. The caller must reply to it."""
        waiter, self.sync_waiter = self.sync_waiter, None
        return waiter

    def __repr__(self) -> str:
        return f"<MemberMetadata {self.member_id} of {self.group_id}>"

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_waiter is not None

    @property
    def is_awaiting_sync(self) -> bool:
        return self.sync_waiter is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Return whether the member counts as alive without heartbeats: it is not new, and has a pending request."""
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    def restart_heartbeat(self, handle: TimerHandle) -> None:
        """Replace the timer of the member's session timeout."""
        self.stop_heartbeat()
        self.heartbeat = handle

    def stop_heartbeat(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.cancel()
            self.heartbeat = None

    def matches(self, protocols: Protocols) -> bool:
        """Return whether the member has these protocols: the same names, in the same order, with the same metadata."""
        return self.supported_protocols == tuple(protocols)

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol.

        Raises ``ValueError`` if the member does not support the protocol.
        """
        for name, metadata in self.supported_protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol!r}")

    def vote(self, candidates: Container[str]) -> str:
        """Return the first of the member's protocols that is a candidate. Raises ``ValueError`` if there is none."""
        for name, _ in self.supported_protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} does not support any of the candidate protocols")

    def summary(self, protocol: str | None) -> MemberSummary:
        """Return a description of the member for tools.

        It has the metadata for the chosen protocol, if one is chosen.
        """
        return MemberSummary(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol is None else self.metadata(protocol),
            self.assignment,
        )


def require_unique(protocols: Iterable[tuple[str, bytes]]) -> None:
    """Raise ``IllegalStateError`` if a protocol is listed twice.

    The handler of JoinGroup has rejected such requests.
    """
    names = [name for name, _ in protocols]
    if len(set(names)) != len(names):
        raise IllegalStateError(f"a member lists a protocol twice: {names}")


class _PhaseTimer:
    """The timer of one phase of a rebalance: it ends the join phase, or the wait for SyncGroups."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        self._handle: TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._handle is not None

    def start(self, handle: TimerHandle) -> None:
        """Keep the handle of the timer."""
        self._handle = handle

    def stop(self) -> None:
        """Cancel the timer if it runs."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class GroupMetadata:
    """A group of the classic protocol, in the memory of its coordinator.

    Args:
        group_id: the group's id. It may be empty for a group that only stores offsets.
        initial_state: Empty. Or Stable, for a group that was loaded with members.
    """

    group_type = CLASSIC_TYPE

    def __init__(self, group_id: str, initial_state: GroupState, clock: Clock) -> None:
        self.group_id = group_id
        self._clock = clock
        self.state = initial_state
        #: The state before the last transition; in PreparingRebalance it shows whether the group was empty.
        self.previous_state: GroupState | None = None
        #: Wall time of the last transition in ms; None if the record that the group was loaded from does not have it.
        self.current_state_timestamp: int | None = clock.wall_ms()
        #: The number of completed join phases.
        self.generation_id = 0
        self.leader_id: str | None = None
        #: Loaded with members but without a leader: the coordinator that wrote the record was about to rebalance.
        self.rebalance_is_due = False
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        #: Topics that members of a Stable ``consumer`` group subscribe to; None if that is not known.
        self.subscribed_topics: frozenset[str] | None = None
        #: In order of joining.
        self.members: dict[str, MemberMetadata] = {}
        #: Group instance id -> member id.
        self.static_members: dict[str, str] = {}
        #: Member ids that were sent with MEMBER_ID_REQUIRED and not used yet, each with the timer of its expiry.
        self.pending_members: dict[str, TimerHandle] = {}
        #: Members of this generation that have not sent their SyncGroup.
        self.pending_sync_members: set[str] = set()
        #: How many members support each protocol; entries may stay at 0.
        self.supported_protocols: Counter[str] = Counter()
        self.num_members_awaiting_join = 0
        #: A member joined during the initial rebalance delay, so the delay may be extended.
        self.new_member_added = False
        #: The reason for the present rebalance, its start (monotonic seconds), and the members of the last generation.
        self.rebalance_reason = ""
        self.rebalance_started = 0.0
        self.last_members: frozenset[str] = frozenset()
        self.join_timer = _PhaseTimer()
        self.sync_timer = _PhaseTimer()
        self.offsets = GroupOffsets()
        self.received_transactional_commits = False
        self.received_consumer_commits = False

    @classmethod
    def loaded(
        cls,
        group_id: str,
        clock: Clock,
        *,
        generation_id: int,
        protocol_type: str,
        protocol_name: str | None,
        leader_id: str | None,
        state_timestamp: int | None,
        members: Iterable[MemberMetadata],
    ) -> GroupMetadata:
        """Create a group from its record. It is Stable if it has members, otherwise Empty."""
        members = list(members)
        group = cls(group_id, GroupState.STABLE if members else GroupState.EMPTY, clock)
        group._restore(generation_id, protocol_type, protocol_name, leader_id, state_timestamp, members)
        return group

    @classmethod
    def converted(
        cls,
        group_id: str,
        clock: Clock,
        *,
        generation_id: int,
        members: Iterable[MemberMetadata],
        offsets: GroupOffsets,
    ) -> GroupMetadata:
        """Create a Stable group with the members and offsets of a group of the consumer protocol."""
        group = cls.loaded(
            group_id,
            clock,
            generation_id=generation_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=None,
            leader_id=None,
            state_timestamp=clock.wall_ms(),
            members=members,
        )
        group.adopt(offsets)
        group._choose_protocol()
        return group

    def _choose_protocol(self) -> None:
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self.compute_subscribed_topics()

    def _restore(
        self,
        generation_id: int,
        protocol_type: str,
        protocol_name: str | None,
        leader_id: str | None,
        state_timestamp: int | None,
        members: Iterable[MemberMetadata],
    ) -> None:
        self.generation_id = generation_id
        self.protocol_type = protocol_type or None
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.current_state_timestamp = state_timestamp
        for member in members:
            self.add(member)
        self.rebalance_is_due = leader_id is None and bool(self.members)
        self.subscribed_topics = self.compute_subscribed_topics()

    def __repr__(self) -> str:
        return f"<GroupMetadata {self.group_id!r} {self.state} generation {self.generation_id} of {len(self.members)}>"

    # State

    def is_(self, *states: GroupState) -> bool:
        return self.state in states

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        """Return whether a rebalance can begin now. It cannot while another one is in its join phase."""
        return self.state in PREDECESSORS[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState) -> None:
        """Change the state. If the table does not allow that, nothing changes and ``IllegalStateError`` is raised."""
        if self.state not in PREDECESSORS[state]:
            raise IllegalStateError(f"group {self.group_id} cannot move from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp = self._clock.wall_ms()

    def set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """Give the members the assignments that they had in the group of the consumer protocol.

        This group replaces that group.
        """
        for member in self.members.values():
            member.assign(assignments[member.member_id])

    def adopt(self, offsets: GroupOffsets) -> None:
        """Take over the offsets of the group of the consumer protocol that this group replaces."""
        self.offsets = offsets

    def end(self) -> None:
        """Set the state to Dead, because the group was deleted or has expired."""
        self.transition_to(GroupState.DEAD)
        self.stop_timers()

    # Members

    def has(self, member_id: str) -> bool:
        return member_id in self.members

    def get(self, member_id: str) -> MemberMetadata:
        """Return the member with this id. Raises ``KeyError`` if there is none."""
        return self.members[member_id]

    @property
    def size(self) -> int:
        return len(self.members)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def is_pending_member(self, member_id: str) -> bool:
        return member_id in self.pending_members and member_id not in self.members

    def has_static_member(self, group_instance_id: str | None) -> bool:
        return group_instance_id is not None and group_instance_id in self.static_members

    def is_static_member_fenced(self, member_id: str, group_instance_id: str | None) -> bool:
        """Return whether the instance id belongs to another member id."""
        return group_instance_id is not None and self.static_members.get(group_instance_id, member_id) != member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, or 0 if there are no members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Return whether every member has a pending JoinGroup, and no pending member is left."""
        return self.size == self.num_members_awaiting_join and not self.pending_members

    @property
    def not_yet_rejoined(self) -> list[MemberMetadata]:
        return [member for member in self.members.values() if not member.is_awaiting_join]

    def add(self, member: MemberMetadata, waiter: Deferred[JoinResult] | None = None) -> None:
        """Add a member. The first one becomes the leader.

        Raises:
            IllegalStateError: the member is in the group already, belongs to another group or protocol type, or
                supports no protocol that all others support. The caller must reject such requests.
        """
        if member.member_id in self.members:
            raise IllegalStateError(f"{member.member_id} is a member of {self.group_id} already")
        if member.group_id != self.group_id:
            raise IllegalStateError(f"a member of {member.group_id} cannot join {self.group_id}")
        require_unique(member.supported_protocols)
        protocol_type = self.protocol_type if self.members else member.protocol_type
        if protocol_type != member.protocol_type:
            raise IllegalStateError(f"a member of type {member.protocol_type} cannot join one of type {protocol_type}")
        if not self._supports(member.protocol_type, protocol_type, plain_protocol_set(member.supported_protocols)):
            raise IllegalStateError(f"{member.member_id} has no protocol that all members of {self.group_id} have")
        self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.remove_pending_member(member.member_id)
        self._set_join_waiter(member, waiter)

    def remove(self, member_id: str) -> MemberMetadata | None:
        """Remove the member or the pending member with this id.

        Its pending requests get no reply here. Take them before this call.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._set_join_waiter(member, None)
            member.stop_heartbeat()
            if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.remove_pending_member(member_id)
        self.pending_sync_members.discard(member_id)
        return member

    def update_member(
        self,
        member: MemberMetadata,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        waiter: Deferred[JoinResult] | None,
    ) -> None:
        """Replace the protocols, the timeouts and the pending JoinGroup of a member that rejoins."""
        require_unique(protocols)
        self._count(member, -1)
        member.update(protocols, rebalance_timeout_ms, session_timeout_ms)
        self._count(member, 1)
        self._set_join_waiter(member, waiter)

    def replace_static_member(self, group_instance_id: str, old_id: str, new_id: str) -> MemberMetadata:
        """Give a rejoined static member its new id.

        It keeps its place in the order, its assignment and its leadership.
        """
        member = self.members[old_id]
        self.members = {new_id if key == old_id else key: value for key, value in self.members.items()}
        member.rename(new_id)
        member.stop_heartbeat()
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_id)
            self.pending_sync_members.add(new_id)
        self.static_members[group_instance_id] = new_id
        return member

    def add_pending_member(self, member_id: str, expiry: TimerHandle) -> None:
        self.pending_members[member_id] = expiry

    def remove_pending_member(self, member_id: str) -> bool:
        """Remove a pending member. Return whether there was one."""
        expiry = self.pending_members.pop(member_id, None)
        if expiry is not None:
            expiry.cancel()
        return expiry is not None

    def maybe_elect_joined_leader(self) -> bool:
        """If the leader has not rejoined, make a rejoined member the leader. Return False if no member has rejoined."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None or not leader.is_awaiting_join:
            joined = next((member for member in self.members.values() if member.is_awaiting_join), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # Rebalances

    def begin_rebalance(self, reason: str, now: float) -> None:
        """Record the reason and the time (monotonic seconds) of the start of a rebalance."""
        self.rebalance_reason, self.rebalance_started = reason, now
        self.new_member_added = False

    def note_new_member(self, added: bool = True) -> None:
        """Record that a new member joined during the initial rebalance delay.

        False resets this, when the delay is extended.
        """
        self.new_member_added = added

    def remember_members(self) -> None:
        """Remember the members of this generation, for the log line of the next generation."""
        self.last_members = frozenset(self.members)

    def note_commits(self, *, transactional: bool) -> None:
        """Record that offsets were committed by a transaction, or by a member."""
        if transactional:
            self.received_transactional_commits = True
        else:
            self.received_consumer_commits = True

    def stop_timers(self) -> None:
        """Cancel all timers of the group and of its members."""
        self.join_timer.stop()
        self.sync_timer.stop()
        for handle in self.pending_members.values():
            handle.cancel()
        for member in self.members.values():
            member.stop_heartbeat()

    # Pending requests

    def take_join_waiter(self, member: MemberMetadata) -> Deferred[JoinResult] | None:
        """Remove and return a member's pending JoinGroup. The caller must reply to it."""
        waiter = member.join_waiter
        self._set_join_waiter(member, None)
        return waiter

    def _set_join_waiter(self, member: MemberMetadata, waiter: Deferred[JoinResult] | None) -> None:
        self.num_members_awaiting_join += (waiter is not None) - (member.join_waiter is not None)
        member.wait_for_join(waiter)

    # Protocols

    def _count(self, member: MemberMetadata, by: int) -> None:
        for name, _ in member.supported_protocols:
            self.supported_protocols[name] += by

    def candidate_protocols(self) -> set[str]:
        """Return the protocols that every member supports."""
        return {name for name, count in self.supported_protocols.items() if count == self.size}

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with this protocol type and these protocols may join.

        The type must be the group's, and all members must support one of the protocols.
        """
        return self._supports(protocol_type, self.protocol_type, plain_protocol_set(protocols))

    def _supports(self, protocol_type: str, group_type: str | None, names: frozenset[str]) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == group_type and any(self.supported_protocols[name] == self.size for name in names)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. Each member votes for the first candidate in its own order.

        In Kafka the order of a hash map breaks ties. Here the member that joined first breaks them.

        Raises:
            IllegalStateError: there are no members.
        """
        if not self.members:
            raise IllegalStateError(f"group {self.group_id} has no members that could choose a protocol")
        candidates = self.candidate_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        return next(iter(self.members.values())).vote({name for name, count in votes.items() if count == most})

    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return all topics to which the members are subscribed.

        The result is None if the protocol type is not ``consumer``, no protocol is chosen, or a subscription cannot be
        decoded.
        """
        if not self.uses_consumer_protocol():
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # Later versions begin as version 0 does, which has the topics.
                subscription = memoryview(member.metadata(self.protocol_name))[2:]
                topics.update(ConsumerProtocolSubscription.decode(subscription, 0, allow_trailing=True).topics)
        except (ProtocolError, ValueError):
            return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group may be reading the topic.

        If the consumers' subscription is unknown, the answer is True.
        """
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol()
        return topic in self.subscribed_topics

    # Generations

    def init_next_generation(self) -> None:
        """End the join phase: begin a new generation and choose its protocol.

        If no member is left, the group becomes Empty.
        """
        if self.members:
            protocol = self.select_protocol()
            self.generation_id += 1
            self.protocol_name = protocol
            self.subscribed_topics = self.compute_subscribed_topics()
            self.transition_to(GroupState.COMPLETING_REBALANCE)
        else:
            self.generation_id += 1
            self.protocol_name = None
            self.subscribed_topics = self.compute_subscribed_topics()
            self.transition_to(GroupState.EMPTY)
        self.pending_sync_members.clear()
        self.received_consumer_commits = False
        self.received_transactional_commits = False

    def current_member_metadata(self) -> tuple[JoinMember, ...]:
        """Return every member with its metadata for the chosen protocol, in the form for the leader."""
        if self.is_(GroupState.PREPARING_REBALANCE, GroupState.DEAD) or self.protocol_name is None:
            raise IllegalStateError(f"group {self.group_id} has no chosen protocol in state {self.state}")
        return tuple(
            JoinMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    # Tools

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type or "", self.state.value)

    def summary(self) -> GroupSummary:
        """Return a description of the group for DescribeGroups.

        Raises ``IllegalStateError`` if it is Stable without a protocol.
        """
        protocol = None
        if self.state is GroupState.STABLE:
            protocol = self.protocol_name
            if protocol is None:
                raise IllegalStateError(f"group {self.group_id} is Stable and has no protocol")
        members = tuple(member.summary(protocol) for member in self.members.values())
        return GroupSummary(self.state.value, self.protocol_type or "", protocol or "", members)
