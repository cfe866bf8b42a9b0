"""Record sets and a stand-in for the network, for the consumer's unit tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition

__all__ = ["Answer", "FakeClient", "Sent", "batch", "batches"]


def batch(first: int, count: int, *, codec: str = "none", leader_epoch: int = 3, size: int = 4) -> bytes:
    """A record batch of the offsets from ``first`` on; values are the offset as text, padded."""
    builder = BatchBuilder(codec=codec)
    for offset in range(first, first + count):
        builder.try_append(1_000 + offset, b"k%d" % offset, str(offset).rjust(size).encode(), [])
    return builder.build(base_offset=first, leader_epoch=leader_epoch)


def batches(first: int, count: int, each: int = 10) -> bytes:
    """``count`` records in batches of ``each``."""
    return b"".join(batch(at, min(each, first + count - at)) for at in range(first, first + count, each))


class Answer(NamedTuple):
    """What the network gives for a request."""

    message: Any
    api_version: int = 17
    node_id: int = 1
    received_at: float = 0.0
    latency: float = 0.002


@dataclass
class Sent:
    """A request that was queued."""

    node_id: int
    message: Any
    future: RequestFuture[Any]
    min_version: int
    max_version: int | None

    def answer(self, message: Message, api_version: int = 17) -> None:
        self.future.complete(Answer(message, api_version, self.node_id))

    def fail(self, error: KafkaError) -> None:
        self.future.fail(error)


@dataclass
class FakeClient:
    """Collects requests; tests answer them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(100.0))
    sent: list[Sent] = field(default_factory=list)
    flushes: int = 0
    backoffs: dict[int, float] = field(default_factory=dict)
    version: int = 17
    on_flush: Callable[[], None] | None = None

    def send(
        self,
        node: int,
        api: Any,
        request: Any,
        *,
        timeout: float | None = None,
        connection: str = "main",
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[Any]:
        version = self.version if max_version is None else min(self.version, max_version)
        message = request if isinstance(request, Message) else request(version)
        found = Sent(node, message, RequestFuture(), min_version, max_version)
        self.sent.append(found)
        return found.future

    def failures(self) -> str:
        return "nothing has failed so far"

    def flush(self) -> None:
        self.flushes += 1
        if self.on_flush is not None:
            self.on_flush()

    def backoff_until(self, node_id: int, connection: str = "main") -> float:
        return self.backoffs.get(node_id, float("-inf"))

    def take(self) -> list[Sent]:
        """What was sent since the last call."""
        taken, self.sent = self.sent, []
        return taken


def offsets_of(records: Sequence[Any]) -> list[int]:
    """Offsets of records."""
    return [record.offset for record in records]


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)
