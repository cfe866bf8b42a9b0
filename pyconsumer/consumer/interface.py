"""The interfaces between an application and a consumer: ``Consumer`` and ``ConsumerRebalanceListener``.

The application calls a :class:`Consumer`: :class:`pyconsumer.KafkaConsumer`, or
:class:`pyconsumer.testing.MockConsumer`, which needs no cluster. A program that takes a ``Consumer`` can be tested with
the latter. Keys and values have the types that the deserializers return.

The consumer calls the application's :class:`ConsumerRebalanceListener`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, overload, runtime_checkable

from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import KafkaError, RecordDeserializationError
from pyconsumer.generic import K, V, generic_alias
from pyconsumer.metrics.source import Metric
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.metrics.health import ConsumerHealth

__all__ = [
    "CommitCallback",
    "Committed",
    "Consumer",
    "ConsumerRebalanceListener",
    "DeadLetterSink",
    "ImmediateCalls",
    "Metrics",
    "Offsets",
    "StorableOffsets",
]

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
"""The *next* offset to read of each partition."""
Committed = int | OffsetAndMetadata | None
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
"""A function of the offsets of a commit and of its error, None after success."""
Metrics = dict[str, dict[str, float | None]]
"""Counters by group and name."""
StorableOffsets: TypeAlias = Offsets | ConsumerRecords | ConsumerRecord | Iterable[ConsumerRecord]
"""An argument of ``store_offsets``: offsets by partition, or records, whose successors are stored."""


class DeadLetterSink(Protocol):
    """An object for the setting ``on_record_error``: it receives each record that cannot be deserialized.

    A sink may have ``begin(error)`` besides, which returns a future such as ``concurrent.futures.Future``. The consumer
    calls it instead of ``send``. Its polls wait for the future until their deadline, and keep the membership of the
    group. The position stays at the record until the future has succeeded. With ``check_consumer(on_loop)``, a sink can
    refuse a consumer of the wrong kind by a ``ConfigurationError``.
    """

    def send(self, error: RecordDeserializationError, /) -> object:
        """Keep the record. ``error`` contains its raw key and value.

        If this raises, the consumer stops at that record.
        """
        ...


class ConsumerRebalanceListener:
    """Notified when partitions are assigned, revoked or lost. Override the methods that you need.

    The consumer calls these methods in the application's thread, inside ``poll``, ``close``, ``unsubscribe`` or
    ``enforce_rebalance``, and at no other time. The methods may call ``commit``, ``commit_async``, ``seek*``,
    ``position``, ``committed``, ``pause``, ``resume``, ``assignment`` and ``wakeup``. If they call ``poll``,
    ``subscribe``, ``unsubscribe``, ``assign`` or ``close``, that raises ``IllegalStateError``. An exception of a
    listener is raised by the call in which the listener runs.

    Java: ``org.apache.kafka.clients.consumer.ConsumerRebalanceListener``. Cooperative rebalancing: KIP-429.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:
        """Commit processed records. These partitions are about to be revoked, but no other member has them yet.

        An eager assignor revokes all partitions before each rebalance. A cooperative assignor revokes only the
        partitions that move to another member. If none move, this method is not called.
        """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:
        """Prepare for new partitions, after a rebalance. To choose where reading starts, call ``seek`` here.

        The method is called once for each completed rebalance. If no partition is new, the collection is empty.
        """

    def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:
        """Discard the state of lost partitions. Another member may own them already, and commits for them fail.

        By default this calls :meth:`on_partitions_revoked`.
        """
        return self.on_partitions_revoked(lost)  # with asyncio it may be an awaitable


