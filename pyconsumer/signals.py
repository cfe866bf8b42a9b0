"""``stop_on_signals``: SIGTERM and Ctrl-C wake the consumer up, so that the program can end cleanly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any, Protocol

from pyconsumer.errors import IllegalStateError, WakeupError

__all__ = ["StopRequest", "stop_on_signals"]


class WakeableConsumer(Protocol):
    """A consumer that can be woken up, blocking or asyncio."""

    def wakeup(self) -> None:
        """Make the current waiting call raise ``WakeupError``, or the next call if none is waiting."""
        ...


class StopRequest:
    """A request to end the process. It is true as soon as a signal has arrived.

    Attributes:
        signal: the signal that has arrived, or None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def record(self, number: int) -> None:
        """Remember the first signal."""
        if self.signal is None:
            self.signal = signal.Signals(number)


class _Stopping:
    """The ``with`` statement of :func:`stop_on_signals`."""

    def __init__(self, consumers: Iterable[WakeableConsumer], signals: Iterable[signal.Signals]) -> None:
        self._consumers = tuple(consumers)
        self._signals = tuple(signals)
        self._request = StopRequest()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is not threading.main_thread():
            raise IllegalStateError("stop_on_signals works in the main thread alone, as Python handles signals there")
        for number in self._signals:
            # A handler that was not set from Python cannot be restored; the default is as good.
            found = signal.getsignal(number)
            self._before[number] = signal.SIG_DFL if found is None else found
            signal.signal(number, self._handle)
        return self._request

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self._restore()
        return isinstance(error, WakeupError) and bool(self._request)  # or somebody else has woken the consumer

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._request.record(number)
        self._restore()
        for consumer in self._consumers:
            consumer.wakeup()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)


def stop_on_signals(
    *consumers: WakeableConsumer, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
) -> _Stopping:
    """End a block of code cleanly when a signal arrives.

    The call in which a consumer is waiting (or the next call) raises ``WakeupError``. This error ends the block, and is
    not raised outside the block. So the records that were returned before are processed. A ``with`` statement around
    the block closes the consumer, which then commits (if commits are automatic) and leaves its group. A second signal
    has its usual effect::

        with KafkaConsumer("orders", group_id="shipping") as consumer, stop_on_signals(consumer):
            for record in consumer:
                ship(record)

    Args:
        consumers: the consumers to wake up. For consumers of :mod:`pyconsumer.aio` use a plain ``with``, too.
        signals: the signals that end the block.

    Returns:
        The target of ``with``. It is true as soon as a signal has arrived, so your own loops can check it.

    Raises:
        IllegalStateError: the current thread is not the main thread. Only the main thread can set signal handlers.
    """
    return _Stopping(consumers, signals)
