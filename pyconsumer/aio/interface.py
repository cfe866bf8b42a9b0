"""The interfaces of clients on an event loop, such as ``AsyncConsumer`` and ``AsyncProducer``.

A program that is written for them runs with :class:`pyconsumer.aio.AsyncKafkaConsumer` and
:class:`pyconsumer.aio.AsyncKafkaProducer`, and is tested with :class:`pyconsumer.testing.AsyncMockConsumer` and
:class:`pyconsumer.testing.AsyncMockProducer`, which need no cluster.

Made of the interfaces of the blocking clients by ``python -m tests.support.make_async_interfaces``.
Change these, not this module.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol, Self, overload, runtime_checkable

from pyconsumer.aio.awaited import not_written
from pyconsumer.consumer.interface import (
    CommitCallback,
    Committed,
    ConsumerRebalanceListener,
    Metrics,
    Offsets,
    StorableOffsets,
)
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.delegate import AcknowledgementCallback, CommitResults
from pyconsumer.consumer.share.interface import Acknowledgeable, Mask
from pyconsumer.generic import Header, K, KeyIn, V, ValueIn, generic_alias
from pyconsumer.metrics.source import Metric
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    AcknowledgeType,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.metrics.health import ConsumerHealth, ProducerHealth

__all__ = ["AsyncConsumer", "AsyncProducer", "AsyncShareConsumer"]


@runtime_checkable
class AsyncConsumer(Protocol[K, V]):
    """The calls of a consumer of keys ``K`` and values ``V`` on an event loop. See :class:`pyconsumer.Consumer`."""

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
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

            records = await consumer.poll(timeout_ms=1000)
            for record in records.records():
                print(record.topic, record.offset, record.value)
        """
        raise not_written("poll")

    async def poll_arrow(
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

            batch = await consumer.poll_arrow(timeout_ms=1000, columns=["offset", "value"])
        """
        raise not_written("poll_arrow")

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or drop the partitions that were assigned by hand. The rebalance listener is notified first.

        Raises:
            IllegalStateError: a callback calls this.

        Example::

            await consumer.unsubscribe()
        """
        raise not_written("unsubscribe")

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of an assigned partition. If it is not known yet, wait for it.

        Raises:
            IllegalStateError: the partition is not assigned.
            NoOffsetForPartitionError: there is no committed offset, and ``auto_offset_reset`` is ``none``.
            KafkaTimeoutError: no position was found in time.

        Example::

            offset = await consumer.position(TopicPartition("orders", 0))
        """
        raise not_written("position")

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
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

            await consumer.commit({record.topic_partition: record.offset + 1})
        """
        raise not_written("commit")

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> Awaitable[None]:
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
        raise not_written("commit_async")

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...

    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    async def committed(
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

            offset = await consumer.committed(TopicPartition("orders", 0))
        """
        raise not_written("committed")

    async def offsets_for_times(
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

            found = await consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        raise not_written("offsets_for_times")

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log. The errors are those of :meth:`offsets_for_times`.

        Example::

            first = await consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        raise not_written("beginning_offsets")

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each log: the high watermark, or with ``read_committed`` the last stable offset.

        This is the offset after the last readable record. The errors are those of :meth:`offsets_for_times`.

        Example::

            ends = await consumer.end_offsets(consumer.assignment())
        """
        raise not_written("end_offsets")

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, or None if there is no such topic.

        Example::

            numbers = await consumer.partitions_for_topic("orders")
        """
        raise not_written("partitions_for_topic")

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that this client can see.

        Internal topics are included if ``exclude_internal_topics`` is False.

        Example::

            assert "orders" in await consumer.topics()
        """
        raise not_written("topics")

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
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

            await consumer.close(timeout_ms=5000)
        """
        raise not_written("close")

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
        raise not_written("subscribe")

    def subscription(self) -> set[str]:
        """Return the subscribed topics. The set is empty if partitions are assigned by hand.

        With a pattern, the result is the set of matching topics. With a :class:`SubscriptionPattern`, it is the set of
        topics of which this consumer has partitions.

        Example::

            assert consumer.subscription() == {"orders"}
        """
        raise not_written("subscription")

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
        raise not_written("assign")

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now, by hand or by the group.

        Example::

            for tp in consumer.assignment():
                print(tp.topic, tp.partition)
        """
        raise not_written("assignment")

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
        raise not_written("enforce_rebalance")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group, for a producer's ``send_offsets_to_transaction`` (KIP-447).

        Raises:
            InvalidGroupIdError: there is no ``group_id``.

        Example::

            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        raise not_written("group_metadata")

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
        raise not_written("seek")

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log. The next :meth:`poll` or :meth:`position` looks up the offset.

        Args:
            partitions: assigned partitions. Without arguments: all assigned partitions.

        Raises:
            IllegalStateError: a partition is not assigned.

        Example::

            consumer.seek_to_beginning()
        """
        raise not_written("seek_to_beginning")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log (with ``read_committed``: from its last stable offset).

        Arguments and errors are those of :meth:`seek_to_beginning`.

        Example::

            consumer.seek_to_end(TopicPartition("orders", 0))
        """
        raise not_written("seek_to_end")

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`.

        They stay assigned, and their buffered records are kept.

        Raises:
            IllegalStateError: a partition is not assigned.

        Example::

            consumer.pause(TopicPartition("orders", 0))
        """
        raise not_written("pause")

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, after :meth:`pause`.

        Example::

            consumer.resume(*consumer.paused())
        """
        raise not_written("resume")

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions.

        Example::

            assert TopicPartition("orders", 0) in consumer.paused()
        """
        raise not_written("paused")

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end of the log, or None if unknown (KIP-695).

        The end is the one that the last fetch reported. It is the high watermark, or with ``read_committed`` the last
        stable offset.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            lag = consumer.current_lag(TopicPartition("orders", 0))
        """
        raise not_written("current_lag")

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition, as the last fetch reported it. None if unknown.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            end = consumer.highwater(TopicPartition("orders", 0))
        """
        raise not_written("highwater")

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of an assigned partition, as the last fetch reported it. None if unknown.

        Raises:
            IllegalStateError: the partition is not assigned.

        Example::

            stable = consumer.last_stable_offset(TopicPartition("orders", 0))
        """
        raise not_written("last_stable_offset")

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
        raise not_written("store_offsets")

    def known_partitions(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions, from the metadata that the client has. The set may be empty.

        Example::

            numbers = consumer.known_partitions("orders")
        """
        raise not_written("known_partitions")

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
        raise not_written("metrics")

    def metric_table(self) -> list[Metric]:
        """Return each metric with its name, group, tags, unit, description and value.

        Any thread may call this at any time. A value that does not exist or is unknown is NaN.

        Example::

            lags = [metric for metric in consumer.metric_table() if metric.name == "records-lag"]
        """
        raise not_written("metric_table")

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
        raise not_written("processing")

    def health(self) -> ConsumerHealth:
        """Return what the consumer is doing: its connections, group, partitions, ages, and what a call waits for.

        Any thread may call this at any time: while another call waits, after :meth:`close`, and in a forked child. It
        takes no lock, makes no request and does not raise.

        Example::

            consumer.health().is_alive()  # True
        """
        raise not_written("health")

    def wakeup(self) -> None:
        """Make the call that is waiting raise ``WakeupError``. If no call is waiting, the next one raises it.

        Any thread may call this.

        Example::

            threading.Timer(60, consumer.wakeup).start()
        """
        raise not_written("wakeup")

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record and move the position past it: a commit in the loop covers it, but no later record.

        The loop ends when no record has arrived for ``consumer_timeout_ms``. On an event loop it also ends when another
        task closes the consumer.

        Raises:
            KafkaError: as for :meth:`poll`.

        Example::

            async for record in consumer:
                print(record.value)
        """
        raise not_written("__anext__")

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


@runtime_checkable
class AsyncShareConsumer(Protocol[K, V]):
    """The calls of a share consumer on an event loop. See :class:`pyconsumer.ShareConsumer`."""

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the group has acquired for this member, or wait for records.

        Each record is locked for this member until it is acknowledged, or until
        :meth:`acquisition_lock_timeout_ms` has passed. In implicit mode the call accepts the records of the poll
        before.

        Args:
            timeout_ms: longest time to wait if no record has arrived.
            max_records: the most records to return. By default ``max_poll_records``, and with the setting
                ``share_acquire_mode="batch_optimized"`` also the rest of the last batch, as in Java.

        Returns:
            The records, by partition. Empty at the end of the time.

        Raises:
            IllegalStateError: nothing is subscribed, or a record of the last poll is not acknowledged in explicit mode.
            WakeupError: :meth:`wakeup` was called.
            RecordDeserializationError: a record could not be deserialized. It was released.
            CorruptRecordError: a batch is damaged. Its records were rejected.
            UnsupportedVersionError: the brokers do not serve share groups. The message says how to enable them.
            GroupIdNotFoundError: the group id belongs to a group of another type.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: access is denied.

        Java: ``poll``, KIP-932.

        Example::

            for record in await consumer.poll(timeout_ms=1000).records():
                print(record.value)
        """
        raise not_written("poll")

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns. Otherwise like :meth:`poll`.

        Keys and values are bytes as they were sent. The deserializers are not applied. A record that an earlier
        ``poll`` returned, and that was renewed, comes as bytes, too.

        Args:
            timeout_ms: longest time to wait if no record has arrived.
            max_records: the most rows. The default is that of :meth:`poll`.
            columns: names of the columns, in the order of the result. By default those of
                :meth:`pyconsumer.KafkaConsumer.poll_arrow`, and ``delivery_count``: how often the record was delivered,
                this time included. :meth:`acknowledge` needs ``topic``, ``partition`` and ``offset``.
            dictionary_topic: True encodes the topic column as a dictionary (a type of Arrow).

        Returns:
            The rows. If no record arrived in time, the batch is empty and has the same schema.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: a column is unknown, or is named twice.
            KafkaError: an error of :meth:`poll`.

        Example::

            batch = await consumer.poll_arrow(timeout_ms=1000, columns=["topic", "partition", "offset", "value"])
            consumer.acknowledge(batch)
        """
        raise not_written("poll_arrow")

    async def commit(self, timeout_ms: float | None = None) -> CommitResults:
        """Send the acknowledgements, and wait for their outcome.

        In implicit mode the records of the last poll are accepted. In explicit mode those that are not acknowledged
        stay acquired.

        Args:
            timeout_ms: the longest time. By default ``default_api_timeout_ms``.

        Returns:
            For each partition None, or the error of its acknowledgements. It is ``InvalidRecordStateError`` if a lock
            had expired, and ``NotLeaderOrFollowerError`` if the leader has moved. If the session was lost, it is
            ``ShareSessionNotFoundError`` or ``KafkaConnectionError``. At the end of the time it is
            ``KafkaTimeoutError``. The records are then delivered again.

        Raises:
            WakeupError: :meth:`wakeup` was called. The acknowledgements are still sent.

        Java: ``commitSync``.

        Example::

            results = await consumer.commit()
            results[TopicPartition("orders", 0)]  # None
        """
        raise not_written("commit")

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send the acknowledgements, release all other records, leave the group, and close the connections.

        In implicit mode the records of the last poll are released, as nobody has said that they were processed.
        To accept them instead, call :meth:`commit` before you close.

        Args:
            timeout_ms: the longest time, by default 30 s. ``close`` ends within it even if all brokers are dead.

        Java: ``close``.

        Example::

            await consumer.close(timeout_ms=5000)
        """
        raise not_written("close")

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics. Later polls join the group.

        A new subscription replaces the previous one. An empty list has the effect of :meth:`unsubscribe`.

        Args:
            topics: names of topics. Share groups have no patterns.

        Raises:
            TypeError, ValueError: the topics are not names.
            IllegalStateError: a callback calls this.

        Example::

            consumer.subscribe(["orders", "payments"])
        """
        raise not_written("subscribe")

    def subscription(self) -> set[str]:
        """Return the subscribed topics.

        Example::

            consumer.subscription()  # {'orders'}
        """
        raise not_written("subscription")

    def unsubscribe(self) -> None:
        """Leave the group and drop the subscription.

        Acknowledgements that :meth:`acknowledge` has queued are sent. Other records of the last poll can still be
        acknowledged, by :meth:`commit`.

        Raises:
            IllegalStateError: a callback calls this.

        Example::

            consumer.unsubscribe()
        """
        raise not_written("unsubscribe")

    def acknowledge(
        self,
        record: Acknowledgeable | pyarrow.RecordBatch | pyarrow.Table,
        type: AcknowledgeType | Mask = AcknowledgeType.ACCEPT,
    ) -> None:
        """Say what became of records of the last poll, with ``share_acknowledgement_mode='explicit'``.

        The next poll or :meth:`commit` sends it. Until then another type replaces it.

        Args:
            record: the record, or its topic, partition and offset. Or rows of :meth:`poll_arrow`, with these columns:
                all of them are acknowledged, or none.
            type: ``ACCEPT``, ``RELEASE``, ``REJECT`` or ``RENEW``. A renewed record is returned by the next poll again,
                and that poll fetches no new ones (as in Java). For rows it may be a mask, with a value for each: a
                type, True to accept, False to release, or null to leave the row as it is.

        Raises:
            IllegalStateError: the mode is implicit, or the record was not returned by the last poll, or its
                acknowledgement was sent already.
            ValueError: the rows have no such columns, or the mask has another length.

        Java: ``acknowledge``.

        Example::

            consumer.acknowledge(record, AcknowledgeType.REJECT)
            consumer.acknowledge(("orders", 0, 17))
            consumer.acknowledge(batch, [True, True, False])
        """
        raise not_written("acknowledge")

    def delivery_count(self, record: Acknowledgeable) -> int:
        """Return how often a record was delivered to members of the group, this time included.

        Args:
            record: a record of the last poll, or its topic, partition and offset.

        Returns:
            1 for the first delivery. 0 if the record is not one of the last poll, or was acknowledged.

        Java: ``ConsumerRecord.deliveryCount``.

        Example::

            if consumer.delivery_count(record) >= 5:
                consumer.acknowledge(record, AcknowledgeType.REJECT)
        """
        raise not_written("delivery_count")

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting for the outcome.

        In implicit mode the records of the last poll are accepted. Later calls notify the callback of
        :meth:`set_acknowledgement_commit_callback`.

        Java: ``commitAsync``.

        Example::

            consumer.commit_async()
        """
        raise not_written("commit_async")

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set a function that is notified of the outcome of acknowledgements.

        It is called inside ``poll``, ``commit`` and ``close``, with the offsets by partition, and with the error or
        None. On an event loop it may be a coroutine function.

        Args:
            callback: the function. None removes it.

        Java: ``setAcknowledgementCommitCallback``.

        Example::

            consumer.set_acknowledgement_commit_callback(lambda offsets, error: print(offsets, error))
        """
        raise not_written("set_acknowledgement_commit_callback")

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long a record stays acquired, in ms. None before the first response of a broker.

        After that time without an acknowledgement, the record is delivered again, to any member.

        Java: ``acquisitionLockTimeoutMs``.

        Example::

            consumer.acquisition_lock_timeout_ms()  # 30000
        """
        raise not_written("acquisition_lock_timeout_ms")

    def metrics(self, raw: bool = False) -> Metrics:
        """Return the metrics, by group and name.

        Args:
            raw: has no effect. It exists for kafka-python.

        Example::

            consumer.metrics()["consumer-share-fetch-manager-metrics"]["records-consumed-total"]
        """
        raise not_written("metrics")

    def metric_table(self) -> list[Metric]:
        """Return the metrics with their tags, units and descriptions. Any thread may call this.

        Example::

            for metric in consumer.metric_table():
                print(metric.group, metric.name, metric.value)
        """
        raise not_written("metric_table")

    def wakeup(self) -> None:
        """Make the call that waits now, or the next one, raise ``WakeupError``. Any thread may call this.

        No record is lost: the next poll returns what has arrived.

        Java: ``wakeup``.

        Example::

            signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
        """
        raise not_written("wakeup")

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> ConsumerRecord[K, V]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


@runtime_checkable
class AsyncProducer(Protocol[KeyIn, ValueIn]):
    """The calls of a producer on an event loop. See :class:`pyconsumer.Producer`."""

    async def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record. The call returns at once, unless metadata is missing or the buffer is full.

        Args:
            topic: name of the topic.
            value, key: objects for the serializers. Without serializers: bytes, str (which is sent as UTF-8) or None.
            headers: pairs of a name, and bytes or None.
            partition: number of the partition. By default the partitioner chooses.
            timestamp_ms: ms since the epoch. By default the present time.

        Returns:
            The future of the record's :class:`pyconsumer.structs.RecordMetadata`. Its ``get`` raises the error if the
            record could not be sent.

        Raises:
            SerializationError: a serializer raised an error.
            AuthenticationError: the cluster rejected your credentials or certificate.
            InvalidTopicError: the name is not valid for a topic.
            TopicAuthorizationFailedError: the broker denied access to the topic.
            ValueError: the partition does not exist, or the timestamp is out of range.
            KafkaTimeoutError: no metadata arrived within ``max_block_ms``.
            BufferExhaustedError: the buffer stayed full for ``max_block_ms``.
            RecordTooLargeError: the record is larger than ``max_request_size`` or ``buffer_memory``.
            IllegalStateError: the producer is closed, or was made in another process. Or it has a transactional id, and
                no transaction is open.
            TransactionAbortableError: an earlier call or record in this transaction has failed. Abort the transaction
                and repeat it.
            ApplicationRecoverableError: this producer cannot continue, for instance because another producer with its
                transactional id has taken over. Close it.

        In a callback of a record ``send`` never waits. If it would have to wait, it raises at once.

        Example::

            future = await producer.send("orders", b"two coffees", key=b"table 4", headers=[("shop", b"north")])
            (await future).topic  # 'orders'
        """
        raise not_written("send")

    async def send_and_wait(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for the broker's response. Arguments are those of :meth:`send`.

        Returns:
            The record's partition, offset and timestamp.

        Raises:
            KafkaError, ValueError: as :meth:`send`, and the errors of its future.

        Example::

            metadata = await producer.send_and_wait("orders", b"two coffees", key=b"table 4")
            metadata.topic  # 'orders'
        """
        raise not_written("send_and_wait")

    async def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Send many records, with one future for all. A record costs much less time than with :meth:`send`.

        Args:
            topic: name of the topic.
            values: the value of each record, as for :meth:`send`.
            keys: the key of each record. None sends records without keys.
            partition: the partition of all records. By default the partitioner chooses for each.
            timestamp_ms: timestamp of all records, in ms since the epoch. By default now.

        Returns:
            The future of the records' partitions and offsets.

        Raises:
            ValueError: there are more or fewer keys than values.
            KafkaError, ValueError: a record was rejected, with an error of :meth:`send`. The records before it are sent
                all the same. The notes of the error contain their number.

        Example::

            records = await producer.send_many("orders", [b"tea", b"coffee"], keys=[b"table 4", b"table 5"])
            len(records)  # 2
        """
        raise not_written("send_many")

    async def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table.

        Each row is a record with the column ``value``, and ``key`` if there is such a column.

        Args:
            topic: name of the topic.
            table: the columns ``value`` and ``key`` are binary or string. Optional columns are ``partition`` (integers)
                and ``timestamp`` (a timestamp, or ms since the epoch). The columns have the names that Spark's sink
                uses. Serializers and interceptors get bytes and text.
            partition: the partition of all rows. By default the partitioner chooses for each.

        Returns:
            The future of the records' partitions and offsets.

        Raises:
            ValueError: the column ``value`` is missing, or a column is unknown.
            KafkaError, ValueError: an error of :meth:`send_many`.

        Example::

            import pyarrow

            records = await producer.send_arrow("orders", pyarrow.table({"value": [b"tea", b"coffee"]}))
            len(records)  # 2
        """
        raise not_written("send_arrow")

    async def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send all records that were passed to :meth:`send` before this call. Wait until each of them has a result.

        Args:
            timeout_ms: longest time to wait, in ms. None waits as long as deliveries may take. It must be given by
                name, because other clients count it in seconds.

        Raises:
            KafkaTimeoutError: some records have no result in time, and are still being sent. If no time was given: a
                callback of a record has not returned for ``delivery_timeout_ms``.
            TypeError: the time was not given by name.
            IllegalStateError: the producer is closed, or its thread has ended because a callback called
                :func:`sys.exit`. Or a callback of a record makes this call. It runs in the thread that sends, so it
                cannot wait for that thread.

        Example::

            future = await producer.send("orders", b"tea")
            await producer.flush(timeout_ms=10_000)
            future.done()  # True
        """
        raise not_written("flush")

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions. If metadata is missing, the errors are those of :meth:`send`.

        Example::

            await producer.partitions_for("orders")  # {0}
        """
        raise not_written("partitions_for")

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics by group and name. The names are those of Java's producer, and some of our own.

        Any thread may call this at any time, also while another call waits, and after :meth:`close`. Rates, averages
        and maxima are those of the last minute (``metrics_sample_window_ms``, ``metrics_num_samples``). Without an
        event in that time a rate is 0.0, and an average or a maximum is NaN.

        Example::

            future = await producer.send("orders", b"tea")
            producer.metrics()["producer-metrics"]["record-send-total"] >= 1  # True
        """
        raise not_written("metrics")

    def metric_table(self) -> list[Metric]:
        """Return each metric with its name, group, tags, unit, description and value.

        Any thread may call this at any time. A value that does not exist is NaN.

        Example::

            slow = [metric for metric in producer.metric_table() if metric.name == "request-latency-max"]
        """
        raise not_written("metric_table")

    def health(self) -> ProducerHealth:
        """Return what the producer is doing: its connections, its buffer, and what the oldest batch waits for.

        Any thread may call this at any time: while another call waits, after :meth:`close`, and in a forked child. It
        takes no lock, makes no request and does not raise.

        Example::

            producer.health().is_alive()  # True
        """
        raise not_written("health")

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions. Call this once, before the first one (KIP-98).

        If an earlier producer has the same transactional id, it is fenced, and its open transaction is ended.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            KafkaTimeoutError: the call is not done in time. The producer keeps trying, and you may call this again.
            IllegalStateError: there is no ``transactional_id``, or this was called before.
            TransactionalIdAuthorizationFailedError: the broker denied access to the ``transactional_id``.
            InvalidTransactionTimeoutError: ``transaction_timeout_ms`` is more than the broker allows.

        Example::

            await producer.init_transactions()
        """
        raise not_written("init_transactions")

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded.

        Example::

            producer.is_initialized  # True
        """
        raise not_written("is_initialized")

    def begin_transaction(self) -> None:
        """Begin a transaction. The records sent until its commit become visible together, or never.

        Raises:
            IllegalStateError: a transaction is open already, or :meth:`init_transactions` was not called.
            ApplicationRecoverableError: this producer was fenced. Close it.

        Example::

            producer.begin_transaction()
            future = await producer.send("orders", b"tea")
            await producer.commit_transaction()
        """
        raise not_written("begin_transaction")

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction (KIP-447).

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: the result of the consumer's ``group_metadata()``. If the consumer has lost its partitions,
                the offsets are then rejected. You can also give the group's id, but then there is no such check.
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: the offsets could not be added. Abort the transaction, then repeat it. If the
                consumer is no longer a member of the group, the cause is a :class:`CommitFailedError`.
            KafkaTimeoutError: the call is not done in time. Abort the transaction, or call this again.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 17}, "kitchen")
            await producer.commit_transaction()
        """
        raise not_written("send_offsets_to_transaction")

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Commit the transaction. Buffered records are sent first. All its records and offsets become visible together.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: a record or an offset could not be delivered. Abort the transaction, then repeat
                it.
            ApplicationRecoverableError: this producer was fenced, and its transaction was aborted. Close it.
            KafkaTimeoutError: the commit is not done in time. It continues, and the only call that you may make next is
                ``commit_transaction``.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = await producer.send("orders", b"tea")
            await producer.commit_transaction(timeout_ms=10_000)
        """
        raise not_written("commit_transaction")

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. Consumers with ``isolation_level=read_committed`` never see its records.

        Buffered records are not sent. They fail with ``TransactionAbortedError``.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            ApplicationRecoverableError: this producer was fenced, and the broker has aborted its transaction. Close it.
            KafkaTimeoutError: the abort is not done in time. It continues, and the only call that you may make next is
                ``abort_transaction``.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = await producer.send("orders", b"tea")
            await producer.abort_transaction()
        """
        raise not_written("abort_transaction")

    def transaction(self) -> AbstractAsyncContextManager[Self]:
        """Run a block as a transaction. It is committed at the end of the block.

        If the block or the commit fails, it is aborted.

        Raises:
            TransactionAbortableError: the transaction failed and was aborted. You may repeat the block.
            ApplicationRecoverableError: this producer was fenced. Close it, create another one and repeat the block.

        Example::

            async with producer.transaction():
                future = await producer.send("orders", b"tea")
        """
        raise not_written("transaction")

    async def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records, then end the background thread. If a transaction is open, it is aborted.

        Args:
            timeout_ms: longest time to wait, in ms. When the time is up, the remaining records fail with
                ``RequestCancelledError``, and a warning has their number. None waits until every record is sent or has
                reached its delivery timeout. 0 drops the records that are not sent yet. A close in a callback of a
                record does the same. The time must be given by name, because other clients count it in seconds.

        Raises:
            KafkaTimeoutError: ``timeout_ms`` is not 0, and records were dropped. Or ``timeout_ms`` is None, and a
                callback of a record has not returned for ``delivery_timeout_ms``. The producer is closed all the same.
            TypeError: the time was not given by name.
            KeyboardInterrupt: Ctrl-C ended the wait. The remaining records have failed with ``RequestCancelledError``.

        Example::

            await producer.close(timeout_ms=10_000)
        """
        raise not_written("close")

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
