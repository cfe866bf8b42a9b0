"""``ShareCalls``: the calls of a share consumer that never wait, for the blocking class and the one for asyncio.

A call that waits has its body in :mod:`.consumer`.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pyconsumer import background_log
from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.consumer.arguments import split_topics, topic_names
from pyconsumer.consumer.guard import Guard
from pyconsumer.consumer.interface import Metrics
from pyconsumer.consumer.share.acknowledgements import Delivery
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.consumer.share.delegate import AcknowledgementCallback, ShareDelegate
from pyconsumer.consumer.share.interface import Acknowledgeable, ShareImmediateCalls
from pyconsumer.consumer.share.metric_scopes import open_share_source
from pyconsumer.generic import K, V, generic_alias, refuse_pickling
from pyconsumer.metrics.source import Metric, MetricSource
from pyconsumer.network.futures import Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from pyconsumer.consumer.share.typed_settings import ShareConsumerSettings
    from pyconsumer.generic import Deserializer

__all__ = ["DEFAULT_CLOSE_TIMEOUT_MS", "LentShareConsumer", "ShareCalls"]

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class ShareCalls(ShareImmediateCalls, Generic[K, V]):
    """The calls that never wait. The arguments are those of :class:`pyconsumer.KafkaShareConsumer`."""

    _name = ""  # of the public class, for messages
    _how_to_close = ""
    _has_loop = False
    _released = True  # there is nothing to release: not opened yet, or closed
    _guard: Guard
    _metric_source: MetricSource | None = None

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        clock: Clock | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        names, options = split_topics(topics, settings)
        if key_deserializer is not None:
            options["key_deserializer"] = key_deserializer
        if value_deserializer is not None:
            options["value_deserializer"] = value_deserializer
        self._open(options, clock or SystemClock())
        if names:
            try:
                self.subscribe(names)
            except BaseException:
                self._release()
                raise

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, *topics: str, **overrides: Any) -> Self:
        """Create a share consumer with settings from a properties file and from the environment.

        The arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.

        Example::

            consumer = KafkaShareConsumer.from_file("client.properties", "orders", group_id="billing")
        """
        from pyconsumer.settings.properties import from_file

        return cls(*topics, **from_file(SHARE_CONSUMER_SETTINGS, path, overrides))

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        sink = options.get("on_record_error", options.get("on.record.error"))
        check = getattr(sink, "check_consumer", None)
        if check is not None:
            check(self._has_loop)
        self._now = clock.now
        delegate = self._delegate = ShareDelegate.open(options, clock)
        self.config = delegate.config
        self._network = delegate.client
        self._ahead: list[ConsumerRecord[Any, Any]] = []  # of the last poll, for iteration, the next one last
        self._yielded: ConsumerRecord[Any, Any] | None = None  # by iteration, since the last poll
        self._guard = self._make_guard()
        self._released = False
        try:
            self._metric_source = open_share_source(delegate)
        except BaseException:  # of a reporter
            self._release()
            raise

    # -- provided by the two classes ---------------------------------------------------------------------------------

    @abstractmethod
    def _make_guard(self) -> Guard:
        """Return the guard of all calls."""

    @abstractmethod
    def _run(self, steps: Steps[T], deadline: float) -> T:
        """Run a call that waits. On an event loop the result is a coroutine."""

    def _serve_soon(self) -> None:
        """Send the requests of a call that does not wait."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connections."""

    @abstractmethod
    def _abandon(self) -> None:
        """Drop the connections of a consumer that was not closed."""

    # -- the calls ---------------------------------------------------------------------------------------------------

    def _next_record(self) -> ConsumerRecord[Any, Any]:
        """Take the next record for iteration."""
        record = self._yielded = self._ahead.pop()
        return record

    def _accept_yielded(self) -> None:
        """Accept the records that iteration has yielded before its last one, because the consumer is being closed."""
        if self._yielded is not None:
            self._delegate.accept_before(self._yielded)

    def _end_iteration(self) -> None:
        """Take back the records that iteration has not yielded, before another call."""
        if self._ahead:
            ahead, self._ahead = self._ahead, []
            self._delegate.give_back(len(ahead))

    def subscribe(self, topics: Iterable[str]) -> None:
        with self._guard:
            self._guard.refuse_in_callback("subscribe")
            self._end_iteration()
            self._delegate.subscribe(topic_names(topics))
            self._serve_soon()

    def subscription(self) -> set[str]:
        with self._guard:
            return set(self._delegate.topics)

    def unsubscribe(self) -> None:
        with self._guard:
            self._guard.refuse_in_callback("unsubscribe")
            self._end_iteration()
            self._delegate.unsubscribe()
            self._serve_soon()

    def acknowledge(self, record: Acknowledgeable, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        with self._guard:
            tp, offset = _place(record)
            self._delegate.acknowledge(tp, offset, AcknowledgeType(type))

    def delivery_count(self, record: Acknowledgeable) -> int:
        with self._guard:
            return self._delegate.delivery_count(*_place(record))

    def commit_async(self) -> None:
        with self._guard:
            self._end_iteration()
            self._delegate.commit_async()
            self._serve_soon()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        with self._guard:
            if callback is not None and not callable(callback):
                raise TypeError(f"the callback must be a function, not {callback!r}")
            self._delegate.set_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        with self._guard:
            return self._delegate.fetcher.lock_timeout_ms

    def metrics(self, raw: bool = False) -> Metrics:
        return {} if self._metric_source is None else self._metric_source.by_group()

    def metric_table(self) -> list[Metric]:
        return [] if self._metric_source is None else self._metric_source.table()

    def wakeup(self) -> None:
        self._network.wakeup()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _release(self) -> None:
        """Release threads and sockets. A second call is harmless."""
        self._guard.close()
        if self._metric_source is not None:
            self._metric_source.close()
        self._delegate.abandon("the consumer was closed")
        self._disconnect()
        self._released = True

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # The garbage collector may run this in any thread that holds any lock: nothing here waits or takes a lock.
        if self._released or self._guard.forked:
            return
        self._released = True
        self._delegate.abandon("the consumer was dropped without close()")
        self._abandon()
        if not self._guard.closed:
            _warn(f"unclosed {self!r}: {self._how_to_close}", ResourceWarning, source=self)

    def _deadline(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self._now() + seconds_of(timeout_ms)

    def _iteration_wait(self) -> float | None:
        """Return the longest time of a step of iteration in ms. None for no limit."""
        timeout = self.config.consumer_timeout_ms
        return None if timeout is None or timeout < 0 else timeout

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        state = "closed" if self._guard.closed else ", ".join(sorted(self._delegate.topics)) or "no topic"
        return f"<{self._name} group_id={self.config.group_id!r} client_id={self.config.client_id!r} {state}>"

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


class LentShareConsumer:
    """A share consumer that :mod:`pyconsumer.workers` use for a while. They hold the records of many polls.

    Attributes:
        deserialization: the deserializers that the borrower applies to the records, None if they stay bytes.
        group: the settings of the group.

    Args:
        consumer: is used by the borrower until :meth:`give_back`.

    Raises:
        IllegalStateError: a record of an earlier poll is not acknowledged, in explicit mode.
    """

    def __init__(self, consumer: ShareCalls[Any, Any]) -> None:
        self._guard = consumer._guard
        delegate = self._delegate = consumer._delegate
        self.deserialization = delegate.deserialization if delegate.deserialization.needed else None
        self.group = delegate.group
        with self._guard:
            consumer._end_iteration()
            delegate.hold()

    @property
    def is_closed(self) -> bool:
        """True if the consumer was closed meanwhile."""
        return self._guard.closed

    @property
    def is_assigned(self) -> bool:
        """True if the group has a partition for this member."""
        return bool(self._delegate.coordinator.assignment)

    @property
    def lock_s(self) -> float:
        """The duration of a lock, in seconds. Infinity until a broker has named it."""
        found = self._delegate.fetcher.lock_timeout_ms
        return math.inf if found is None else found / 1000

    def set_full(self, is_full: bool) -> None:
        """Say whether polls leave the records where they are. They still send acknowledgements."""
        self._delegate.set_full(is_full)

    def taken(self) -> list[Delivery]:
        """Return the records that the last poll has taken, once."""
        return self._delegate.take_unseen()

    def held(self) -> list[Delivery]:
        """Return the deliveries with records that are not acknowledged."""
        return list(self._delegate.held())

    def renew(self, delivery: Delivery) -> None:
        """Renew the lock of the records that are not acknowledged. No poll returns them again."""
        self._delegate.renew(delivery)

    def drop(self, deliveries: Collection[Delivery]) -> None:
        """Forget records whose lock has ended."""
        self._delegate.drop(deliveries)

    def give_back(self) -> None:
        """End the use."""
        self._delegate.end_hold()


def _place(record: Acknowledgeable) -> tuple[TopicPartition, int]:
    if isinstance(record, tuple):
        topic, partition, offset = record
        return TopicPartition(topic, partition), offset
    return TopicPartition(record.topic, record.partition), record.offset
