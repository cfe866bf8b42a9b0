"""``AsyncMockShareConsumer``: the mock of a share consumer for programs on an event loop.

It wraps a :class:`.MockShareConsumer`, its attribute ``mock``. There the test takes the part of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyconsumer.aio.awaited import with_awaited
from pyconsumer.aio.interface import AsyncShareConsumer
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.delegate import CommitResults
from pyconsumer.generic import K, V
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.testing.mock_share_consumer import MockShareConsumer
from pyconsumer.testing.mock_steps import on_mock, run_on_loop

if TYPE_CHECKING:
    import pyarrow

__all__ = ["AsyncMockShareConsumer"]


@with_awaited(AsyncShareConsumer, MockShareConsumer, on_mock, forward="mock")
class AsyncMockShareConsumer(AsyncShareConsumer[K, V]):
    """A :class:`MockShareConsumer` for programs that take a :class:`pyconsumer.aio.AsyncShareConsumer`.

    Args:
        topics, options: see :class:`MockShareConsumer`.
        mock: the wrapped consumer. By default a new one.
    """

    def __init__(self, *topics: str, mock: MockShareConsumer[K, V] | None = None, **options: Any) -> None:
        self.mock: MockShareConsumer[K, V] = MockShareConsumer(*topics, **options) if mock is None else mock

    @property
    def closed(self) -> bool:
        """Return whether the consumer was closed."""
        return self.mock.closed

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the test has added."""
        return await run_on_loop(self.mock.poll_steps(timeout_ms, max_records))

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records that the test has added, as columns."""
        return await run_on_loop(
            self.mock.poll_arrow_steps(timeout_ms, max_records, columns, dictionary_topic=dictionary_topic)
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in (await self.poll(max_records=1)).records():
            return record
        raise StopAsyncIteration

    async def commit(self, timeout_ms: float | None = None) -> CommitResults:
        """Send acknowledgements. The callback may be a coroutine function."""
        return await run_on_loop(self.mock.commit_steps())

    async def close(self, timeout_ms: float | None = None) -> None:
        """Close the consumer. Records that are not acknowledged come again."""
        await run_on_loop(self.mock.close_steps())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
