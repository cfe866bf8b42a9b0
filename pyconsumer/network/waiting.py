"""What the generator of a blocking call yields, and the rules for driving it.

A blocking call (``poll``, ``commit``, ``position``, ``close``) is written once, as a generator that does no I/O and
never sleeps. Where it has to wait it yields a :class:`Wait`. A driver runs it:

* with a future, it is resumed when the future is done or ``until`` has passed, whichever comes first;
* without one, it is resumed after anything was received or failed, or at ``until``: it looks again and yields again;
* it may be resumed early. It re-reads the state it depends on and yields the same wait again;
* when the call's deadline has passed and it still wants to wait, ``KafkaTimeoutError`` is thrown into it; a wakeup is
  thrown into it as ``WakeupError``. Either way its ``finally`` blocks run.

:func:`drive` does that, given what polls; ``NetworkClient.run`` and ``ConsumerNetworkClient.run`` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.network.future import RequestFuture

__all__ = ["Steps", "Wait", "drive"]

T = TypeVar("T")


class Wait(NamedTuple):
    """Wait for ``future`` (None: for anything to happen), but not beyond ``until`` (monotonic seconds, or inf)."""

    future: RequestFuture[Any] | None
    until: float


Steps = Generator[Wait, None, T]
"""A blocking call as a generator, which returns a T."""


def drive(
    steps: Steps[T],
    deadline: float,
    poll: Callable[[float, RequestFuture[Any] | None], object],
    now: Callable[[], float],
) -> T:
    """Run a blocking call to its end and return its result.

    Args:
        steps: the generator.
        deadline: monotonic seconds. The first wait at or after it is one look without blocking; the second one is
            answered by KafkaTimeoutError.
        poll: waits, ``poll(until, future)``; what it raises is thrown into the generator.
        now: the clock.

    Raises:
        KafkaTimeoutError: the deadline has passed.
        BaseException: what the generator or ``poll`` raised.
    """
    overdue = False
    try:
        wait = next(steps)
        while True:
            future = wait.future
            error: BaseException | None = None
            if future is None or not future.done:
                late = now() >= deadline
                if late and overdue:
                    error = KafkaTimeoutError("the call did not finish in time")
                else:
                    overdue = late
                    try:
                        poll(min(wait.until, deadline), future)
                    except BaseException as raised:
                        error = raised
            wait = steps.send(None) if error is None else steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result
