"""Chooses the compiled record decoder or the one in Python.

``PYCONSUMER_PURE=1`` chooses the one in Python. Both give the same records and the same errors. The tests use both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyconsumer.protocol.records.native_module import compiled, native_module

__all__ = [
    "IMPLEMENTATION",
    "ColumnsBuilder",
    "ConsumerRecord",
    "Cursor",
    "DecodeAhead",
    "LogScan",
    "check_records",
    "convert",
    "describe",
]

_native, _why_not = native_module()

#: ``"native"`` or ``"pure"``.
IMPLEMENTATION: Final = "pure" if _native is None else "native"

if TYPE_CHECKING or _native is None:
    from pyconsumer.protocol.records.checking import check_records
    from pyconsumer.protocol.records.columns import ColumnsBuilder
    from pyconsumer.protocol.records.conversion import convert
    from pyconsumer.protocol.records.cursor import Cursor
    from pyconsumer.protocol.records.log_scan import LogScan
    from pyconsumer.protocol.records.record import ConsumerRecord
else:
    ColumnsBuilder = _native.ColumnsBuilder
    ConsumerRecord = _native.ConsumerRecord
    Cursor = _native.Cursor
    LogScan = _native.LogScan
    check_records = _native.check_records
    convert = _native.convert


#: A queue of what threads decompress ahead of a cursor, see ``native/ahead.pxi``; None where it was not built.
DecodeAhead: Final = compiled("DecodeAhead")


def describe() -> str:
    """Return a description of the decoder in use."""
    return "compiled" if _native is not None else f"pure Python ({_why_not})"
