"""Members of a share group, their sessions, and three real brokers without sockets, through everything that may happen.

Real are the brokers with their handlers: group coordinator, share coordinator, leaders and sessions. Members are small
programs that send heartbeats, fetch from each leader in a session, and acknowledge. Requests and answers take time.
Connections break, answers are lost, members stall, crash, leave and come back. Brokers die and come back, leaders and
coordinators move, and topics are created and deleted.

Rules, checked when a broker delivers and at the end
----------------------------------------------------
1. A record that was accepted or rejected, and confirmed, is never delivered again.
2. As long as a lock has not ended, no other member gets its record from the same leader. A lock ends by an
   acknowledgement, by time, and with the session.
3. The delivery count of a record never exceeds the limit, and is at most one more than the number of its deliveries.
4. Records that are delivered to a member are in the response.
5. At the end the group has read all records that were stored. Each was confirmed as final, or may be final by an
   acknowledgement without an answer, or has reached the limit.
6. At the end epochs stay, and each partition is assigned. When all have gone, no session and no share partition is
   left.
7. Records are delivered only in the session of the request, while it is the present one of its member.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.broker.controller import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from pyconsumer.broker.share.sessions import SessionKey
from pyconsumer.broker.timer import TimerHandle
from pyconsumer.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    Errors,
    ShareSessionNotFoundError,
)
from pyconsumer.protocol.records import scan
from pyconsumer.structs import AcknowledgeType
from tests.simulation.share.world import BrokenRule
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.share.support import Connection, acknowledging, fetching, heartbeat, produced

__all__ = ["GROUP", "LIMIT", "LOCK_S", "NODES", "TOPICS", "MembersWorld", "Place", "play_members"]

LIMIT: Final = 4
TOPICS: Final = ("t", "u", "w")
GROUP: Final = "g"
NODES: Final = 3
LOCK_S: Final = 4.0
_BEAT_S: Final = 0.5
_STEPS: Final = 70
_FINAL: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
_REJOINS: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND)
#: Topic id and partition.
_Shared = tuple[bytes, int]
#: Topic id, partition and offset.
Place = tuple[bytes, int, int]


class _Link:
    """A member's connection to one broker, and its share session there."""

    def __init__(self, world: MembersWorld, node: int) -> None:
        self.connection = Connection(world.brokers, node)
        self.life = world.lives[node]
        self.node = node
        self.epoch = 0
        self.partitions: set[_Shared] = set()
        self.is_busy = False


