"""A group that lives in simulated time: real membership cores, the real group coordinator, a network with delays.

One thread, one fake clock, one seed; what happens, a test says. Members poll, stall, vanish, leave and come; the
coordinator's broker restarts from its log. At every change of an assignment it is checked that no partition has two
owners in one generation. Random schedules of faults, with whole consumers, are in ``tests.simulation``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from pyconsumer.assignors import Assignor, RebalanceProtocol, common_protocol
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.coordinator.classic_membership import ClassicMembership
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND, USER
from pyconsumer.consumer.coordinator.group_state import (
    BuildJoin,
    CompleteJoin,
    ComputeAssignment,
    FindCoordinator,
    MemberState,
    PrepareJoin,
    Raise,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Sleep,
    Stop,
)
from pyconsumer.consumer.coordinator.membership import GroupLog, GroupSettings
from pyconsumer.consumer.coordinator.rebalance import metadata_snapshot, perform_assignment, read_members
from pyconsumer.errors import CoordinatorNotAvailableError, KafkaConnectionError
from pyconsumer.network.backoff import Backoff
from pyconsumer.protocol.consumer_protocol import decode_assignment, encode_subscription
from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from pyconsumer.protocol.messages.sync_group import SyncGroupResponse
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.unit.assignors.cluster import FakeCluster
from tests.unit.group.support import FakeBroker, MemoryStorage, World, handled

GROUP = "g"
TOPIC = "t"
NODE = BrokerMetadata(1, "one", 9092)


class Simulation:
    """The world of one group.

    Args:
        seed: of everything that is random.
        assignor: makes each member's assignor.
        partitions: of the one topic.
    """

    def __init__(self, seed: int, assignor: Callable[[], Assignor], *, partitions: int = 12) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(1000.0)
        self.timer = Timer()
        self.world = World(storage=MemoryStorage(self.clock))
        self.cluster = FakeCluster({TOPIC: partitions})
        self.everything = {TopicPartition(TOPIC, number) for number in range(partitions)}
        self.members: list[SimulatedMember] = []
        self.rebalances = 0
        self._assignor = assignor
        self._names = 0

    # -- time --------------------------------------------------------------------------------------------------------

    def after(self, seconds: float, action: Callable[[], object]) -> TimerHandle:
        return self.timer.schedule(self.clock.now() + seconds, lambda: action() and None)

    def advance(self, seconds: float) -> None:
        """Let time pass: the network's events and the coordinator's, in order."""
        end = self.clock.now() + seconds
        while True:
            dues = [due for due in (self.timer.next_deadline(), self.world.timer.next_deadline()) if due is not None]
            due = min(dues, default=math.inf)
            if due > end:
                break
            self.clock.advance_to(due)
            self.timer.run_due(self.clock.now())
            self.world.timer.run_due(self.clock.now())
        self.clock.advance_to(end)

    # -- what happens ------------------------------------------------------------------------------------------------

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions from now on."""
        self.cluster = FakeCluster({TOPIC: partitions})
        self.everything = {TopicPartition(TOPIC, number) for number in range(partitions)}

    def snapshot(self) -> dict[str, object]:
        """Return what assignments depend on, as everybody knows it."""
        return metadata_snapshot(self.cluster, [TOPIC], racks=False)

    def add(self, **settings: Any) -> SimulatedMember:
        self._names += 1
        member = SimulatedMember(self, f"c{self._names}", self._assignor(), settings)
        self.members.append(member)
        member.start()
        return member

    def restart_coordinator(self) -> None:
        """The broker loses its memory and reads its log; everybody's connection breaks."""
        self.world.coordinator.shutdown()
        self.world = self.world.restarted()
        for member in list(self.members):
            member.break_connections()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No partition has two owners among the members of the coordinator's present generation."""
        group = self.world.manager.get_group(GROUP)
        if group is None:
            return
        owners: dict[TopicPartition, SimulatedMember] = {}
        for member in self.members:
            generation = member.core.generation
            if generation.generation_id != group.generation_id or not group.has(generation.member_id):
                continue
            for tp in member.owned:
                assert tp not in owners, f"{tp} belongs to {owners[tp].name} and {member.name} at {self.clock.now()}"
                owners[tp] = member

    def assert_settled(self) -> None:
        """All members stable in one generation, every partition with exactly one of them."""
        states = {member.name: (member.core.state, member.core.generation) for member in self.members}
        assert {member.core.state for member in self.members} == {MemberState.STABLE}, states
        assert len({member.core.generation.generation_id for member in self.members}) == 1, states
        owned = [tp for member in self.members for tp in member.owned]
        assert sorted(owned) == sorted(self.everything), states


