"""One schedule: time, programs, faults, readers, the trace. Everything random comes from its seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.structs import TopicPartition
from tests.simulation.transactions.cluster import SINK, SINKS, SOURCE, Cluster, Endpoint
from tests.simulation.transactions.ledger import Ledger
from tests.simulation.transactions.program import Program
from tests.simulation.world import BrokenRule, Schedule, WatchedClock, breaking
from tests.unit.broker.support import NOW_MS

_LOOKS_S = 0.5
_SETTLES_IN_S = 120.0
_IDS = ("p", "q")
_FAULTS = (
    *("crash", "crash", "twin", "pause", "outage", "hole", "cut", "swallow", "answer", "answer"),
    *("late", "late", "kill", "kill", "move", "move", "move", "moment", "moment", "lag", "exhaust"),
)
_LAST_EPOCH = 32766


class TransactionWorld(Schedule):
    """One schedule of transactions.

    Args:
        version: the cluster's transaction version in the beginning: 0, 1 or 2.
        seed: of everything that is random.
        broken: a rule to break on purpose, see :mod:`.broken`.

    Attributes:
        healing: the faults are over.
        stopped: no program runs any more.
        newest: by transactional id, the program that was started last.
        mixed: the transaction version changes in between.
    """

    def __init__(self, version: int, seed: int, *, broken: str | None = None) -> None:
        command = f"python -m tests.simulation.transactions --version {version} --seed {seed}" + breaking(broken)
        clock = WatchedClock(1000.0, wall_ms=NOW_MS)
        super().__init__(f"transactions {version} {seed}", command, clock, seed=seed, as_bytes=seed % 5 == 0)
        self.version = version
        self.broken = broken
        self.quiet_since = 0.0
        self.slowest = self.random.choice([0.003, 0.03, 0.3])
        self.mixed = self.random.random() < 0.1
        self.newest: dict[str, Program] = {}
        self.programs: list[Program] = []
        self.ledger = Ledger(self)
        self._names = 0
        self.healing = self.stopped = False
        self._last: set[Program] = set()
        self._seen: dict[TopicPartition, tuple[int, list[bytes]]] = {
            TopicPartition(SINK, index): (0, []) for index in range(SINKS)
        }
        self.cluster = Cluster(self, version)

    # --- for the network

    @property
    def brokers(self) -> Cluster:
        return self.cluster

    def cut_connections(self, broker: Endpoint) -> None:
        for program in self.programs:
            for connection in list(program.client.connections.values()):
                if connection.broker is broker:
                    connection.close(f"{broker.name} died")

    # --- time

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Let time pass until then, or until ``stop``. Return True if it stopped."""
        self.cluster.brokers.run()
        while stop is None or not stop():
            due = self.timer.next_deadline()
            if due is None or due > until:
                self.clock.advance_to(until)
                return False
            self.clock.advance_to(due)
            self.timer.run_due(due)
            self.cluster.brokers.run()
            if self.failure is not None:
                raise BrokenRule(self.failure)
        return True

    # --- programs

    def start(self, transactional_id: str) -> Program:
        self._names += 1
        name = f"{transactional_id}{self._names}"
        self.note(name, "starts")
        program = Program(self, name, transactional_id)
        self.programs.append(program)
        self.newest[transactional_id] = program
        return program

    def on_end(self, program: Program) -> None:
        """A program has ended. A supervisor starts it again, unless a newer one runs."""
        self.programs.remove(program)
        if self.newest.get(program.transactional_id) is program and not self.stopping(program) and not self.stopped:
            self.after(self.random.uniform(0.0, 3.0), lambda: self._again(program))

    def _again(self, program: Program) -> None:
        if self.newest.get(program.transactional_id) is program and not self.stopped:
            fresh = self.start(program.transactional_id)
            if self.healing:  # a late request of an older one has fenced it
                self._last.discard(program)
                self._last.add(fresh)

    def stopping(self, program: Program) -> bool:
        """Return whether a program is to end: after the last fault, when it has committed something since its start."""
        return program in self._last and self._has_committed(program)

    def _has_committed(self, program: Program) -> bool:
        return any(one.program == program.name and one.fate.value == "committed" for one in self.ledger.transactions)

    # --- faults

    def fault(self) -> None:
        draw = self.random
        name = draw.choice(_FAULTS + (("feature",) * 3 if self.mixed else ()))
        if name == "kill":
            if not self.cluster.kill(draw.uniform(0.1, 6.0)):
                return
        elif name == "move":
            self.cluster.move(draw.choice([SINK, OFFSETS_TOPIC, TRANSACTION_TOPIC, TRANSACTION_TOPIC]))
        elif name == "lag":
            self.cluster.lag(draw.uniform(0.1, 5.0))
        elif name == "moment":
            self.cluster.strike = draw.randint(0, 40)
        elif name == "feature":
            level = draw.choice([0, 1, 2])
            self.note("cluster", f"transaction.version becomes {level}")
            self.cluster.brokers.controller.update_features({"transaction.version": level})
        elif not self.programs:
            return
        else:
            program = draw.choice(self.programs)
            self.note(program.name, f"fault: {name}")
            getattr(self, f"_{name}")(program)
        self.faults[name] = self.faults.get(name, 0) + 1

    def _crash(self, program: Program) -> None:
        program.end("crashes")

    def _twin(self, program: Program) -> None:
        """A second program with the same id: the first one does not know yet that it is replaced."""
        self.start(program.transactional_id)

    def _pause(self, program: Program) -> None:
        program.pause(self.random.uniform(0.5, 15.0))

    def _outage(self, program: Program) -> None:
        program.client.connected = False
        program.client.cut("no network")

        def back() -> None:
            program.client.connected = True

        self.after(self.random.uniform(0.1, 8.0), back)

    def _hole(self, program: Program) -> None:
        """Messages wait somewhere and come later."""
        program.client.reachable_at = self.clock.now() + self.random.uniform(0.1, 14.0)

    def _late(self, program: Program) -> None:
        """Make requests to one broker arrive after their senders have stopped waiting."""
        links = list(program.client.connections.values())
        if links:
            self.random.choice(links).hold(self.random.uniform(3.0, 20.0))

    def _cut(self, program: Program) -> None:
        program.client.cut("cut")

    def _swallow(self, program: Program) -> None:
        for connection in program.client.connections.values():
            connection.swallows = True

    def _answer(self, program: Program) -> None:
        """The next answer is lost together with the connection."""
        for connection in program.client.connections.values():
            connection.loses_answer = True

    def _exhaust(self, program: Program) -> None:
        """The epochs of the id are nearly used up."""
        leader = self.cluster.leader(TopicPartition(TRANSACTION_TOPIC, 0))
        if leader is None:
            return
        metadata = leader.transaction_coordinator._manager.find(program.transactional_id).metadata
        if metadata is None or metadata.pending_state is not None or metadata.record.partitions:
            return
        if metadata.record.producer_epoch < _LAST_EPOCH - 10:
            epoch = _LAST_EPOCH - self.random.randint(1, 4)
            metadata.record = metadata.record._replace(producer_epoch=epoch, last_producer_epoch=-1)
            self.note("cluster", f"{program.transactional_id}: epoch {epoch}")

    # --- readers

    def _look(self) -> None:
        """A read_committed reader continues in each partition."""
        for tp, (offset, values) in list(self._seen.items()):
            found = self.cluster.read(tp, offset)
            if found is not None:
                self.ledger.seen(tp, found[0])
                self._seen[tp] = found[1], values + found[0]
        self.after(_LOOKS_S, self._look)

    # --- the schedule

    def _play(self) -> None:
        draw = self.random
        self._look()
        for name in _IDS[: draw.choice([1, 2, 2])]:
            self.start(name)
        self.run(self.clock.now() + draw.uniform(0.2, 3.0))
        for _ in range(draw.randint(5, 12)):
            self.run(self.clock.now() + (12.0 if draw.random() < 0.1 else draw.expovariate(1 / 1.0)))
            self.fault()
        self._heal()
        self._check()

    def _heal(self) -> None:
        """Make no further faults. A last program of each id fences the others and commits once more."""
        self.note("world", "the faults are over")
        start = self.clock.now()
        if not self.run(start + _SETTLES_IN_S, lambda: self.cluster.whole):
            raise BrokenRule("the replicas are not in sync again")
        for program in list(self.programs):
            program.client.connected = True
            program.client.reachable_at = 0.0
        self.healing = True
        names = sorted(self.newest)
        self._last = {self.start(name) for name in names}
        if not self.run(self.clock.now() + _SETTLES_IN_S, lambda: all(map(self._has_committed, self._last))):
            states = ", ".join(f"{one.name} {one.manager!r}" for one in self._last)
            raise BrokenRule(f"not done {_SETTLES_IN_S:.0f} s after the last fault: {states}")
        self.stopped = True
        if self.random.random() < 0.3:
            left = Program(self, "z", "z", leaves=True)
            self.programs.append(left)
            self.run(self.clock.now() + 20.0, lambda: not left.alive)
            left.end("did not begin")
        for program in list(self.programs):
            program.end("is ended")
        self.run(self.clock.now() + 15.0)  # late requests, and the longest transaction
        if not self.run(self.clock.now() + _SETTLES_IN_S, lambda: not self._unstable()):
            raise BrokenRule(f"transactions are left open: {self._unstable()}")
        self.settled_in = self.clock.now() - start

    def _unstable(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for tp in (*self._seen, TopicPartition(OFFSETS_TOPIC, 0)):
            leader = self.cluster.leader(tp)
            partition = None if leader is None else leader.partitions[tp]
            if partition is None or partition.last_stable_offset != partition.high_watermark:
                found[str(tp)] = partition and (partition.last_stable_offset, partition.high_watermark)
        return found

    def _check(self) -> None:
        self.run(self.clock.now() + 2 * _LOOKS_S)
        final: dict[TopicPartition, list[bytes]] = {}
        for tp, (_, seen) in self._seen.items():
            found = self.cluster.read(tp, 0)
            assert found is not None
            values, _, high_watermark, stable = found
            final[tp] = values
            if values != seen:
                self.fail(f"{tp}: what was seen one after the other differs from what is there: {seen} and {values}")
            if stable != high_watermark:
                self.fail(f"{tp}: the last stable offset is {stable}, the high watermark {high_watermark}")
        leader = self.cluster.leader(TopicPartition(OFFSETS_TOPIC, 0))
        assert leader is not None
        positions = {}
        for name in self.newest:
            group = leader.group_coordinator.manager.get_group(name)
            record = None if group is None else group.offsets.committed.get(SOURCE)
            positions[name] = 0 if record is None else record.value.offset
        self.ledger.check(final, positions)
        if self.failure is not None:
            raise BrokenRule(self.failure)


def play(version: int, seed: int, *, broken: str | None = None) -> TransactionWorld:
    """Run one schedule and return it for its figures. Raises ``BrokenRule`` as :meth:`TransactionWorld.play`."""
    world = TransactionWorld(version, seed, broken=broken)
    world.play()
    return world
