"""``KafkaConsumer``, the public class: access guard, arguments, times.

Each blocking call is a generator of :mod:`.delegate`; the network client runs it on its selector.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pyconsumer import background_log
from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.consumer.arguments import (
    as_partition,
    as_partitions,
    by_partition,
    check_max_records,
    check_subscription,
    is_partition,
    looks_like_seconds,
    point_out_milliseconds,
    split_topics,
)
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.guard import AccessGuard
from pyconsumer.consumer.interface import CommitCallback, Consumer, ConsumerRebalanceListener, Metrics, StorableOffsets
from pyconsumer.consumer.iteration import PrefetchedIteration, PrefetchedRecords
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.generic import K, V, refuse_pickling
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.consumer.typed_settings import ConsumerSettings
    from pyconsumer.generic import Deserializer

__all__ = ["KafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class KafkaConsumer(Consumer[K, V]):
    """Reads records from Kafka.

    Args:
        topics: names of topics to subscribe to. A mapping among them is read as settings, which allows Kafka's dotted
            names.
        clock: the time, for tests: a :class:`pyconsumer.testing.RunningClock` can be moved ahead. By default the
            machine's.
        settings: see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`. For type checkers ``key_deserializer`` and
            ``value_deserializer`` decide the types of keys and values; without them both are ``bytes``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    The first call that needs the cluster connects to it. Only one thread at a time may use a consumer, and only in the
    process that created it; :meth:`wakeup` may be called from any thread. Every blocking call takes ``timeout_ms``;
    None means ``default_api_timeout_ms``. As a context manager, the consumer closes itself at the end of the block; as
    an iterator, it yields one record after the other.

    Java: ``org.apache.kafka.clients.consumer.KafkaConsumer``; names and results as in kafka-python.
    """

    _released = True  # there is nothing to release: not opened yet, or closed
    _seconds_pointed_out = False  # that a timeout looks like seconds

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
                KafkaConsumer.close(self, 0)
                raise

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, *topics: str, **overrides: Any) -> Self:
        """Make a consumer with settings from a properties file and from the environment.

        Args:
            path: a file with Kafka's names (``bootstrap.servers=...``), as Java clients and Kafka's tools read it; by
                default the one that the variable ``PYCONSUMER_CONFIG`` names, or none.
            topics: names of topics to subscribe to.
            overrides: settings that take the place of those of the environment (``PYCONSUMER_BOOTSTRAP_SERVERS``, a
                setting's name in capitals), which take the place of those of the file.

        A setting that another client has is left out, so that one file serves all of them.

        Raises:
            ConfigurationError: the file cannot be read, or a setting is unknown or has a wrong value; names file and
                line, or the variable.
        """
        from pyconsumer.settings.properties import from_file

        return cls(*topics, **from_file(CONSUMER_SETTINGS, path, overrides))

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        self._clock = clock
        self._now = clock.now
        self._prefetched = PrefetchedRecords()
        delegate = self._delegate = ConsumerDelegate.open(options, clock, on_news=self._prefetched.stop)
        self.config = delegate.config
        self._client = delegate.client
        self._metadata = delegate.metadata
        self._subscriptions = delegate.subscriptions
        self._guard = AccessGuard(
            self,
            on_call=delegate.checked.end,
            on_interrupt=delegate.recover,
            on_wakeup=lambda: closing.note_wakeup(),
        )
        self._iteration = PrefetchedIteration(self._prefetched, delegate, self._guard.call_on_enter)
        self._commit_on_close = closing = self._iteration.commit_on_close()
        self._released = False

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that have arrived, or wait for some, and move the positions past them.

        Args:
            timeout_ms: longest time to wait if no record is there yet; 0 returns at once.
            max_records: the most records to return; by default ``max_poll_records``.

        Returns:
            Records by partition, in offset order; empty if none came in time.

        Raises:
            IllegalStateError: nothing is subscribed or assigned, the consumer is closed, or a callback calls this.
            WakeupError: another thread called :meth:`wakeup`.
            NoOffsetForPartitionError: nothing is committed for a partition, and ``auto_offset_reset`` is ``none``.
            OffsetsOutOfRangeError, LogTruncationError: the log no longer contains the position, and
                ``auto_offset_reset`` is ``none``.
            RecordDeserializationError: a record cannot be deserialized, and ``on_record_error`` is ``raise``; the
                position stays at it.
            CorruptRecordError: a batch is damaged; the position stays at it, and a ``seek`` to the error's
                ``next_offset`` skips it.
            AuthenticationError, TopicAuthorizationFailedError, GroupAuthorizationFailedError: the broker rejected our
                credentials, or denied access to a topic or to the group.
            KafkaError: the group failed in another way, or the rebalance listener raised an error.
        """
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        self._delegate.note_delivered()
        try:
            found: ConsumerRecords[K, V] | None
            found = self._poll(timeout_ms, partial(self._delegate.take_records, most))
            return ConsumerRecords() if found is None else found
        except BaseException as error:
            self._delegate.on_interrupt(error)
            raise

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns, like :meth:`poll`: all that is buffered, of all partitions, up to about 8 MiB.

        Keys and values are bytes as they were sent; deserializers and interceptors are not applied. Rows have a fixed
        overhead, so a batch holds at most one row per 16 bytes of that limit (524,288 rows).

        Args:
            timeout_ms: longest time to wait if no record is there yet; 0 returns at once.
            max_records: the most rows to return; None for no limit besides the 8 MiB.
            columns: names of the columns, in the order of the result: ``topic``, ``partition``, ``offset``,
                ``timestamp`` (ms, UTC), ``key``, ``value``, ``headers`` (the default up to here), ``timestamp_type``,
                ``leader_epoch``. A column that is left out costs nothing.
            dictionary_topic: True encodes the topic column as a dictionary.

        Returns:
            Rows partition by partition, in offset order. Without rows, with the same schema, if no record came in time.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: a column is unknown, or is named twice.
            KafkaError: as for :meth:`poll`, but no record is deserialized.
        """
        from pyconsumer.consumer.arrow import MAX_BYTES, arrow_columns

        wanted = arrow_columns(columns, dictionary_topic)
        most = sys.maxsize if max_records is None else check_max_records(max_records)
        builder = wanted.builder()
        self._delegate.note_delivered()
        try:
            runs = self._poll(timeout_ms, lambda: self._delegate.take_columns(builder, most, MAX_BYTES))
            return wanted.batch(builder, runs or ())
        except BaseException as error:
            if isinstance(error, MemoryError):
                self._delegate.fetcher.buffer.roll_back()  # the records have not reached the application
            self._delegate.on_interrupt(error)
            raise

    def _poll(self, timeout_ms: float, take: Callable[[], T | None], name: str = "poll") -> T | None:
        guard = self._guard
        try:
            guard.acquire()
            if guard.depth > 1:
                self._refuse_in_callback(name)
            client = self._client
            if client.wakeup_waits:
                client.raise_wakeup()
            now = self._now()
            delegate = self._delegate
            delegate.metrics.on_poll_start(now)
            found = take() if now < delegate.checked.until else delegate.buffered(now, take)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            if looks_like_seconds(timeout_ms) and not self._seconds_pointed_out:
                self._seconds_pointed_out = True
                point_out_milliseconds(name, timeout_ms)
            return client.run(delegate.fetched(deadline, take), deadline)
        finally:
            guard.release()

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record and move the position past it: a commit in the loop covers it and no later one.

        Raises:
            StopIteration: no record came for ``consumer_timeout_ms``.
            KafkaError: as for :meth:`poll`.
        """
        prefetched = self._prefetched
        records = prefetched.records
        record = None
        called = False
        try:
            if records and self._now() < prefetched.until:
                record = records[-1]
                del records[-1]
                return record
            self._delegate.note_delivered()
            called = True
            timeout = self.config.consumer_timeout_ms
            wait = math.inf if timeout is None or timeout < 0 else timeout
            record = self._poll(wait, self._delegate.take_one, "iteration")
            if record is None:
                raise StopIteration
            self._iteration.start()
            return record
        except BaseException as error:
            if not called:
                self._iteration.restore(records, record)
            if not called or record is None:
                self._iteration.commit_taken()
            if not called:
                self._delegate.note_delivered()
            self._delegate.on_interrupt(error)
            raise

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name or by pattern; the group assigns their partitions during later polls.

        Without a ``group_id`` the consumer gets all partitions, and those that are added later, which it reads from
        their beginning. (Java's consumer refuses that; kafka-python's and aiokafka's do it.)

        A new subscription replaces the one before. An empty list of topics means :meth:`unsubscribe`.

        Args:
            topics: names of topics.
            pattern: a regular expression that must match the whole name of a topic; instead of ``topics``. The
                client evaluates it, or the broker, if it is a :class:`SubscriptionPattern`.
            listener: is notified when partitions are assigned, revoked or lost.

        Raises:
            IllegalStateError: partitions are assigned by hand, or the other kind of subscription is active.
            TypeError, ValueError: the topics are None, are not names, or come together with a pattern.
        """
        with self._guard:
            self._refuse_in_callback("subscribe")
            check_subscription(topics, pattern, listener)
            if pattern is None:
                self._run(self._delegate.subscribe(topics, listener))
                return
            self._delegate.subscribe_pattern(pattern, listener)

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or drop the partitions assigned by hand. The rebalance listener is notified first."""
        with self._guard:
            self._refuse_in_callback("unsubscribe")
            deadline = self._deadline(timeout_ms)
            self._client.run(self._delegate.unsubscribe(deadline), deadline)

    def subscription(self) -> set[str]:
        """Return the subscribed topics; empty if partitions are assigned by hand.

        Of a pattern those that match; of a :class:`SubscriptionPattern` those with partitions that are assigned here.
        """
        with self._guard:
            return self._subscriptions.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand, without a group. The list replaces the assignment; empty: :meth:`unsubscribe`.

        Raises:
            IllegalStateError: topics or a pattern are subscribed.
            TypeError, ValueError: the argument is not a list of partitions.
        """
        with self._guard:
            self._refuse_in_callback("assign")
            if partitions is None:
                raise TypeError("partitions must be a list of TopicPartition, not None")
            self._run(self._delegate.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now, by hand or by the group."""
        with self._guard:
            return self._subscriptions.assignment()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make the group rebalance at the next poll, after a change that only the application can see (KIP-568).

        Under ``group_protocol="consumer"`` the broker decides that; the call logs a warning and does nothing.
        """
        with self._guard:
            self._delegate.require_group().enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group, for a producer's ``send_offsets_to_transaction`` (KIP-447)."""
        with self._guard:
            return self._delegate.group_metadata()

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset at the next poll. An offset with a leader epoch is validated first (KIP-320).

        Raises:
            IllegalStateError: the partition is not assigned.
            ValueError: the offset is negative.
        """
        with self._guard:
            self._delegate.seek(as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log; without arguments, in all assigned partitions.

        The offset is looked up by the next :meth:`poll` or :meth:`position`.
        """
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=False)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log (with ``read_committed``: from its last stable offset).

        See :meth:`seek_to_beginning`.
        """
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=True)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of an assigned partition; wait until there is a position.

        Raises:
            IllegalStateError: the partition is not assigned.
            NoOffsetForPartitionError: nothing is committed, and ``auto_offset_reset`` is ``none``.
            KafkaTimeoutError: no position was found in time.
        """
        with self._guard:
            tp = as_partition(partition)
            self._subscriptions.state(tp)
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.position(tp, deadline), deadline)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`; they stay assigned, fetched records are kept."""
        with self._guard:
            for tp in partitions:
                self._subscriptions.pause(as_partition(tp))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, see :meth:`pause`."""
        with self._guard:
            for tp in partitions:
                self._subscriptions.resume(as_partition(tp))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        with self._guard:
            return self._subscriptions.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many records follow the position, as of the last fetch; None if unknown (KIP-695).

        The end is that of the isolation level: high watermark, or last stable offset.
        """
        with self._guard:
            return self._delegate.current_lag(as_partition(partition))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition as of its last fetch, None if unknown."""
        with self._guard:
            found = self._subscriptions.state(as_partition(partition)).high_watermark
            return None if found < 0 else found

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets and wait for the broker's response.

        Without offsets, all positions are committed; with ``enable_auto_offset_store=False``, what is stored.

        Args:
            offsets: the *next* offset to read of each partition, as a number or with metadata and leader epoch.

        Raises:
            CommitFailedError: this consumer no longer belongs to the group's generation; its partitions may have
                another owner.
            RebalanceInProgressError: the group is rebalancing; call :meth:`poll`, then commit again.
            InvalidGroupIdError: there is no ``group_id``.
            KafkaTimeoutError: no response came in time; the offsets may or may not be committed.
        """
        with self._guard:
            deadline = self._deadline(timeout_ms)
            self._client.run(self._delegate.commit(offsets, deadline), deadline)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> RequestFuture[None]:
        """Commit offsets without waiting; a later call of this consumer runs ``callback(offsets, error or None)``."""
        with self._guard:
            return self._delegate.commit_async(offsets, callback)

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records, for the next commit; needs ``enable_auto_offset_store=False``.

        Automatic commits (every ``auto_commit_interval_ms``, before partitions are revoked, and in :meth:`close`) and
        :meth:`commit` without offsets then take what is stored, and nothing else. What is stored for a partition is
        dropped when the partition is revoked or lost. For records that are finished in any order, by threads or tasks,
        :class:`pyconsumer.RecordProgress` says what may be stored.

        Args:
            offsets: one or more records that are finished, all before them included, or the *next* offset to read of
                each partition, as :meth:`commit` takes it.

        Raises:
            IllegalStateError: ``enable_auto_offset_store`` is True, or a partition is not assigned: nothing is stored.
            InvalidGroupIdError: there is no ``group_id``.
            TypeError, ValueError: the argument is neither, or an offset is negative.

        librdkafka: ``rd_kafka_offsets_store``; confluent-kafka: ``Consumer.store_offsets``.
        """
        with self._guard:
            self._delegate.store_offsets(offsets)

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
    ) -> Any:
        """Return the offsets that the group has committed.

        Args:
            partition: one partition, or several.
            metadata: True returns :class:`OffsetAndMetadata` instead of bare offsets.

        Returns:
            The offset, or None if there is none; for several partitions a dict of these.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.
            GroupAuthorizationFailedError: the broker denied access to the group.
            KafkaTimeoutError: no response came in time.
        """
        with self._guard:
            single = is_partition(partition)
            wanted = as_partitions([partition] if single else partition)
            deadline = self._deadline(timeout_ms)
            found = self._client.run(self._delegate.committed(wanted, deadline), deadline)
            shown = {tp: o if o is None or metadata else o.offset for tp, o in found.items()}
            return shown[wanted[0]] if single else shown

    # -- the log -----------------------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition whose timestamp is at or after a time (ms); None if there is none.

        Raises:
            ValueError: a time is negative.
            TopicAuthorizationFailedError: the broker denied access to a topic.
            KafkaTimeoutError: not all partition leaders responded in time.
        """
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = by_partition(timestamps, "time in ms")
            return self._client.run(self._delegate.offsets_for_times(wanted, deadline), deadline)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log. Raises as :meth:`offsets_for_times`."""
        return self._ends(partitions, timeout_ms, end=False)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: the high watermark, or the last stable offset."""
        return self._ends(partitions, timeout_ms, end=True)

    def _ends(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None, *, end: bool
    ) -> dict[TopicPartition, int]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = as_partitions(partitions)
            return self._client.run(self._delegate.end_or_beginning(wanted, deadline, end=end), deadline)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.partitions_for(topic, deadline), deadline)

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all visible topics; internal ones only with ``exclude_internal_topics=False``."""
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.topics(deadline), deadline)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Metrics:
        """Return counters by group and name, with the names of Kafka's metrics; times in ms.

        Args:
            raw: accepted for compatibility with kafka-python; there is only one form.
        """
        with self._guard:
            return self._delegate.metrics_snapshot()

    def wakeup(self) -> None:
        """Make the current blocking call, or the next one, raise ``WakeupError``. Safe in any thread."""
        self._client.wakeup()
        self._prefetched.stop()

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if commits are automatic, notify the rebalance listener, leave the group, close all connections.

        The commit covers everything that was returned. It is left out while an exception is being handled, as in
        ``finally: consumer.close()``, and when one leaves a ``with`` block: its records are returned again.

        A second call does nothing.

        Args:
            timeout_ms: longest time for all of this, by default 30 s. Connections are closed even if it runs out.
            leave_group: True leaves the group, False stays in it; None leaves unless ``group_instance_id`` is set
                (KIP-1092). Under ``group_protocol="consumer"`` a static member that does not leave announces that it
                will come back: its partitions wait for it until its session ends.

        Raises:
            KafkaError: the commit or the listener failed; the consumer is closed nevertheless.
            KeyboardInterrupt: Ctrl-C ended the wait; the consumer is closed, but may not have left the group, which
                then waits for ``session_timeout_ms``.
        """
        self._close(timeout_ms, leave_group)

    def _close(self, timeout_ms: float | None, leave_group: bool | None, *, commit: bool | None = None) -> None:
        """Close; ``commit`` decides about the automatic commit, by default :mod:`.closing` does."""
        if self._guard.closed:
            if not self._released and not self._guard.forked:  # the first call was interrupted by Ctrl-C
                self._release()
            return
        with self._guard:
            self._refuse_in_callback("close")
            limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
            deadline = self._deadline(limit_ms)
            decided = self._commit_on_close.decide() if commit is None else commit
            self._leave_and_release(deadline, limit_ms, leave_group, commit=decided)

    def _leave_and_release(self, deadline: float, timeout_ms: float, leave_group: bool | None, *, commit: bool) -> None:
        try:
            with self._client.disable_wakeups():
                self._client.run(self._delegate.close(deadline, leave_group=leave_group, commit=commit), deadline)
        except KafkaTimeoutError as error:
            _log.warning("closing did not finish within %d ms: %s", timeout_ms, error)
        finally:
            self._guard.close()
            self._release()

    def _release(self) -> None:
        """Release threads and sockets; a second call is harmless."""
        self._delegate.abandon("the consumer was closed")
        self._client.close()
        self._delegate.fetcher.buffer.close()
        self._delegate.interceptors.close()
        self._released = True

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # The garbage collector may run this in any thread that holds any lock: nothing here waits or takes a lock.
        if self._released or self._guard.forked:
            return
        self._released = True
        self._delegate.abandon("the consumer was dropped without close()")
        self._client.abandon()
        if not self._guard.closed:
            _warn(f"unclosed {self!r}: call close(), or use it in a with statement", ResourceWarning, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._commit_on_close.leave(error)
        self.close()

    def _refuse_in_callback(self, name: str) -> None:
        if self._guard.depth > 1:
            raise IllegalStateError(f"{name} must not be called from a callback")

    def _deadline(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self._clock.now() + seconds_of(timeout_ms)

    def _run(self, steps: Steps[T]) -> T:
        return self._client.run(steps, self._delegate.default_deadline())

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        group = f" group_id={self.config.group_id!r}" if self.config.group_id else ""
        state = "closed" if self._guard.closed else self._subscriptions.type.name
        if not self._guard.closed and (missing := self._delegate.missing_topics()):
            state += f" missing_topics={missing}"
        return f"<KafkaConsumer{group} client_id={self.config.client_id!r} {state}>"
