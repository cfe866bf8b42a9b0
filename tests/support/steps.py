"""Costs of Python code as a count that no machine changes."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["steps_of"]

_TOOL = 4  # of sys.monitoring: 0 to 2 and 5 are reserved for debuggers, coverage, profilers and optimizers


def steps_of(function: Callable[[], Any]) -> int:
    """Return how many steps (bytecodes) of Python a call takes in this thread, without garbage collections.

    A collection calls finalizers and other packages' functions in ``gc.callbacks``. No function decides when one comes.
    """
    counts = [0]
    collects = gc.isenabled()
    gc.disable()
    try:
        with _monitored(counts) if sys.version_info >= (3, 12) else _traced(counts):
            function()
    finally:
        if collects:
            gc.enable()
    return counts[0]


@contextmanager
def _traced(counts: list[int]) -> Iterator[None]:
    """Count by a trace function. (Since Python 3.12 it is called for some of the steps only.)"""

    def trace(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        counts[0] += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(counts: list[int]) -> Iterator[None]:
    """Count by ``sys.monitoring``."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    thread = threading.get_ident()

    def count(*_: Any) -> None:
        counts[0] += threading.get_ident() == thread

    monitoring.use_tool_id(_TOOL, "steps")
    try:
        monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, count)
        monitoring.set_events(_TOOL, monitoring.events.INSTRUCTION)
        counts[0] = 0
        yield
        monitoring.set_events(_TOOL, 0)
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
