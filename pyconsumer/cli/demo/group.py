"""The demo's consumer group in the parent process: it starts the members, sums up what they commit, and checks it.

When half of the flights are read, the parent pauses the members, starts a fourth one, and resumes them when the group
has rebalanced. So the rebalance happens half-way on a machine of any speed.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final

from pyconsumer.child_python import child_environment, child_python
from pyconsumer.cli.demo import member
from pyconsumer.errors import KafkaError, KafkaTimeoutError

__all__ = ["DemoGroup"]

_MEMBERS: Final = 3
#: Not by :mod:`multiprocessing`, whose resource tracker would outlive this process for a moment.
_PROGRAM: Final = "import sys; from pyconsumer.cli.demo.member import main; main(int(sys.argv[1]))"


class DemoGroup:
    """Reads a topic to its end with a consumer group of several processes.

    Args:
        topic: the topic to read.
        ends: for each partition the offset after its last record.
        options: settings of the members' consumers.
        on_progress: called with the number of records that are committed.
        on_event: called with a line to print.
        timeout: seconds after which the demo fails.
    """

    def __init__(
        self,
        topic: str,
        ends: Mapping[int, int],
        options: Mapping[str, Any],
        *,
        on_progress: Callable[[int], None],
        on_event: Callable[[str], None],
        timeout: float = 300.0,
    ) -> None:
        self.topic = topic
        self.ends = dict(ends)
        self.total = sum(ends.values())
        self.options = dict(options)
        self.on_progress = on_progress
        self.on_event = on_event
        self.timeout = timeout
        self.read = 0
        self.delays: dict[str, tuple[int, int, int]] = {}
        self.ranges: dict[int, list[tuple[int, int]]] = {partition: [] for partition in ends}
        self.owned: dict[int, tuple[int, ...]] = {}
        self.history: dict[int, list[tuple[int, ...]]] = {}
        self.read_by: dict[int, int] = {}
        self.generation: dict[int, int] = {}
        self._held = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[Connection[Any, Any]] = []

    def run(self) -> None:
        """Read the topic, with a rebalance half-way.

        Raises:
            KafkaTimeoutError: the group needed longer than ``timeout``.
            KafkaError: a member failed, or a record was lost or counted twice.
        """
        deadline = time.monotonic() + self.timeout
        try:
            for _ in range(_MEMBERS):
                self._start()
            while self.read < self.total:
                self._step(deadline)
                self._halfway()
            self._order(member.Order.STOP)
            while self._pipes:
                self._step(deadline)
        finally:
            self._order(member.Order.STOP)
            self._end()
        self._check()

    def _start(self) -> None:
        number = len(self._processes) + 1
        options = self.options | {"client_id": f"member-{number}"}
        # Ctrl-C in the middle of this would leave a half-started process; the member itself ignores it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            ours, theirs = Pipe()
            self._pipes.append(ours)
            with theirs:
                process = subprocess.Popen(
                    child_python("-c", _PROGRAM, str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=child_environment(),
                )
            self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        with contextlib.suppress(OSError):  # it has ended, which the next step notices
            ours.send(member.Job(number, self.topic, options))
            if self._held:
                ours.send(member.Order.HOLD)
        self.history[number] = []
        self.read_by[number] = 0

    def _halfway(self) -> None:
        if len(self._processes) == _MEMBERS and self.read >= self.total // 2:
            self._held = True
            self._order(member.Order.HOLD)
            self.on_event(f"{self.read:,} of {self.total:,} flights read; a fourth member joins")
            self._start()
        elif self._held:
            generations = set(self.generation.values())
            spread = sorted(partition for owned in self.owned.values() for partition in owned)
            if len(self.generation) > _MEMBERS and len(generations) == 1 and spread == sorted(self.ends):
                shares = ", ".join(f"member {number}: {_names(owned)}" for number, owned in sorted(self.owned.items()))
                self.on_event(f"the group has rebalanced (generation {generations.pop()}): {shares}")
                self._held = False
                self._order(member.Order.CONTINUE)

    def _order(self, order: member.Order) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):  # it has ended, which the next step notices
                pipe.send(order)

    def _step(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise KafkaTimeoutError(f"{self.read:,} of {self.total:,} flights were read within {self.timeout:.0f} s")
        for pipe in wait(self._pipes, timeout=min(left, 1.0)):
            assert isinstance(pipe, Connection)
            try:
                self._handle(pipe.recv())
            except (EOFError, OSError):
                self._pipes.remove(pipe)
                pipe.close()
                if self.read < self.total:
                    raise KafkaError("a member of the group ended too early") from None

    def _handle(self, message: Any) -> None:
        if isinstance(message, member.Work):
            self.ranges[message.partition].append((message.first, message.after))
            for carrier, (flights, known, total) in message.delays.items():
                before = self.delays.get(carrier, (0, 0, 0))
                self.delays[carrier] = (before[0] + flights, before[1] + known, before[2] + total)
            count = sum(flights for flights, _, _ in message.delays.values())
            self.read += count
            self.read_by[message.member] += count
            self.on_progress(self.read)
        elif isinstance(message, member.Assigned):
            self.owned[message.member] = message.partitions
            self.generation[message.member] = message.generation
            self.history[message.member].append(message.partitions)
        elif isinstance(message, member.Revoked):
            self.owned[message.member] = ()
        elif isinstance(message, member.Failed):
            raise KafkaError(f"member {message.member} failed: {message.reason}")

    def _end(self) -> None:
        until = time.monotonic() + 10.0
        for process in self._processes:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in self._pipes:
            pipe.close()

    def _check(self) -> None:
        """Check that the ranges of each partition cover all offsets without gap or overlap.

        Raises:
            KafkaError: they do not.
        """
        for partition, ranges in self.ranges.items():
            at = 0
            for first, after in sorted(ranges):
                if first != at:
                    what = "lost" if first > at else "counted twice"
                    raise KafkaError(
                        f"{self.topic}-{partition}: offsets {min(at, first)} to {max(at, first) - 1} {what}"
                    )
                at = after
            if at != self.ends[partition]:
                raise KafkaError(f"{self.topic}-{partition}: read up to {at}, but it ends at {self.ends[partition]}")


def _names(partitions: tuple[int, ...]) -> str:
    return ", ".join(map(str, partitions)) if partitions else "none"
