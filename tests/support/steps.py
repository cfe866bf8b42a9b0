"""Costs of Python code as a count that no machine changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["steps_of"]


def steps_of(function: Callable[[], Any]) -> int:
    """Return how many steps (bytecodes) of Python a call takes, without those of garbage collections.

    A collection calls finalizers and what other packages have in ``gc.callbacks``; no function decides when one comes.
    """
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
