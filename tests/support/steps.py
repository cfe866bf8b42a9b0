"""Costs of Python code as a count that no machine changes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.support.bytecodes import bytecodes

__all__ = ["steps_of"]


def steps_of(function: Callable[[], Any]) -> int:
    """Return how many steps (bytecodes) of Python a call takes in this thread, without garbage collections.

    A collection calls finalizers and other packages' functions in ``gc.callbacks``. No function decides when one comes.
    """
    count = 0

    def step(_: FrameType) -> None:
        nonlocal count
        count += 1

    collects = gc.isenabled()
    gc.disable()
    try:
        with bytecodes(lambda _: step):
            function()
    finally:
        if collects:
            gc.enable()
    return count
