"""Costs of Python code as a count that no machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["steps_of"]


def steps_of(function: Callable[[], Any]) -> int:
    """Return how many steps (bytecodes) of Python a call takes."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