class Member:
    """A member of the group. It fetches and acknowledges by itself, as long as it is not stalled."""

    def __init__(self, world: MembersWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.epoch = 0
        self.assigned: set[_Shared] = set()
        self.links: dict[int, _Link] = {}
        self.held: dict[Place, int] = {}
        self.stalled_until = 0.0
        self.is_gone = False
        self.is_unsure = self.is_beating = False
        self._beat()

    # --- the group

    def _beat(self) -> None:
        world = self.world
        if self.is_gone:
            return
        world.after(_BEAT_S * world.random.uniform(0.8, 1.2), self._beat)
        if world.now < self.stalled_until or self.is_beating:
            return
        coordinator = world.leader_of(OFFSETS_TOPIC, 0)
        if coordinator is None:
            return
        self.is_beating = True
        names = list(TOPICS) if self.epoch == 0 or self.is_unsure else None
        request = heartbeat(GROUP, self.name, self.epoch, names)
        world.call(Connection(world.brokers, coordinator), request, 1, self._on_beat, lost=self._on_lost_beat)

    def _on_lost_beat(self) -> None:
        self.is_beating = False
        self.is_unsure = True  # the answer may have had an assignment. A whole request asks for it once more.

    def _on_beat(self, answer: Any) -> None:
        if self.is_gone:
            return
        self.is_beating = False
        self.is_unsure = answer.error_code != 0
        if answer.error_code in _REJOINS:
            self.world.note(f"{self.name} joins anew: {answer.error_code}")
            self.epoch, self.assigned = 0, set()
        elif answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {
                    (bytes(topic.topic_id), index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                }

    def leave(self, *, crash: bool) -> None:
        """Leave the group, and never come back."""
        world = self.world
        world.note(f"{self.name} {'crashes' if crash else 'leaves'}")
        self.is_gone = True
        coordinator = world.leader_of(OFFSETS_TOPIC, 0)
        for node in list(self.links):
            link = self.links.pop(node)
            if not crash and world.random.random() < 0.5 and link.life == world.lives[node]:
                link.connection.ask(acknowledging(GROUP, self.name, -1, {}))
                world.session_ended(self.name, node)
            world.connection_ended(self.name, link.connection)
        if not crash and coordinator is not None:
            Connection(world.brokers, coordinator).ask(heartbeat(GROUP, self.name, -1), 1)

    # --- sessions

    def link(self, node: int) -> _Link | None:
        """Return the connection to a broker, which may have to be made. None if the broker is dead."""
        world = self.world
        found = self.links.get(node)
        if found is not None and (found.life != world.lives[node] or not found.connection.is_open):
            self.cut(node)
            found = None
        if found is None and node in world.brokers.alive:
            found = self.links[node] = _Link(world, node)
        return found

    def cut(self, node: int) -> None:
        """Lose the connection to a broker."""
        link = self.links.pop(node, None)
        if link is not None:
            self.world.connection_ended(self.name, link.connection)

    def forget(self, node: int) -> None:
        """Lose the connection to a broker, which notices that later. The member opens another session before."""
        world, connection = self.world, self.links.pop(node).connection
        world.lose(connection)

        world.after(world.random.choice((1.0, 6.0)), lambda: world.connection_ended(self.name, connection))

    def fetch(self) -> None:
        """Fetch from a leader, if no request to it is under way. Perhaps acknowledge in the same request."""
        world = self.world
        if self.is_gone or world.now < self.stalled_until or not self.assigned:
            return
        node = world.leader(world.random.choice(sorted(self.assigned)))
        link = None if node is None else self.link(node)
        if link is None or link.is_busy:
            return
        wanted = {shared for shared in self.assigned if world.leader(shared) == node}
        if link.epoch == 0:
            link.partitions = set()
        acks = self._choose(link) if link.epoch and world.random.random() < 0.5 else {}
        request = fetching(
            GROUP,
            self.name,
            link.epoch,
            sorted(wanted - link.partitions),
            forgotten=sorted(link.partitions - wanted),
            acks=_as_acks(acks),
            wait_ms=world.random.choice((0, 200, 2000)),
            max_records=world.random.choice((1, 5, 500)),
            exact=world.random.random() < 0.4,
        )
        link.partitions = wanted
        self._send(link, request, acks)

    def acknowledge(self) -> None:
        """Acknowledge some records at one of the brokers."""
        links = [link for link in self.links.values() if link.epoch and not link.is_busy]
        if self.is_gone or self.world.now < self.stalled_until or not links:
            return
        link = self.world.random.choice(links)
        acks = self._choose(link)
        if acks:
            renews = AcknowledgeType.RENEW in acks.values()
            self._send(link, acknowledging(GROUP, self.name, link.epoch, _as_acks(acks), renews=renews), acks)

    def _choose(self, link: _Link) -> dict[Place, AcknowledgeType]:
        world = self.world
        mine = sorted(place for place in self.held if world.leader(place[:2]) == link.node)
        if not world.is_draining:
            mine = [place for place in mine if world.random.random() < 0.7]
        kinds = (*_FINAL, AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE)
        chosen = {place: AcknowledgeType.ACCEPT if world.is_draining else world.random.choice(kinds) for place in mine}
        for place in chosen:
            del self.held[place]
        return chosen

    def _send(self, link: _Link, request: Any, acks: dict[Place, AcknowledgeType]) -> None:
        world = self.world
        link.is_busy = True
        sent_epoch = link.epoch

        def served(answer: Any) -> None:
            world.served(self.name, link, acks, answer)

        def answered(answer: Any) -> None:
            link.is_busy = False
            if answer.error_code:
                world.note(f"{self.name} at broker {link.node}: error {answer.error_code} in epoch {sent_epoch}")
                link.epoch = 0
                return
            link.epoch = sent_epoch + 1
            for place, count in world.acquired(answer):
                if place[:2] in self.assigned and not self.is_gone:
                    self.held[place] = count

        def lost() -> None:
            if self.links.get(link.node) is link:
                self.cut(link.node)

        world.maybe(acks)  # until there is an answer
        world.call(link.connection, request, 2, answered, served, lost, acks, self.name)


class MembersWorld:
    """One schedule. See the module."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.is_draining = False
        self.brokers = Brokers(
            None,
            NODES,
            forgetful=True,
            offsets_topic_num_partitions=1,
            offsets_topic_replication_factor=3,
            share_coordinator_state_topic_num_partitions=1,
            share_coordinator_state_topic_replication_factor=3,
            share_coordinator_state_topic_min_isr=2,
            share_coordinator_snapshot_update_records_per_snapshot=7,
            group_share_min_session_timeout_ms=500,
            group_share_min_heartbeat_interval_ms=500,
            group_share_heartbeat_interval_ms=500,
            group_share_session_timeout_ms=3000,
            group_share_min_record_lock_duration_ms=1000,
            group_share_record_lock_duration_ms=int(LOCK_S * 1000),
            group_share_delivery_count_limit=LIMIT,
            group_share_assignment_interval_ms=0,
            group_share_min_assignment_interval_ms=0,
            group_share_initialize_retry_interval_ms=2000,
            replica_lag_time_max_ms=2000,
            min_insync_replicas=2,
        )
        self.lives = dict.fromkeys(range(NODES), 0)
        self.controller = self.brokers.controller
        self.controller.update_features({"share.version": 1})
        self.controller.create_topic("t", 2, NODES, {})
        for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            self.controller.ensure_internal(name)
        self.controller.group_configs[GROUP] = {"share.auto.offset.reset": "earliest"}
        self.stored: set[Place] = set()
        self.finals: set[Place] = set()
        self.maybe_final: set[Place] = set()
        self.limited: set[Place] = set()
        self.deliveries: dict[Place, int] = defaultdict(int)
        self.locks: dict[Place, tuple[str, float, int, int]] = {}
        self.deleted: set[bytes] = set()
        self.sessions: dict[tuple[str, int], Connection] = {}
        self.unheard: set[Connection] = set()
        self.names = 0
        self.brokers.advance(0.5)
        self._look_after()
        self.members: list[Member] = []
        for _ in range(2):
            self.join()

    def _look_after(self) -> None:
        for broker in list(self.brokers.alive.values()):
            broker.shrink_isrs()
        self.after(0.5, self._look_after)

    # --- helpers

    @property
    def now(self) -> float:
        return self.brokers.clock.now()

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now:8.2f} {text}")

    def broken(self, text: str) -> None:
        raise BrokenRule("\n".join([*self.trace, text]))

    def after(self, seconds: float, call: Callable[[], object]) -> TimerHandle:
        return self.brokers.timer.schedule(self.now + seconds, call)  # type: ignore[arg-type]

    def leader_of(self, topic: str, index: int) -> int | None:
        """Return the living leader of a partition, or None."""
        found = self.controller.topics.get(topic)
        node = -1 if found is None else found.partitions[index].leader
        return node if node in self.brokers.alive else None

    def leader(self, shared: _Shared) -> int | None:
        name = self.controller.name_of(shared[0])
        return None if name is None else self.leader_of(name, shared[1])

    def _leader_epoch(self, shared: _Shared) -> int:
        name = self.controller.name_of(shared[0])
        return -1 if name is None else self.controller.topics[name].partitions[shared[1]].leader_epoch

    def call(
        self,
        connection: Connection,
        request: Any,
        version: int,
        answered: Callable[[Any], None],
        served: Callable[[Any], None] = lambda answer: None,
        lost: Callable[[], None] = lambda: None,
        acks: dict[Place, AcknowledgeType] | None = None,
        member: str = "",
    ) -> None:
        """Send a request that takes a while, and whose answer does. Either may be lost with the connection."""
        life = self.lives[connection.node]
        delay = lambda: self.random.expovariate(50) if self.random.random() < 0.9 else self.random.random()  # noqa: E731
        waiting: list[object] = []  # the session of a request that was not answered at once
        breaks = 0.0 if self.is_draining else self.random.random()

        def is_there() -> bool:
            return connection.is_open and self.lives[connection.node] == life

        def arrive() -> None:
            if not is_there() or breaks > 0.98:
                lost()
                return
            for place, kind in (acks or {}).items():
                if kind is not AcknowledgeType.RENEW and self.locks.get(place, ("",))[0] == member:
                    del self.locks[place]
            if getattr(request, "share_session_epoch", -2) == 0:
                self.sessions[member, connection.node] = connection
            connection.send(request, version, on_served)
            if member:
                waiting.append(self.session_of(connection, member))

        def on_served(answer: Any) -> None:
            if waiting and self.acquired(answer) and self.session_of(connection, member) is not waiting[0]:
                self.broken(f"rule 7: {member} gets records from broker {connection.node} in a session that has ended")
            served(answer)
            self.after(delay(), lambda: deliver(answer))

        def deliver(answer: Any) -> None:
            if not is_there() or breaks > 0.96 or connection in self.unheard:
                lost()
            else:
                answered(answer)

        self.after(delay(), arrive)

    def session_of(self, connection: Connection, member: str) -> object:
        """Return a member's present session with the broker of a connection, or None."""
        try:
            return connection.broker.share_partitions.sessions.get(SessionKey(GROUP, member))
        except ShareSessionNotFoundError:
            return None

    # --- the ledger

    def acquired(self, answer: Any) -> list[tuple[Place, int]]:
        return [
            ((bytes(topic.topic_id), partition.partition_index, offset), one.delivery_count)
            for topic in getattr(answer, "responses", ())
            for partition in topic.partitions
            for one in getattr(partition, "acquired_records", ())
            for offset in range(one.first_offset, one.last_offset + 1)
        ]

    def maybe(self, acks: dict[Place, AcknowledgeType]) -> None:
        """Note acknowledgements that may take effect without an answer."""
        self.maybe_final |= {place for place, kind in acks.items() if kind in _FINAL}

    def served(self, member: str, link: _Link, acks: dict[Place, AcknowledgeType], answer: Any) -> None:
        """Check the work of a broker for a member."""
        node = link.node
        codes: dict[_Shared, int] = {}
        for topic in answer.responses:
            for one in topic.partitions:
                shared = (bytes(topic.topic_id), one.partition_index)
                codes[shared] = getattr(one, "acknowledge_error_code", one.error_code)
                self._check_records(one)
        if answer.error_code == 0:
            for place, kind in acks.items():
                if kind in _FINAL and codes.get(place[:2]) == 0:
                    self.finals.add(place)
        for place, count in self.acquired(answer):
            self._delivered(member, node, place, count)

    def _check_records(self, one: Any) -> None:
        batches = scan(one.records) if getattr(one, "records", None) else []
        for got in getattr(one, "acquired_records", ()):
            present = {offset for batch in batches for offset in range(batch.base_offset, batch.last_offset + 1)}
            missing = [offset for offset in range(got.first_offset, got.last_offset + 1) if offset not in present]
            if missing:
                self.broken(f"rule 4: {missing} were acquired and not sent")

    def _delivered(self, member: str, node: int, place: Place, count: int) -> None:
        epoch = self._leader_epoch(place[:2])
        if place in self.finals:
            self.broken(f"rule 1: {place} was confirmed and is delivered again to {member}")
        holder, until, before, _ = self.locks.get(place, ("", 0.0, 0, 0))
        if holder and until > self.now and before == epoch:
            self.broken(f"rule 2: {place} is delivered to {member} while {holder} holds it until {until:.2f}")
        if count > LIMIT or count > self.deliveries[place] + 1:
            self.broken(f"rule 3: {place} has count {count} after {self.deliveries[place]} deliveries")
        self.deliveries[place] += 1
        if count == LIMIT:
            self.limited.add(place)
        self.locks[place] = (member, self.now + LOCK_S, epoch, node)

    def lose(self, connection: Connection) -> None:
        """Note that answers on a connection do not arrive any more."""
        self.unheard.add(connection)

    def connection_ended(self, member: str, connection: Connection) -> None:
        """End a connection, and with it the session that was opened on it, if it is the present one."""
        if self.sessions.get((member, connection.node)) is connection:
            self.session_ended(member, connection.node)
        connection.close()

    def session_ended(self, member: str, node: int) -> None:
        """Note that a member's session with a broker has ended, so that its locks there have."""
        self.sessions.pop((member, node), None)
        for place, (holder, _, _, at) in list(self.locks.items()):
            if (holder, at) == (member, node):
                del self.locks[place]

    # --- the actions

    def join(self) -> None:
        if len(self.members) < 5:
            self.names += 1
            self.note(f"m{self.names} joins")
            self.members.append(Member(self, f"m{self.names}"))

    def _member(self) -> Member | None:
        return self.random.choice(self.members) if self.members else None

    def go(self) -> None:
        member = self._member()
        if member is not None:
            self.members.remove(member)
            member.leave(crash=self.random.random() < 0.5)

    def cut(self) -> None:
        member = self._member()
        if member is not None and member.links:
            node = self.random.choice(sorted(member.links))
            if self.random.random() < 0.5:
                self.note(f"the connection of {member.name} to broker {node} breaks")
                member.cut(node)
            else:
                self.note(f"{member.name} hears nothing from broker {node}")
                member.forget(node)

    def stall(self) -> None:
        member = self._member()
        if member is not None:
            member.stalled_until = self.now + self.random.choice((1.0, 5.0, 10.0))
            self.note(f"{member.name} stalls until {member.stalled_until:.2f}")

    def produce(self) -> None:
        name = self.random.choice(sorted({*TOPICS} & self.controller.topics.keys()))
        topic = self.controller.topics[name]
        index = self.random.randrange(len(topic.partitions))
        node = self.leader_of(name, index)
        if node is None:
            return
        count = self.random.randint(1, 8)
        request = produced(name, index, [b"v"] * count, self.brokers.clock.wall_ms())

        def on_stored(answer: Any) -> None:
            (one,) = answer.responses[0].partition_responses
            if one.error_code == 0:
                offsets = range(one.base_offset, one.base_offset + count)
                self.stored |= {(topic.topic_id, index, offset) for offset in offsets}

        Connection(self.brokers, node).send(request, 9, on_stored)

    @property
    def is_whole(self) -> bool:
        return len(self.brokers.alive) == NODES and all(
            len(state.isr) == NODES for topic in self.controller.topics.values() for state in topic.partitions
        )

    def kill(self) -> None:
        """Kill a broker for a while. Only from a cluster that is whole, else records are lost."""
        if self.is_whole:
            node = self.random.randrange(NODES)
            self.note(f"broker {node} dies")
            self.lives[node] += 1
            self.brokers.kill(node)
            self.after(self.random.choice((0.5, 4.0)), lambda: self.restart(node))

    def restart(self, node: int) -> None:
        if node not in self.brokers.alive:
            self.note(f"broker {node} comes back")
            self.brokers.restart(node)

    def move(self) -> None:
        name = self.random.choice(sorted(self.controller.topics))
        index = self.random.randrange(len(self.controller.topics[name].partitions))
        try:
            node = self.controller.move_leader(name, index)
        except (EligibleLeadersNotAvailableError, ElectionNotNeededError):
            return
        self.note(f"{name}-{index} is led by broker {node}")

    def change_topics(self) -> None:
        if "u" not in self.controller.topics and self.random.random() < 0.5:
            self.note("the topic u is created")
            self.controller.create_topic("u", 1, NODES, {})
        elif "w" in self.controller.topics:
            self.note("the topic w is deleted")
            self.deleted.add(self.controller.topics["w"].topic_id)
            self.controller.delete_topic("w")
        else:
            self.note("the topic w is created")
            self.controller.create_topic("w", 2, NODES, {})

    def each(self, call: Callable[[Member], None]) -> None:
        member = self._member()
        if member is not None:
            call(member)

    # --- a schedule

    def play(self) -> None:
        """Play the schedule, then let everything end well, and check rules 5 and 6."""
        actions: list[tuple[int, Callable[[], object]]] = [
            (14, self.produce),
            (34, lambda: self.each(Member.fetch)),
            (22, lambda: self.each(Member.acknowledge)),
            (3, self.join),
            (2, self.go),
            (3, self.cut),
            (2, self.stall),
            (2, self.kill),
            (4, self.move),
            (2, self.change_topics),
            (10, lambda: self.brokers.advance(self.random.choice((0.5, 1.0, 5.0)))),
        ]
        weights = [weight for weight, _ in actions]
        self.brokers.advance(2.0)
        for _ in range(_STEPS):
            self.random.choices([action for _, action in actions], weights)[0]()
            self.brokers.advance(self.random.choice((0.0, 0.05, 0.2)))
        self._drain()

    def end_faults(self) -> None:
        """Let all brokers and at least two members live from now on."""
        self.note("from now on there are no faults")
        self.is_draining = True
        for node in range(NODES):
            self.restart(node)
        while len(self.members) < 2:
            self.join()

    def _drain(self) -> None:
        self.end_faults()
        for _ in range(400):
            self.brokers.advance(0.3)
            for member in self.members:
                member.fetch()
                member.acknowledge()
            if self.brokers.clock.now() > self._least_end() and not self._unfinished():
                break
        self.check_end()

    def _least_end(self) -> float:
        return max(member.stalled_until for member in self.members)

    def _unfinished(self) -> list[Place]:
        done = self.finals | self.maybe_final | self.limited
        return sorted(place for place in self.stored if place not in done and place[0] not in self.deleted)

    def check_end(self) -> None:
        self.settle_end()
        for member in self.members:
            member.leave(crash=False)
        self.advance(10)
        self.check_gone()
        self.brokers.stop()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.brokers.advance(seconds)

    def settle_end(self) -> None:
        """Check rule 5, and epochs and assignments of rule 6."""
        lost = self._unfinished()
        if lost:
            self.broken(f"rule 5: {lost} were neither delivered nor archived for a reason")
        self.advance(10)  # sessions of members that have gone end
        before = {member.name: member.epoch for member in self.members}
        self.advance(5)
        after = {member.name: member.epoch for member in self.members}
        if after != before:
            self.broken(f"rule 6: epochs rise though nothing changes: {before}, then {after}")
        everything = {
            (topic.topic_id, index)
            for name, topic in self.controller.topics.items()
            if name in TOPICS
            for index in range(len(topic.partitions))
        }
        assigned = set().union(*(member.assigned for member in self.members))
        if assigned != everything:
            self.broken(f"rule 6: {sorted(everything ^ assigned)} are not assigned, or are though they are gone")

    def check_gone(self) -> None:
        """Check that nothing is left of members that have gone (rule 6)."""
        for node, broker in self.brokers.alive.items():
            if len(broker.share_partitions.sessions) or len(broker.share_partitions):
                self.broken(f"rule 6: broker {node} still has sessions or share partitions")


def _as_acks(acks: dict[Place, AcknowledgeType]) -> dict[_Shared, list[tuple[int, int, list[int]]]]:
    found: dict[_Shared, list[tuple[int, int, list[int]]]] = defaultdict(list)
    for place in sorted(acks):
        found[place[:2]].append((place[2], place[2], [int(acks[place])]))
    return found


def play_members(seed: int) -> MembersWorld:
    """Play a schedule. Raises ``BrokenRule``."""
    world = MembersWorld(seed)
    world.play()
    return world
