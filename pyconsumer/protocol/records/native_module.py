"""Loads the compiled record decoder ``_native``.

``_native`` itself imports ``compression``, ``cursor``, ``record`` and others. They may import this module, because it
imports nothing of theirs until a function of theirs runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pyconsumer.protocol.compiled import load_compiled

__all__ = ["compiled", "native_module"]

#: The ``REVISION`` of ``native/_native.pyx``: a build of other sources is not used.
_REVISION: Final = 13


@cache
def native_module() -> tuple[Any, str]:
    """Return the compiled module and an empty text. If it cannot be used, return None and the reason."""
    return load_compiled("pyconsumer.protocol.records._native", _REVISION)


def compiled(name: str) -> Any:
    """Return a function or class of the compiled module, or None if the decoder in Python is in use."""
    return getattr(native_module()[0], name, None)
