"""Ctrl-C at a chosen step of a program: ``KeyboardInterrupt`` before a chosen bytecode that runs in the package.

CPython raises it between two bytecodes of the main thread. A step is such a place. Some are left out, because CPython
does not look at signals there: before a function returns, and between the end of a ``with`` block and its ``__exit__``.
"""

from __future__ import annotations

import dis
import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pyconsumer
from tests.support.bytecodes import OnBytecode, bytecodes

__all__ = ["InterruptAt", "RandomInterrupts", "Step", "places"]

_PACKAGE = str(Path(pyconsumer.__file__).parent)
_OF_MESSAGES = ("__str__", "__repr__")  # called by the thread that happens to write the log, so not in each run


class Step(NamedTuple):
    """A place in the run of a program.

    Attributes:
        call: number of the call of a function, from 1 on. Each resumption of a generator counts as one.
        opcode: number of the bytecode in that call alone, from 1 on.
    """

    call: int
    opcode: int


class InterruptAt:
    """Raises KeyboardInterrupt at some steps of the blocks in which it is used.

    Args:
        steps: in the order in which they come.
        under: the folders of the code in which steps are counted.
        on_step: called with each step and its frame. That is slow: otherwise only the calls are counted.

    Attributes:
        where: for each interrupt, the innermost lines of the stack.
    """

    def __init__(
        self,
        *steps: Step,
        under: str | tuple[str, ...] = _PACKAGE,
        on_step: Callable[[Step, FrameType], object] | None = None,
    ) -> None:
        self.where: list[str] = []
        self._calls = 0
        self._steps = list(steps)
        self._under = under
        self._on_step = on_step

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Count the steps of this block. All blocks of one object are counted together."""
        watched = self._on_step is not None or not self._is_over()
        gc.disable()  # the collector's calls are no steps, and would not pass an interrupt on
        try:
            with bytecodes(self._on_call) if watched else nullcontext():
                yield
        finally:
            gc.enable()

    def _is_over(self) -> bool:
        return not self._steps

    def _target(self) -> int | None:
        """Return the bytecode of the call that begins now before which to interrupt it. None for none."""
        if self._steps and self._steps[0].call == self._calls:
            return self._steps.pop(0).opcode
        return None

    def _on_call(self, frame: FrameType) -> OnBytecode | None:
        """Count a call. Return a function for its bytecodes if they are to be seen."""
        if not frame.f_code.co_filename.startswith(self._under) or frame.f_code.co_name in _OF_MESSAGES:
            return None
        self._calls += 1
        target = self._target()
        if target is None and self._on_step is None:
            return None
        call, opcode, unreachable = self._calls, 0, _unreachable(frame.f_code)

        def on_bytecode(frame: FrameType) -> None:
            nonlocal opcode
            if frame.f_lasti not in unreachable:
                opcode += 1
                if self._on_step is not None:
                    self._on_step(Step(call, opcode), frame)
                elif opcode == target:
                    self.where.append(_lines(frame))
                    raise KeyboardInterrupt

        return on_bytecode


class RandomInterrupts(InterruptAt):
    """Raises KeyboardInterrupt at random steps.

    Args:
        seed: the same one gives the same steps.
        most: the most interrupts.
        calls: one call of a function in so many is interrupted, unless it ends before.
        under: see :class:`InterruptAt`.
    """

    def __init__(self, seed: int, *, most: int, calls: int, under: str | tuple[str, ...] = _PACKAGE) -> None:
        super().__init__(under=under)
        self._source = random.Random(seed)
        self._left = most
        self._one_in = calls

    def _is_over(self) -> bool:
        return not self._left

    def _target(self) -> int | None:
        if not self._left or self._source.randrange(self._one_in):
            return None
        self._left -= 1
        return self._source.randrange(1, 40)


def places(run: Callable[[InterruptAt], object], *, under: str | tuple[str, ...] = _PACKAGE) -> list[Step]:
    """Return steps of a program that cover each place in its code once for each caller.

    Args:
        run: runs the program in the blocks of the object given. It must run the same steps each time.
        under: see :class:`InterruptAt`.
    """
    first: dict[tuple[object, ...], Step] = {}

    def note(step: Step, frame: FrameType) -> None:
        caller = frame.f_back
        assert caller is not None
        first.setdefault((frame.f_code, frame.f_lasti, caller.f_code, caller.f_lasti), step)

    run(InterruptAt(under=under, on_step=note))
    return sorted(first.values())


def _lines(frame: FrameType | None) -> str:
    found = []
    while frame is not None and len(found) < 8:
        found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


_UNREACHABLE: dict[CodeType, frozenset[int]] = {}


def _unreachable(code: CodeType) -> frozenset[int]:
    """Return the offsets of bytecodes before which CPython does not look at signals. See the top."""
    found = _UNREACHABLE.get(code)
    if found is None:
        offsets: set[int] = set()
        row: list[int] = []
        for each in dis.get_instructions(code):
            if each.opname == "RETURN_VALUE":
                offsets.add(each.offset)
            if each.opname == "LOAD_CONST" and each.argval is None:
                row.append(each.offset)
            elif each.opname in ("PRECALL", "CALL") and len(row) >= 3:
                offsets.update(row[-3:])
                offsets.add(each.offset)
                if each.opname == "CALL":
                    row = []
            else:
                row = []
        found = _UNREACHABLE[code] = frozenset(offsets)
    return found
