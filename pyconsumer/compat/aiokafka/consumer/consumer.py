"""``AIOKafkaConsumer``: aiokafka's API over ``AsyncKafkaConsumer``."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pyconsumer.compat.aiokafka.background import GroupTask
from pyconsumer.compat.aiokafka.border import ConsumerStoppedError
from pyconsumer.compat.aiokafka.border import consumer_border as border
from pyconsumer.compat.aiokafka.checks import NothingAssignedError, check_offsets, check_settings
from pyconsumer.compat.aiokafka.internals import ConsumerInternals
from pyconsumer.compat.aiokafka.lifecycle import check_may_start
from pyconsumer.compat.aiokafka.listening import ListenerCalls, Listening
from pyconsumer.compat.aiokafka.reading import RecordConsumer
from pyconsumer.compat.aiokafka.structs import ConsumerRecord, OffsetAndTimestamp
from pyconsumer.compat.aiokafka.tokens import await_tokens, begin
from pyconsumer.compat.border import crosses
from pyconsumer.compat.kafka.coordinator.assignors.abstract import adapted
from pyconsumer.compat.kafka.serializer.abstract import as_deserializer
from pyconsumer.compat.kafka.settings import beginning_with, translate, unknown_is_timeout
from pyconsumer.consumer.arguments import as_partition, check_subscription
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition, whole_number

__all__ = ["AIOKafkaConsumer", "as_offsets"]

_log = logging.getLogger("pyconsumer.compat.aiokafka")

T = TypeVar("T")

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "partition_assignment_strategy": ("roundrobin",),
    "request_timeout_ms": 40_000,
    "sasl_mechanism": "PLAIN",
    "session_timeout_ms": 10_000,
}
_WITHOUT_EFFECT: Final = ("loop", "consumer_timeout_ms", "rebalance_timeout_ms")
#: Without a limit of the program a read returns at most this number of records. More at a time would take longer for
#: each record, because they do not fit into the processor's caches.
_MOST_RECORDS: Final = 4_000


def as_offsets(offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, OffsetAndMetadata | int] | None:
    """Return offsets in pyconsumer's form. aiokafka also accepts pairs of an offset and metadata."""
    if offsets is None:
        return None
    return {
        tp: OffsetAndMetadata(*value) if isinstance(value, tuple) and len(value) == 2 else value
        for tp, value in offsets.items()
    }


