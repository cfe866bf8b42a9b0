"""Simulated groups of the consumer protocol: the coordinator's cores with many members of both kinds on a fake clock.

Members join, change their subscription, fall silent, die, leave, come back as static members. Answers are lost.
Appends are late or refused. The coordinator restarts from its log. Partitions are added. Rules that hold at each step:

1. One owner: no two members that the coordinator knows use one partition.
2. No commit that was acknowledged is ever undone: who takes a partition reads at least that offset.
3. No partition starves: when the disturbances end, the group becomes Stable, and every partition has its owner.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.results import LeavingMember
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import MemoryStorage

__all__ = ["GROUP", "Simulation", "run"]

GROUP = "g"
TOPICS = {"t": bytes(range(16)), "u": bytes(range(16, 32))}
_SESSION_MS, _REBALANCE_MS = 10_000, 15_000
#: What sends a member back to epoch 0; the last one comes when the group has become a classic one without it.
_REJOIN = (
    Errors.FENCED_MEMBER_EPOCH,
    Errors.UNKNOWN_MEMBER_ID,
    Errors.FENCED_INSTANCE_ID,
    Errors.GROUP_ID_NOT_FOUND,
)
_DISTURBED_S, _CALM_S = 90.0, 150.0


class Simulation:
    """One group, its members and its coordinator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(1000.0)
        self.timer = Timer()
        self.storage = MemoryStorage(self.clock, partitions=1)
        self.counts = {"t": self.random.randint(1, 8), "u": self.random.randint(0, 4)}
        self.calm = False
        self.life = 0
        self.members: list[Member | Classic] = []
        self.acknowledged: dict[TopicPartition, int] = {}
        self.log: list[str] = []
        self._made = self._ids = 0
        self._start()

    # The coordinator

    def _start(self) -> None:
        config = GroupConfig(
            group_initial_rebalance_delay_ms=0,
            group_consumer_session_timeout_ms=_SESSION_MS,
            group_consumer_min_session_timeout_ms=_SESSION_MS,
            group_consumer_heartbeat_interval_ms=1000,
            group_consumer_min_heartbeat_interval_ms=1000,
            group_consumer_assignment_interval_ms=self.random.choice((0, 0, 1000)),
        )
        self.coordinator = GroupCoordinator(config, self.storage, self.timer, self.clock, self)
        self.coordinator._joins._new_uuid = self._new_id
        self.coordinator.consumer_groups._new_uuid = self._new_id
        self.coordinator.start()
        self.coordinator.on_become_leader(0, self.life + 1)

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    def restart(self) -> None:
        self.note("the coordinator restarts")
        self.life += 1
        self.storage.held.clear()
        self.coordinator.shutdown()
        self._start()

    def topic_id(self, name: str) -> bytes | None:
        return TOPICS.get(name) if self.counts.get(name) else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, known in TOPICS.items() if known == topic_id and self.counts[name]), None)

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic) or None

    def topic_names(self) -> list[str]:
        return [name for name, count in self.counts.items() if count]

    def partition_racks(self, topic: str, partition: int) -> list[str]:
        return []

    @property
    def group(self) -> ConsumerGroup | GroupMetadata | None:
        return self.coordinator.manager.get_group(GROUP)

    # Time

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        self.timer.schedule(self.clock.now() + delay_s, action)

    def advance(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while True:
            due = self.timer.next_deadline()
            if due is None or due > end:
                break
            self.clock.advance_to(max(due, self.clock.now()))
            self.timer.run_due(self.clock.now())
            self.check()
        self.clock.advance_to(end)

    def note(self, text: str) -> None:
        self.log.append(f"{self.clock.now():9.3f} {text}")

    def ask(self, deferred: Deferred[Any], answer: Callable[[Any], None], lost: Callable[[], None]) -> None:
        """Let an answer arrive after a while, or get lost, together with the coordinator's life."""
        life = self.life
        waiting = [True]

        def give_up() -> None:
            if waiting[0]:
                waiting[0] = False
                lost()

        def arrive(value: Any) -> None:
            def deliver() -> None:
                if waiting[0] and life == self.life:
                    waiting[0] = False
                    answer(value)

            if self.calm or self.random.random() > 0.05:
                self.after(self.random.uniform(0.0, 0.05), deliver)

        deferred.on_done(arrive)
        self.after(_REBALANCE_MS / 1000 + 5, give_up)

    # Disturbances

    def disturb(self) -> None:
        if self.calm:
            return
        roll = self.random.random()
        living = [member for member in self.members if member.alive]
        if roll < 0.30 and len(living) < 7:
            self._made += 1
            kind: type[Member | Classic] = Classic if self.random.random() < 0.35 else Member
            self.members.append(kind(self, f"m{self._made}"))
        elif roll < 0.40 and living:
            self.random.choice(living).leave()
        elif roll < 0.47 and living:
            self.random.choice(living).die()
        elif roll < 0.55 and living:
            self.random.choice(living).pause(self.random.uniform(1.0, 25.0))
        elif roll < 0.62 and living:
            self.random.choice(living).change()
        elif roll < 0.67:
            self.restart()
        elif roll < 0.73:
            # A log refuses at once: what fails later, because of the replicas, is in the log all the same.
            self.storage.hold = False
            self.storage.fail_with = self.random.choice((Errors.NOT_ENOUGH_REPLICAS, 0))
        elif roll < 0.80:
            self.storage.fail_with = 0
            self.storage.hold = not self.storage.hold
        elif roll < 0.85:
            topic = self.random.choice(list(self.counts))
            self.counts[topic] += 1
            self.coordinator.on_topic_changed(topic, created=self.counts[topic] == 1)
            self.note(f"{topic} has {self.counts[topic]} partitions")
        self.after(self.random.uniform(0.1, 3.0), self.disturb)

    def release(self) -> None:
        """Let appends end that were late."""
        while self.storage.held:
            self.storage.release()
        self.after(self.random.uniform(0.01, 0.3), self.release)

    def run(self) -> None:
        self.members = [Member(self, "m0")]
        self.after(0.5, self.disturb)
        self.after(0.1, self.release)
        self.advance(_DISTURBED_S)
        self.calm = True
        self.storage.fail_with, self.storage.hold = 0, False
        self.note("calm")
        self.advance(_CALM_S)
        self.check_end()

    # Rules

    def known(self, member: Member | Classic) -> bool:
        group = self.group
        return group is not None and not group.is_dead and member.member_id in group.members

    def check(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for member in self.members:
            if member.alive and self.known(member):
                for partition in member.uses:
                    other = owners.setdefault(partition, member.name)
                    assert other == member.name, f"{partition} is used by {other} and {member.name}"

    def check_end(self) -> None:
        living = [member for member in self.members if member.alive]
        group = self.group
        if not living:
            assert group is None or group.is_empty, f"nobody lives, but the group is {group!r}"
            return
        assert group is not None, "the group is not there"
        assert str(group.state) == "Stable", f"the group is {group.state}"
        ids = {member.member_id for member in living}
        assert ids == set(group.members), f"{ids} live, {set(group.members)} are members"
        wanted = {
            TopicPartition(topic, index)
            for topic, count in self.counts.items()
            if any(topic in member.topics for member in living)
            for index in range(count)
        }
        used = [partition for member in living for partition in member.uses]
        assert sorted(used) == sorted(wanted), f"{sorted(wanted - set(used))} have no owner"


class _Base:
    """Common to members of both kinds: the partitions in use, and their commits."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.world = world
        self.name = name
        self.member_id = name
        self.alive = True
        self.topics = world.random.choice((("t",), ("t",), ("t", "u")))
        self.uses: dict[TopicPartition, int] = {}
        self.paused_until = 0.0
        self.incarnation = 0
        world.after(world.random.uniform(0.5, 3.0), self._work)

    @property
    def epoch_of_commits(self) -> int:
        raise NotImplementedError

    def die(self) -> None:
        self.world.note(f"{self.name} dies")
        self.alive = False
        self.uses.clear()

    def pause(self, seconds: float) -> None:
        self.world.note(f"{self.name} pauses for {seconds:.1f} s")
        self.paused_until = self.world.clock.now() + seconds

    def change(self) -> None:
        self.topics = self.world.random.choice((("t",), ("t", "u"), ("u",)))
        self.world.note(f"{self.name} subscribes to {self.topics}")

    @property
    def paused(self) -> bool:
        return self.world.clock.now() < self.paused_until

    def take(self, partition: TopicPartition) -> None:
        """Begin to use a partition, from its committed offset."""
        world = self.world
        self.uses[partition] = world.acknowledged.get(partition, 0)
        found = world.coordinator.fetch_offsets(GROUP, [partition])

        def start(result: Any) -> None:
            code, offsets = result
            if code == Errors.NONE and partition in self.uses:
                least = world.acknowledged.get(partition, 0)
                assert max(offsets[partition].offset, 0) >= least, f"{partition} at {offsets[partition]}, not {least}"

        found.on_done(start)

    def _work(self) -> None:
        if not self.alive:
            return
        if not self.paused and self.uses:
            self.commit(self.world.random.choice(sorted(self.uses)))
        self.world.after(self.world.random.uniform(0.3, 3.0), self._work)

    def commit(self, partition: TopicPartition) -> None:
        world, offset = self.world, self.uses[partition] + 1
        value = {partition: CommittedOffset(offset, topic_id=TOPICS[partition.topic])}
        answer = world.coordinator.commit_offsets(
            GROUP, value, generation_id=self.epoch_of_commits, member_id=self.member_id
        )

        def committed(codes: Any) -> None:
            if codes[partition] == Errors.NONE:
                world.acknowledged[partition] = max(offset, world.acknowledged.get(partition, 0))
                if partition in self.uses:
                    self.uses[partition] = max(offset, self.uses[partition])

        life = world.life
        answer.on_done(lambda codes: committed(codes) if life == world.life else None)


class Member(_Base):
    """A member of the consumer protocol."""

    def __init__(self, world: Simulation, name: str, instance: str | None = None) -> None:
        super().__init__(world, name)
        self.epoch = 0
        self.instance = instance or (f"i-{name}" if world.random.random() < 0.3 else None)
        self.assignor = world.random.choice((None, None, "range", "uniform"))
        self.revoking = False
        self.full = True
        self._beat()

    @property
    def epoch_of_commits(self) -> int:
        return self.epoch

    def _again(self, delay_s: float = 1.0) -> None:
        self.world.after(delay_s, self._beat)

    def _beat(self) -> None:
        if not self.alive:
            return
        if self.paused:
            self._again()
            return
        world = self.world
        owned: dict[bytes, list[int]] = {}
        for partition in sorted(self.uses):
            owned.setdefault(TOPICS[partition.topic], []).append(partition.partition)
        parts = [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=list(self.topics),
            server_assignor=self.assignor,
            topic_partitions=parts,
        )
        deferred = world.coordinator.consumer_group_heartbeat(request, version=1, client_id=self.name, client_host="/h")
        incarnation = self.incarnation
        world.ask(deferred, lambda result: self._on_answer(result, incarnation), self._again)

    def _on_answer(self, result: Any, incarnation: int) -> None:
        if not self.alive or incarnation != self.incarnation:
            return
        if result.error_code in _REJOIN:
            self.world.note(f"{self.name} is fenced: {result.error_code}")
            self.uses.clear()
            self.epoch = 0
        elif result.error_code == Errors.NONE:
            self.epoch = result.member_epoch
            if result.assignment is not None:
                names = {topic_id: name for name, topic_id in TOPICS.items()}
                assigned = {TopicPartition(names[t], p) for t, parts in result.assignment.items() for p in parts}
                self._reconcile(assigned)
                return
        self._again(self.world.random.uniform(0.5, 2.0))

    def _reconcile(self, assigned: set[TopicPartition]) -> None:
        """Give up revoked partitions, which takes a while. Then take new ones and confirm them."""
        incarnation, epoch = self.incarnation, self.epoch

        def done() -> None:
            if not self.alive or incarnation != self.incarnation or epoch != self.epoch:
                return
            for partition in set(self.uses) - assigned:
                del self.uses[partition]
            for partition in sorted(assigned - set(self.uses)):
                self.take(partition)
            self._again(0.1 if assigned else 1.0)

        revokes = bool(set(self.uses) - assigned)
        self.world.after(self.world.random.uniform(0.0, 4.0) if revokes else 0.0, done)

    def leave(self) -> None:
        world = self.world
        epoch = -2 if self.instance is not None and world.random.random() < 0.7 else -1
        world.note(f"{self.name} leaves with {epoch}")
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        self.uses.clear()
        self.alive = False
        world.coordinator.consumer_group_heartbeat(request, version=1, client_id=self.name, client_host="/h")
        if epoch == -2:
            world.after(world.random.uniform(0.5, 15.0), self._come_back)

    def _come_back(self) -> None:
        world = self.world
        if world.calm:
            return
        world.members.append(Member(world, f"{self.name}'", self.instance))


class Classic(_Base):
    """An eager member of the classic protocol, that assigns by number when it leads."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name)
        self.member_id = ""
        self.generation = -1
        self._join()

    @property
    def epoch_of_commits(self) -> int:
        return self.generation

    def _join(self) -> None:
        if not self.alive:
            return
        if self.paused:
            self.world.after(1.0, self._join)
            return
        self.uses.clear()
        metadata = ConsumerProtocolSubscription(topics=list(self.topics)).encode_with_version(1)
        request = JoinRequest(
            group_id=GROUP,
            member_id=self.member_id,
            client_id=self.name,
            client_host="/h",
            rebalance_timeout_ms=_REBALANCE_MS,
            session_timeout_ms=_SESSION_MS,
            protocol_type="consumer",
            protocols=(("range", metadata),),
        )
        self.world.ask(self.world.coordinator.join_group(request), self._on_joined, self._join)

    def _on_joined(self, result: Any) -> None:
        if not self.alive:
            return
        if result.error_code == Errors.NONE:
            self.member_id, self.generation = result.member_id, result.generation_id
            plan = self._plan([(one.member_id, one.metadata) for one in result.members])
            self._sync(plan)
            return
        if result.error_code == Errors.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        elif result.error_code == Errors.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.world.after(0.3, self._join)

    def _plan(self, members: list[tuple[str, bytes]]) -> dict[str, bytes]:
        """Give each partition to one of its readers, in turns. Empty for a member that is not the leader."""
        readers = {
            member_id: ConsumerProtocolSubscription.decode_with_version(metadata)[0].topics
            for member_id, metadata in sorted(members)
        }
        mine: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in readers}
        for topic, count in self.world.counts.items():
            interested = [member_id for member_id, topics in readers.items() if topic in topics]
            for index in range(count if interested else 0):
                mine[interested[index % len(interested)]].setdefault(topic, []).append(index)
        entry: Any = ConsumerProtocolAssignment.FIELDS[0].type
        return {
            member_id: ConsumerProtocolAssignment(
                assigned_partitions=[entry(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
            ).encode_with_version(1)
            for member_id, topics in mine.items()
        }

    def _sync(self, plan: dict[str, bytes]) -> None:
        generation = self.generation
        deferred = self.world.coordinator.sync_group(GROUP, generation, self.member_id, plan)
        self.world.ask(deferred, lambda result: self._on_synced(result, generation), self._join)

    def _on_synced(self, result: Any, generation: int) -> None:
        if not self.alive or generation != self.generation:
            return
        if result.error_code != Errors.NONE:
            if result.error_code == Errors.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.world.after(0.2, self._join)
            return
        if result.assignment:
            found = ConsumerProtocolAssignment.decode_with_version(result.assignment)[0].assigned_partitions
            for one in found:
                for index in one.partitions:
                    self.take(TopicPartition(one.topic, index))
        self.world.after(0.7, self._beat)

    def _beat(self) -> None:
        if not self.alive:
            return
        if self.paused:
            self.world.after(1.0, self._beat)
            return
        subscribed = self.topics
        code = self.world.coordinator.heartbeat(GROUP, self.generation, self.member_id)
        if code in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.FENCED_INSTANCE_ID):
            self.uses.clear()
            if code == Errors.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._join()
        elif code == Errors.REBALANCE_IN_PROGRESS or subscribed != self._joined_topics():
            self._join()
        else:
            self.world.after(0.9, self._beat)

    def _joined_topics(self) -> tuple[str, ...]:
        """Return the subscription that the coordinator knows. A leader also joins again for added partitions."""
        group = self.world.group
        if isinstance(group, ConsumerGroup) and self.member_id in group.members:
            return self.topics if group.members[self.member_id].topic_names == set(self.topics) else ()
        if isinstance(group, GroupMetadata) and self.member_id in group.members:
            read = {member_id: _topics_of(one.supported_protocols[0][1]) for member_id, one in group.members.items()}
            known = read[self.member_id]
            held = {partition for other in self.world.members if other.alive for partition in other.uses}
            counts = {topic: self.world.counts[topic] for topics in read.values() for topic in topics}
            last = [TopicPartition(topic, count - 1) for topic, count in counts.items() if count]
            missing = not held.issuperset(last)
            if group.is_leader(self.member_id) and missing and str(group.state) == "Stable":
                return ()
            return self.topics if known == set(self.topics) else ()
        return self.topics

    def leave(self) -> None:
        self.world.note(f"{self.name} leaves")
        self.uses.clear()
        self.alive = False
        if self.member_id:
            self.world.coordinator.leave(GROUP, [LeavingMember(self.member_id)])


def _topics_of(metadata: bytes) -> set[str]:
    return set(ConsumerProtocolSubscription.decode_with_version(metadata)[0].topics)


def run(seed: int) -> Simulation:
    """Run one schedule. Raise ``AssertionError`` with its seed and history if a rule is broken."""
    simulation = Simulation(seed)
    try:
        simulation.run()
    except AssertionError as error:
        history = "\n".join(simulation.log[-60:])
        raise AssertionError(f"seed {seed}: {error}\n{history}") from error
    return simulation