class SimulatedMember:
    """A membership core with the two drivers of a consumer, as far as the group can tell the difference."""

    def __init__(self, sim: Simulation, name: str, assignor: Assignor, settings: Mapping[str, Any]) -> None:
        self.sim = sim
        self.name = name
        self.assignor = assignor
        self.protocol = common_protocol([assignor])
        values: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout": 10.0,
            "rebalance_timeout": 15.0,
            "heartbeat_interval": 3.0,
            "request_timeout": 5.0,
            "backoff": Backoff(0.1, 1.0, random=sim.random.random),
        }
        self.core = ClassicMembership(GroupSettings(**(values | dict(settings))), now=sim.clock.now())
        self.owned: set[TopicPartition] = set()
        self.connected = True
        self.alive = True
        self.stalled_until = 0.0
        self.lost: list[set[TopicPartition]] = []
        self._wake: TimerHandle | None = None
        self._pending: list[Callable[[], None]] = []  # what fails when the connections break

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.core.on_subscription({TOPIC})
        self._poll()

    def _poll(self) -> None:
        """The application's loop."""
        if not self.alive:
            return
        now = self.sim.clock.now()
        if now >= self.stalled_until:
            self.core.on_poll(now)
            self.core.on_metadata(self.sim.snapshot())
            self._work()
        self.sim.after(self.sim.random.uniform(0.05, 0.4), self._poll)

    def stall(self, seconds: float) -> None:
        self.stalled_until = self.sim.clock.now() + seconds

    def break_connections(self) -> None:
        pending, self._pending = self._pending, []
        for fail in pending:
            fail()
        self._background()

    def crash(self) -> None:
        self.alive = False
        self._pending.clear()
        self.sim.members.remove(self)

    def leave(self) -> None:
        now = self.sim.clock.now()
        self.owned.clear()
        self.core.leave("leaving", now)
        self.core.unsubscribe()
        self.core.close()
        self._background()
        self.alive = False
        self.sim.members.remove(self)

    # -- the user's thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        core, clock = self.core, self.sim.clock
        while self.alive:
            step = core.next_step(clock.now())
            if step is None:
                break
            if isinstance(step, FindCoordinator):
                self._find(USER)
            elif isinstance(step, PrepareJoin):
                if step.lost or self.protocol is RebalanceProtocol.EAGER:
                    if step.lost and self.owned:
                        self.lost.append(set(self.owned))
                    self.owned.clear()
                core.on_prepared(step.generation)
            elif isinstance(step, BuildJoin):
                metadata = encode_subscription([TOPIC], None, self.owned, core.generation.generation_id)
                protocol = JoinGroupRequestProtocol(name=self.assignor.name, metadata=metadata)
                join = core.begin_join([protocol], {TOPIC}, clock.now())
                if join is not None:
                    self._send_join(join)
            elif isinstance(step, ComputeAssignment):
                shares = {}
                if not step.skip:
                    members = read_members(step.members)
                    shares = perform_assignment(
                        GroupLog(GROUP), self.assignor, self.protocol, self.sim.cluster, members
                    )
                sync = core.on_assigned(step.attempt, shares, self.sim.snapshot(), clock.now())
                if sync is not None:
                    self._send_sync(sync)
            elif isinstance(step, CompleteJoin):
                self._complete(step)
            else:
                assert isinstance(step, Raise)
                raise AssertionError(f"{self.name} was told of {step.error!r}")
        self._background()

    def _complete(self, step: CompleteJoin) -> None:
        given = set(decode_assignment(step.assignment)[0])
        if self.protocol is RebalanceProtocol.COOPERATIVE and self.owned - given:
            self.core.request_rejoin("need to revoke partitions and re-join")
        self.owned = given
        self.core.on_completed()
        self.sim.rebalances += 1
        self.sim.check()

    # -- the heartbeat thread ----------------------------------------------------------------------------------------

    def _background(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while True:
            step = self.core.next_background(self.sim.clock.now())
            if isinstance(step, Stop):
                return
            if isinstance(step, Sleep):
                if step.until < math.inf and self.alive:
                    delay = max(0.0, step.until - self.sim.clock.now())
                    self._wake = self.sim.after(delay, self._background)
                return
            if isinstance(step, FindCoordinator):
                self._find(BACKGROUND)
            elif isinstance(step, SendHeartbeat):
                self._send_heartbeat(step)
            else:
                self._send_leave(step)

    # -- the network -------------------------------------------------------------------------------------------------

    def _exchange(
        self, serve: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None], fail: Callable[[], None]
    ) -> None:
        """A request there and back; it fails if the connection breaks before the answer is back."""
        state = {"open": True}

        def broken() -> None:
            if state["open"]:
                state["open"] = False
                fail()

        def answered(result: Any) -> None:
            def arrive() -> None:
                if state["open"] and self.connected:
                    state["open"] = False
                    if broken in self._pending:
                        self._pending.remove(broken)
                    done(result)

            self.sim.after(self.sim.random.uniform(0.001, 0.05), arrive)

        def reach() -> None:
            if state["open"] and self.connected:
                serve(answered)

        if not self.connected:
            self.sim.after(0.01, broken)
            return
        self._pending.append(broken)
        self.sim.after(self.sim.random.uniform(0.001, 0.05), reach)

    def _find(self, who: str) -> None:
        def fail() -> None:
            self.core.on_coordinator_not_found(who, CoordinatorNotAvailableError(), self.sim.clock.now())
            self._background()

        def done(_: Any) -> None:
            self.core.on_coordinator_found(who, NODE, self.sim.clock.now())
            self._background()

        self._exchange(lambda answer: answer(None), done, fail)

    def _ask(self, request: Message, done: Callable[[Any], None], fail: Callable[[], None]) -> None:
        """A request to the coordinator, answered by the broker's own handler."""

        def serve(answer: Callable[[Any], None]) -> None:
            broker = FakeBroker(self.sim.world)
            handled(broker, request, request.MAX_VERSION, self.sim.clock, client_id=self.name).on_done(answer)

        self._exchange(serve, done, fail)

    def _send_join(self, step: SendJoin) -> None:
        def done(response: JoinGroupResponse) -> None:
            sync = self.core.on_join_response(step.attempt, response, self.sim.clock.now())
            if sync is not None:
                self._send_sync(sync)
            self._background()

        self._ask(step.request, done, lambda: self._step_failed(step.attempt))

    def _send_sync(self, step: SendSync) -> None:
        def done(response: SyncGroupResponse) -> None:
            self.core.on_sync_response(step.attempt, response, self.sim.clock.now())
            self._background()

        self._ask(step.request, done, lambda: self._step_failed(step.attempt))

    def _step_failed(self, attempt: int) -> None:
        self.core.on_step_failed(attempt, KafkaConnectionError("connection lost"), self.sim.clock.now())
        self._background()

    def _send_heartbeat(self, step: SendHeartbeat) -> None:
        term = self.core.discovery.term

        def done(response: HeartbeatResponse) -> None:
            self.core.on_heartbeat_response(step.generation, step.node.node_id, response, self.sim.clock.now())
            self._background()

        def fail() -> None:
            self.core.on_heartbeat_failed(1, KafkaConnectionError("connection lost"), self.sim.clock.now(), term)
            self._background()

        self._ask(step.request, done, fail)

    def _send_leave(self, step: SendLeave) -> None:
        def done(_: Any) -> None:
            self.core.on_leave_done()
            self._background()

        self._ask(step.request, done, lambda: done(None))
