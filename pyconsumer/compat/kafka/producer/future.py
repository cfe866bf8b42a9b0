"""``kafka.producer.future``: the future that ``send`` returns, and its result.

The appender of our producer makes these futures itself, so that ``send`` makes one object for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer.compat.kafka.border import border
from pyconsumer.compat.kafka.structs import TopicPartition
from pyconsumer.producer.implementation import BatchResult, untracked
from pyconsumer.producer.implementation import FutureRecordMetadata as SentRecord
from pyconsumer.structs import RecordMetadata as OurMetadata

__all__ = ["FutureRecordMetadata", "RecordMetadata"]


class RecordMetadata(NamedTuple):
    """The partition and offset of a produced record, in the form of kafka-python's tuple.

    ``offset`` is -1 with ``acks=0``. ``timestamp`` is in ms since the epoch. ``checksum`` is always None. Sizes are in
    bytes. The size of a missing key or value is -1, and so is that of missing headers.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


@untracked
class FutureRecordMetadata(SentRecord):
    """The result of one ``send``. Its errors are those of :mod:`pyconsumer.compat.kafka.errors`."""

    __slots__ = ()

    #: kafka-python's setting for callbacks that raise. Here they are always logged.
    error_on_callbacks = False

    @property
    def _produce_future(self) -> BatchResult:
        """The result of the batch, of which OpenTelemetry's instrumentation reads ``topic_partition``."""
        return self.place[0]

    def retriable(self) -> bool:
        """Return whether the record has failed with an error that may disappear by itself."""
        error = self.exception
        return error is not None and bool(getattr(error, "retriable", False))

    @property
    def exception(self) -> Any:
        """The error, or None before the end and after a success."""
        error = super().exception
        return None if error is None else border.crossed(error)

    @property
    def value(self) -> RecordMetadata | None:  # type: ignore[override]
        """The metadata, or None if there is no successful result yet."""
        found = super().value
        return None if found is None else _metadata(found)

    def get(self, timeout: float | None = None) -> RecordMetadata:  # type: ignore[override]
        """Wait for the result.

        Args:
            timeout: seconds. None waits at most for the record's delivery timeout, after which the future is done.

        Raises:
            KafkaTimeoutError: the result is not there in time. The record may still be sent.
            IllegalStateError: the call was made in a callback of a record, and the result is not there yet.
            KafkaError: the record could not be sent. The error has the reason.
        """
        try:
            return _metadata(super().get(timeout))
        except Exception as error:
            border.crossed(error)  # the same object
            raise

    result = get  # type: ignore[assignment]

    if TYPE_CHECKING:  # that of our future, which returns ``value``

        def __await__(self) -> Generator[Any, None, RecordMetadata]:  # type: ignore[override]
            """Wait for the result in a coroutine. Raises as :meth:`get`."""

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``function(*args, metadata, **kwargs)`` after success, in the sender's thread.

        If the future is done already, call it now.
        """
        super().add_callback(_with_metadata, function, args, kwargs)
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``function(*args, error, **kwargs)`` after failure, in the sender's thread.

        If the future is done already, call it now.
        """
        super().add_errback(border.callback(function), *args, **kwargs)
        return self

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Add ``function`` as callback and as errback."""
        return self.add_callback(function, *args, **kwargs).add_errback(function, *args, **kwargs)

    def chain(self, future: Any) -> FutureRecordMetadata:
        """Pass the result to ``future.success(metadata)``, or the error to ``future.failure(error)``."""
        return self.add_callback(future.success).add_errback(future.failure)

    def __repr__(self) -> str:
        state = "pending" if not self.is_done else "failed" if self.failed() else "succeeded"
        return f"<FutureRecordMetadata {state}>"


def _metadata(found: OurMetadata) -> RecordMetadata:
    topic, partition, offset, timestamp, *sizes = found
    return RecordMetadata(topic, partition, TopicPartition(topic, partition), offset, timestamp, None, *sizes)


def _with_metadata(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], found: OurMetadata
) -> None:
    function(*args, _metadata(found), **kwargs)
