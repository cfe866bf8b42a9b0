"""The delayed assignor: if a member disappears, its partitions wait for its return (as in KIP-415).

A restart, or a pause longer than the session timeout, moves partitions twice in an ordinary group: away, and back.
Here the partitions of a member that is gone have no owner for ``rebalance_delay_ms``. All other members continue
undisturbed. In all other respects it is the cooperative sticky assignor.

State lives in the members only. The leader writes assigned and waiting partitions into each assignment's user data, and
members return it in their subscription's user data (:mod:`.delayed_data`). So any member can become leader. The user
data of every member names the waiting partitions. A present member's partitions are known to itself and to
:data:`WITNESSES` others, which keeps user data small. Times are sent as remaining durations, since clocks differ
between machines.

Rules of the leader

1. Only user data of the latest generation counts. Without any, no partitions wait.
2. A partition is *lost* if it was assigned in that generation, has no owner now, and its last owner is gone. A member
   is gone if both its member id and its instance id are missing. (A static member that returns is recognized, and gets
   its partitions at once.) Partitions that are new, were withheld in the first half of a move, or were given up by
   their owner never wait.
3. Each member that is gone has its own deadline: ``rebalance_delay_ms`` from the rebalance that missed it. Later
   rebalances pass the remaining time on. If members report different times, the shortest counts.
4. While partitions wait, members keep theirs, and no partition is taken away to even out shares. Partitions that are
   free for another reason go to the members with the fewest.
5. After the deadline the lost partitions are free. Those of one member go together to a member without partitions, most
   likely the same one under a new member id. Then shares are evened out as always.
6. Under eager rebalancing members join without partitions, so those that a present member had count as its own.
7. Safety rests on the members' own claims alone: user data decides only about partitions without an owner.

Rules of a member

8. When the deadline that the assignment named is over, it asks for a rebalance, whoever is first. An assignment since
   then replaces the deadline.
9. It also does so if it has to give partitions up. Under cooperative rebalancing the consumer does that by itself, but
   a static member may have been replaced by a process without partitions. So the assignment says that it *owes* one.
10. A member that leaves permanently announces it: it gives up its partitions and joins once more with a leave notice,
    so that the leader assigns them at once. Then it sends LeaveGroup. A crash, a lost session, a poll that did not come
    in time, ``close(leave_group=False)`` and the close of a static member are absences. The leader keeps it in mind
    until an assignment has reached it, for LeaveGroup may come before the others have that of the leave notice.
11. If another assignor wins the vote, the user data is out of date and is dropped.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyconsumer.assignors.balance import Balancer
from pyconsumer.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    RebalanceProtocol,
    Subscription,
    member_order,
    sorted_members,
    subscribed_topics,
)
from pyconsumer.assignors.cooperative_sticky import Claims, changing_hands, even_shares, gives_up
from pyconsumer.assignors.delayed_data import PRESENT, Memory, Share, decode, encode
from pyconsumer.clock import Clock, SystemClock
from pyconsumer.settings.config import Config
from pyconsumer.structs import ConsumerGroupMetadata, PartitionMetadata, TopicPartition

__all__ = ["DEFAULT_DELAY_MS", "WITNESSES", "CooperativeStickyDelayedAssignor"]

_log = logging.getLogger("pyconsumer.assignors")

DEFAULT_DELAY_MS: Final = 300_000
WITNESSES: Final = 3
"""How many other members remember what a member has: as many may vanish together with it."""


class CooperativeStickyDelayedAssignor(Assignor):
    """A cooperative sticky assignor. If a member disappears, its partitions wait for it to return.

    This assignor exists only in pyconsumer.

    Args:
        delay_ms: how long the partitions wait, in ms. 0 means not at all. None takes the setting
            ``rebalance_delay_ms``. For the whole group, the leader's value is used.
    """

    def __init__(self, delay_ms: int | None = None) -> None:
        if delay_ms is not None and delay_ms < 0:
            raise ValueError(f"delay_ms must not be negative: {delay_ms}")
        self._given = delay_ms
        self._delay_ms = DEFAULT_DELAY_MS if delay_ms is None else delay_ms
        self._clock: Clock = SystemClock()
        self._memory = Memory()
        self._since = 0.0
        self._has_partitions = False
        self._leaves = False
        self._left: set[str] = set()  # who said so to us, until an assignment without them reaches us

    @property
    def name(self) -> str:
        return "cooperative-sticky-delayed"

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def configure(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        delay_ms = config.as_dict().get("rebalance_delay_ms")
        if self._given is None and delay_ms is not None:
            self._delay_ms = delay_ms

    # -- a member ----------------------------------------------------------------------------------------------------

    def subscription_user_data(self, topics: frozenset[str]) -> bytes:
        """Return the last assignment, the remaining time of each delay, and whether this member leaves."""
        passed_ms = math.floor((self._clock.now() - self._since) * 1000)
        shares = tuple(share.after(passed_ms) for share in self._memory.shares)
        return encode(Memory(self._memory.generation_id, shares, tuple(sorted(self._left)), leaves=self._leaves))

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        received = decode(assignment.user_data)
        self._memory = replace(received, generation_id=metadata.generation_id)
        self._since = self._clock.now()
        self._has_partitions = bool(assignment.partitions)
        self._left.clear()

    def on_voted_out(self) -> None:
        self._memory = Memory()
        self._has_partitions = False

    def rebalance_due_in(self) -> float:
        """Return the seconds until the first delay ends. Infinity if there is no delay.

        0 if this member must join again.
        """
        if self._memory.owes:
            return 0.0
        left = [share.left_ms for share in self._memory.shares if share.left_ms != PRESENT]
        if not left:
            return math.inf
        return max(0.0, min(left) / 1000 - (self._clock.now() - self._since))

    def announce_leaving(self, leaves: bool) -> bool:
        self._leaves = leaves and self._delay_ms > 0 and self._has_partitions
        return self._leaves

    # -- the leader --------------------------------------------------------------------------------------------------

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        memories = {member: decode(subscriptions[member].user_data) for member in subscriptions}
        staying = {
            member: subscriptions[member]
            for member in sorted(subscriptions, key=member_order)
            if not memories[member].leaves
        }
        topics = subscribed_topics(cluster, staying)
        self._left.update(subscriptions.keys() - staying.keys())
        past = _Past(topics, subscriptions, staying, _latest(memories), self._delay_ms)
        members = past.with_claims()
        if past.waiting:
            for share in past.waiting:
                _log.info(
                    "%.1f s more to wait for %s, which had %s",
                    share.left_ms / 1000,
                    share.owner,
                    _text(share.partitions),
                )
            shares, moving = _as_they_are(topics, members, past)
        elif members:
            shares, moving = even_shares(cluster, topics, members)
        else:
            shares, moving = {}, ()
        withheld = past.owned.intersection(moving)  # what comes back, and what was lost, nobody owns yet
        given = {member: tuple(p for p in share if p not in withheld) for member, share in shares.items()}
        said = _messages(staying, given, past.waiting)
        return {
            member: Assignment(given.get(member, ()), encode(said.get(member, Memory()))) for member in subscriptions
        }


class _Past:
    """The last assignment, and its changes since.

    Attributes:
        owned: partitions that somebody owns now.
        back: partitions without an owner, by the present member that had them.
        waiting: the partitions of members that are gone, with their remaining delay.
        over: the same, where the delay is over.
    """

    def __init__(
        self,
        topics: Mapping[str, Collection[object]],
        subscriptions: Mapping[str, Subscription],
        staying: Mapping[str, Subscription],
        latest: Sequence[Share],
        delay_ms: int,
    ) -> None:
        self.back: dict[str, list[TopicPartition]] = {}
        self.waiting: list[Share] = []
        self.over: list[Share] = []
        self._staying = staying
        self.owned = {p for subscription in subscriptions.values() for p in subscription.owned_partitions}
        instances = {s.group_instance_id: member for member, s in subscriptions.items() if s.group_instance_id}
        for share in latest:
            known = (p for p in share.partitions if 0 <= p.partition < len(topics.get(p.topic, ())))
            free = tuple(p for p in known if p not in self.owned)
            if not free:
                continue
            member = share.member_id if share.member_id in subscriptions else instances.get(share.instance_id or "")
            if member is None:
                left_ms = delay_ms if share.left_ms == PRESENT else min(share.left_ms, delay_ms)
                lost = share._replace(partitions=free, left_ms=left_ms)
                (self.waiting if left_ms > 0 else self.over).append(lost)
            elif member in staying:
                self.back.setdefault(member, []).extend(p for p in free if p.topic in staying[member].topics)

    def with_claims(self) -> dict[str, Subscription]:
        """Return the members with their returning partitions. Members without partitions also get lost ones."""
        members = {
            member: self._claim(subscription, self.back.get(member, ()))
            for member, subscription in self._staying.items()
        }
        idle = [member for member in sorted_members(members) if not members[member].owned_partitions]
        for share in self.over:
            for member in idle:
                if any(p.topic in members[member].topics for p in share.partitions):
                    members[member] = self._claim(members[member], share.partitions)
                    idle.remove(member)
                    break
        return members

    @staticmethod
    def _claim(subscription: Subscription, partitions: Iterable[TopicPartition]) -> Subscription:
        # without user data: that of the plain assignor would be a generation (Kafka 2.4 to 3.1)
        return replace(subscription, owned_partitions=(*subscription.owned_partitions, *partitions), user_data=None)


def _latest(memories: Mapping[str, Memory]) -> list[Share]:
    """Return the shares of the latest generation that a member knows of, with the least remaining time of
    delays.
    """
    newest = max((memory.generation_id for memory in memories.values()), default=-1)
    left = {member for memory in memories.values() for member in memory.left}
    found: dict[str, Share] = {}
    if newest >= 0:
        for member in sorted(memories, key=member_order):
            if memories[member].generation_id == newest:
                for share in memories[member].shares:
                    before = found.get(share.member_id)
                    if share.member_id not in left and (before is None or share.left_ms < before.left_ms):
                        found[share.member_id] = share
    return [found[member] for member in sorted(found, key=member_order)]


def _as_they_are(
    topics: Mapping[str, Sequence[PartitionMetadata]], members: Mapping[str, Subscription], past: _Past
) -> tuple[dict[str, list[TopicPartition]], Collection[TopicPartition]]:
    """Keep all owned partitions. Free partitions that do not wait go to the members with the fewest."""
    claims = Claims(members, topics)
    shares = {member: [p for p in claims.owned[member] if p.topic in members[member].topics] for member in members}
    wanted = {member: {t for t in subscription.topics if t in topics} for member, subscription in members.items()}
    balancer = Balancer(shares, wanted, {topic: len(partitions) for topic, partitions in topics.items()}, tolerance=1)
    taken = {partition for share in past.waiting for partition in share.partitions} | balancer.owner.keys()
    everything = (TopicPartition(topic, p) for topic in topics for p in range(len(topics[topic])))
    balancer.deal([partition for partition in everything if partition not in taken])
    return shares, changing_hands(members, shares) | claims.contested


def _messages(
    members: Mapping[str, Subscription], given: Mapping[str, Sequence[TopicPartition]], waiting: Sequence[Share]
) -> dict[str, Memory]:
    """Return each member's user data: all waiting partitions, its own share, and those of the next members in a
    circle.
    """
    order = sorted(members, key=member_order)
    shares = [Share(member, members[member].group_instance_id, tuple(given.get(member, ()))) for member in order]
    circle = shares + shares
    span = min(1 + WITNESSES, len(order))
    return {
        member: Memory(
            shares=(*waiting, *circle[place : place + span]),
            owes=gives_up(members[member], given.get(member, ())),
        )
        for place, member in enumerate(order)
    }


def _text(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
