"""Long work in small steps, so that the event loop can do other work in between."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred

__all__ = ["call_each", "run_in_steps", "take_steps"]

_log = Log(__name__)

_STEPS_AT_ONCE: Final = 20  # opened logs: some ten milliseconds
_STEPS_S: Final = 0.01


def run_in_steps(steps: Iterator[None], call_soon: Callable[[Callable[[], None]], None]) -> Deferred[None]:
    """Take some steps now, and the rest a few at a time, so that other work can run in between.

    Args:
        call_soon: runs a function after the current call, so that other functions can run in between.

    Returns:
        A deferred. It is set when all steps were taken.
    """
    done: Deferred[None] = Deferred()

    def run() -> None:
        if sum(1 for _ in itertools.islice(steps, _STEPS_AT_ONCE)) == _STEPS_AT_ONCE:
            call_soon(run)
        else:
            done.set(None)

    run()
    return done


async def take_steps(steps: Generator[None, None, None], on_pause: Callable[[], None] = lambda: None) -> None:
    """Take all steps. After every ten milliseconds let the loop do other work.

    If the task is cancelled, the generator of the steps is closed.

    Args:
        on_pause: called each time before other work.
    """
    until = time.monotonic()
    with closing(steps):
        for _ in steps:
            if time.monotonic() >= until:
                on_pause()
                await asyncio.sleep(0)
                until = time.monotonic() + _STEPS_S


def call_each(listeners: Sequence[Callable[..., object]], what: str, *args: str) -> None:
    """Call all listeners. If one raises, the error is logged, and the others are still called."""
    for listener in list(listeners):
        try:
            listener(*args)
        except Exception:
            _log.exception("a broker cannot follow %s", what)
