"""``Observation``: tells :data:`pyconsumer.telemetry.hooks` about the polls of one consumer.

The caller has looked at ``hooks.active``, so that a consumer that nobody observes makes no call of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.errors import ConcurrentAccessError, IllegalStateError, KafkaError, WakeupError
from pyconsumer.structs import TopicPartition
from pyconsumer.telemetry import Client, hooks, processing

__all__ = ["Observation"]

_MOST_SHOWN: Final = 128  # records of a fetch, for links


class Observation:
    """Tells the process's hooks which records a consumer has returned, and how long that took.

    Args:
        context: of the consumer.
        metrics: knows when the current poll has begun.
        buffer: of the fetched records.
    """

    def __init__(self, context: ConsumerContext, metrics: ConsumerMetrics, buffer: FetchBuffer) -> None:
        self._config, self._metadata, self._now = context.config, context.metadata, context.clock.now
        self._metrics = metrics
        self._buffer = buffer
        self._fetch = 0  # that iteration has told of
        self._client = Client(self._config.client_id, self._config.group_id)

    def client(self) -> Client:
        """Return this consumer's names."""
        found = self._client
        if found.cluster_id is not self._metadata.cluster_id:
            found = self._client = Client(self._config.client_id, self._config.group_id, self._metadata.cluster_id)
        return found

    def polled(self, found: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Tell of the records of a poll."""
        active = hooks.active
        if active is not None and found:
            active.received(self.client(), found, self._seconds())

    def iterated(self, record: Any) -> None:
        """Tell of a record that iteration returns, and of its fetch if it is the first of it."""
        active = hooks.active
        if active is None:
            return
        client = self.client()
        if self._fetch != self._buffer.begun:
            self._fetch = self._buffer.begun
            active.fetch_begun(client, [record, *self._buffer.decoded_ahead(_MOST_SHOWN - 1)], self._seconds())
        active.consumed(client, record.topic, 1)

    def taken(self, tp: TopicPartition, count: int) -> None:
        """Tell of the records that iteration has taken by itself."""
        active = hooks.active
        if active is not None:
            active.consumed(self.client(), tp.topic, count)

    def columns(self, runs: Sequence[tuple[TopicPartition, int]], headers: Callable[[int], Any]) -> None:
        """Tell of the rows of a poll for columns."""
        active = hooks.active
        if active is not None and runs:
            active.columns_received(self.client(), runs, headers, self._seconds())

    def failed(self, error: BaseException) -> None:
        """Tell of a poll that raised an error of ours. A wakeup is none. A poll that was refused has taken no time."""
        active = hooks.active
        if active is not None and isinstance(error, KafkaError) and not isinstance(error, WakeupError):
            refused = isinstance(error, (ConcurrentAccessError, IllegalStateError))
            active.receive_failed(self.client(), error, 0.0 if refused else self._seconds())

    def processing(self, work: Any) -> AbstractContextManager[object]:
        """Return the context manager of ``KafkaConsumer.processing``."""
        return nullcontext() if hooks.active is None else processing(self.client(), work)

    def _seconds(self) -> float:
        return max(0.0, self._now() - self._metrics.last_poll_at)
