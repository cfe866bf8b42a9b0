"""The check that a client is started only once."""

from __future__ import annotations

from pyconsumer.errors import IllegalStateError

__all__ = ["StartedTwiceError", "check_may_start"]


class StartedTwiceError(IllegalStateError, AssertionError):
    """A client was started a second time, or after it was stopped.

    The error is also an ``AssertionError``, as in aiokafka.
    """


def check_may_start(name: str, *, began: bool, stopped: bool) -> None:
    """Check that a client was not started or stopped before.

    Args:
        name: name of the client's class, for the message.
        began: True if ``start`` was called before.
        stopped: True if ``stop`` was called before.

    Raises:
        StartedTwiceError: the client was started or stopped before.
    """
    if stopped:
        raise StartedTwiceError(f"this {name} was stopped: make a new one")
    if began:
        raise StartedTwiceError(f"this {name} was started before: start() must be called once")
