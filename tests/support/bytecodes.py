"""Shows tests each bytecode of Python that a thread runs: to count them, or to raise an exception at one of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any

__all__ = ["OnBytecode", "OnCall", "bytecodes"]

#: Called before a bytecode with its frame. It may raise, and the exception comes out of that place.
OnBytecode = Callable[[FrameType], None]
#: Called with the frame of each call of a function, and of each resumption of a generator. Returns a function for its
#: bytecodes, or None if they are not to be seen.
OnCall = Callable[[FrameType], OnBytecode | None]

_TOOL = 4  # of sys.monitoring: 0 to 2 and 5 are reserved for debuggers, coverage, profilers and optimizers


def bytecodes(on_call: OnCall) -> AbstractContextManager[None]:
    """Return a context in which the bytecodes of this thread are seen, one by one."""
    return _monitored(on_call) if sys.version_info >= (3, 12) else _traced(on_call)


@contextmanager
def _traced(on_call: OnCall) -> Iterator[None]:
    """See :func:`bytecodes`, by a trace function."""

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        on_bytecode = on_call(frame)
        if on_bytecode is None:
            return None

        def on_event(frame: FrameType, event: str, argument: object) -> Any:
            if event == "opcode":
                on_bytecode(frame)
            return on_event

        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return on_event

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(on_call: OnCall) -> Iterator[None]:
    """See :func:`bytecodes`. Since Python 3.12 a trace function is called for some of the bytecodes only."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    events, thread = monitoring.events, threading.get_ident()
    running: dict[FrameType, OnBytecode] = {}
    watched: set[CodeType] = set()

    def on_start(code: CodeType, *_: object) -> None:
        if threading.get_ident() != thread:
            return
        frame = sys._getframe(1)
        on_bytecode = on_call(frame)
        if on_bytecode is None:
            running.pop(frame, None)
            return
        running[frame] = on_bytecode
        if code not in watched:
            watched.add(code)
            monitoring.set_local_events(_TOOL, code, events.INSTRUCTION)

    def on_instruction(code: CodeType, offset: int) -> None:
        frame = sys._getframe(1)
        on_bytecode = running.get(frame)
        if on_bytecode is not None and threading.get_ident() == thread:
            on_bytecode(frame)

    monitoring.use_tool_id(_TOOL, __name__)
    for event in (events.PY_START, events.PY_RESUME, events.PY_THROW):
        monitoring.register_callback(_TOOL, event, on_start)
    monitoring.register_callback(_TOOL, events.INSTRUCTION, on_instruction)
    monitoring.set_events(_TOOL, events.PY_START | events.PY_RESUME | events.PY_THROW)
    try:
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        for code in watched:
            monitoring.set_local_events(_TOOL, code, 0)
        monitoring.free_tool_id(_TOOL)
        running.clear()
