"""``KafkaConsumer``: the public class, with the calls that wait.

Each is a generator of :mod:`.delegate`. The network client runs it on its selector. The calls that never wait are in
:mod:`.calls`, and :mod:`.interface` documents all of them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pyconsumer.consumer.arguments import (
    as_partition,
    as_partitions,
    by_partition,
    check_max_records,
    is_partition,
    looks_like_seconds,
    point_out_milliseconds,
)
from pyconsumer.consumer.calls import DEFAULT_CLOSE_TIMEOUT_MS, ConsumerCalls
from pyconsumer.consumer.guard import AccessGuard
from pyconsumer.consumer.interface import CommitCallback, Consumer, Offsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.generic import K, V
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.clock import Clock

__all__ = ["KafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")


class KafkaConsumer(ConsumerCalls[K, V], Consumer[K, V]):
    """Reads records from Kafka.

    Args:
        topics: names of topics to subscribe to. A mapping in this place is read as settings, with Kafka's dotted names
            if you like.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`. Type checkers derive the types of keys and
            values from ``key_deserializer`` and ``value_deserializer``. Without deserializers, keys and values are
            ``bytes``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    The first call that needs the cluster connects to it. Use a consumer only in the process that created it, and in one
    thread at a time. Only :meth:`wakeup` may be called from any thread. Every blocking call takes ``timeout_ms``. None
    means ``default_api_timeout_ms``. As a context manager, the consumer closes itself at the end of the block. As an
    iterator, it yields one record after the other.

    Java: ``org.apache.kafka.clients.consumer.KafkaConsumer``. Names and results are as in kafka-python.
    """

    _name = "KafkaConsumer"
    _how_to_close = "call close(), or use it in a with statement"
    _guard: AccessGuard

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        super()._open(options, clock)
        self._guard.call_on_wakeup(self._commit_on_close.note_wakeup)

    def _make_guard(self) -> AccessGuard:
        checked, activity = self._delegate.checked, self._activity

        def on_call() -> None:
            checked.end()
            activity.note()

        return AccessGuard(self, on_call=on_call, on_interrupt=self._delegate.recover)

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        delegate = self._delegate
        delegate.note_delivered()
        try:
            found: ConsumerRecords[K, V] | None
            found = self._poll(timeout_ms, delegate.take_records, most)
            return ConsumerRecords() if found is None else found
        except BaseException as error:
            self._activity.raised(error)
            delegate.on_interrupt(error)
            raise

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
        from pyconsumer.consumer.arrow import ArrowPoll

        arrow = ArrowPoll(self._delegate, max_records, columns, dictionary_topic=dictionary_topic, key=key, value=value)
        self._delegate.note_delivered()
        try:
            if arrow.is_unsettled:
                with self._guard:
                    deadline = self._deadline(timeout_ms)
                    self._run(arrow.settle(deadline), deadline + self._delegate.grace_s)
            return arrow.batch(self._poll(timeout_ms, arrow.take, arrow.max_records))
        except BaseException as error:
            self._activity.raised(error)
            self._delegate.on_interrupt(error)
            raise

    def _poll(self, timeout_ms: float, drain: Callable[[int], T | None], most: int, name: str = "poll") -> T | None:
        guard = self._guard
        try:
            guard.begin(name)
            client = self._network
            if client.wakeup_waits:
                client.raise_wakeup()
            now = self._now()
            delegate = self._delegate
            delegate.metrics.on_poll_start(now)
            found = drain(most) if now < delegate.checked.next_check_at else delegate.buffered(now, drain, most)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            if looks_like_seconds(timeout_ms) and not self._seconds_pointed_out:
                self._seconds_pointed_out = True
                point_out_milliseconds(name, timeout_ms)
            try:
                return client.run(delegate.fetched(deadline, drain, most), deadline + delegate.grace_s)
            finally:
                self._activity.note()
        finally:
            guard.end()

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
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
            record = self._poll(wait, self._delegate.take_one, self._delegate.most_ahead, "iteration")
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
            if not isinstance(error, StopIteration):
                self._activity.raised(error)
            self._delegate.on_interrupt(error)
            raise

    # -- subscription and positions ----------------------------------------------------------------------------------

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        with self._guard:
            self._guard.refuse_in_callback("unsubscribe")
            deadline = self._deadline(timeout_ms)
            self._run(self._delegate.unsubscribe(deadline), deadline)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        with self._guard:
            tp = as_partition(partition)
            self._subscriptions.state(tp)
            deadline = self._deadline(timeout_ms)
            return self._run(self._delegate.position(tp, deadline), deadline)

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            self._run(self._delegate.commit(offsets, deadline), deadline)

    def commit_async(
        self, offsets: Offsets | None = None, callback: CommitCallback | None = None
    ) -> RequestFuture[None]:
        with self._guard:
            return self._delegate.commit_async(offsets, callback)

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
        with self._guard:
            single = is_partition(partition)
            wanted = as_partitions([partition] if single else partition)
            deadline = self._deadline(timeout_ms)
            steps = self._delegate.committed(wanted, deadline)
            return self._run(_shown(steps, wanted[0] if single else None, metadata=metadata), deadline)

    # -- the log -----------------------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = by_partition(timestamps, "time in ms")
            return self._run(self._delegate.offsets_for_times(wanted, deadline), deadline)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = as_partitions(partitions)
            return self._run(self._delegate.end_or_beginning(wanted, deadline, end=False), deadline)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            wanted = as_partitions(partitions)
            return self._run(self._delegate.end_or_beginning(wanted, deadline, end=True), deadline)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._run(self._delegate.partitions_for(topic, deadline), deadline)

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        with self._guard:
            deadline = self._deadline(timeout_ms)
            return self._run(self._delegate.topics(deadline), deadline)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        self._close(timeout_ms, leave_group)

    def _close(self, timeout_ms: float | None, leave_group: bool | None, *, commit: bool | None = None) -> None:
        """Close. ``commit`` decides about the automatic commit, by default :mod:`.closing` does."""
        if self._guard.closed:
            if not self._released and not self._guard.forked:  # the first call was interrupted by Ctrl-C
                self._release()
            return
        with self._guard:
            self._guard.refuse_in_callback("close")
            limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
            deadline = self._deadline(limit_ms)
            decided = self._commit_on_close.decide() if commit is None else commit
            self._leave_and_release(deadline, limit_ms, leave_group, commit=decided)

    def _leave_and_release(self, deadline: float, timeout_ms: float, leave_group: bool | None, *, commit: bool) -> None:
        try:
            with self._network.disable_wakeups():
                self._run(self._delegate.close(deadline, leave_group=leave_group, commit=commit), deadline)
        except KafkaTimeoutError as error:
            _log.warning("closing did not finish within %d ms: %s", timeout_ms, error)
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._commit_on_close.leave(error)
        self.close()

    def _run(self, steps: Steps[T], deadline: float) -> T:
        try:
            return self._network.run(steps, deadline)
        except BaseException as error:
            self._activity.raised(error)
            raise
        finally:
            self._activity.note()

    def _run_at_once(self, steps: Steps[None]) -> None:
        self._network.run(steps, self._delegate.default_deadline())

    def _disconnect(self) -> None:
        self._network.close()

    def _abandon(self) -> None:
        self._network.abandon()


def _shown(
    steps: Steps[dict[TopicPartition, OffsetAndMetadata | None]], only: TopicPartition | None, *, metadata: bool
) -> Steps[Any]:
    """Return committed offsets in the form that ``committed`` was asked for: of one partition, or of several."""
    found = yield from steps
    shown = {tp: o if o is None or metadata else o.offset for tp, o in found.items()}
    return shown if only is None else shown[only]
