"""Choice of the record decoder: the compiled one if it was built, otherwise its twin in Python.

``PYCONSUMER_PURE=1`` chooses the twin. Both give the same records and the same errors: the tests run on both.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

__all__ = [
    "IMPLEMENTATION",
    "ColumnsBuilder",
    "ConsumerRecord",
    "Cursor",
    "check_records",
    "convert",
    "describe",
]

#: Of ``native/_native.pyx``: a build of another source is not used.
_REVISION: Final = 3


def _compiled() -> tuple[Any, str]:
    """Return the compiled module, or None and the reason."""
    if os.environ.get("PYCONSUMER_PURE", "0") not in ("", "0"):
        return None, "PYCONSUMER_PURE is set"
    if sys.version_info >= (3, 13):
        import sysconfig

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None, "the compiled one is not used on free-threaded Python"
    try:
        import pyconsumer.protocol.records._native as _native
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError):
            return None, "the compiled one was not built when pyconsumer was installed"
        return None, f"the compiled one cannot be loaded: {error}"
    if _native.REVISION != _REVISION:
        return None, "the compiled one is of another version; install pyconsumer again"
    return _native, ""


_native, _why_not = _compiled()

#: ``"native"`` or ``"pure"``.
IMPLEMENTATION: Final = "pure" if _native is None else "native"

if TYPE_CHECKING or _native is None:
    from pyconsumer.protocol.records.checking import check_records
    from pyconsumer.protocol.records.columns import ColumnsBuilder
    from pyconsumer.protocol.records.conversion import convert
    from pyconsumer.protocol.records.cursor import Cursor
    from pyconsumer.protocol.records.record import ConsumerRecord
else:
    ColumnsBuilder = _native.ColumnsBuilder
    ConsumerRecord = _native.ConsumerRecord
    Cursor = _native.Cursor
    check_records = _native.check_records
    convert = _native.convert


def describe() -> str:
    """Return a description of the decoder in use."""
    return "compiled" if _native is not None else f"pure Python ({_why_not})"
