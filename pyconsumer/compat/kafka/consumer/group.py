"""``KafkaConsumer`` with kafka-python's API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

import pyconsumer
from pyconsumer.compat.border import crosses
from pyconsumer.compat.kafka.border import border
from pyconsumer.compat.kafka.checks import check_topic_name
from pyconsumer.compat.kafka.consumer.fetcher import ConsumerRecord
from pyconsumer.compat.kafka.coordinator.assignors.abstract import adapted
from pyconsumer.compat.kafka.defaults import CONSUMER_DEFAULTS
from pyconsumer.compat.kafka.internals import ConsumerInternals
from pyconsumer.compat.kafka.serializer.abstract import as_deserializer
from pyconsumer.compat.kafka.settings import (
    GivenConfig,
    beginning_with,
    connect,
    translate,
    unknown_is_timeout,
)
from pyconsumer.compat.kafka.structs import ConsumerGroupMetadata, MemberState
from pyconsumer.consumer.arguments import as_partition, check_max_records
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import ConfigurationError, IllegalStateError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, SubscriptionPattern, TopicPartition, whole_number

__all__ = ["KafkaConsumer"]

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "partition_assignment_strategy": ("range", "roundrobin"),
    "reconnect_backoff_max_ms": 30_000,
    "request_timeout_ms": 30_000,
}
_BOOTSTRAP_TIMEOUT_MS: Final = 30_000
_IDLE_MS: Final = 540_000
_next: Final[Any] = pyconsumer.KafkaConsumer.__next__


class UnassignedError(IllegalStateError, ValueError):
    """A call for a partition that is not assigned. In kafka-python it is a ``ValueError``."""


@border.guard
class KafkaConsumer(ConsumerInternals, pyconsumer.KafkaConsumer[Any, Any]):
    """A consumer for programs that were written for kafka-python.

    Args:
        topics: names of topics to subscribe to.
        configs: settings of kafka-python and of pyconsumer. If ``api_version`` is given, the constructor does not
            connect.

    Raises:
        NoBrokersAvailableError: no broker could be reached within ``bootstrap_timeout_ms`` (30 s).
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    Differences from :class:`pyconsumer.KafkaConsumer`: The constructor connects. ``bootstrap_servers`` is
    ``localhost:9092`` by default, and the defaults of assignors and timeouts are kafka-python's. Calls for offsets and
    metadata take at most ``request_timeout_ms``. The first argument of ``close`` is ``autocommit``. A pattern must
    match only the beginning of a topic's name.
    """

    #: kafka-python's defaults by name.
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = dict(CONSUMER_DEFAULTS)
    _form = ConsumerRecord

    def __init__(self, *topics: str, **configs: Any) -> None:
        given = dict(configs)
        bootstrap_ms = configs.pop("bootstrap_timeout_ms", _BOOTSTRAP_TIMEOUT_MS)
        self._default_callback: CommitCallback | None = configs.pop("default_offset_commit_callback", None)
        self._bootstrap_ms: float = bootstrap_ms
        if configs.get("partition_assignment_strategy") is not None:
            configs["partition_assignment_strategy"] = adapted(configs["partition_assignment_strategy"], True)
        for name in ("key_deserializer", "value_deserializer"):
            if configs.get(name) is not None:
                configs[name] = as_deserializer(configs[name])
        super().__init__(_checked(translate(configs, defaults=_DEFAULTS, documented=CONSUMER_DEFAULTS)))
        self.config: Any = GivenConfig(self.config, CONSUMER_DEFAULTS, given)
        try:
            if configs.get("api_version") is None:
                connect(self.config, bootstrap_ms)
            if topics:
                self.subscribe(topics=topics)
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Check that a broker can be reached.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``bootstrap_timeout_ms``.
            refresh: has no effect. Every call sends a request.

        Raises:
            NoBrokersAvailableError: no broker could be reached in time.
        """
        connect(self.config, self._bootstrap_ms if timeout_ms is None else timeout_ms)

    def bootstrap_connected(self) -> bool:
        """Return whether a connection to a broker is open. After ``close`` it is False."""
        if self._guard.closed:
            return False
        with self._guard:
            network, metadata = self._network, self._delegate.metadata
            return any(network.connection_state(broker.node_id) == "ready" for broker in metadata.brokers())

    @crosses
    def __next__(self) -> Any:
        try:
            return _next(self)
        except Exception as error:
            if self._guard.closed:
                raise StopIteration from None  # as there
            crossed = border.crossed(error)
            if crossed is error:
                raise
        raise crossed

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset.

        Raises:
            TypeError: ``partition`` is no partition.
            ValueError: the offset is no number of 0 or more, or the partition is not assigned. The latter is an
                ``IllegalStateError``, too.
        """
        number = offset.offset if isinstance(offset, OffsetAndMetadata) else whole_number(offset)
        if number is None or number < 0:
            raise ValueError(f"Offset must be int >= 0, not {offset!r}")
        self._check_assigned([partition])
        super().seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log, in these partitions or in all.

        Raises:
            ValueError: one is not assigned, or none is. It is an ``IllegalStateError``, too.
        """
        self._check_assigned(partitions)
        super().seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log, in these partitions or in all.

        Raises:
            ValueError: one is not assigned, or none is. It is an ``IllegalStateError``, too.
        """
        self._check_assigned(partitions)
        super().seek_to_end(*partitions)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        if self._guard.closed:
            return  # the call raises its own error
        for tp in partitions:
            if self._subscriptions.get(as_partition(tp)) is None:
                raise UnassignedError(f"Unassigned partition {tp}")
        if not self._subscriptions.assigned_list():
            raise UnassignedError("No partitions are currently assigned")

    def subscription(self) -> set[str] | None:  # type: ignore[override]
        """Return the subscribed topics, or None without a subscription. Any thread may call this."""
        return super().subscription() if self._subscriptions.has_auto_assigned else None

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions. Any thread may call this."""
        return self._subscriptions.assignment()

    def group_metadata(self) -> ConsumerGroupMetadata:  # type: ignore[override]
        """Return this member's identity in its group, and the state of the member. Any thread may call this."""
        group = self._delegate.coordinator
        if group is None:
            return ConsumerGroupMetadata(None)
        found = group.group_metadata()
        state = MemberState.REBALANCING if found.generation_id >= 0 else MemberState.UNJOINED
        return ConsumerGroupMetadata(
            found.group_id,
            found.generation_id,
            found.member_id,
            found.group_instance_id,
            MemberState.STABLE if group.is_stable else state,
        )

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name, or by a pattern. The pattern must match the beginning of a topic's name.

        Raises:
            ValueError: topics and pattern are both missing, or no topic can have one of the names.
            TypeError: ``topics`` is a text instead of a list, or a name is no text.
            IllegalStateError: both topics and a pattern are given.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics must be a list of names, not the text {topics!r}")
        if topics and pattern is not None:
            raise IllegalStateError("subscribe takes either topics or a pattern")
        if not topics and pattern is None:
            raise ValueError("subscribe needs topics or a pattern")
        if isinstance(topics, Iterable):
            topics = list(topics)
            for topic in topics:
                check_topic_name(topic)
        wanted = pattern if isinstance(pattern, SubscriptionPattern) else beginning_with(pattern)
        super().subscribe(topics, wanted, listener)

    @crosses
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> ConsumerRecords[Any, Any]:
        """Return records by partition. See :meth:`pyconsumer.KafkaConsumer.poll`.

        Args:
            timeout_ms: longest time to wait if no record has arrived. 0 returns at once.
            max_records: the most records to return. By default ``max_poll_records``.
            update_offsets: must be True.

        Raises:
            ValueError: ``update_offsets`` is False. (kafka-python uses this value for its own iteration.)
        """
        if self._subscriptions.has_none:
            with border.context(self._guard):
                self._deadline(timeout_ms)
                check_max_records(1 if max_records is None else max_records)
                return ConsumerRecords()
        if not update_offsets:
            raise ValueError("update_offsets=False is not supported: to read records again, seek back")
        try:
            return super().poll(timeout_ms, max_records)
        except Exception as error:
            crossed = border.crossed(error)
            if crossed is error:
                raise
        raise crossed

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the partitions of a topic. For an unknown topic the set is empty, and no topic is created."""
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._run(self._delegate.existing_partitions(topic, deadline), deadline)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time. Raises ``KafkaTimeoutError`` for an unknown partition."""
        with unknown_is_timeout():
            return super().offsets_for_times(timestamps, timeout_ms)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log. Errors are those of :meth:`offsets_for_times`."""
        with unknown_is_timeout():
            return super().beginning_offsets(partitions, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each log.

        Errors are those of :meth:`offsets_for_times`.
        """
        with unknown_is_timeout():
            return super().end_offsets(partitions, timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Callable[..., object] | None = None,
    ) -> RequestFuture[None]:
        """Commit offsets without waiting. If no callback is given, ``default_offset_commit_callback`` is called."""
        callback = self._default_callback if callback is None else callback
        future = super().commit_async(offsets, None if callback is None else border.callback(callback))
        future.add_callback(lambda done: done.exception and border.crossed(done.exception))
        return future

    def close(  # type: ignore[override]
        self, autocommit: bool | None = None, timeout_ms: float | None = None
    ) -> None:
        """Close the consumer.

        Args:
            autocommit: True makes the last automatic commit, False leaves it out. By default it is made, unless an
                exception is being handled, as in ``finally: consumer.close()``.
            timeout_ms: longest time for all of this, by default 30 s.
        """
        self._close(timeout_ms, None, commit=None if autocommit is None else bool(autocommit))


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings, after checking the timeouts as kafka-python does."""
    request, idle = settings["request_timeout_ms"], settings.get("connections_max_idle_ms", _IDLE_MS)
    if isinstance(request, (int, float)) and isinstance(idle, (int, float)) and request >= idle >= 0:
        raise ConfigurationError(f"request_timeout_ms ({request}) must be less than connections_max_idle_ms ({idle})")
    return settings
