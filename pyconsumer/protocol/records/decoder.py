"""Choice of the record decoder when it is imported: the compiled one if it was built, otherwise the one in Python.

``PYCONSUMER_PURE=1`` chooses the one in Python. Both give the same records and the same errors; the tests use both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyconsumer.protocol.compiled import load_compiled

__all__ = [
    "IMPLEMENTATION",
    "ColumnsBuilder",
    "ConsumerRecord",
    "Cursor",
    "DecodeAhead",
    "LogScan",
    "check_records",
    "convert",
    "crc32c_compiled",
    "decompress_compiled",
    "describe",
    "library_of",
]

#: The ``REVISION`` of ``native/_native.pyx``: a build of other sources is not used.
_REVISION: Final = 9


def _compiled() -> tuple[Any, str]:
    """Return the compiled module, or None and the reason."""
    return load_compiled("pyconsumer.protocol.records._native", _REVISION)


_native, _why_not = _compiled()

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


#: Decompresses snappy, lz4 and zstd, see ``native/decompress.pxi``; None if it was not built.
decompress_compiled: Final = None if _native is None else _native.decompress_compiled

#: Return what is known of the library that the compiled decoder uses for a codec; None if that was not built.
library_of: Final = None if _native is None else _native.library_of

#: Returns the CRC-32C of a bytes-like object; None if it was not built.
crc32c_compiled: Final = None if _native is None else _native.crc32c

#: A queue of what threads decompress ahead of a cursor, see ``native/ahead.pxi``; None where it was not built.
DecodeAhead: Final = None if _native is None else _native.DecodeAhead


def describe() -> str:
    """Return a description of the decoder in use."""
    return "compiled" if _native is not None else f"pure Python ({_why_not})"
