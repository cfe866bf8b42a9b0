"""The programs of Protobuf columns in use: the compiled ones, or their twins if those were not built."""

from __future__ import annotations

from typing import Any

from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.protobuf._pure_columns import MessageProgram
from pyconsumer.protocol.protobuf.column_plan import MessagePlan

__all__ = ["message_program"]

_native, _ = load_compiled("pyconsumer.protocol.avro._native", REVISION)
_made: Any = MessageProgram if _native is None else _native.MessageProgram


def message_program(plan: MessagePlan, path: tuple[int, ...] | None = None, *, zigzag: bool = True) -> Any:
    """Return a program of a plan, for the ``ColumnsDecoder`` in use.

    Args:
        plan: see :func:`.column_plan.message_plan`.
        path, zigzag: see :class:`._pure_columns.MessageProgram`.
    """
    plan.twin = _twin
    return _made(plan, path, zigzag)


def _twin(program: Any) -> MessageProgram:
    return MessageProgram(program.plan, program.path, program.zigzag)
