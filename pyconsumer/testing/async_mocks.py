"""``AsyncMockConsumer`` and ``AsyncMockProducer``: the mocks for programs on an event loop.

Each wraps a blocking mock, its attribute ``mock``, which has all the state: there the test takes the part of the
cluster, and the program awaits the calls here. The test awaits calls that may run callbacks of the program:
``await consumer.rebalance([...])``. A call yields to the loop once, and never waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pyconsumer.aio.awaited import with_awaited
from pyconsumer.aio.interface import AsyncConsumer, AsyncProducer
from pyconsumer.consumer.arguments import not_empty
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, Offsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import KafkaError
from pyconsumer.generic import Header, K, SentK, SentV, V
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import RecordMetadata, SubscriptionPattern, TopicPartition
from pyconsumer.testing.mock_consumer import MockConsumer
from pyconsumer.testing.mock_producer import MockProducer
from pyconsumer.testing.mock_steps import on_mock, run_on_loop

__all__ = ["AsyncMockConsumer", "AsyncMockProducer"]

T = TypeVar("T")


@with_awaited(AsyncConsumer, MockConsumer, on_mock, forward="mock")
class AsyncMockConsumer(AsyncConsumer[K, V]):
    """A :class:`MockConsumer` for programs that take a :class:`pyconsumer.aio.AsyncConsumer`.

    Args:
        auto_offset_reset, options: see :class:`MockConsumer`.
        mock: the wrapped consumer. By default a new one.
    """

    def __init__(
        self, auto_offset_reset: str = "latest", *, mock: MockConsumer[K, V] | None = None, **options: Any
    ) -> None:
        self.mock: MockConsumer[K, V] = MockConsumer(auto_offset_reset, **options) if mock is None else mock

    # -- called by the test ------------------------------------------------------------------------------------------

    async def rebalance(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the group assign partitions, like :meth:`MockConsumer.rebalance`.

        The listener's coroutines are awaited.
        """
        await run_on_loop(self.mock.rebalance_steps(partitions))

    async def lose(self) -> None:
        """Let the group continue without this member, like :meth:`MockConsumer.lose`.

        The listener's coroutines are awaited.
        """
        await run_on_loop(self.mock.lose_steps())

    @property
    def closed(self) -> bool:
        """Return whether the consumer was closed."""
        return self.mock.closed

    # -- called by the program ---------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the test has added, starting at the positions. The positions move past these records."""
        return await run_on_loop(self.mock.poll_steps(timeout_ms, max_records))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in (await self.poll(max_records=1)).records():
            return record
        raise StopAsyncIteration

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        self.mock.subscribe(topics if pattern is not None else not_empty(topics, "subscribe"), pattern, listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.mock.assign(not_empty(partitions, "assign"))

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        await run_on_loop(self.mock.unsubscribe_steps())

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> Awaitable[None]:
        """Commit offsets. If the callback is a coroutine function, the next poll awaits its coroutine."""
        done = self.mock.commit_async(offsets, callback)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if done.exception is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(done.exception)
            outcome.exception()  # it need not be awaited
        return outcome

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        await run_on_loop(self.mock.close_steps())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.mock.leave(error)
        await self.close()

    def __repr__(self) -> str:
        return repr(self.mock).replace("MockConsumer", "AsyncMockConsumer")


@with_awaited(AsyncProducer, MockProducer, on_mock, forward="mock")
class AsyncMockProducer(AsyncProducer[SentK, SentV]):
    """A :class:`MockProducer` for programs that take a :class:`pyconsumer.aio.AsyncProducer`.

    Args:
        options: see :class:`MockProducer`.
        mock: the wrapped producer. By default a new one.
    """

    def __init__(self, *, mock: MockProducer[SentK, SentV] | None = None, **options: Any) -> None:
        self.mock: MockProducer[SentK, SentV] = MockProducer(**options) if mock is None else mock

    @property
    def closed(self) -> bool:
        """Return whether the producer was closed."""
        return self.mock.closed

    async def send_and_wait(
        self,
        topic: str,
        value: SentV | None = None,
        key: SentK | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Store a record, and wait until the test has acknowledged it."""
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Run a block as a transaction. It is committed at the end.

        It is aborted if the block raises or is cancelled, or if the commit fails.
        """
        self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self.mock.in_transaction and not self.closed:
                with contextlib.suppress(KafkaError):
                    self.mock.abort_transaction()
            raise

    @property
    def is_initialized(self) -> bool:
        return self.mock.is_initialized

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(timeout_ms=None if kind is None else 0)

    def __repr__(self) -> str:
        return repr(self.mock).replace("MockProducer", "AsyncMockProducer")
