"""``KafkaConsumer``: the public class. It guards, converts times, and runs what :mod:`.delegate` yields."""

from __future__ import annotations

import logging
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from pyconsumer.clock import Clock, SystemClock
from pyconsumer.consumer.arguments import as_partition, as_partitions, by_partition, check_max_records, is_partition
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.delegate import CommitCallback, ConsumerDelegate
from pyconsumer.consumer.guard import AccessGuard
from pyconsumer.consumer.interceptors import Interceptors
from pyconsumer.consumer.interface import Consumer, ConsumerRebalanceListener
from pyconsumer.consumer.iteration import PrefetchedIteration, PrefetchedRecords
from pyconsumer.consumer.metrics import ConsumerMetrics, describe_consumer
from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["KafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS = 30_000


class KafkaConsumer(Consumer):
    """Reads records from Kafka.

    Args:
        topics: to subscribe to at once; needs a ``group_id``. A mapping among them is taken as settings, so that
            Kafka's dotted names can be given.
        settings: see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`.

    Raises:
        ConfigurationError: an unknown setting, a wrong value, or a contradiction.

    No connection is made before the first call that needs one. One thread at a time may use a consumer, and only in the
    process that made it; :meth:`wakeup` alone is free. Every blocking call takes ``timeout_ms``; None means
    ``default_api_timeout_ms``. Used as a context manager it is closed at the end; iterating gives record by record.

    Java: ``org.apache.kafka.clients.consumer.KafkaConsumer``; names and results as in kafka-python.
    """

    _released = True  # nothing to let go of: not opened yet, or closed

    def __init__(self, *topics: str | Mapping[str, Any], **settings: Any) -> None:
        names: list[str] = []
        options: dict[str, Any] = {}
        for item in topics:
            if isinstance(item, Mapping):
                options |= item
            else:
                names.append(item)
        self._open({**options, **settings}, SystemClock())
        if names:
            try:
                self.subscribe(names)
            except BaseException:
                self.close(0)
                raise

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        config = CONSUMER_SETTINGS.build(options)
        self.config = config
        self._clock = clock
        self._metrics = ConsumerMetrics(clock.now())
        self._interceptors = Interceptors(config.interceptors)
        self._now = clock.now
        self._subscriptions = SubscriptionState(config.auto_offset_reset)
        self._metadata = Metadata.from_config(
            config,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            exclude_internal_topics=config.exclude_internal_topics,
        )
        self._client = ConsumerNetworkClient(NetworkClient(config, metadata=self._metadata, clock=clock))
        self._prefetched = PrefetchedRecords()
        context = ConsumerContext(config, self._client, self._metadata, self._subscriptions, clock)
        try:
            coordinator = self._make_coordinator(context)
        except BaseException:
            self._client.close()
            raise
        self._delegate = ConsumerDelegate(
            context, coordinator=coordinator, interceptors=self._interceptors, metrics=self._metrics
        )
        self._guard = AccessGuard(self, on_interrupt=self._delegate.recover)
        self._iteration = PrefetchedIteration(self._prefetched, self._delegate, self._guard)
        self._released = False

    def _make_coordinator(self, context: ConsumerContext) -> ConsumerCoordinator | None:
        if self.config.group_id is None:
            return None
        from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

        return ConsumerCoordinator(context, on_commit=self._interceptors.on_commit, on_news=self._prefetched.stop)

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        """Get records that have arrived, or wait for some; the positions move past them.

        Args:
            timeout_ms: longest time to wait if nothing is there; 0 looks once.
            max_records: at most so many; default ``max_poll_records``.

        Returns:
            Records by partition, empty if none came in time.

        Raises:
            IllegalStateError: nothing is subscribed or assigned, the consumer is closed, or this is a callback.
            WakeupError: another thread called :meth:`wakeup`.
            NoOffsetForPartitionError, OffsetsOutOfRangeError, LogTruncationError: ``auto_offset_reset`` is ``none``.
            RecordDeserializationError: a record is bad and ``on_record_error`` is ``raise``; the position stays at it.
            CorruptRecordError: a batch is damaged; the position stays at it, ``seek`` to ``next_offset`` leads past it.
            AuthenticationError, TopicAuthorizationFailedError, GroupAuthorizationFailedError: we may not.
            KafkaError: what else the group or a rebalance listener raised.
        """
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        self._delegate.note_delivered()
        try:
            found = self._poll(timeout_ms, lambda: self._delegate.take_records(most))
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
        """Like :meth:`poll`, but as columns: all that is buffered, of several partitions, up to 8 MiB or so.

        Keys and values are as they were sent: deserializers and interceptors are not applied. Each row costs memory
        besides its key and value, so that of very small records no more than one for each 16 bytes of the 8 MiB come.

        Args:
            timeout_ms: longest time to wait if nothing is there; 0 looks once.
            max_records: at most so many rows; None for no other bound than the 8 MiB.
            columns: which, in this order, of ``topic``, ``partition``, ``offset``, ``timestamp`` (ms, UTC), ``key``,
                ``value``, ``headers`` (those are the default), ``timestamp_type`` and ``leader_epoch``. What is left
                out costs nothing.
            dictionary_topic: whether the topic is dictionary-encoded.

        Returns:
            Rows partition by partition in the order of offsets; none if no record came in time, with the same schema.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: a column is not known, or named twice.
            KafkaError: as :meth:`poll`, except that nothing is deserialized.
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
                self._delegate.fetcher.buffer.roll_back()  # they did not reach the application
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
            self._metrics.on_poll_start(now)
            found = self._delegate.buffered(now, take)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            return client.run(self._delegate.fetched(deadline, take), deadline)
        finally:
            guard.release()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record. The position is the one after it, so a commit in the loop covers it and no more.

        Raises:
            StopIteration: no record came for ``consumer_timeout_ms``.
            KafkaError: as :meth:`poll`.
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
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Let the group assign partitions of some topics, or of all topics whose whole name matches a pattern.

        It replaces the last subscription; what is assigned changes in later polls. No topics: :meth:`unsubscribe`.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.
            IllegalStateError: partitions are assigned by hand, or the other kind of subscription is there.
            TypeError, ValueError: topics are None, not names, or given together with a pattern.
        """
        with self._guard:
            self._delegate.require_group()
            self._refuse_in_callback("subscribe")
            if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
                raise TypeError(f"a listener must be a ConsumerRebalanceListener, not {listener!r}")
            if topics is None:
                raise TypeError("topics must be a list of names, not None")
            if pattern is None:
                self._run(self._delegate.subscribe(topics, listener))
                return
            if topics:
                raise ValueError("topics and a pattern exclude one another")
            self._delegate.subscribe_pattern(pattern, listener)

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or give up the partitions assigned by hand. The listener hears of it before."""
        with self._guard:
            self._refuse_in_callback("unsubscribe")
            deadline = self._deadline(timeout_ms)
            self._client.run(self._delegate.unsubscribe(deadline), deadline)

    def subscription(self) -> set[str]:
        """The topics subscribed to (for a pattern: those that match); empty with partitions assigned by hand."""
        with self._guard:
            return self._subscriptions.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without the group's help. It replaces the last assignment; none: :meth:`unsubscribe`.

        Raises:
            IllegalStateError: topics or a pattern are subscribed.
            TypeError, ValueError: not partitions.
        """
        with self._guard:
            self._refuse_in_callback("assign")
            if partitions is None:
                raise TypeError("partitions must be a list of TopicPartition, not None")
            self._run(self._delegate.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions assigned now, by hand or by the group."""
        with self._guard:
            return self._subscriptions.assignment()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group rebalance at the next poll, because something changed that only we know of (KIP-568)."""
        with self._guard:
            self._delegate.require_group().enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who we are in the group, for a producer's ``send_offsets_to_transaction`` (KIP-447)."""
        with self._guard:
            return self._delegate.group_metadata()

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from an offset at the next poll. With a leader epoch it is validated first (KIP-320).

        Raises:
            IllegalStateError: the partition is not assigned.
            ValueError: the offset is negative.
        """
        with self._guard:
            self._delegate.seek(as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the log's start; without partitions: of all that are assigned. Found at poll or position."""
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=False)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the log's end (``read_committed``: its last stable offset); as :meth:`seek_to_beginning`."""
        with self._guard:
            self._delegate.seek_to([as_partition(tp) for tp in partitions], end=True)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Offset of the next record of an assigned partition. It waits while that is being found.

        Raises:
            IllegalStateError: not assigned. NoOffsetForPartitionError: nothing to begin from. KafkaTimeoutError.
        """
        with self._guard:
            tp = as_partition(partition)
            self._subscriptions.state(tp)
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.position(tp, deadline), deadline)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no more of these until :meth:`resume`. What is fetched already is kept. Membership goes on."""
        with self._guard:
            for tp in partitions:
                self._subscriptions.pause(as_partition(tp))

    def resume(self, *partitions: TopicPartition) -> None:
        """End :meth:`pause`."""
        with self._guard:
            for tp in partitions:
                self._subscriptions.resume(as_partition(tp))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        with self._guard:
            return self._subscriptions.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between position and end (by isolation level) as last heard of, None if unknown (KIP-695)."""
        with self._guard:
            return self._delegate.current_lag(as_partition(partition))

    def highwater(self, partition: TopicPartition) -> int | None:
        """High watermark of an assigned partition as of its last fetch, None if unknown."""
        with self._guard:
            found = self._subscriptions.state(as_partition(partition)).high_watermark
            return None if found < 0 else found

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets and wait until the broker has them; by default all positions.

        Args:
            offsets: the *next* offset to read of each partition, as a number or with metadata and leader epoch.

        Raises:
            CommitFailedError: we are no longer a member of the group's generation.
            RebalanceInProgressError: a rebalance is under way: poll, then commit again.
            InvalidGroupIdError: there is no ``group_id``.
            KafkaTimeoutError: no answer in time; whether it was committed is not known.
        """
        with self._guard:
            deadline = self._deadline(timeout_ms)
            self._client.run(self._delegate.commit(offsets, deadline), deadline)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> RequestFuture[Any]:
        """Commit offsets without waiting. ``callback(offsets, error or None)`` runs inside a later call."""
        with self._guard:
            return self._delegate.commit_async(offsets, callback)

    @overload
    def committed(self, partition: TopicPartition, metadata: bool = ..., timeout_ms: float | None = ...) -> Any: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: bool = ..., timeout_ms: float | None = ...
    ) -> dict[TopicPartition, Any]: ...

    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """What the group has committed.

        Args:
            partition: one partition, or several.
            metadata: give :class:`OffsetAndMetadata` instead of the bare offset.

        Returns:
            The offset or None; for several partitions a dict of them.

        Raises:
            InvalidGroupIdError: there is no ``group_id``. KafkaTimeoutError. GroupAuthorizationFailedError.
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
        """The first offset of each partition whose record is as old as a time (ms) or younger; None if there is none.

        Raises:
            ValueError: a time is negative. KafkaTimeoutError: not all leaders answered. TopicAuthorizationFailedError.
        """
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = by_partition(timestamps, "time in ms")
            return self._client.run(self._delegate.offsets_for_times(wanted, deadline), deadline)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each log. Errors as :meth:`offsets_for_times`."""
        return self._ends(partitions, timeout_ms, end=False)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last readable record: high watermark, with ``read_committed`` last stable offset."""
        return self._ends(partitions, timeout_ms, end=True)

    def _ends(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None, *, end: bool
    ) -> dict[TopicPartition, int]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = as_partitions(partitions)
            return self._client.run(self._delegate.end_or_beginning(wanted, deadline, end=end), deadline)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Numbers of a topic's partitions, None if there is no such topic."""
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.partitions_for(topic, deadline), deadline)

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Names of all topics that we may see; internal ones only with ``exclude_internal_topics=False``."""
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._client.run(self._delegate.topics(deadline), deadline)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> dict[str, dict[str, Any]]:
        """Counters by group and name, with the names of Kafka's metrics; times in ms.

        Args:
            raw: accepted for kafka-python's sake; there is only one form.
        """
        with self._guard:
            return describe_consumer(self._delegate)

    def wakeup(self) -> None:
        """Let the blocking call under way, or the next one, raise ``WakeupError``. From any thread."""
        self._client.wakeup()
        self._prefetched.stop()

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if that is automatic, tell the listener, leave the group, close all connections.

        Args:
            timeout_ms: longest time for all of it, default 30 s; connections are closed in any case.
            leave_group: True or False to leave the group or stay in it whatever kind of member this is; None leaves
                unless ``group_instance_id`` is set (KIP-1092).

        Raises:
            KafkaError: what commit or listener raised; the consumer is closed all the same. A second call does nothing.
            KeyboardInterrupt: Ctrl-C ends the wait at once; the consumer is closed, and the group may have to notice.
        """
        if self._guard.closed:
            if not self._released and not self._guard.forked:  # Ctrl-C fell into the first call
                self._release()
            return
        with self._guard:
            self._refuse_in_callback("close")
            self._close(DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms, leave_group)

    def _close(self, timeout_ms: float, leave_group: bool | None) -> None:
        deadline = self._deadline(timeout_ms)
        try:
            with self._client.disable_wakeups():
                self._client.run(self._delegate.close(deadline, leave_group=leave_group), deadline)
        except KafkaTimeoutError as error:
            _log.warning("closing did not finish within %d ms: %s", timeout_ms, error)
        finally:
            self._guard.close()
            self._release()

    def _release(self) -> None:
        """Let go of threads and sockets; a second call is harmless."""
        self._delegate.abandon("the consumer was closed")
        self._client.close()
        self._delegate.fetcher.buffer.clear()
        self._interceptors.close()
        self._released = True

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        # Any thread may run this, in the middle of anything, with locks held: nothing here waits or takes one.
        if self._released or self._guard.forked:
            return
        self._released = True
        self._delegate.abandon("the consumer was dropped without close()")
        self._client.client.abandon()
        if not self._guard.closed:
            _warn(f"unclosed {self!r}: call close(), or use it in a with statement", ResourceWarning, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_in_callback(self, name: str) -> None:
        if self._guard.depth > 1:
            raise IllegalStateError(f"{name} must not be called from a callback")

    def _deadline(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must not be negative: {timeout_ms}")
        return self._clock.now() + timeout_ms / 1000

    def _run(self, steps: Steps[T]) -> T:
        return self._client.run(steps, self._delegate.default_deadline())

    def __repr__(self) -> str:
        group = f" group_id={self.config.group_id!r}" if self.config.group_id else ""
        state = "closed" if self._guard.closed else self._subscriptions.type.name
        return f"<KafkaConsumer{group} client_id={self.config.client_id!r} {state}>"
