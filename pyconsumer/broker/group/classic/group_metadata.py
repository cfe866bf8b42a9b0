"""One group: its state table, its members, and its generation, votes and assignment.

Nothing here waits, writes or answers. A member's pending request is a :class:`Deferred` that the group only keeps;
``take_*`` returns it to the coordinator, which answers it.

States
------
A group is a small state machine, and :data:`PREDECESSORS` is its whole table of moves.

1. *Empty*: no members. A new group, one whose last member left, or one that only stores offsets.
2. *PreparingRebalance*: members are joining. Joins are held until all members have come or the time is over.
3. *CompletingRebalance*: a generation exists, and the leader's assignment is awaited.
4. *Stable*: every member of the generation has its assignment.
5. *Dead*: given up, because it was deleted, expired, or this broker is no longer its coordinator. Nothing leaves it.

No state is entered from itself, except Dead: giving up a group twice is no error.

Members
-------
:class:`MemberMetadata` is one member, as the coordinator keeps it and as tools see it.

Groups
------
:class:`GroupMetadata` holds the members and applies the rules that need nothing but the group itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.offsets import GroupOffsets
from pyconsumer.broker.group.results import (
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

#: The protocol type of consumer groups; other clients (Kafka Connect, for one) have their own.
CONSUMER_PROTOCOL_TYPE = "consumer"

#: A member's assignment strategies in its order of preference, each with the subscription that goes with it.
Protocols = Sequence[tuple[str, bytes]]


class GroupState(Enum):
    """State of a group; the value is its name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    def __str__(self) -> str:
        return self.value


#: From which states each state may be entered.
PREDECESSORS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


def plain_protocol_set(protocols: Protocols) -> frozenset[str]:
    """The names alone: without order, duplicates and subscriptions."""
    return frozenset(name for name, _ in protocols)


class MemberMetadata:
    """A member: who it is, what it can do, what it was given and what it waits for.

    Args:
        member_id: made by the coordinator; replaced when a static member comes back under a new one.
        group_instance_id: makes it a static member (KIP-345).
        client_host: where its requests come from, such as ``/127.0.0.1``.
        rebalance_timeout_ms: the client's ``max.poll.interval.ms``: how long others wait for it in a rebalance.
        session_timeout_ms: how long it may be silent.
        protocol_type: ``consumer``, ``connect`` or whatever the group is used for.
        supported_protocols: its strategies, the preferred one first.
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
        #: Set while its JoinGroup is pending, and while its SyncGroup is.
        self.join_waiter: Deferred[JoinResult] | None = None
        self.sync_waiter: Deferred[SyncResult] | None = None
        #: Its first join is pending: it does not know its id yet, so it cannot send heartbeats.
        self.is_new = is_new
        #: The end of its session.
        self.heartbeat: TimerHandle | None = None

    def update(self, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Replace its strategies and timeouts."""
        self.supported_protocols = tuple(protocols)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms

    def rename(self, member_id: str) -> None:
        """Take another id, as a static member that has come back."""
        self.member_id = member_id

    def assign(self, assignment: bytes) -> None:
        """Replace its assignment."""
        self.assignment = assignment

    def joined(self) -> None:
        """Record that it knows its id, and so can send heartbeats."""
        self.is_new = False

    def wait_for_join(self, waiter: Deferred[JoinResult] | None) -> None:
        """Keep its pending JoinGroup; :class:`GroupMetadata` counts these."""
        self.join_waiter = waiter

    def wait_for_sync(self, waiter: Deferred[SyncResult]) -> None:
        """Keep its pending SyncGroup."""
        self.sync_waiter = waiter

    def take_sync_waiter(self) -> Deferred[SyncResult] | None:
        """Return its pending SyncGroup, which it does not wait for any more."""
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
        """Return whether the end of its session may pass unpunished: it waits for us. A new member gets no such
        grace.
        """
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    def restart_heartbeat(self, handle: TimerHandle) -> None:
        """Replace the end of its session."""
        self.stop_heartbeat()
        self.heartbeat = handle

    def stop_heartbeat(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.cancel()
            self.heartbeat = None

    def matches(self, protocols: Protocols) -> bool:
        """Return whether these are the strategies it has: the same names in the same order, with the same bytes."""
        return self.supported_protocols == tuple(protocols)

    def metadata(self, protocol: str) -> bytes:
        """Its subscription for one strategy; ``ValueError`` if it does not support that."""
        for name, metadata in self.supported_protocols:
            if name == protocol:
                return metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol!r}")

    def vote(self, candidates: Container[str]) -> str:
        """The first of its strategies that is a candidate; ``ValueError`` if none is."""
        for name, _ in self.supported_protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} does not support any of the candidate protocols")

    def summary(self, protocol: str | None) -> MemberSummary:
        """Return what tools see; the subscription only if ``protocol`` says what was chosen."""
        return MemberSummary(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol is None else self.metadata(protocol),
            self.assignment,
        )


