"""Brokers for tests of share groups, with short times, and both faces of a share consumer."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from pyconsumer import KafkaAdminClient, KafkaProducer, KafkaShareConsumer
from pyconsumer.admin import ConfigResource, NewTopic
from pyconsumer.aio import AsyncKafkaShareConsumer
from tests.support.cluster import Cluster

__all__ = ["SHARE_CONFIG", "OnLoop", "ShareWorld", "take"]

#: Settings of a broker: members are noticed soon, and locks expire soon.
SHARE_CONFIG: Final[dict[str, object]] = {
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.session.timeout.ms": 2000,
    "group.share.min.session.timeout.ms": 500,
    "group.share.record.lock.duration.ms": 15_000,
    "group.share.min.record.lock.duration.ms": 1000,
}
_NUMBERS = itertools.count(1)
_RUN = uuid.uuid4().hex[:6]


def take(consumer: Any, count: int, within_s: float = 20.0) -> list[Any]:
    """Poll until this number of records has come."""
    found: list[Any] = []
    end = time.monotonic() + within_s
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += consumer.poll(timeout_ms=500).records()
    return found


class OnLoop:
    """A share consumer for asyncio behind the blocking interface: each call runs on one loop."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._is_closed = False
        self._consumer = AsyncKafkaShareConsumer(*args, **settings)
        self._runner.run(self._bind())

    async def _bind(self) -> None:
        await self._consumer.__aenter__()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._consumer, name)
        if not callable(found) or name == "wakeup":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            async def inside() -> Any:
                result = found(*args, **kwargs)
                return await result if inspect.isawaitable(result) else result

            return self._runner.run(inside())

        return call

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._runner.run(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> Any:
        return await self._consumer.__anext__()

    def close(self, timeout_ms: float | None = None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._runner.run(self._consumer.close(timeout_ms))
            self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class ShareWorld:
    """A broker with share groups, and new topics and groups.

    Args:
        cluster: the broker.
        face: ``blocking`` or ``asyncio``, the kind of consumers that :meth:`consumer` makes.
    """

    def __init__(self, cluster: Cluster, face: str) -> None:
        self.cluster = cluster
        self.face = face
        self.servers = cluster.bootstrap_servers
        self.group = f"share-{_RUN}-{next(_NUMBERS)}"
        self._open: list[Any] = []

    def topic(self, partitions: int = 1) -> str:
        """Create a topic, and return its name."""
        name = f"topic-{_RUN}-{next(_NUMBERS)}"
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        return name

    def set_group(self, **settings: str) -> None:
        """Change settings of the group. Underscores stand for dots."""
        changes = {name.replace("_", "."): value for name, value in settings.items()}
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            admin.alter_configs({ConfigResource("group", self.group): changes})  # type: ignore[arg-type]

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0, **settings: Any) -> None:
        """Send values to one partition."""
        with KafkaProducer(bootstrap_servers=self.servers, **settings) as producer:
            for value in values:
                producer.send(topic, value, partition=partition)
            producer.flush()

    def consumer(self, *topics: str, **settings: Any) -> Any:
        """Return a member of the group. It is closed at the end of the test."""
        made: Any = KafkaShareConsumer if self.face == "blocking" else OnLoop
        options = {"bootstrap_servers": self.servers, "group_id": self.group, "fetch_max_wait_ms": 200} | settings
        found = made(*topics, **options)
        self._open.append(found)
        return found

    def close(self) -> None:
        """Close the consumers."""
        for consumer in self._open:
            consumer.close()
