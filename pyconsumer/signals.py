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
    """A consumer, for threads or for asyncio."""

    def wakeup(self) -> None:
        """Make the current waiting call, or the next one, raise ``WakeupError``."""
        ...


class StopRequest:
    """Request to end the process. True once a signal has come.

    Attributes:
        signal: the signal that has come, None before.
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
    """End a block of code in good order when a signal comes.

    The call in which a consumer waits, or its next one, raises ``WakeupError``. That ends the block, and is not raised
    beyond it. So records that were returned before are processed, and a ``with`` statement round the block closes the
    consumer, which commits if commits are automatic and leaves its group. A second signal acts as if this were not
    there::

        with KafkaConsumer("orders", group_id="shipping") as consumer, stop_on_signals(consumer):
            for record in consumer:
                ship(record)

    Args:
        consumers: those that are to be woken up, also of :mod:`pyconsumer.aio` (with a plain ``with`` there, too).
        signals: which signals count.

    Returns:
        As the target of ``with``: true as soon as a signal has come, for loops that look by themselves.

    Raises:
        IllegalStateError: this is not the main thread, which alone can set handlers of signals.
    """
    return _Stopping(consumers, signals)