def require_unique(protocols: Iterable[tuple[str, bytes]]) -> None:
    """``IllegalStateError`` if a strategy is listed twice: it would vote twice. The request layer keeps the first."""
    names = [name for name, _ in protocols]
    if len(set(names)) != len(names):
        raise IllegalStateError(f"a member lists a protocol twice: {names}")


class GroupMetadata:
    """A group of the classic protocol as its coordinator knows it.

    Args:
        group_id: may be empty for groups that only store offsets.
        initial_state: Empty, or Stable for one that was loaded with members.
    """

    group_type = CLASSIC_TYPE

    def __init__(self, group_id: str, initial_state: GroupState, clock: Clock) -> None:
        self.group_id = group_id
        self._clock = clock
        self.state = initial_state
        #: The state before the last move; says in PreparingRebalance whether the group was empty.
        self.previous_state: GroupState | None = None
        #: Wall time of the last move in ms; None if the record it was loaded from does not say.
        self.current_state_timestamp: int | None = clock.wall_ms()
        #: Completed join phases; 0 before the first.
        self.generation_id = 0
        self.leader_id: str | None = None
        #: Read from a record without a leader: the coordinator that wrote it had a rebalance to begin.
        self.rebalance_is_due = False
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        #: Topics that members of a Stable ``consumer`` group subscribe to; None if that is not known.
        self.subscribed_topics: frozenset[str] | None = None
        #: In order of joining.
        self.members: dict[str, MemberMetadata] = {}
        #: Group instance id -> member id.
        self.static_members: dict[str, str] = {}
        #: Ids that were issued with MEMBER_ID_REQUIRED and not used yet, each with the end of its life.
        self.pending_members: dict[str, TimerHandle] = {}
        #: Members of this generation whose SyncGroup has not come.
        self.pending_sync_members: set[str] = set()
        #: How many members support each strategy; entries may stay at 0.
        self.supported_protocols: Counter[str] = Counter()
        self.num_members_awaiting_join = 0
        #: Somebody joined during the initial delay, so it may be prolonged.
        self.new_member_added = False
        #: Why and when (monotonic) the rebalance began that is continuing, and who was in the last generation.
        self.rebalance_reason = ""
        self.rebalance_started = 0.0
        self.last_members: frozenset[str] = frozenset()
        self.join_timer: TimerHandle | None = None
        self.sync_timer: TimerHandle | None = None
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
        """A group as its registration record describes it: Stable with members, else Empty."""
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
        """A Stable group whose members were in a group of the consumer protocol until now; it keeps the offsets."""
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
        """Return whether a rebalance can begin now; not if one is being prepared already."""
        return self.state in PREDECESSORS[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState) -> None:
        """Move to a state; ``IllegalStateError`` if the table does not allow it, and nothing changes."""
        if self.state not in PREDECESSORS[state]:
            raise IllegalStateError(f"group {self.group_id} cannot move from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp = self._clock.wall_ms()

    def set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """Give each member what it had in the group of the other protocol."""
        for member in self.members.values():
            member.assign(assignments[member.member_id])

    def adopt(self, offsets: GroupOffsets) -> None:
        """Adopt the offsets of the group of the other protocol that this one replaces."""
        self.offsets = offsets

    def end(self) -> None:
        """Give the group up: it was deleted or has expired."""
        self.transition_to(GroupState.DEAD)
        self.stop_timers()

    # Members

    def has(self, member_id: str) -> bool:
        return member_id in self.members

    def get(self, member_id: str) -> MemberMetadata:
        """The member; ``KeyError`` if there is none."""
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
        """Return whether another member id has taken over this instance id."""
        return group_instance_id is not None and self.static_members.get(group_instance_id, member_id) != member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members'; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Return whether every member waits for the end of the join phase, and no issued id is still unused."""
        return self.size == self.num_members_awaiting_join and not self.pending_members

    @property
    def not_yet_rejoined(self) -> list[MemberMetadata]:
        return [member for member in self.members.values() if not member.is_awaiting_join]

    def add(self, member: MemberMetadata, waiter: Deferred[JoinResult] | None = None) -> None:
        """Admit a member; the first one leads.

        Raises:
            IllegalStateError: it is a member already, belongs to another group or protocol type, or has no strategy
                that all others have. Such a request must have been refused before.
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
        """Take a member out, with whatever is kept under its id; an unknown id changes nothing.

        Its pending requests are not answered here: take them first.
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
        """Replace what a rejoining member can do, its timeouts, and the request that waits."""
        require_unique(protocols)
        self._count(member, -1)
        member.update(protocols, rebalance_timeout_ms, session_timeout_ms)
        self._count(member, 1)
        self._set_join_waiter(member, waiter)

    def replace_static_member(self, group_instance_id: str, old_id: str, new_id: str) -> MemberMetadata:
        """Give a static member that came back its new id. Place, assignment and leadership stay."""
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
        """Forget an issued id; whether it was there."""
        expiry = self.pending_members.pop(member_id, None)
        if expiry is not None:
            expiry.cancel()
        return expiry is not None

    def maybe_elect_joined_leader(self) -> bool:
        """Make sure that the leader is one that has rejoined; False if nobody has, the leader then stays."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None or not leader.is_awaiting_join:
            joined = next((member for member in self.members.values() if member.is_awaiting_join), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # Rebalances

    def begin_rebalance(self, reason: str, now: float) -> None:
        """Record why a rebalance begins, and when (monotonic seconds); nobody has joined in it yet."""
        self.rebalance_reason, self.rebalance_started = reason, now
        self.new_member_added = False

    def note_new_member(self, added: bool = True) -> None:
        """Record that a new member came while the first rebalance waits for more; False begins another wait."""
        self.new_member_added = added

    def remember_members(self) -> None:
        """Keep the members of this generation, for the log of the next one."""
        self.last_members = frozenset(self.members)

    def note_commits(self, *, transactional: bool) -> None:
        """Record that offsets were committed, in a transaction or by a member."""
        if transactional:
            self.received_transactional_commits = True
        else:
            self.received_consumer_commits = True

    def start_join_timer(self, timer: TimerHandle) -> None:
        """Keep the timer that ends the join phase."""
        self.join_timer = timer

    def stop_join_timer(self) -> None:
        """Cancel the timer that ends the join phase."""
        if self.join_timer is not None:
            self.join_timer.cancel()
            self.join_timer = None

    def start_sync_timer(self, timer: TimerHandle) -> None:
        """Keep the timer that ends the wait for SyncGroups."""
        self.sync_timer = timer

    def stop_sync_timer(self) -> None:
        """Cancel the timer that ends the wait for SyncGroups."""
        if self.sync_timer is not None:
            self.sync_timer.cancel()
            self.sync_timer = None

    def stop_timers(self) -> None:
        """Cancel everything that would happen to the group by itself."""
        self.stop_join_timer()
        self.stop_sync_timer()
        for handle in self.pending_members.values():
            handle.cancel()
        for member in self.members.values():
            member.stop_heartbeat()

    # Pending requests

    def take_join_waiter(self, member: MemberMetadata) -> Deferred[JoinResult] | None:
        """The pending JoinGroup, which the caller answers; the member does not wait any more."""
        waiter = member.join_waiter
        self._set_join_waiter(member, None)
        return waiter

    def _set_join_waiter(self, member: MemberMetadata, waiter: Deferred[JoinResult] | None) -> None:
        self.num_members_awaiting_join += (waiter is not None) - (member.join_waiter is not None)
        member.wait_for_join(waiter)

    # Strategies

    def _count(self, member: MemberMetadata, by: int) -> None:
        for name, _ in member.supported_protocols:
            self.supported_protocols[name] += by

    def candidate_protocols(self) -> set[str]:
        """The strategies that every member supports."""
        return {name for name, count in self.supported_protocols.items() if count == self.size}

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether somebody with these may join: the type is the group's, and one strategy is supported by
        all.
        """
        return self._supports(protocol_type, self.protocol_type, plain_protocol_set(protocols))

    def _supports(self, protocol_type: str, group_type: str | None, names: frozenset[str]) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == group_type and any(self.supported_protocols[name] == self.size for name in names)

    def select_protocol(self) -> str:
        """The strategy with the most votes; each member votes for the first candidate in its own order.

        Kafka leaves ties to the order of a hash map. Here the tied strategy wins that the longest-standing member
        prefers.

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
        """The topics in the members' subscriptions; None if the group is no consumer group or they cannot be read."""
        if not self.uses_consumer_protocol():
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                # Version 0 is the beginning of all later ones, and topics are all that is wanted.
                subscription = memoryview(member.metadata(self.protocol_name))[2:]
                topics.update(ConsumerProtocolSubscription.decode(subscription, 0, allow_trailing=True).topics)
        except (ProtocolError, ValueError):
            return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group may be reading the topic; a consumer group whose subscription is not known may."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol()
        return topic in self.subscribed_topics

    # Generations

    def init_next_generation(self) -> None:
        """End the join phase: count up, and choose the strategy, or become Empty if nobody is left."""
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
        """Return what the leader receives: every member with its subscription for the chosen strategy."""
        if self.is_(GroupState.PREPARING_REBALANCE, GroupState.DEAD) or self.protocol_name is None:
            raise IllegalStateError(f"group {self.group_id} has no chosen protocol in state {self.state}")
        return tuple(
            JoinMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    # What tools see

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type or "", self.state.value)

    def summary(self) -> GroupSummary:
        """See :class:`GroupSummary`; ``IllegalStateError`` for a Stable group without a strategy."""
        protocol = None
        if self.state is GroupState.STABLE:
            protocol = self.protocol_name
            if protocol is None:
                raise IllegalStateError(f"group {self.group_id} is Stable and has no protocol")
        members = tuple(member.summary(protocol) for member in self.members.values())
        return GroupSummary(self.state.value, self.protocol_type or "", protocol or "", members)
