"""Real share consumers, their heartbeats and their applications, with three real brokers on one clock, through faults.

The brokers, their faults, and the rules of deliveries are those of :mod:`.members`. The members are
:class:`~.consumer.Consumer`: the code of ``KafkaShareConsumer`` down to its network client. So these rules are added

8. A record comes out of a poll only while its member has it by a delivery of a leader, with the count of such a
   delivery. Its lock has not ended by time, nor with a session of whose end the consumer knows. It does not come out
   while the application has it by a lock of the same leader.
9. The outcome of each acknowledgement is reported once: to the callback, and by then to the commit. Without an error, a
   broker has confirmed it.
10. A request acknowledges a record as its application has, or releases it. It calls no record a gap.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

from pyconsumer.consumer.share.acknowledgements import GAP, Delivery
from pyconsumer.errors import KafkaError
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import AcknowledgeType
from tests.simulation.share import broken
from tests.simulation.share.consumer import WAYS, Consumer
from tests.simulation.share.members import GROUP, LOCK_S, NODES, MembersWorld, Place
from tests.simulation.share.network import Endpoint
from tests.simulation.world import BrokenRule, breaking, deterministic

__all__ = ["ConsumersWorld", "Place", "play_consumers"]

_FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
#: Faults and how likely they are.
_FAULTS = {
    "join": 3,
    "go": 3,
    "cut": 4,
    "swallow": 2,
    "answer": 3,
    "stall": 4,
    "outage": 2,
    "kill": 3,
    "move": 6,
    "topics": 3,
}
_LINES = 250  # of the trace that a failure prints


class _Given(NamedTuple):
    """A delivery of a record to a member: the end of its lock, the count, the epoch of the leader and its node."""

    until: float
    deliveries: int
    epoch: int
    node: int


class ConsumersWorld(MembersWorld):
    """One schedule. See the module.

    Args:
        seed: of everything that is random.
        broken: a rule to break on purpose, see :mod:`.broken`.
    """

    def __init__(self, seed: int, *, broken: str | None = None) -> None:
        self.seed = seed
        self.rule = broken
        self.group = GROUP
        self.lock_s = LOCK_S
        self.quiet_since = 0.0
        self.failure: str | None = None
        self.faults: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.said: defaultdict[tuple[str, Place], set[int]] = defaultdict(set)
        self.given: defaultdict[tuple[str, Place], list[_Given]] = defaultdict(list)
        self.by_id = {node: Endpoint(self, node) for node in range(NODES)}
        self.slowest = 0.03
        self._actions: dict[str, Callable[[], None]] = {
            "join": self.join,
            "go": self.go,
            "stall": self.stall,
            "outage": self.outage,
            "kill": self.kill,
            "move": self.move,
            "topics": self.change_topics,
        }
        super().__init__(seed)
        self.slowest = self.random.choice((0.003, 0.03, 0.3))

    # --- what the network and the processes need

    @property
    def clock(self) -> Any:
        return self.brokers.clock

    @property
    def timer(self) -> Any:
        return self.brokers.timer

    def carried(self, message: Message, version: int) -> Message:
        """Return a message at the other end. In some schedules it goes as bytes."""
        return type(message).decode(message.encode(version), version) if self.seed % 10 == 0 else message

    def delay(self) -> float:
        return self.random.uniform(self.slowest / 10, self.slowest)

    def note(self, *words: str) -> None:
        super().note(" ".join(words))

    def fail(self, text: str) -> None:
        """Break the schedule after the present event, so that no handler can hide it."""
        if self.failure is None:
            self.note("RULE", text)
            self.failure = text

    def broken(self, text: str) -> None:
        self.fail(text)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until:
            self.brokers.advance(min(0.1, until - self.now))
            if self.failure is not None:
                raise BrokenRule(self.describe(self.failure))

    def describe(self, error: str) -> str:
        command = f"python -m tests.simulation.share --seed {self.seed}" + breaking(self.rule)
        return "\n".join([error, f"replay: {command}", *self.trace[-_LINES:]])

    # --- the ledger

    def error(self, name: str, error: KafkaError) -> None:
        """A poll or a commit has raised an error."""
        self.errors[type(error).__name__] += 1
        self.note(name, f"was told of {error!r}")

    def sent(self, member: str, kinds: dict[Place, int]) -> None:
        """A consumer sends acknowledgements (rule 10)."""
        for place, kind in kinds.items():
            if kind in _FINAL:
                self.maybe_final.add(place)
            if kind == GAP:
                self.fail(f"rule 10: {member} calls {place} a gap")
            elif kind != AcknowledgeType.RELEASE and kind not in self.said[member, place]:
                self.fail(f"rule 10: {member} says {kind} of {place}, its application said {self.said[member, place]}")

    def arrived(self, member: str, node: int, kinds: dict[Place, int]) -> None:
        """A broker gets acknowledgements, which end locks."""
        for place, kind in kinds.items():
            if kind != AcknowledgeType.RENEW and self.locks.get(place, ("",))[0] == member:
                del self.locks[place]

    def served_kinds(self, member: str, node: int, kinds: dict[Place, int], answer: Any, arrived: float) -> None:
        """A broker answers acknowledgements, and perhaps delivers records."""
        if answer.error_code == 0:
            codes = {
                (bytes(topic.topic_id), one.partition_index): getattr(one, "acknowledge_error_code", one.error_code)
                for topic in answer.responses
                for one in topic.partitions
            }
            for place, kind in kinds.items():
                if codes.get(place[:2]) != 0:
                    continue
                if kind in _FINAL:
                    self.finals.add(place)
                elif kind == AcknowledgeType.RENEW and self.given[member, place]:
                    last = self.given[member, place][-1]
                    self.given[member, place].append(last._replace(until=arrived + LOCK_S))
                    if place in self.locks:
                        _, _, epoch, _ = self.locks[place]
                        self.locks[place] = (member, arrived + LOCK_S, epoch, node)
        for topic in answer.responses:
            for one in topic.partitions:
                self._check_records(one)
        for place, count in self.acquired(answer):
            self._delivered(member, node, place, count)

    def _delivered(self, member: str, node: int, place: Place, count: int) -> None:
        super()._delivered(member, node, place, count)
        self.given[member, place].append(_Given(self.now + LOCK_S, count, self._leader_epoch(place[:2]), node))

    def returned(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """A poll has returned records (rule 8)."""
        delegate, member = consumer.delegate, consumer.member_id
        held = Counter(
            (*delivery.source[1:], offset)
            for delivery in delegate._delivered
            if delivery.locked_until > self.now
            for offset in delivery.offsets
        )
        for delivery in deliveries:
            _, topic_id, tp = delivery.source
            for offset in delivery.offsets:
                place = topic_id, tp.partition, offset
                count = delivery.delivery_count(offset)
                given = {(one.deliveries, one.epoch) for one in self.given[member, place] if one.until > self.now}
                if count not in {known for known, _ in given}:
                    self.fail(f"rule 8: {member} returns {place} with count {count}, it has it by the counts {given}")
                if held[topic_id, tp, offset] > len({epoch for _, epoch in given}):
                    self.fail(f"rule 8: {member} returns {place} twice")

    def lost(self, member: str, node: int) -> None:
        """A consumer knows that its session with a broker has ended, and with it the deliveries of that session."""
        for (holder, _), given in self.given.items():
            if holder == member:
                given[:] = [one for one in given if one.node != node]

    def outcome(self, consumer: Consumer, place: Place, kind: int, error: KafkaError | None) -> None:
        """A consumer has an outcome of an acknowledgement (rule 9)."""
        self.outcomes["confirmed" if error is None else type(error).__name__] += 1
        if kind == AcknowledgeType.RELEASE and not consumer.pending[place, kind]:
            return  # it has released a record of a partition that it lost
        consumer.pending[place, kind] -= 1
        if consumer.pending[place, kind] < 0:
            self.fail(f"rule 9: {consumer.name} has an outcome of {place}, type {kind}, without an acknowledgement")
        if error is None and kind in _FINAL and place not in self.finals:
            self.fail(f"rule 9: {consumer.name} takes {place} for confirmed, and no broker has said so")

    # --- the actions

    def join(self) -> None:
        if len(self.members) < 5:
            self.names += 1
            way = self.random.choice(WAYS)
            self.note(f"m{self.names} joins, {way}")
            consumer = Consumer(self, f"m{self.names}", way)
            broken.break_consumer(consumer, self.rule)
            self.members.append(consumer)  # type: ignore[arg-type]

    @property
    def consumers(self) -> list[Consumer]:
        return self.members  # type: ignore[return-value]

    def _connection(self) -> Any:
        found = [
            each for consumer in self.consumers for client in consumer.clients for each in client.connections.values()
        ]
        return self.random.choice(found) if found else None

    def _fault(self, name: str) -> None:
        self.faults[name] += 1
        if name in ("cut", "swallow", "answer"):
            connection = self._connection()
            if connection is None:
                return
            self.note(f"{connection.client.name}: {name} at {connection.broker.name}")
            if name == "cut":
                connection.close("cut")
            elif name == "swallow":
                connection.swallows = True
            else:
                connection.loses_answer = True
        else:
            self._actions[name]()

    def outage(self) -> None:
        if not self.consumers:
            return
        consumer = self.random.choice(self.consumers)
        seconds = self.random.choice((0.5, 3.0, 8.0))
        self.note(f"{consumer.name} has no network for {seconds} s")

        def back() -> None:
            for client in consumer.clients:
                client.connected = True

        for client in consumer.clients:
            client.connected = False
            client.cut("no network")
        self.after(seconds, back)

    def stall(self) -> None:
        if self.consumers:
            consumer, seconds = self.random.choice(self.consumers), self.random.choice((0.5, 2.0, 5.0, 10.0))
            self.note(f"{consumer.name} stands still for {seconds} s")
            consumer.pause(seconds)

    def kill(self) -> None:
        before = set(self.brokers.alive)
        super().kill()
        for node in before - set(self.brokers.alive):
            self.by_id[node].died()
            for key in [key for key in self.sessions if key[1] == node]:
                self.session_ended(*key)
            for consumer in self.consumers:
                for client in consumer.clients:
                    for connection in list(client.connections.values()):
                        if connection.broker.node_id == node:
                            connection.close("the broker died")

    # --- a schedule

    def play(self) -> None:
        """Play the schedule, then let everything end well, and check the rules of the end."""
        try:
            with deterministic(self.seed, self.fail):
                self.advance(self.random.uniform(0.5, 3.0))
                for _ in range(self.random.randint(10, 25)):
                    for _ in range(self.random.randint(0, 4)):
                        self.produce()
                    self.advance(self.random.expovariate(1 / 0.8))
                    if self.random.random() < 0.7:
                        self._fault(self.random.choices([*_FAULTS], [*_FAULTS.values()])[0])
                self._drain()
        finally:
            self.brokers.stop()

    def _drain(self) -> None:
        self.end_faults()
        for consumer in self.consumers:
            consumer.unpause()
            for client in consumer.clients:
                client.connected = True
        left_s = 400
        while left_s > 0:
            self.advance(1.0)
            left_s -= 1
            if not self._unfinished():
                if not self._unreported():
                    break
                left_s = min(left_s, 30)
        self.check_end()

    def _unreported(self) -> list[str]:
        return [
            f"{consumer.name}: {found}"
            for consumer in self.consumers
            for found in (+consumer.pending, consumer.unheard)
            if found
        ]

    def check_end(self) -> None:
        if self._unreported():
            self.fail(f"rule 9: no outcome was reported of {self._unreported()}")
        self.settle_end()
        leaving = list(self.consumers)
        for consumer in leaving:
            consumer.leave(crash=False)
        self.advance(10.0)
        if not all(consumer.ended for consumer in leaving):
            self.fail("rule 6: a consumer has not ended")
        self.check_gone()
        self.advance(0.01)


def play_consumers(seed: int, *, broken: str | None = None) -> ConsumersWorld:
    """Play a schedule. Raises ``BrokenRule``."""
    draws = random.Random(f"ids {seed}")
    with mock.patch("uuid.uuid4", side_effect=lambda: uuid.UUID(int=draws.getrandbits(128), version=4)):
        world = ConsumersWorld(seed, broken=broken)
        world.play()
    return world
