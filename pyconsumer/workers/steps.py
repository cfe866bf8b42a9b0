"""Steps that both kinds of workers take: a generator yields each call that waits, and gets its value.

:class:`.Workers` makes the calls (:func:`run_steps`), and :class:`.AsyncWorkers` awaits them (:func:`run_steps_async`).
So a call of a client is written once. An exception of the call is raised in the generator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

__all__ = ["CallSteps", "run_steps", "run_steps_async"]

T = TypeVar("T")

CallSteps = Generator[Callable[[], Any], Any, T]
"""Calls to make, or to await. It gets their values."""


def run_steps(steps: CallSteps[T]) -> T:
    """Make the calls of a generator, and return its value."""
    try:
        call = next(steps)
        while True:
            try:
                value = call()
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def run_steps_async(steps: CallSteps[T]) -> T:
    """Make the calls of a generator, await their results, and return its value.

    A cancellation is raised in the generator, too, which may make more calls before the task ends.
    """
    try:
        call = next(steps)
        while True:
            try:
                value = call()
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
