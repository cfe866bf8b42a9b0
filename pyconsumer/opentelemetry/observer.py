"""``Observer``: the spans and instruments of OpenTelemetry for the calls of all clients.

Rules

1. No exception leaves it: a failure is logged once, and the client works on.
2. The headers of records are read only for a span that is recorded. So samplers see no links: they are added after
   the decision, up to :data:`~pyconsumer.opentelemetry.context.MOST_RECORDS` records' of them.
3. For a poll and a send the sampler of the SDK is asked first, once. Only if it takes the span, one is started with its
   decision and its trace id (:class:`.asking.Asking`). A send whose span is dropped sends its context all the same
   and does not wait for its outcome.
4. Attributes that repeat are made once (:meth:`Observer.labels`), for a poll costs little more than this.
5. A span of ``send`` ends in the producer's thread, when the record is acknowledged.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from pyconsumer.opentelemetry import names
from pyconsumer.opentelemetry.asking import Dropped, asking, parent_of
from pyconsumer.opentelemetry.context import MOST_RECORDS, context_of, contexts_of, with_context, with_dropped
from pyconsumer.structs import RecordMetadata, TopicPartition
from pyconsumer.telemetry import Client, Sending

__all__ = ["Observer"]

_log = logging.getLogger("pyconsumer.opentelemetry")

P = ParamSpec("P")
R = TypeVar("R")

_TYPES: Final = {"send": "send", "receive": "receive", "process": "process", "commit": "settle"}
_FLUSH_MS: Final = 2_000
_CACHED: Final = 4096  # sets of attributes


def _quiet(method: Callable[P, None]) -> Callable[P, None]:
    """Log the exceptions of a method, instead of raising them."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            _failed()

    return call


@functools.cache
def _failed() -> None:
    """Log the exception that is being handled, the first time."""
    _log.exception("OpenTelemetry could not be told of a call. Further failures are not logged")


