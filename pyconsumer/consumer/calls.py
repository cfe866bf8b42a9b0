"""``ConsumerCalls``: the calls that never wait, and the deadlines, for blocking and asyncio consumers.

Construction, settings from a file, every call that never waits, the checks of arguments, deadlines, and the release of
connections. :class:`pyconsumer.KafkaConsumer` and :class:`pyconsumer.aio.AsyncKafkaConsumer` add the calls that wait,
the guard and the driver.

A new call is written in two places: its signature and docstring in :mod:`.interface`, its body here if it never waits,
else in :mod:`.consumer`.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pyconsumer import background_log
from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.consumer.arguments import as_partition, check_subscription, split_topics
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.guard import Guard
from pyconsumer.consumer.health import Activity, consumer_health
from pyconsumer.consumer.interface import ConsumerRebalanceListener, ImmediateCalls, Metrics, StorableOffsets
from pyconsumer.consumer.iteration import PrefetchedIteration, PrefetchedRecords
from pyconsumer.consumer.metric_scopes import open_source
from pyconsumer.generic import K, V, generic_alias, refuse_pickling
from pyconsumer.metrics.source import Metric, MetricSource
from pyconsumer.network.futures import Steps
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from pyconsumer.telemetry import hooks

if TYPE_CHECKING:
    from typing import Unpack

    from pyconsumer.consumer.typed_settings import ConsumerSettings
    from pyconsumer.generic import Deserializer
    from pyconsumer.metrics.health import ConsumerHealth

__all__ = ["DEFAULT_CLOSE_TIMEOUT_MS", "ConsumerCalls", "LentConsumer"]

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class ConsumerCalls(ImmediateCalls, Generic[K, V]):
    """The calls of a consumer that never wait. The arguments are those of :class:`pyconsumer.KafkaConsumer`."""

    _name = ""  # of the public class, for messages
    _unclosed = "unclosed"  # the beginning of the warning of a consumer that is dropped without close()
    _how_to_close = ""
    _has_loop = False  # True if its calls are coroutines
    _released = True  # there is nothing to release: not opened yet, or closed
    _seconds_pointed_out = False  # that a timeout looks like seconds
    _form: type | None = None  # the class of the records, for pyconsumer.compat. None for ours
    _guard: Guard
    _metric_source: MetricSource = None  # type: ignore[assignment]  # until a reporter has taken it

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        clock: Clock | None = None,
        **settings: Unpack[ConsumerSettings],
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
        """Create a consumer with settings from a properties file and from the environment.

        Args:
            path: a properties file with Kafka's setting names (``bootstrap.servers=...``), as Java clients and Kafka's
                tools read it. By default the file that the environment variable ``PYCONSUMER_CONFIG`` names, if it is
                set.
            topics: names of topics to subscribe to.
            overrides: settings that take precedence over the environment. In the environment, the variable of
                ``bootstrap_servers`` is ``PYCONSUMER_BOOTSTRAP_SERVERS``, and so on. The environment takes precedence
                over the file.

        Settings of the other clients are ignored, so one file can serve all clients.

        Raises:
            ConfigurationError: the file cannot be read, or a setting is unknown or has a wrong value. The message
                names file and line, or the variable.

        Example::

            consumer = KafkaConsumer.from_file("client.properties", "orders", group_id="billing")
        """
        from pyconsumer.settings.properties import from_file

        return cls(*topics, **from_file(CONSUMER_SETTINGS, path, overrides))

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        hooks.client_opened()
        sink = options.get("on_record_error", options.get("on.record.error"))
        check = getattr(sink, "check_consumer", None)
        if check is not None:
            check(self._has_loop)
        self._now = clock.now
        self._prefetched = PrefetchedRecords(clock.now)
        delegate = self._delegate = ConsumerDelegate.open(
            options, clock, on_group_change=self._prefetched.stop, form=self._form
        )
        self.config = delegate.config
        self._activity = Activity(clock.now)
        self._network = delegate.client
        self._subscriptions = delegate.subscriptions
        self._guard = self._make_guard()
        self._iteration = PrefetchedIteration(self._prefetched, delegate, self._guard.call_on_enter)
        self._commit_on_close = self._iteration.commit_on_close()
        self._released = False
        try:
            self._metric_source = open_source(delegate)
        except BaseException:  # of a reporter
            self._release()
            raise

    # -- provided by the two consumers -------------------------------------------------------------------------------

    @abstractmethod
    def _make_guard(self) -> Guard:
        """Return the guard of all calls."""

    @abstractmethod
    def _run(self, steps: Steps[T], deadline: float) -> T:
        """Run a call that waits and returns no records. On an event loop the result is a coroutine."""

    @abstractmethod
    def _run_at_once(self, steps: Steps[None]) -> None:
        """Run a call that changes the subscription, and waits only to drop the one before."""

    def _checked_list(self, items: Any, call: str) -> Any:
        """Return the argument of a call that changes the subscription."""
        return items

    def _serve_soon(self) -> None:
        """Send the requests of a call that does not wait."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connections."""

    @abstractmethod
    def _abandon(self) -> None:
        """Drop the connections of a consumer that was not closed. Any thread may call this, whatever lock it holds."""

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        with self._guard:
            self._guard.refuse_in_callback("subscribe")
            check_subscription(topics, pattern, listener)
            if pattern is None:
                self._run_at_once(self._delegate.subscribe(self._checked_list(topics, "subscribe"), listener))
            else:
                self._delegate.subscribe_pattern(pattern, listener)
            self._serve_soon()

    def subscription(self) -> set[str]:
        with self._guard:
            return self._subscriptions.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        with self._guard:
            self._guard.refuse_in_callback("assign")
            if partitions is None:
                raise TypeError("partitions must be a list of TopicPartition, not None")
            self._run_at_once(self._delegate.assign(self._checked_list(partitions, "assign")))
            self._serve_soon()

    def assignment(self) -> set[TopicPartition]:
        with self._guard:
            return self._subscriptions.assignment()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        with self._guard:
            self._delegate.require_group().enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        with self._guard:
            return self._delegate.group_metadata()

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        with self._guard:
            self._delegate.seek(as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=False)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=True)

    def pause(self, *partitions: TopicPartition) -> None:
        with self._guard:
            for tp in partitions:
                self._subscriptions.pause(as_partition(tp))

    def resume(self, *partitions: TopicPartition) -> None:
        with self._guard:
            for tp in partitions:
                self._subscriptions.resume(as_partition(tp))

    def paused(self) -> set[TopicPartition]:
        with self._guard:
            return self._subscriptions.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        with self._guard:
            lag = self._delegate.current_lag(as_partition(partition))
            self._serve_soon()
            return lag

    def highwater(self, partition: TopicPartition) -> int | None:
        with self._guard:
            found = self._subscriptions.state(as_partition(partition)).high_watermark
            return None if found < 0 else found

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        with self._guard:
            found = self._subscriptions.state(as_partition(partition)).last_stable_offset
            return None if found < 0 else found

    def store_offsets(self, offsets: StorableOffsets) -> None:
        with self._guard:
            self._delegate.store_offsets(offsets)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def known_partitions(self, topic: str) -> set[int]:
        with self._guard:
            return {found.partition for found in self._delegate.metadata.partitions_for(topic) or ()}

    def metrics(self, raw: bool = False) -> Metrics:
        return self._metric_source.by_group()

    def metric_table(self) -> list[Metric]:
        return self._metric_source.table()

    def processing(self, work: Any) -> AbstractContextManager[object]:
        return self._delegate.observation.processing(work)

    def health(self) -> ConsumerHealth:
        return consumer_health(self._delegate, self._guard, self._activity)

    def wakeup(self) -> None:
        self._network.wakeup()
        self._prefetched.stop()

    def _release(self) -> None:
        """Release threads and sockets. A second call is harmless."""
        self._guard.close()
        if self._metric_source is not None:
            self._metric_source.close()
        self._delegate.abandon("the consumer was closed")
        self._disconnect()
        self._delegate.fetcher.buffer.close()
        self._delegate.interceptors.close()
        self._released = True

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # The garbage collector may run this in any thread that holds any lock: nothing here waits or takes a lock.
        if self._released or self._guard.forked:
            return
        self._released = True
        self._delegate.abandon("the consumer was dropped without close()")
        self._abandon()
        if not self._guard.closed:
            _warn(f"{self._unclosed} {self!r}: {self._how_to_close}", ResourceWarning, source=self)

    def _deadline(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self._now() + seconds_of(timeout_ms)

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        group = f" group_id={self.config.group_id!r}" if self.config.group_id else ""
        state = "closed" if self._guard.closed else self._subscriptions.type.name
        if not self._guard.closed and (missing := self._delegate.missing_topics()):
            state += f" missing_topics={missing}"
        return f"<{self._name}{group} client_id={self.config.client_id!r} {state}>"

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


class LentConsumer:
    """A consumer that :mod:`pyconsumer.workers` use for a while: with their listener, and without its deserializers.

    Attributes:
        listener: the listener of the subscription, which the borrower calls in its own.
        deserialization: what the borrower applies to the records, None if they stay bytes.

    Args:
        consumer: is used by the borrower until :meth:`give_back`.
    """

    def __init__(self, consumer: ConsumerCalls[Any, Any]) -> None:
        self._guard = consumer._guard
        self._subscriptions = consumer._subscriptions
        self._fetcher = consumer._delegate.fetcher
        self._borrowed: ConsumerRebalanceListener | None = None
        self.listener = self._subscriptions.listener
        deserialization = self._fetcher.deserialization
        self.deserialization = deserialization if deserialization.needed else None
        consumer._iteration.commit_taken()
        self._fetcher.buffer.convert_with(None)

    def listen(self, listener: ConsumerRebalanceListener) -> None:
        """Put the borrower's listener in the place of the subscription's."""
        self._borrowed = listener
        self._subscriptions.replace_listener(listener)

    @property
    def is_listening(self) -> bool:
        """False if a call of ``subscribe`` has replaced the borrower's listener."""
        return self._subscriptions.listener is self._borrowed

    @property
    def is_closed(self) -> bool:
        """True if the consumer was closed meanwhile."""
        return self._guard.closed

    def hold_back(self, partitions: Iterable[TopicPartition], is_held_back: bool) -> None:
        """Read none of these partitions, or read them again. Pauses of the application are apart, and stay.

        Args:
            partitions: those that are not assigned are left alone.
            is_held_back: True to hold them back.
        """
        with self._guard:
            for tp in self._subscriptions.assignment() & set(partitions):
                self._subscriptions.hold_back(tp, is_held_back)

    def give_back(self) -> None:
        """Restore the consumer's listener and deserializers."""
        if self.is_listening:
            self._subscriptions.replace_listener(self.listener)
        self._fetcher.buffer.convert_with(self.deserialization)
