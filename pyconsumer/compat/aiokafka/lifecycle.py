"""The order of ``start`` and ``stop``: a client starts once."""

from __future__ import annotations

from pyconsumer.errors import IllegalStateError

__all__ = ["StartedTwiceError", "check_may_start"]


class StartedTwiceError(IllegalStateError, AssertionError):
    """A client was started a second time, or after it was stopped. In aiokafka it is an ``AssertionError``."""


def check_may_start(name: str, *, began: bool, stopped: bool) -> None:
    """Check that a client was not started before, and not stopped.

    Args:
        name: of its class, for the message.
        began: whether ``start`` was called before.
        stopped: whether ``stop`` was called before.

    Raises:
        StartedTwiceError: it was.
    """
    if stopped:
        raise StartedTwiceError(f"this {name} was stopped: make a new one")
    if began:
        raise StartedTwiceError(f"this {name} was started before: start() must be called once")