class Observer:
    """Makes spans of clients' calls and counts them. See :class:`pyconsumer.telemetry.Telemetry` for the methods.

    Args:
        tracer: makes the spans. None makes none, and sends no context.
        meter: makes the four instruments. None counts nothing.
        renamed: the sets of names to use.
        providers: have the exporters.
        drops_roots: True if the sampler drops each span without a parent. Then none is started.
    """

    def __init__(
        self,
        tracer: Tracer | None,
        meter: Meter | None,
        renamed: Sequence[names.Renamed],
        providers: Sequence[object] = (),
        *,
        drops_roots: bool = False,
    ) -> None:
        self._providers = providers
        self.tracer = tracer
        self._asking = None if tracer is None else asking(tracer)
        self._drops_roots = drops_roots
        self.renamed = renamed
        self.meters = None if meter is None else _Instruments(meter)
        self.measured = functools.lru_cache(_CACHED)(self._measured)
        self.labels = functools.lru_cache(_CACHED)(self._labels)

    def _labels(
        self, client: Client, operation: str, topic: str | None, partition: int | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the name and the attributes of a span. Do not change them."""
        found: dict[str, Any] = dict(self.measured(client, operation, topic, None))
        found[names.CLIENT_ID] = client.client_id
        if partition is not None:
            found[names.PARTITION] = str(partition)
        if client.cluster_id:
            found.update((one.cluster_id, client.cluster_id) for one in self.renamed)
        return operation if topic is None else f"{operation} {topic}", found

    def _measured(self, client: Client, operation: str, topic: str | None, error: str | None) -> dict[str, Any]:
        """Return the attributes of a measurement: those with few values."""
        found: dict[str, Any] = {one.system: "kafka" for one in self.renamed}
        found[names.OPERATION_NAME] = operation
        found[names.OPERATION_TYPE] = _TYPES[operation]
        if topic is not None:
            found[names.DESTINATION] = topic
        if client.group_id:
            found[names.GROUP] = client.group_id
        if error is not None:
            found[names.ERROR_TYPE] = error
        return found

    def start(
        self,
        client: Client,
        operation: str,
        topic: str | None,
        partition: int | None = None,
        *,
        kind: SpanKind = SpanKind.CLIENT,
        context: Context | None = None,
        links: Sequence[Link] = (),
        began_ns: int | None = None,
    ) -> Span | None:
        """Start a span. Return None if no spans are made."""
        if self.tracer is None or self.drops(context):
            return None
        name, attributes = self.labels(client, operation, topic, partition)
        return self.tracer.start_span(name, context, kind, attributes, links or None, began_ns)

    def start_receive(self, client: Client, topic: str | None, partition: int | None, seconds: float) -> Span | None:
        """Start the span of a poll. Return None if no spans are made, or the sampler drops it (rule 3)."""
        if self._asking is None:
            return self.start(client, "receive", topic, partition, began_ns=_began_ns(seconds))
        if self._asking.drops_now():
            return None
        name, attributes = self.labels(client, "receive", topic, partition)
        span = self._asking.start_enabled(name, SpanKind.CLIENT, attributes, (), seconds, carries=False)
        return None if isinstance(span, Dropped) else span

    def start_send(
        self, client: Client, topic: str, partition: int | None, links: Sequence[Link] = ()
    ) -> Span | Dropped | None:
        """Start the span of a send. Return its context if the sampler drops it, None if no spans are made (rule 3)."""
        if self._asking is None or self.drops(None):
            return self.start(client, "send", topic, partition, kind=SpanKind.PRODUCER, links=links)
        name, attributes = self.labels(client, "send", topic, partition)
        return self._asking.start(name, SpanKind.PRODUCER, attributes, links, carries=True)

    def drops(self, context: Context | None) -> bool:
        """Return whether no span is made in a context. None stands for the current one."""
        return self.tracer is None or (self._drops_roots and not _has_parent(context))

    def measure(
        self, client: Client, operation: str, topic: str | None, seconds: float, error: BaseException | None = None
    ) -> None:
        """Record how long an operation has lasted."""
        if self.meters is not None:
            instrument = self.meters.process if operation == "process" else self.meters.operation
            instrument.record(seconds, self.measured(client, operation, topic, _kind_of(error)))

    def count(self, client: Client, operation: str, topic: str, count: int, error: BaseException | None = None) -> None:
        """Count messages that were sent or consumed."""
        if self.meters is not None:
            instrument = self.meters.sent if operation == "send" else self.meters.consumed
            instrument.add(count, self.measured(client, operation, topic, _kind_of(error)))

    # -- polls -------------------------------------------------------------------------------------------------------

    def received(self, client: Client, polled: Mapping[TopicPartition, Sequence[Any]], seconds: float) -> None:
        try:
            if self.meters is not None or len(polled) > 1:
                span = self._received(client, [(tp, len(records)) for tp, records in polled.items()], seconds)
            else:  # the short way of a poll that may cost little more than this
                (tp,) = polled
                span = self.start_receive(client, tp.topic, tp.partition, seconds)
                if span is not None:
                    span.set_attribute(names.BATCH_SIZE, len(polled[tp]))
            if span is not None:
                if span.is_recording():
                    _link(span, (record.headers for records in polled.values() for record in records))
                span.end()
        except Exception:
            _failed()

    @_quiet
    def columns_received(
        self, client: Client, runs: Sequence[tuple[TopicPartition, int]], headers: Callable[[int], Any], seconds: float
    ) -> None:
        span = self._received(client, runs, seconds)
        if span is not None:
            if span.is_recording():
                _link(span, headers(MOST_RECORDS))
            span.end()

    def _received(self, client: Client, counts: Sequence[tuple[TopicPartition, int]], seconds: float) -> Span | None:
        by_topic: dict[str, int] = {}
        for (topic, _), count in counts:
            by_topic[topic] = by_topic.get(topic, 0) + count
        only = next(iter(by_topic)) if len(by_topic) == 1 else None
        self.measure(client, "receive", only, seconds)
        for topic, count in by_topic.items():
            self.count(client, "receive", topic, count)
        partition = counts[0][0].partition if len({tp for tp, _ in counts}) == 1 else None
        span = self.start_receive(client, only, partition, seconds)
        if span is not None and span.is_recording():
            span.set_attribute(names.BATCH_SIZE, sum(by_topic.values()))
        return span

    @_quiet
    def fetch_begun(self, client: Client, records: Sequence[Any], seconds: float) -> None:
        topic, partition = records[0].topic, records[0].partition
        self.measure(client, "receive", topic, seconds)
        span = self.start_receive(client, topic, partition, seconds)
        if span is not None:
            if span.is_recording():
                _link(span, (record.headers for record in records))
            span.end()

    @_quiet
    def consumed(self, client: Client, topic: str, count: int) -> None:
        self.count(client, "receive", topic, count)

    @_quiet
    def receive_failed(self, client: Client, error: Exception, seconds: float) -> None:
        self.measure(client, "receive", None, seconds, error)
        span = self.start(client, "receive", None, began_ns=_began_ns(seconds))
        if span is not None:
            _fail(span, error)
            span.end()

    @_quiet
    def flush(self) -> None:
        for provider in self._providers:
            flush = getattr(provider, "force_flush", None)
            if flush is not None:
                flush(_FLUSH_MS)

    # -- commits -----------------------------------------------------------------------------------------------------

    def committing(self, client: Client, partitions: Sequence[TopicPartition]) -> Callable[[Exception | None], None]:
        began = time.perf_counter()
        topics = {tp.topic for tp in partitions}
        topic = next(iter(topics)) if len(topics) == 1 else None
        span = None
        try:
            partition = partitions[0].partition if len(partitions) == 1 else None
            span = self.start(client, "commit", topic, partition)
        except Exception:
            _failed()

        @_quiet
        def ended(error: Exception | None) -> None:
            self.measure(client, "commit", topic, time.perf_counter() - began, error)
            if span is not None:
                _fail(span, error)
                span.end()

        return ended

    # -- the application's work --------------------------------------------------------------------------------------

    def processing(self, client: Client, work: Any) -> AbstractContextManager[object]:
        try:
            return _Processing(self, client, work)
        except Exception:
            _failed()
            return nullcontext()

    # -- sends -------------------------------------------------------------------------------------------------------

    def sending(
        self,
        client: Client,
        topic: str,
        headers: Any,
        *,
        key: Any = None,
        tombstone: bool = False,
        partition: Any = None,
    ) -> Sending | None:
        if self.meters is None and self.drops(None):
            return None
        span = None
        try:
            number = partition if isinstance(partition, int) else None
            links = [Link(one) for one in contexts_of([headers])] if headers else ()  # set by the application
            span = self.start_send(client, topic, number, links)
        except Exception:
            _failed()
        return self._begun(span, client, topic, 1, headers, (key, tombstone))

    def sending_many(self, client: Client, topic: str, count: int, *, carries: bool = False) -> Sending | None:
        span = None
        try:
            span = self.start_send(client, topic, None) if carries else self.start(client, "send", topic)
            if span is not None and not isinstance(span, Dropped):
                span.set_attribute(names.BATCH_SIZE, count)
        except Exception:
            _failed()
        return self._begun(span, client, topic, count, None if carries else ())

    def _begun(
        self,
        span: Span | Dropped | None,
        client: Client,
        topic: str,
        count: int,
        headers: Any,
        described: tuple[Any, bool] | None = None,
    ) -> Sending | None:
        """Return the observation of a call, None if it needs no end and has no context.

        Args:
            headers: of the application. An empty tuple if none can be sent.
            described: the key of a single record, and whether it is a tombstone.
        """
        recorded = None if isinstance(span, Dropped) else span
        try:
            if isinstance(span, Dropped):
                headers = with_dropped(headers, *span)
                if self.meters is None:
                    return _Carried(headers)
            elif span is not None and headers != ():
                headers = with_context(headers, trace.set_span_in_context(span))
            if recorded is not None and described is not None and recorded.is_recording():
                self.describe(recorded, described[0], tombstone=described[1])
        except Exception:
            _failed()
        if recorded is None and self.meters is None:
            return None
        return _Sending(self, client, topic, count, headers, recorded)

    def describe(self, span: Span, key: Any, *, tombstone: bool) -> None:
        """Set the attributes of a single record."""
        text = _text(key)
        for one in self.renamed:
            if text is not None:
                span.set_attribute(one.key, text)
            if tombstone:
                span.set_attribute(one.tombstone, True)


class _Instruments:
    """The four instruments of the conventions for messaging clients."""

    def __init__(self, meter: Meter) -> None:
        def durations(name: str, description: str) -> Any:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS_S
            )

        self.operation = durations(names.OPERATION_DURATION, "Duration of an operation of a producer or consumer.")
        self.process = durations(names.PROCESS_DURATION, "Duration of the processing of messages.")
        self.sent = meter.create_counter(names.SENT_MESSAGES, "{message}", "Messages that a producer has sent.")
        self.consumed = meter.create_counter(
            names.CONSUMED_MESSAGES, "{message}", "Messages that were delivered to the application."
        )


class _Carried:
    """A ``send`` whose span is dropped: all that is left of it are the headers."""

    __slots__ = ("headers",)

    ends = False

    def __init__(self, headers: Any) -> None:
        self.headers = headers

    def sent(self, outcome: RecordMetadata | BaseException | None) -> None:
        """Ignore the outcome."""


class _Sending:
    """A ``send`` that has begun: see :class:`pyconsumer.telemetry.Sending`."""

    ends = True

    def __init__(
        self, observer: Observer, client: Client, topic: str, count: int, headers: Any, span: Span | None
    ) -> None:
        self._observer, self._client, self._topic, self._count = observer, client, topic, count
        self._began = time.perf_counter()
        self.headers = headers
        self.span = span

    @_quiet
    def sent(self, outcome: RecordMetadata | BaseException | None) -> None:
        error = outcome if isinstance(outcome, BaseException) else None
        seconds = time.perf_counter() - self._began
        self._observer.measure(self._client, "send", self._topic, seconds, error)
        self._observer.count(self._client, "send", self._topic, self._count, error)
        span = self.span
        if span is None:
            return
        if span.is_recording():
            _fail(span, error)
            if isinstance(outcome, RecordMetadata):
                span.set_attribute(names.PARTITION, str(outcome.partition))
                if outcome.offset >= 0:
                    for one in self._observer.renamed:
                        span.set_attribute(one.offset, outcome.offset)
        span.end()


class _Processing:
    """The context manager around the processing of a record, of several, or of a table.

    A single record's span is a child of the span in its headers, unless another span is current. It also has a link.
    """

    def __init__(self, observer: Observer, client: Client, work: Any) -> None:
        self._observer, self._client = observer, client
        single = hasattr(work, "headers") and hasattr(work, "topic")
        self._records: Sequence[Any]
        if single:
            self._records, self._count, topics = [work], 1, {work.topic}
        elif isinstance(work, Mapping):  # the result of a poll
            self._records = list(islice(chain.from_iterable(work.values()), MOST_RECORDS))
            self._count = sum(map(len, work.values()))
            topics = {tp.topic for tp, records in work.items() if records}
        elif hasattr(work, "schema"):  # a table of Arrow, which has no links
            self._records, self._count, topics = [], len(work), set()
        else:
            self._records, self._count = list(islice(work, MOST_RECORDS)), len(work)
            topics = {record.topic for record in work}
        self._topic: str | None = topics.pop() if len(topics) == 1 else None
        self._single = work if single else None
        self._span: Span | None = None
        self._token: Any = None

    def __enter__(self) -> Span | None:
        self._began = time.perf_counter()
        try:
            self._start()
        except Exception:
            _failed()
        return self._span

    def _start(self) -> None:
        if self._observer.tracer is None:
            return
        record = self._single  # its headers may have the parent
        context = contexts.get_current()
        if record is not None and not trace.get_current_span(context).get_span_context().is_valid:
            context = context_of(record.headers, context)
        if self._observer.drops(context):
            return
        links = [Link(one) for one in contexts_of(each.headers for each in self._records)]
        span = self._span = self._observer.start(
            self._client,
            "process",
            self._topic,
            None if record is None else record.partition,
            kind=SpanKind.CONSUMER,
            context=context,
            links=links,
        )
        if span is None:
            return
        if span.is_recording():
            if record is None:
                span.set_attribute(names.BATCH_SIZE, self._count)
            else:
                for one in self._observer.renamed:
                    span.set_attribute(one.offset, record.offset)
                self._observer.describe(span, record.key, tombstone=record.value is None)
        self._token = contexts.attach(trace.set_span_in_context(span, context))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._began
        self._detach()
        self._end(error)
        self._measure(seconds, error)

    @_quiet
    def _detach(self) -> None:
        if self._token is not None:
            contexts.detach(self._token)

    @_quiet
    def _end(self, error: BaseException | None) -> None:
        if self._span is None:
            return
        try:
            if error is not None:
                self._span.record_exception(error)
                _fail(self._span, error)
        finally:
            self._span.end()

    @_quiet
    def _measure(self, seconds: float, error: BaseException | None) -> None:
        self._observer.measure(self._client, "process", self._topic, seconds, error)


def _link(span: Span, headers: Any) -> None:
    for context in contexts_of(headers):
        span.add_link(context)


def _has_parent(context: Context | None) -> bool:
    return parent_of(contexts.get_current() if context is None else context) is not None


def _kind_of(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__qualname__


def _fail(span: Span, error: BaseException | None) -> None:
    if error is not None and span.is_recording():
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attribute(names.ERROR_TYPE, type(error).__qualname__)


def _text(key: Any) -> str | None:
    """Return the text of a key, or None if it has none that is certain."""
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
    return key if isinstance(key, str) else None


def _began_ns(seconds: float) -> int:
    return time.time_ns() - int(seconds * 1e9)
