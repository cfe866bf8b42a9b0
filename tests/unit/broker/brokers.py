"""Several brokers without sockets, on a clock that the test advances: for tests of replication."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import Controller
from pyconsumer.broker.deferred import run_handler
from pyconsumer.broker.faults import Faults
from pyconsumer.broker.handlers import handler_of
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.unit.broker.support import NOW_MS

__all__ = ["Brokers"]


class Brokers:
    """A cluster of ``count`` brokers with files in ``folder``, or in memory.

    With ``forgetful`` the controller has no file. That is much faster, for tests without a restart of the whole
    cluster.

    Attributes:
        alive: the running brokers, by node id.
    """

    def __init__(
        self,
        folder: Path | None,
        count: int = 3,
        *,
        forgetful: bool = False,
        clock: ManualClock | None = None,
        timer: Timer | None = None,
        **config: object,
    ) -> None:
        self._folder = folder
        self._config = {"offsets.topic.num.partitions": 3} | {
            name.replace("_", "."): value for name, value in config.items()
        }
        self.clock = ManualClock(wall_ms=NOW_MS) if clock is None else clock
        self.timer = Timer() if timer is None else timer
        self._calls: list[Callable[[], None]] = []
        self.alive: dict[int, Broker] = {}
        self.controller = Controller(None if forgetful else folder, BrokerConfig(self._config))
        for node in range(count):
            self.alive[node] = self._new(node)
        self.controller.register(list(self.alive))
        for broker in self.alive.values():
            broker.start()
        self.run()

    def _new(self, node: int) -> Broker:
        return Broker(
            node,
            folder=None if self._folder is None else self._folder / f"broker-{node}",
            config=BrokerConfig(self._config),
            controller=self.controller,
            clock=self.clock,
            timer=self.timer,
            faults=Faults(),
            endpoints=lambda listener: [BrokerMetadata(each, "host", 9000 + each, None) for each in self.alive],
            peers=self.alive,
            call_soon=self._calls.append,
        )

    # --- time

    def step(self) -> bool:
        """Run one of the calls that are ready. Return False if there is none."""
        if not self._calls:
            return False
        self._calls.pop(0)()
        return True

    def run(self) -> None:
        """Run everything that is due now, without advancing the clock."""
        for _ in range(100_000):
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float) -> None:
        """Advance the clock and run everything that becomes due."""
        until = self.clock.now() + seconds
        self.run()
        while (due := self.timer.next_deadline()) is not None and due <= until:
            self.clock.advance_to(due)
            self.timer.run_due(due)
            self.run()
        self.clock.advance_to(until)

    # --- brokers

    def kill(self, node: int) -> None:
        """As the host does."""
        self.alive.pop(node).abandon()
        self.controller.unregister([node])

    def restart(self, node: int) -> Broker:
        """As the host does. Work that the broker has to make up for is copied when calls run."""
        broker = self.alive[node] = self._new(node)
        self.controller.register([node])
        broker.start()
        return broker

    def stop(self) -> None:
        for broker in self.alive.values():
            broker.abandon()
        self.alive.clear()

    # --- partitions

    def replica(self, node: int, topic: str = "t", index: int = 0) -> Partition:
        """A replica on a node."""
        return self.alive[node].partitions[TopicPartition(topic, index)]

    def leader(self, topic: str = "t", index: int = 0) -> Partition:
        """The leader's replica."""
        return self.replica(self.controller.topics[topic].partitions[index].leader, topic, index)

    def state(self, topic: str = "t", index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, leader epoch and ISR, as the controller has them."""
        found = self.controller.topics[topic].partitions[index]
        return found.leader, found.leader_epoch, found.isr

    def request(self, node: int, message: Message, version: int) -> list[Any]:
        """Send a request to a node. Only its response is appended to the list when it arrives."""
        answers: list[Any] = []

        def failed(error: BaseException) -> None:
            raise error

        self.serve(node, message, version, answers.append, failed)
        return answers

    def serve(
        self,
        node: int,
        message: Message,
        version: int,
        answer: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Let a node handle a request. ``failed`` gets the exception of its handler."""
        handler = handler_of(message.API_KEY)
        assert handler is not None
        now, wall_ms = self.clock.now(), self.clock.wall_ms()
        context = RequestContext(
            message.API_KEY, version, 0, "client", "/127.0.0.1", "PLAINTEXT", "User:ANONYMOUS", now, wall_ms
        )
        run_handler(handler.handle(self.alive[node], message, context), answer, failed)