@border.guard
class AIOKafkaConsumer(ConsumerInternals):
    """A consumer for programs that were written for aiokafka.

    Args:
        topics: names of topics to subscribe to.
        configs: settings of aiokafka and of pyconsumer. ``loop``, ``consumer_timeout_ms`` (the polling interval of
            aiokafka's iteration) and ``rebalance_timeout_ms`` have no effect.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    ``start`` joins the group. Without a group it looks up all partitions. A thread sends heartbeats, and a task takes
    part in rebalances and commits. So a member that is busy with a record does not delay the others. A member without
    partitions gets some when another member leaves. If several tasks read, their reads run one after the other.

    Attributes:
        consumer: the wrapped :class:`pyconsumer.aio.AsyncKafkaConsumer`.
    """

    _getone_is_own = True  # the instance has no attribute of this name

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "getone":
            object.__setattr__(self, "_getone_is_own", False)
        object.__setattr__(self, name, value)

    def __init__(self, *topics: str, **configs: Any) -> None:
        if configs.get("loop") is not None:
            warnings.warn("loop has no effect: the running loop is used", DeprecationWarning, stacklevel=3)
        self._addresses = configs.get("bootstrap_servers", _DEFAULTS["bootstrap_servers"])
        for name in _WITHOUT_EFFECT:
            configs.pop(name, None)
        for name in ("key_deserializer", "value_deserializer"):
            if configs.get(name) is not None:
                configs[name] = as_deserializer(configs[name])
        if configs.get("partition_assignment_strategy") is not None:
            configs["partition_assignment_strategy"] = adapted(configs["partition_assignment_strategy"], False)
        self._given_limit = configs.get("max_poll_records")
        if self._given_limit is None:
            configs["max_poll_records"] = _MOST_RECORDS
        check_settings(configs)
        self._tokens = await_tokens(configs, _DEFAULTS["request_timeout_ms"])
        self.consumer = RecordConsumer(*topics, **translate(configs, defaults=_DEFAULTS))
        self._turn = asyncio.Lock()
        self._group_task = GroupTask(self.consumer)
        self._listening = Listening()
        self._now = self.consumer.clock.now
        self._prefetched = self.consumer.prefetched
        self._began = self._stopped = False
        self._read_at_ms: int | None = None
        self._unsubscribed: asyncio.Future[None] | None = None

    # -- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect. If topics are subscribed, join the group. Without a group, look up the partitions to read.

        The call takes at most ``request_timeout_ms``. A rebalance that takes longer continues in the background.

        Raises:
            KafkaConnectionError: no broker could be reached within ``request_timeout_ms``. You must stop the consumer
                all the same.
            IllegalStateError: the consumer was started or stopped before. The error is also an ``AssertionError``.
            UnknownTopicOrPartitionError: there is no group, and a subscribed topic does not exist.
            KafkaError: the group could not be joined.
        """
        check_may_start("AIOKafkaConsumer", began=self._began, stopped=self._stopped)
        self._began = True
        timeout_ms = begin(self._tokens, self.consumer.config.request_timeout_ms)
        try:
            await self.consumer.topics(timeout_ms=timeout_ms)
        except KafkaTimeoutError as error:
            raise KafkaConnectionError(f"no broker could be reached: {error}") from error
        self._group_task.start()
        await self._assigned()
        for topic in sorted(self.consumer.subscription()):
            if self.consumer.config.group_id is None and not self.consumer.known_partitions(topic):
                raise UnknownTopicOrPartitionError(f"there is no topic {topic!r}")

    async def _assigned(self) -> None:
        """Wait until a subscription has been assigned, as aiokafka's calls do. A member may get no partition."""
        consumer = self.consumer
        if consumer.subscribes and not consumer.assignment() and not self._listening.is_called_here:
            self._group_task.start()
            try:
                await consumer.join(consumer.config.request_timeout_ms)
            except NoOffsetForPartitionError:
                pass  # the next read raises it

    async def stop(self) -> None:
        """Commit if commits are automatic, leave the group, close the connections. A second call has no effect.

        In a ``finally`` after an exception nothing is committed. (aiokafka commits, and so loses records.) The listener
        is not called, and errors of the group are logged.

        Raises:
            IllegalStateError: the listener called this.
        """
        await self._end(self.consumer.close)

    async def _end(self, close: Callable[[], Awaitable[None]]) -> None:
        if self._listening.is_called_here:
            raise IllegalStateError("stop must not be called from a rebalance listener")
        self._stopped = True
        self._listening.be_silent()
        try:
            await close()
        except Exception:
            _log.exception("an error occurred while %r was stopped", self)
        finally:
            await self._group_task.stop()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end(lambda: self.consumer.__aexit__(kind, error, traceback))

    # -- records -----------------------------------------------------------------------------------------------------

    # A record that was decoded ahead is returned in one step of one coroutine, without a call of a Python function.

    @crosses
    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """Return the next record of these partitions, or of all partitions. Wait until there is a record.

        Raises:
            ConsumerStoppedError: the consumer was stopped, before or during this call.
        """
        prefetched = self._prefetched
        records = prefetched.records
        if records and not partitions and prefetched.now() < prefetched.until:
            prefetched.latest[0] = record = records.pop()
            return record  # type: ignore[return-value]  # the decoder made it in our form
        return await self._waited_for(partitions)

    @border.guarded
    async def _waited_for(self, partitions: tuple[TopicPartition, ...]) -> ConsumerRecord[Any, Any]:
        self._check_reads()
        async with self._turn:
            while True:
                if partitions:
                    found = await self._reading(self.consumer.read(math.inf, 1, partitions))
                    for several in found.values():
                        return several[0]  # type: ignore[return-value]
                else:
                    one = await self._reading(self.consumer.read_one(math.inf, ahead=True))
                    if one is not None:
                        return one  # type: ignore[return-value]

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Return records that have arrived, of these partitions or of all.

        Args:
            timeout_ms: longest time to wait if no record has arrived.
            max_records: the most records to return, by default ``max_poll_records``. Without both it is 4,000.

        Raises:
            ConsumerStoppedError: the consumer was stopped before this call. (If it is stopped during the call, the
                result is empty.)
            ValueError: ``max_records`` is less than 1.
        """
        self._check_reads()
        if self._turn.locked():
            began = self._now()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._turn.acquire()
            except TimeoutError:
                return {}
            timeout_ms = max(0.0, timeout_ms - (self._now() - began) * 1000)
        else:
            await self._turn.acquire()
        try:
            return dict(await self._reading(self.consumer.read(timeout_ms, max_records, partitions)))
        except ConsumerStoppedError:
            return {}
        finally:
            self._turn.release()

    def _check_reads(self) -> None:
        if self._stopped:
            raise ConsumerStoppedError("the consumer was stopped")
        if self._listening.is_called_here:
            raise IllegalStateError("records must not be read in a rebalance listener: reads wait for its end")

    async def _reading(self, read: Awaitable[T]) -> T:
        self._group_task.start()
        try:
            found = await read
        except IllegalStateError as error:
            if self._stopped and not isinstance(error, ConsumerStoppedError):
                raise ConsumerStoppedError("the consumer was stopped") from error
            raise
        self._read_at_ms = int(time.time() * 1000)
        return found

    def __aiter__(self) -> Self:
        if self._stopped:
            raise ConsumerStoppedError("the consumer was stopped")
        return self

    @crosses
    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record, by :meth:`getone`. The loop ends when the consumer is stopped."""
        prefetched = self._prefetched
        records = prefetched.records
        # As getone, without its coroutine, unless a subclass or an instrumentation has another getone.
        if records and type(self).getone is _GETONE and self._getone_is_own and prefetched.now() < prefetched.until:
            prefetched.latest[0] = record = records.pop()
            return record  # type: ignore[return-value]
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name, or by a pattern. The pattern must match the beginning of a topic's name.

        Raises:
            TypeError: topics and pattern are both given or both missing, or one has a wrong type.
            ValueError: the pattern is not a regular expression.
        """
        if bool(topics) == (pattern is not None):
            raise TypeError("subscribe takes either topics or a pattern")
        try:
            beginning_with(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
        check_subscription(topics, pattern, listener)
        before = self.consumer.subscription() if topics else None
        self.consumer.subscribe(
            topics, beginning_with(pattern), None if listener is None else ListenerCalls(self._listening)
        )
        self._listening.begin(listener)
        config = self.consumer.config
        if before == set(topics) and config.group_id is not None and config.group_protocol == "classic":
            self.consumer.enforce_rebalance("the same topics were subscribed again")  # as there: the listener is called
            self.consumer.recheck()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset() if self._unsubscribes else frozenset(self.consumer.subscription())

    @property
    def _unsubscribes(self) -> bool:
        return self._unsubscribed is not None and not self._unsubscribed.done()

    def unsubscribe(self) -> Awaitable[None]:
        """Drop the subscription, at once as a rule.

        While a coroutine of the rebalance listener runs, and with ``group_protocol="consumer"``, it takes time.
        After ``stop`` it has no effect: kstreams and eventiq call it there, and do not look at the result.
        """
        self._listening.be_silent()
        if self._stopped or self.consumer.unsubscribe_at_once():
            self._unsubscribed = asyncio.get_running_loop().create_future()
            self._unsubscribed.set_result(None)
        else:
            self._unsubscribed = asyncio.ensure_future(border.awaited(self.consumer.unsubscribe()))
        return self._unsubscribed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand."""
        self.consumer.assign(partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset() if self._unsubscribes else frozenset(self.consumer.assignment())

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic from the metadata that the client has. None if the topic is unknown."""
        found = self.consumer.known_partitions(topic)
        return found or None

    async def topics(self) -> set[str]:
        """Return the names of all topics."""
        return await self.consumer.topics()

    # -- positions ---------------------------------------------------------------------------------------------------

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        await self._assigned()
        return await self.consumer.position(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from an offset.

        Raises:
            ValueError: ``offset`` is not a valid offset.
            IllegalStateError: the partition is not assigned.
        """
        number = whole_number(offset)
        if number is None or number < 0:
            raise ValueError(f"an offset must be a whole number of 0 or more, not {offset!r}")
        self._check_has_some(partition)
        self.consumer.seek_kept(as_partition(partition), number)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Continue from the start of the log, in these partitions or in all.

        The call returns when the positions are known.
        """
        await self._assigned()
        self.consumer.seek_to_beginning(*partitions)
        return await self._positioned(partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Continue from the end of the log, in these partitions or in all.

        The call returns when the positions are known.
        """
        await self._assigned()
        self.consumer.seek_to_end(*partitions)
        return await self._positioned(partitions)

    async def _positioned(self, partitions: Iterable[TopicPartition]) -> bool:
        for tp in partitions or self.consumer.assignment():
            await self.consumer.position(tp)
        return True

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue from the committed offsets, in these partitions or in all. Return these offsets."""
        await self._assigned()
        for tp in partitions:
            self._check_assigned(tp)
        found: dict[TopicPartition, int | None] = await self.consumer.committed(
            partitions or self.consumer.assignment()
        )
        for tp, offset in found.items():
            if offset is not None:
                self.consumer.seek(tp, offset)
        return found

    def _check_has_some(self, *partitions: TopicPartition) -> None:
        if self.consumer.is_idle:
            raise NothingAssignedError(f"no partitions are assigned, so not {', '.join(map(str, partitions))}")

    def _check_assigned(self, partition: TopicPartition) -> None:
        tp = as_partition(partition)
        if tp not in self.consumer.assignment():
            raise IllegalStateError(f"{tp} is not assigned to this consumer")

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`."""
        self._check_has_some(*partitions)
        self.consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._check_has_some(*partitions)
        self.consumer.resume(*partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(self.consumer.paused())

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as the last fetch reported it."""
        self._check_has_some(partition)
        return self.consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset as the last fetch reported it."""
        self._check_has_some(partition)
        return self.consumer.last_stable_offset(partition)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return the time of the last read in ms since the epoch. None before the first read."""
        self._check_assigned(partition)
        return self._read_at_ms

    # -- commits and the log -----------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets, by default all positions of the present assignment.

        Args:
            offsets: for each partition the next offset to read, or a pair of that offset and metadata.

        Raises:
            ValueError: ``offsets`` is empty, or not a mapping of partitions to offsets.
            TypeError: a key is no partition, or metadata no text.
            IllegalStateError: a partition is not assigned, or now belongs to another member.

        During a rebalance the call waits until it has ended, at most ``request_timeout_ms``. In a listener it does not
        wait.
        """
        if not self._listening.is_called_here:
            await self.consumer.until_settled(self.consumer.config.request_timeout_ms)
        if self.consumer.config.group_id is not None:
            if self._unsubscribes or self.consumer.is_idle:
                raise IllegalStateError("Not subscribed to any topics")
            if offsets is not None:
                check_offsets(offsets, self.consumer.assignment())
        await self.consumer.commit(as_offsets(offsets))

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of a partition."""
        found: int | None = await self.consumer.committed(partition)
        return found

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        with unknown_is_timeout():
            return await self.consumer.beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end of each partition's log: the offset after its last readable record."""
        with unknown_is_timeout():
            return await self.consumer.end_offsets(partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the first offset with a timestamp at or after the given time (ms)."""
        with unknown_is_timeout():
            found = await self.consumer.offsets_for_times(timestamps)
        return {
            tp: None if offset is None else OffsetAndTimestamp(offset.offset, offset.timestamp)
            for tp, offset in found.items()
        }

    def __repr__(self) -> str:
        return repr(self.consumer)


_GETONE: Final = AIOKafkaConsumer.getone
