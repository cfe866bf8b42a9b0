"""Columns as Arrow arrays, without copying. The caller passes the module ``pyarrow``, which is not imported here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyconsumer.protocol.records.columns import BinaryColumn, HeaderColumn, Numbers

__all__ = ["binary_array", "header_list", "header_struct", "number_array", "text_array"]


def number_array(pa: Any, numbers: Numbers, kind: Any) -> Any:
    """Return numbers as an array of an Arrow type. None of them is null."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)], 0)


def binary_array(pa: Any, column: BinaryColumn | None, kind: Any) -> Any:
    """Return a column of strings as an array.

    ``kind`` is ``pa.binary()``, or ``pa.string()`` if all strings are UTF-8.
    """
    assert column is not None
    bitmap = None if column.bitmap is None else pa.py_buffer(column.bitmap)
    buffers = [bitmap, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, len(column), buffers, column.null_count)


def text_array(pa: Any, texts: Iterable[str | None]) -> Any:
    """Return texts as an array of strings.

    Not by ``pyarrow.array``, nor by a scalar: the first of either imports pandas, if that is installed, and the compute
    functions. Both take 0.3 s and 60 MB.
    """
    data = [None if text is None else text.encode() for text in texts]
    return binary_array(pa, BinaryColumn.of(data), pa.string())


def header_struct(pa: Any) -> Any:
    """Return the Arrow type of one header."""
    return pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def header_list(pa: Any, column: HeaderColumn | None, kind: Any, bitmap: bytes | None = None, nulls: int = 0) -> Any:
    """Return an array with a list of headers for each record. ``kind`` is a list of :func:`header_struct`.

    Args:
        bitmap, nulls: the bits of the lists that are not null, and the number of lists that are null.
    """
    assert column is not None
    keys = binary_array(pa, column.names, pa.string())
    values = binary_array(pa, column.values, pa.binary())
    items = pa.StructArray.from_arrays([keys, values], fields=list(header_struct(pa)))
    buffers = [None if bitmap is None else pa.py_buffer(bitmap), pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(kind, len(column.offsets) - 1, buffers, nulls, children=[items])
