"""The future that ``send`` returns, and the callbacks of a record.

The records of a batch share one :class:`BatchResult`, which is set once by the sender thread. A future is a thin view
of it. Callbacks run in the sender thread, in the order in which records were sent to a partition. An exception in one
is logged and does not keep the others from running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from pyconsumer.background_log import Log
from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.structs import RecordMetadata, TopicPartition

__all__ = [
    "BatchResult",
    "FutureRecordMetadata",
    "awaited",
    "callback_exited",
    "callback_failed",
    "in_sender_thread",
    "mark_sender_thread",
    "no_result",
    "run_callback",
    "untracked",
]

F = TypeVar("F", bound="type[FutureRecordMetadata]")

_log = Log(__name__)


class BatchResult:
    """The result of sending one batch.

    The order is: the result is *settled* (``done``), its callbacks run, and then the calls that ``wait`` continue. So a
    call that has waited for a result, such as ``flush``, knows that the callbacks have run (Java:
    ``ProducerBatch.done``).
    """

    __slots__ = (
        "_lock",
        "_parts",
        "_released",
        "_settled",
        "_waiting",
        "base_offset",
        "error",
        "last_failure",
        "log_append_time_ms",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: KafkaError | None = None
        self.last_failure: KafkaError | None = None
        """Why it is not sent yet: the last attempt's error, for messages of those who do not wait any longer."""
        self._lock = threading.Lock()
        self._settled = False
        self._released = threading.Event()
        self._waiting: list[Callable[[], None]] = []
        self._parts: list[tuple[int, BatchResult]] = []

    __reduce__ = not_copied

    def split(self, parts: list[tuple[int, BatchResult]]) -> None:
        """Continue as several results, because the batch was too large and was split.

        Each part is ``(index of the first record, result)``.

        This result is done when all its parts are.
        """
        self._parts = parts
        left = [len(parts)]

        def one_done() -> None:
            left[0] -= 1
            if not left[0]:
                self.finish(-1, -1, None)

        for _, part in parts:
            part.on_done(one_done)

    def of(self, index: int) -> tuple[BatchResult, int]:
        """Return the result that applies to a record, and the record's index in it."""
        result: BatchResult = self
        while result._parts:
            first, part = [entry for entry in result._parts if entry[0] <= index][-1]
            result, index = part, index - first
        return result, index

    def ranges(self, first: int, count: int) -> list[tuple[BatchResult, int, int]]:
        """Return the results that apply to some records.

        Each comes with the index of its first record, and the number of records.
        """
        if not self._parts:
            return [(self, first, count)]
        found = []
        ends = [start for start, _ in self._parts[1:]] + [first + count]
        for (start, part), end in zip(self._parts, ends, strict=True):
            low, high = max(first, start), min(first + count, end)
            if low < high:
                found += part.ranges(low - start, high - low)
        return found

    @property
    def done(self) -> bool:
        return self._settled

    def attempt_failed(self, error: KafkaError) -> None:
        """Store the error of an attempt. The batch may be sent again."""
        self.last_failure = error

    def wait(self, timeout: float | None) -> bool:
        """Wait until the result is set and its callbacks have run.

        Inside a callback, wait only until the result is set.
        """
        if self._settled and in_sender_thread():
            return True
        return self._released.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def finish(self, base_offset: int, log_append_time_ms: int, error: KafkaError | None) -> bool:
        """Set the result and run its callbacks. If a result was set before, keep that one and return False."""
        with self._lock:
            if self._settled:
                return False
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.error = error
            waiting, self._waiting = self._waiting, []
            self._settled = True
        exited: BaseException | None = None
        try:
            for call in waiting:
                try:
                    call()
                except BaseException as failure:  # sys.exit() in a callback: whoever else waits is called all the same
                    exited = failure
                    callback_exited(failure)
        finally:
            self._released.set()
        if exited is not None:
            raise exited
        return True

    def on_done(self, call: Callable[[], None]) -> None:
        """Run ``call()`` when the result is set. If it is set already, run it now."""
        with self._lock:
            if not self._settled:
                self._waiting.append(call)
                return
        call()