class ImmediateCalls(Protocol):
    """The calls of a consumer that never wait.

    They are the same for :class:`Consumer` and for the consumer on asyncio.
    """

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name or by pattern. The group assigns their partitions during later polls.

        A new subscription replaces the previous one. Without a ``group_id`` the consumer gets all partitions of the
        topics. It also gets partitions that are added later, and reads them from their beginning. (Java's consumer
        rejects a subscription without a group. kafka-python and aiokafka accept it.)

        An empty list of topics has the effect of :meth:`unsubscribe`. On an event loop it is an error: await
        :meth:`unsubscribe` instead.

        Args:
            topics: names of topics.
            pattern: a regular expression, instead of ``topics``. It must match the whole name of a topic. The client
                evaluates a string or ``re.Pattern``. The broker evaluates a :class:`SubscriptionPattern`.
            listener: notified when partitions are assigned, revoked or lost. On an event loop its methods may be
                coroutines.

        Raises:
            IllegalStateError: partitions are assigned by hand, or topics are subscribed and you pass a pattern (or the
                reverse), or a callback calls this.
            TypeError, ValueError: the topics are None, are not names, or are given together with a pattern.

        Example::

            consumer.subscribe(["orders", "payments"])
        """
        ...

    def subscription(self) -> set[str]:
        """Return the subscribed topics. The set is empty if partitions are assigned by hand.

        With a pattern, the result is the set of matching topics. With a :class:`SubscriptionPattern`, it is the set of
        topics of which this consumer has partitions.

        Example::

            assert consumer.subscription() == {"orders"}
        """
        ...

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand, without a group. The list replaces the previous assignment.

        An empty list has the effect of :meth:`unsubscribe`. On an event loop it is an error: await :meth:`unsubscribe`
        instead.

        Args:
            partitions: the partitions to read.

        Raises:
            IllegalStateError: topics or a pattern are subscribed, or a callback calls this.
            TypeError, ValueError: the argument is not a list of partitions.

        Example::

            consumer.assign([TopicPartition("orders", 0)])
        """
        ...

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now, by hand or by the group.

        Example::

            for tp in consumer.assignment():
                print(tp.topic, tp.partition)
        """
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make the group rebalance at the next poll, after a change that only the application can see (KIP-568).

        Under ``group_protocol="consumer"`` the broker decides when to rebalance. Then this call only logs a warning.

        Args:
            reason: a text for the logs of the members and of the broker.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.

        Example::

            consumer.enforce_rebalance("the cache is full")
        """
        ...

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group, for a producer's ``send_offsets_to_transaction`` (KIP-447).

        Raises:
            InvalidGroupIdError: there is no ``group_id``.

        Example::

            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        ...

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset at the next poll. If the offset has a leader epoch, it is validated first (KIP-320).

        Args:
            partition: an assigned partition.
            offset: the offset of the next record to return.

        Raises:
            IllegalStateError: the partition is not assigned.
            ValueError: the offset is negative.

        Example::

            consumer.seek(TopicPartition("orders", 0), 42)
        """
        ...

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log. The next :meth:`poll` or :meth:`position` looks up the offset.

        Args:
            partitions: assigned partitions. Without arguments: all assigned partitions.

        Raises:
            IllegalStateError: a partition is not assigned.

        Example::

            consumer.seek_to_beginning()
        """
        ...

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log (with ``read_committed``: from its last stable offset).

        Arguments and errors are those of :meth:`seek_to_beginning`.

        Example::

            consumer.seek_to_end(TopicPartition("orders", 0))
        """
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`.

        They stay assigned, and their buffered records are kept.

        Raises:
            IllegalStateError: a partition is not assigned.

        Example::

            consumer.pause(TopicPartition("orders", 0))
        """
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, after :meth:`pause`.

        Example::

            consumer.resume(*consumer.paused())
        """
        ...

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions.

        Example::

            assert TopicPartition("orders", 0) in consumer.paused()
        """
        ...

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end of the log, or None if unknown (KIP-695).

        The end is the one that the last fetch reported. It is the high watermark, or with ``read_committed`` the last
        stable offset.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            lag = consumer.current_lag(TopicPartition("orders", 0))
        """
        ...

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition, as the last fetch reported it. None if unknown.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            end = consumer.highwater(TopicPartition("orders", 0))
        """
        ...

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of an assigned partition, as the last fetch reported it. None if unknown.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            stable = consumer.last_stable_offset(TopicPartition("orders", 0))
        """
        ...

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records for the next commit. This needs ``enable_auto_offset_store=False``.

        Automatic commits, and :meth:`commit` without offsets, then commit the stored offsets instead of the positions.
        Automatic commits happen every ``auto_commit_interval_ms``, before partitions are revoked, and in :meth:`close`.
        When a partition is revoked or lost, its stored offset is dropped. If threads or tasks finish records in any
        order, use :class:`pyconsumer.RecordProgress` to get the offsets to store.

        Args:
            offsets: one or more finished records. All earlier records of their partitions count as finished, too. You
                can also give the *next* offset to read of each partition, as for :meth:`commit`.

        Raises:
            IllegalStateError: ``enable_auto_offset_store`` is True, or a partition is not assigned. In that case no
                offset is stored.
            InvalidGroupIdError: there is no ``group_id``.
            TypeError, ValueError: the argument has another type, or an offset is negative.

        librdkafka: ``rd_kafka_offsets_store``. confluent-kafka: ``Consumer.store_offsets``.

        Example::

            consumer.store_offsets(record)
        """
        ...

    def known_partitions(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions, from the metadata that the client has. The set may be empty.

        Example::

            numbers = consumer.known_partitions("orders")
        """
        ...

    def metrics(self, raw: bool = False) -> Metrics:
        """Return the metrics by group and name. The names are those of Java's consumer, and some of our own.

        Any thread may call this at any time, also while another call waits, and after :meth:`close`. Rates, averages
        and maxima are those of the last minute (``metrics_sample_window_ms``, ``metrics_num_samples``). Without an
        event in that time a rate is 0.0, and an average or a maximum is NaN. A lag or lead that is unknown is None.

        Args:
            raw: accepted for compatibility with kafka-python. It has no effect.

        Example::

            consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"]
        """
        ...

    def metric_table(self) -> list[Metric]:
        """Return each metric with its name, group, tags, unit, description and value.

        Any thread may call this at any time. A value that does not exist or is unknown is NaN.

        Example::

            lags = [metric for metric in consumer.metric_table() if metric.name == "records-lag"]
        """
        ...

    def processing(self, work: Any) -> AbstractContextManager[object]:
        """Return a context manager around the processing of a record: OpenTelemetry's span ``process``.

        An exception of the block sets the status of the span, and is raised. Without OpenTelemetry this does nothing.
        Any thread may call this. Workers do it themselves.

        Args:
            work: a record. Or several: a list, the result of :meth:`poll`, or a batch of :meth:`poll_arrow`.

        Returns:
            A context manager that gives the span, or None if there is none.

        Source: OpenTelemetry's semantic conventions for messaging spans.

        Example::

            with consumer.processing(record):
                handle(record)
        """
        ...

    def health(self) -> ConsumerHealth:
        """Return what the consumer is doing: its connections, group, partitions, ages, and what a call waits for.

        Any thread may call this at any time: while another call waits, after :meth:`close`, and in a forked child. It
        takes no lock, makes no request and does not raise.

        Example::

            consumer.health().is_alive()  # True
        """
        ...

    def wakeup(self) -> None:
        """Make the call that is waiting raise ``WakeupError``. If no call is waiting, the next one raises it.

        Any thread may call this.

        Example::

            threading.Timer(60, consumer.wakeup).start()
        """
        ...


@runtime_checkable
class Consumer(ImmediateCalls, Protocol[K, V]):
    """The calls of a consumer of keys ``K`` and values ``V``. Each call is documented here, for all consumers.

    Calls that wait take ``timeout_ms``, the longest time to wait in ms. None means ``default_api_timeout_ms``.

    Java: ``org.apache.kafka.clients.consumer.Consumer``.
    """

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that have arrived, or wait for records. The positions move past the returned records.

        Args:
            timeout_ms: longest time to wait if no record has arrived. With 0 the call returns at once.
            max_records: the most records to return. By default ``max_poll_records``.

        Returns:
            The records by partition, in the order of their offsets. Empty if no record arrived in time.

        Raises:
            IllegalStateError: no topic is subscribed and no partition assigned, the consumer is closed, or a callback
                calls this.
            WakeupError: another thread called :meth:`wakeup`.
            ConcurrentAccessError: another thread uses the consumer. On an event loop: another task is in :meth:`poll`,
                or iterates over the consumer.
            NoOffsetForPartitionError: a partition has no committed offset, and ``auto_offset_reset`` is ``none``.
            OffsetsOutOfRangeError, LogTruncationError: the log no longer contains the position, and
                ``auto_offset_reset`` is ``none``.
            RecordDeserializationError: a record cannot be deserialized, and ``on_record_error`` is ``raise``. The
                position stays at that record.
            CorruptRecordError: a batch is damaged. The position stays at the batch. To skip it, :meth:`seek` to the
                error's ``next_offset``.
            AuthenticationError, TopicAuthorizationFailedError, GroupAuthorizationFailedError: the broker rejected the
                credentials, or denied access to a topic or to the group.
            KafkaError: another error of the group, or the rebalance listener raised one.

        Example::

            records = consumer.poll(timeout_ms=1000)
            for record in records.records():
                print(record.topic, record.offset, record.value)
        """
        ...

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> pyarrow.RecordBatch:
        """Return records as columns: all that are buffered, of all partitions, up to about 8 MiB.

        Otherwise like :meth:`poll`.

        Keys and values are bytes as they were sent. The consumer's deserializers and interceptors are not applied. Each
        row has a fixed overhead, so a batch also has at most 524,288 rows.

        With ``key`` or ``value`` they are typed columns. The first such call fixes the schema of the result: that of
        ``schema_str``, else the latest of the topics' subjects. A tombstone is null. A bad record is handled by
        ``on_record_error``. See ``docs/schemas.md``.

        Args:
            timeout_ms: longest time to wait if no record has arrived. With 0 the call returns at once.
            max_records: the largest number of rows to return. None sets no limit besides the 8 MiB.
            columns: names of the columns, in the order of the result. By default ``topic``, ``partition``, ``offset``,
                ``timestamp`` (ms, UTC), ``key``, ``value`` and ``headers``. You can also name ``timestamp_type`` and
                ``leader_epoch``. Leaving out a column saves time.
            dictionary_topic: True encodes the topic column as a dictionary (a type of Arrow).
            key, value: a :class:`pyconsumer.schemas.AvroDeserializer` or a
                :class:`pyconsumer.schemas.JSONDeserializer`, which makes typed columns. Then ``columns`` may also name
                parts, such as ``"value.customer.name"``. The rest of a value is skipped.

        Returns:
            The rows, partition by partition, in the order of their offsets. If no record arrived in time, the batch is
            empty and has the same schema.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: a column is unknown, or is named twice.
            ConfigurationError: the topics have different schemas, the schema has no columns, or not the named part.
            SchemaUnavailableError: the registry does not answer. The position stays. See ``error.retriable``.
            KafkaError: an error of :meth:`poll`. RecordDeserializationError only with ``key`` or ``value``.

        Example::

            batch = consumer.poll_arrow(timeout_ms=1000, columns=["offset", "value"])
        """
        ...

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]: ...

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record and move the position past it: a commit in the loop covers it, but no later record.

        The loop ends when no record has arrived for ``consumer_timeout_ms``. On an event loop it also ends when another
        task closes the consumer.

        Raises:
            KafkaError: as for :meth:`poll`.

        Example::

            for record in consumer:
                print(record.value)
        """
        ...

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or drop the partitions that were assigned by hand. The rebalance listener is notified first.

        Raises:
            IllegalStateError: a callback calls this.

        Example::

            consumer.unsubscribe()
        """
        ...

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of an assigned partition. If it is not known yet, wait for it.

        Raises:
            IllegalStateError: the partition is not assigned.
            NoOffsetForPartitionError: there is no committed offset, and ``auto_offset_reset`` is ``none``.
            KafkaTimeoutError: no position was found in time.

        Example::

            offset = consumer.position(TopicPartition("orders", 0))
        """
        ...

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets and wait for the broker's response.

        If you give no offsets, all positions are committed. With ``enable_auto_offset_store=False`` the stored offsets
        are committed instead.

        On an event loop, commits of several tasks are sent one after the other, in the order of the calls. If a call is
        cancelled, its request stays in flight. Its offsets may or may not be committed.

        Args:
            offsets: the *next* offset to read of each partition, as a number or with metadata and leader epoch.

        Raises:
            CommitFailedError: this consumer no longer belongs to the group's generation. Its partitions may have
                another owner.
            RebalanceInProgressError: the group is rebalancing. Call :meth:`poll`, then commit again.
            InvalidGroupIdError: there is no ``group_id``.
            KafkaTimeoutError: no response came in time. The offsets may or may not be committed.

        Example::

            consumer.commit({record.topic_partition: record.offset + 1})
        """
        ...

    def commit_async(
        self, offsets: Offsets | None = None, callback: CommitCallback | None = None
    ) -> RequestFuture[None]:
        """Commit offsets without waiting.

        Args:
            offsets: as for :meth:`commit`.
            callback: a function that gets the offsets, and the error or None. A later call of this consumer runs it. On
                an event loop it may be a coroutine function.

        Returns:
            The future of the commit. On an event loop it is an awaitable that raises the error of the commit, if any.
            You need not await it.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.

        Example::

            consumer.commit_async(callback=lambda offsets, error: print(offsets, error))
        """
        ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Committed | dict[TopicPartition, int | None] | dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the group has committed.

        Args:
            partition: one partition, or several.
            metadata: True returns :class:`OffsetAndMetadata` instead of numbers.

        Returns:
            The offset, or None if there is none. If you gave several partitions: a dict of these.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.
            GroupAuthorizationFailedError: the broker denied access to the group.
            KafkaTimeoutError: no response came in time.

        Example::

            offset = consumer.committed(TopicPartition("orders", 0))
        """
        ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the first offset with a timestamp at or after the given time.

        None if there is none.

        Args:
            timestamps: the time for each partition, in ms since the epoch.

        Raises:
            ValueError: a time is negative.
            TopicAuthorizationFailedError: the broker denied access to a topic.
            KafkaTimeoutError: not all partition leaders responded in time.

        Example::

            found = consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        ...

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log. The errors are those of :meth:`offsets_for_times`.

        Example::

            first = consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each log: the high watermark, or with ``read_committed`` the last stable offset.

        This is the offset after the last readable record. The errors are those of :meth:`offsets_for_times`.

        Example::

            ends = consumer.end_offsets(consumer.assignment())
        """
        ...

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, or None if there is no such topic.

        Example::

            numbers = consumer.partitions_for_topic("orders")
        """
        ...

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client can see.

        Internal topics are included if ``exclude_internal_topics`` is False.

        Example::

            assert "orders" in consumer.topics()
        """
        ...

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Close the consumer.

        Commits if commits are automatic, notifies the rebalance listener, leaves the group and closes all connections.

        The commit covers all returned records. There is no commit while an exception is being handled, as in ``finally:
        consumer.close()``, nor if an exception leaves a ``with`` block. The last records will then be returned again. A
        second call of ``close`` has no effect.

        On an event loop, a :meth:`poll` that waits in another task raises ``IllegalStateError``, and an ``async for``
        in another task ends. If another task is processing records, or was cancelled, the commit does not cover the
        last records of that task. If the task that closes is cancelled, closing continues in the background. Another
        call of ``close`` then waits until it is done.

        Args:
            timeout_ms: longest time for all of this, by default 30 s. When the time is up, the connections are closed
                all the same.
            leave_group: True leaves the group, False stays in it. None leaves it unless ``group_instance_id`` is set
                (KIP-1092). Under ``group_protocol="consumer"`` a static member that stays announces that it will come
                back. The broker then keeps its partitions for it until its session ends.

        Raises:
            KafkaError: the commit or the listener failed. The consumer is closed all the same.
            KeyboardInterrupt: Ctrl-C ended the wait. The consumer is closed, but it may not have left the group. The
                group then waits for ``session_timeout_ms``.

        Example::

            consumer.close(timeout_ms=5000)
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
