"""Large groups in simulated time: the real coordinators of both sides, a network of up to 3 ms, no computing.

Shows the cost of the protocol by itself. Members poll every 20 ms and read from all partitions that they own, and no
request fails. :mod:`tests.simulation` lists the parts that are real and those that are simulated.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from pyconsumer.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from pyconsumer.network.futures import Wait
from pyconsumer.structs import TopicPartition
from tests.simulation.brokers import TOPIC
from tests.simulation.member import Busy, Member
from tests.simulation.world import World

__all__ = ["ASSIGNORS", "measure"]

ASSIGNORS: dict[str, type[Assignor]] = {"range": RangeAssignor, "cooperative-sticky": CooperativeStickyAssignor}

_POLL_S = 0.02
_HOLD_S = 4.0  # a heartbeat tells everybody of a rebalance within 3
_WITHIN_S = 120.0


class Reader(Member):
    """Polls, and notes how long each partition brought no record while it was its own.

    Attributes:
        worst: by partition, the longest time without progress since :meth:`begin`, seconds.
    """

    world: Group

    def begin(self) -> None:
        now = self.world.clock.now()
        self.worst: dict[TopicPartition, float] = dict.fromkeys(self.owned, 0.0)
        self._last: dict[TopicPartition, float] = dict.fromkeys(self.owned, now)

    def _application(self) -> Generator[Wait | Busy, None, None]:
        coordinator, clock = self.coordinator, self.world.clock
        self.begin()
        while not self.closing:
            now = clock.now()
            coordinator.note_poll(now)
            if now >= coordinator.next_due_at or coordinator.has_user_output:
                yield from coordinator.poll(now, wait_for_join=False)
            if not self.subscriptions.has_all_fetch_positions:
                yield from self._find_positions()
            self._read()
            wait = min(clock.now() + _POLL_S, coordinator.next_due_at)
            yield Wait(None, wait)
        yield from coordinator.close(clock.now() + 3.0, None)

    def _read(self) -> None:
        now = self.world.clock.now()
        for tp in self.subscriptions.assigned_list():
            if self.subscriptions.state(tp).is_fetchable:
                self.worst[tp] = max(self.worst.get(tp, 0.0), now - self._last.get(tp, now))
                self._last[tp] = now


class Group(World):
    """One group.

    Args:
        assignor: one of :data:`ASSIGNORS`.
        seed: of delays, and of when members come.
        size: how many members it begins with. There are twice as many partitions.
        in_step: all heartbeats come at the same moment, as after a rebalance, otherwise each at its own, as when
            every member was held up once.
    """

    def __init__(self, assignor: str, seed: int, size: int, *, in_step: bool) -> None:
        super().__init__("eager" if assignor == "range" else "cooperative", seed)
        self._assignor = ASSIGNORS[assignor]
        self.slowest = 0.003
        self.size = size
        self.in_step = in_step
        self.partitions = {TopicPartition(TOPIC, number) for number in range(2 * size)}
        self.results: dict[str, Any] = {}

    def _play(self) -> None:
        draw = self.random
        for number in range(self.size):
            self.after(draw.uniform(0.0, 0.2), lambda number=number: self._come(f"m{number:03d}"))  # type: ignore[misc]
        self.results["form"] = self._until_settled(self.size)
        self._wait()
        self.results["join"] = self._during(lambda: self._come("n"), self.size + 1)
        self._wait()
        leaving = self.members[-1]
        self.results["leave"] = self._during(leaving.close, self.size)

    def _wait(self) -> None:
        """Until some moment between two heartbeats."""
        draw = self.random
        if not self.in_step:
            for member in self.members:
                seconds = draw.uniform(1.5, 6.0)
                self.after(draw.uniform(0.0, 3.0), lambda member=member, seconds=seconds: member.pause(seconds))  # type: ignore[misc]
            self.run(self.clock.now() + 15.0)
        self.run(self.clock.now() + draw.uniform(0.0, 3.0))

    def _come(self, name: str) -> None:
        member = Reader(self, name, None, "auto")
        self.members.append(member)
        member.start()

    def _during(self, event: Any, size: int) -> dict[str, Any]:
        """Let it happen. The time until all is settled, and the waits of partitions that stay with their members."""
        staying = [member for member in self.members if isinstance(member, Reader)]
        before = {member: set(member.owned) for member in staying}
        for member in staying:
            member.begin()
        event()
        seconds = self._until_settled(size)
        gaps = [
            member.worst[tp] for member in staying if member in self.members for tp in before[member] & member.owned
        ]
        return {"settled_s": seconds, "gaps_s": sorted(gaps)}

    def _until_settled(self, size: int) -> float:
        start = self.clock.now()
        while True:
            self.run(start + _WITHIN_S, lambda: len(self.members) == size and self.rules.settled)
            settled = self.clock.now()
            if settled >= start + _WITHIN_S:
                raise AssertionError(f"not settled within {_WITHIN_S:g} s: {self._states()}")
            self.run(settled + _HOLD_S)
            if self.rules.settled and len(self.members) == size:
                return settled - start


def measure(assignor: str, size: int, rounds: int, *, in_step: bool) -> dict[str, Any]:
    """Play this number of groups. Return times in simulated seconds, and the processor time of one group."""
    groups = []
    cpu = time.process_time()
    for seed in range(rounds):
        group = Group(assignor, seed, size, in_step=in_step)
        group.play()
        groups.append(group.results)
    return {
        "rounds": groups,
        "cpu_s": (time.process_time() - cpu) / rounds,
    }