class FutureRecordMetadata:
    """The result of one ``send``.

    ``get`` waits for the result. ``add_callback`` and ``add_errback`` register functions for success and failure.
    ``exception`` is None before the result is there, and after success.
    """

    __slots__ = ("__weakref__", "_header_size", "_index", "_key_size", "_result", "_timestamp_ms", "_value_size")

    def __init__(
        self, result: BatchResult, index: int, timestamp_ms: int, key_size: int, value_size: int, header_size: int = -1
    ) -> None:
        self._result = result
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size
        self._header_size = header_size

    __reduce__ = not_copied

    @property
    def place(self) -> tuple[BatchResult, int]:
        """The result of the batch, and the record's index in the batch."""
        return self._result, self._index

    @property
    def is_done(self) -> bool:
        return self._result.done

    def done(self) -> bool:
        return self._result.done

    def succeeded(self) -> bool:
        return self._result.done and self.exception is None

    def failed(self) -> bool:
        return self._result.done and self.exception is not None

    @property
    def exception(self) -> KafkaError | None:
        return self._result.of(self._index)[0].error if self._result.done else None

    @property
    def value(self) -> RecordMetadata | None:
        """Return the metadata, or None if there is no successful result yet."""
        return self._metadata() if self.succeeded() else None

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result of the record.

        Args:
            timeout: seconds. None waits at most for the record's delivery timeout, after which the future is done.

        Raises:
            KafkaTimeoutError: the result is not there in time. The record may still be sent.
            IllegalStateError: the call was made in a callback of a record, and the result is not there yet.
            KafkaError: the record could not be sent. The error has the reason.
        """
        if not self._result.done and in_sender_thread():
            raise IllegalStateError(
                "a callback of a record cannot wait for another record: its thread is the one that sends"
            )
        if not self._result.wait(timeout):
            raise no_result(self._result, self._index, timeout)
        error = self.exception
        if error is not None:
            raise error
        return self._metadata()

    result = get

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait for the result in a coroutine: ``metadata = await producer.send(...)``. Raises as :meth:`get`."""
        return awaited(self).__await__()

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``function(*args, metadata, **kwargs)`` after success, in the sender's thread.

        If the future is done already, call it now.
        """

        def call() -> None:
            if self.exception is None:
                run_callback(function, (*args, self._metadata()), kwargs)

        self._result.on_done(call)
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``function(*args, error, **kwargs)`` after failure, in the sender's thread.

        If the future is done already, call it now.
        """

        def call() -> None:
            error = self.exception
            if error is not None:
                run_callback(function, (*args, error), kwargs)

        self._result.on_done(call)
        return self

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Add ``function`` both as callback and as errback."""
        FutureRecordMetadata.add_callback(self, function, *args, **kwargs)
        return FutureRecordMetadata.add_errback(self, function, *args, **kwargs)

    def _metadata(self) -> RecordMetadata:
        result, index = self._result.of(self._index)
        tp = result.topic_partition
        return RecordMetadata(
            tp.topic,
            tp.partition,
            result.base_offset + index if result.base_offset >= 0 else -1,
            self._timestamp_ms if result.log_append_time_ms < 0 else result.log_append_time_ms,
            self._key_size,
            self._value_size,
            self._header_size,
        )


def in_sender_thread() -> bool:
    """Return whether the current thread is a producer's sender's thread, so a callback of a record is running."""
    return _thread.sends


def mark_sender_thread(on_exit: Callable[[BaseException], object]) -> None:
    """Mark the current thread as a sender's thread. The thread calls this when it starts.

    Args:
        on_exit: called in the thread, with the error, if a callback ends the thread. Waiting calls continue afterwards.
    """
    _thread.mark(on_exit)


def callback_exited(error: BaseException) -> None:
    """Report an exception of a callback that must end the thread, such as ``SystemExit``. Ignore others."""
    if _thread.on_exit is not None and not isinstance(error, Exception):
        _thread.on_exit(error)


class _Thread(threading.local):
    sends = False
    on_exit: Callable[[BaseException], object] | None = None

    def mark(self, on_exit: Callable[[BaseException], object]) -> None:
        self.sends = True
        self.on_exit = on_exit


_thread = _Thread()


def untracked(cls: F) -> F:
    """Decorate a subclass of :class:`FutureRecordMetadata` that adds no attribute.

    The compiled futures are unknown to the garbage collector, and then those of the subclass are, too. This twin does
    nothing.
    """
    return cls


async def awaited(future: FutureRecordMetadata) -> RecordMetadata:
    """Wait for a future on the running event loop. The sender's thread wakes the loop up.

    Raises:
        KafkaError: the record could not be sent. The error has the reason.
    """
    from pyconsumer.producer.loop_bridge import settled  # asyncio takes long to import, and most programs have no use

    await settled(future.place[0])
    error = future.exception
    if error is not None:
        raise error
    found = future.value
    assert found is not None
    return found


def no_result(result: BatchResult, index: int, timeout: float | None) -> KafkaTimeoutError:
    """Return the error for a wait that ended without a result. Its message has the reason, if that is known."""
    cause = result.of(index)[0].last_failure
    text = f"no result for the record to {result.topic_partition} within {timeout:g} s"
    error = KafkaTimeoutError(text if cause is None else f"{text}; the last error was: {cause}")
    error.__cause__ = cause
    return error


def run_callback(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a user's function. If it raises, log the exception."""
    try:
        function(*args, **kwargs)
    except Exception:
        callback_failed()


def callback_failed() -> None:
    """Log the exception of a user's function. Call this while the exception is being handled."""
    _log.exception("a callback of a sent record raised")
