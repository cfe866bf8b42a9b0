"""One schedule: time, faults, the trace. Everything random comes from its seed."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyconsumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from pyconsumer.background_log import flush as flush_log
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import ManualClock
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition
from tests.simulation.brokers import TOPIC, Broker, Brokers
from tests.simulation.consumer_rules import ConsumerRules
from tests.simulation.member import Member
from tests.simulation.rules import Rules
from tests.simulation.waiting import Waiting, WatchedAssignor
from tests.unit.assignors.cooperative import Sticky

PROTOCOLS = ("eager", "static", "cooperative", "delayed", "consumer", "both")
#: Those with members of the consumer group protocol (KIP-848); in ``both`` there are classic ones, too.
CONSUMER_PROTOCOLS = ("consumer", "both")
_LINES = 250  # of the trace that a failure prints
_MOST_MEMBERS = 6
_SETTLED_FOR = 4.0  # seconds; a heartbeat tells everybody of a rebalance within 3
_MOST_LOOKS = 100_000  # at the clock at one moment
_TICK = 1.0  # seconds between two looks at who owns what
_AS_BYTES = 10  # one schedule in so many

M = TypeVar("M", bound=Message)


class BrokenRule(AssertionError):
    """A rule was broken. The text names it, the command for a replay, and the events before."""


class WatchedClock(ManualClock):
    """A clock that notices when somebody turns in circles: it is asked again and again, and time does not pass."""

    __slots__ = ("_asked",)

    def __init__(self, now: float, wall_ms: int | None = None) -> None:
        super().__init__(now) if wall_ms is None else super().__init__(now, wall_ms=wall_ms)
        self._asked = 0

    def now(self) -> float:
        self._asked += 1
        if self._asked > _MOST_LOOKS:
            raise BrokenRule(f"somebody turns in circles at {self._now:.3f}")
        return self._now

    def advance_to(self, now: float) -> None:
        if now > self._now:
            self._now = now
            self._asked = 0


def breaking(rule: str | None) -> str:
    """Return the option that breaks a rule."""
    return f" --break {rule}" if rule else ""


class Schedule:
    """Time, random draws, the wire and the trace of one schedule, whatever it plays.

    Args:
        draws: seeds everything that is random.
        command: replays the schedule.
        as_bytes: messages go through the codec. There is no other difference.
    """

    def __init__(self, draws: str, command: str, clock: WatchedClock, *, seed: int, as_bytes: bool) -> None:
        self.seed = seed
        self.command = command
        self.random = random.Random(draws)
        self.as_bytes = as_bytes
        self.clock = clock
        self.timer = Timer()
        self.trace: list[tuple[float, str, str]] = []
        self.failure: str | None = None
        self.faults: dict[str, int] = {}
        self.slowest: float

    def after(self, seconds: float, action: Callable[[], object]) -> TimerHandle:
        return self.timer.schedule(self.clock.now() + seconds, action)  # type: ignore[arg-type]

    def carried(self, message: M, version: int) -> M:
        """A message at the other end of a connection. In some schedules it goes as bytes, like in life."""
        return type(message).decode(message.encode(version), version) if self.as_bytes else message

    def delay(self) -> float:
        """Return how long a message takes."""
        return self.random.uniform(self.slowest / 10, self.slowest)

    def note(self, who: str, what: str) -> None:
        self.trace.append((self.clock.now(), who, what))

    def fail(self, text: str) -> None:
        """A rule is broken. The schedule ends after the present event, so that no handler can hide it."""
        if self.failure is None:
            self.note("RULE", text)
            self.failure = text

    def play(self) -> None:
        """Run the schedule.

        Raises:
            BrokenRule: with the trace.
        """
        try:
            with deterministic(self.seed, self.fail):
                self._play()
        except BrokenRule as error:
            raise BrokenRule(self.describe(str(error))) from None

    def _play(self) -> None:
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        start = 1000.0
        for when, who, what in self.trace:
            yield f"{when - start:9.3f}  {who:<8} {what}"

    def describe(self, error: str) -> str:
        lines = list(self.lines())
        left_out = len(lines) - _LINES
        head = [f"... {left_out} lines before"] if left_out > 0 else []
        return "\n".join([error, f"replay: {self.command}", *head, *lines[-_LINES:]])


class World(Schedule):
    """One schedule of one group.

    Args:
        protocol: one of :data:`PROTOCOLS`.
        seed: of everything that is random.
        broken: a rule to break on purpose, see :mod:`.broken`.

    Attributes:
        quiet_since: when the last fault ended, or the last late request of a broken connection was served.
        nested: a callback of a member takes its time.
        faults: how often each happened.
        as_bytes: messages go through the codec. It changes nothing else.
        rebalance_delay: how long the partitions of a vanished member wait for it, seconds.
        static: members have instance ids.
        mixed: some members do not have the delayed assignor, and vote it out while they are there.
        recovery: seconds from the last fault until the group was settled.
        member_type: the class of its members.
    """

    member_type: type[Member] = Member

    def __init__(self, protocol: str, seed: int, *, broken: str | None = None) -> None:
        command = f"python -m tests.simulation --protocol {protocol} --seed {seed}" + breaking(broken)
        as_bytes = seed % _AS_BYTES == 0
        super().__init__(f"{protocol} {seed}", command, WatchedClock(1000.0), seed=seed, as_bytes=as_bytes)
        self.protocol = protocol
        self.broken = broken
        self.callbacks = {"assigned": 0, "revoked": 0, "lost": 0}
        self.quiet_since = self.clock.now()
        self.recovery = 0.0
        self.nested = False
        self.eager = protocol in ("eager", "static")
        self._assignor: Callable[[], Assignor] = self.random.choice(
            _ASSIGNORS["eager" if self.eager else "cooperative"]
        )
        if protocol == "both":
            self._assignor = self.random.choice([RangeAssignor, CooperativeStickyAssignor])
            self.eager = self._assignor is RangeAssignor
        if protocol == "delayed":
            self._assignor = lambda: WatchedAssignor(self)
        self.rebalance_delay = self.random.choice([3.0, 10.0, 30.0]) if protocol == "delayed" else 0.0
        self.mixed = protocol == "delayed" and self.random.random() < 0.2
        self.static = protocol == "static" or (protocol == "delayed" and self.random.random() < 0.5)
        # A cooperative assignor of one's own leaves static members the gap that this one closes.
        if self._assignor is CooperativeStickyAssignor and protocol not in CONSUMER_PROTOCOLS:
            self.static = self.random.random() < 0.3
        self.slowest = self.random.choice([0.003, 0.03, 0.3])
        self.longest_work = 0.8  # of a member on what a poll gave, seconds
        self.partitions = {TopicPartition(TOPIC, number) for number in range(self.random.randint(1, 12))}
        self.members: list[Member] = []
        self.rules = ConsumerRules(self) if protocol in CONSUMER_PROTOCOLS else Rules(self)
        self.waiting = Waiting(self)
        self._names = 0
        self._ids = 0
        self._instances = 0
        self._coming = 0
        self.brokers = Brokers(self)

    # -- time --------------------------------------------------------------------------------------------------------

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> None:
        """Let time pass until then, or until ``stop``."""
        while stop is None or not stop():
            due = self.timer.next_deadline()
            if due is None or due > until:
                self.clock.advance_to(until)
                return
            self.clock.advance_to(due)
            self.timer.run_due(self.clock.now())
            if self.failure is not None:
                raise BrokenRule(self.failure)

    # -- for everybody -----------------------------------------------------------------------------------------------

    def new_assignors(self) -> list[Assignor]:
        """For one member. In a mixed group all know the plain assignor, and some no other."""
        if not self.mixed:
            return [self._assignor()]
        plain = CooperativeStickyAssignor()
        return [plain] if self.random.random() < 0.3 else [self._assignor(), plain]

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:04d}"

    def cut_connections(self, broker: Broker) -> None:
        for member in self.members:
            for client in member.clients:
                for connection in list(client.connections.values()):
                    if connection.broker is broker:
                        connection.close(f"{broker.name} died")

    def disconnect(self, member: Member, seconds: float) -> None:
        """Connections break, and new ones fail for a while."""
        clients = member.clients
        for client in clients:
            client.connected = False
            client.cut("no network")

        def back() -> None:
            for client in clients:
                client.connected = True

        self.after(seconds, back)

    def remove(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
        self.quiet_since = self.clock.now()

    @property
    def in_trouble(self) -> bool:
        """Return whether a fault lasts at this moment."""
        return self.brokers.in_trouble or any(member.in_trouble for member in self.members)

    # -- faults ------------------------------------------------------------------------------------------------------

    def join(self, instance_id: str | None = None) -> None:
        self._names += 1
        if instance_id is None and self.static:
            self._instances += 1
            instance_id = f"i{self._instances}"
        commits = self.random.choice(["auto", "sync", "async"])
        protocol = "consumer" if self.protocol in CONSUMER_PROTOCOLS else "classic"
        if self.protocol == "both" and self.random.random() < 0.5:
            protocol = "classic"
        member = self.member_type(self, f"c{self._names}", instance_id, commits, group_protocol=protocol)
        self.note(member.name, f"starts{f' as {instance_id}' if instance_id else ''}")
        if self.protocol == "both":
            self.note(member.name, f"is of the {protocol} protocol")
        self.members.append(member)
        member.start()

    def fault(self) -> None:
        """Something happens."""
        draw = self.random
        if len(self.members) < 2:
            name = "join"
        else:
            name = draw.choice(_FAULTS + (_STATIC_FAULTS if self.static else ()))
        self.faults[name] = self.faults.get(name, 0) + 1
        self.quiet_since = self.clock.now()
        if name == "join":
            if len(self.members) < _MOST_MEMBERS:
                self.join()
        elif name in ("restart", "move", "append"):
            self._on_brokers(name)
        else:
            member = draw.choice(self.members)
            self.note(member.name, f"fault: {name}")
            getattr(self, f"_{name}")(member)

    def _on_brokers(self, name: str) -> None:
        draw, brokers = self.random, self.brokers
        if name == "move":
            brokers.move()
        elif name == "restart":
            broker = brokers.leader if draw.random() < 0.8 else draw.choice(list(brokers.by_id.values()))
            brokers.restart(broker, draw.uniform(0.1, 8.0), move=draw.random() < 0.5)
        else:
            brokers.append_delay = draw.choice([0.0, 0.05, 0.5])
            self.note("cluster", f"appends take up to {brokers.append_delay:g} s")

    def _leave(self, member: Member) -> None:
        member.close(leave_group=self.random.choice([None, True]))

    def _crash(self, member: Member) -> None:
        member.crash()

    def _pause(self, member: Member) -> None:
        member.pause(self.random.uniform(0.5, 25.0))

    def _stall(self, member: Member) -> None:
        member.stalled_until = self.clock.now() + self.random.uniform(0.5, 25.0)

    def _outage(self, member: Member) -> None:
        self.disconnect(member, self.random.uniform(0.1, 15.0))

    def _hole(self, member: Member) -> None:
        """Messages wait somewhere and come later."""
        for client in member.clients:
            client.reachable_at = self.clock.now() + self.random.uniform(0.1, 12.0)

    def _cut(self, member: Member) -> None:
        self.random.choice(member.clients).cut("cut")

    def _swallow(self, member: Member) -> None:
        """A connection that looks open but is not."""
        for connection in self.random.choice(member.clients).connections.values():
            connection.swallows = True

    def _answer(self, member: Member) -> None:
        """The next answer is lost together with the connection."""
        for connection in self.random.choice(member.clients).connections.values():
            connection.loses_answer = True

    def _callback(self, member: Member) -> None:
        member.slow_callback = self.random.uniform(0.5, 20.0)
        member.core.request_rejoin("a callback is to be called")

    def _fenced(self, member: Member) -> None:
        """It is expelled while it is in its next callback."""
        member.fenced_callback = True
        member.slow_callback = self.random.uniform(11.0, 20.0)
        member.core.request_rejoin("a callback is to be called")

    def _enforce(self, member: Member) -> None:
        member.coordinator.enforce_rebalance("chaos")

    def _bounce(self, member: Member) -> None:
        """A static member ends and comes back."""
        instance_id = member.instance_id
        if self.random.random() < 0.5:
            member.crash()
        else:
            member.close()
        self._coming += 1

        def back() -> None:
            self._coming -= 1
            self.join(instance_id)

        self.after(self.random.uniform(0.1, 14.0), back)

    def _takeover(self, member: Member) -> None:
        """A second process with the same instance id."""
        self.join(member.instance_id)

    # -- the schedule ------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        draw = self.random
        self._tick()
        for _ in range(draw.randint(1, 4)):
            self.join()
            self.run(self.clock.now() + draw.uniform(0.0, 2.0))
        for _ in range(draw.randint(6, 12)):
            self.run(self.clock.now() + (40.0 if draw.random() < 0.05 else draw.expovariate(1 / 3.0)))
            for _ in range(draw.choice([1, 1, 1, 2])):
                self.fault()
        self._heal()
        self._settle()

    def _tick(self) -> None:
        self.rules.check_coverage()
        self.after(_TICK, self._tick)

    def _heal(self) -> None:
        """Make no further faults, and end those that last."""
        self.note("world", "the faults are over")
        self.run(math.inf, lambda: not self._coming and all(broker.up for broker in self.brokers.by_id.values()))
        self.brokers.append_delay = 0.0
        for member in list(self.members):
            member.recover()
            for client in member.clients:
                client.reachable_at = 0.0
                client.connected = True
                for connection in list(client.connections.values()):
                    connection.loses_answer = False
                    if connection.swallows:
                        connection.close("it was dead")
        self.run(self.clock.now() + 10.0, lambda: not any(member.closing for member in self.members))
        self.quiet_since = self.clock.now()

    def _settle(self) -> None:
        start = self.clock.now()
        limit = 2 * self.rules.bound + 40.0
        while not self._stays_settled():
            if not self.members:  # the last one was fenced
                self.join()
                start = self.clock.now()
            if self.clock.now() - start > limit:
                raise BrokenRule(f"the group is not settled {limit:.0f} s after the last fault: {self._states()}")
            self.run(self.clock.now() + 0.5)
        self.recovery = self.clock.now() - start - _SETTLED_FOR
        self.rules.check_offsets()
        if self.failure is not None:
            raise BrokenRule(self.failure)

    def _stays_settled(self) -> bool:
        """Return whether the group is settled, and still is a little later: a stall may have consequences to come."""
        if not self.members or not self.rules.settled:
            return False
        self.run(self.clock.now() + _SETTLED_FOR)
        return self.rules.settled

    def _states(self) -> str:
        group = self.brokers.group()
        states = [
            f"{m.name} {m.core.state.name} {m.core.generation} {sorted(tp.partition for tp in m.owned)}"
            for m in self.members
        ]
        return f"{group!r}; " + "; ".join(states)


_FAULTS = (
    *("join", "join", "leave", "crash", "pause", "stall", "outage", "hole", "cut", "swallow", "answer"),
    *("callback", "fenced", "enforce", "restart", "move", "append"),
)
_STATIC_FAULTS = ("bounce", "bounce", "bounce", "takeover")
_ASSIGNORS: dict[str, list[type[Assignor]]] = {
    "eager": [RangeAssignor, RoundRobinAssignor, StickyAssignor],
    "cooperative": [CooperativeStickyAssignor, Sticky],
}


class _Faults(logging.Handler):
    """An exception that somebody caught and logged is a failure all the same."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._fail = fail

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self._fail(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def deterministic(seed: int, fail: Callable[[str], None]) -> Iterator[None]:
    """Seed the pauses between attempts too. Log only exceptions."""
    state = random.getstate()
    random.seed(seed)
    logger = logging.getLogger("pyconsumer")
    before = logger.level, logger.propagate
    handler = _Faults(fail)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    assert flush_log(10.0)  # earlier lines are no failures of this history
    logger.addHandler(handler)
    try:
        yield
    finally:
        assert flush_log(10.0)
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        random.setstate(state)


def play(protocol: str, seed: int, *, broken: str | None = None) -> World:
    """Run one schedule and return it for its figures.

    Raises:
        BrokenRule: see :meth:`World.play`.
    """
    world = World(protocol, seed, broken=broken)
    world.play()
    return world
