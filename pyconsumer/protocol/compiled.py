"""Finding a compiled module, whose twin in Python serves where it is missing."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

__all__ = ["load_compiled"]


def load_compiled(name: str, revision: int) -> tuple[Any, str]:
    """Return a compiled module, or None and the reason.

    Args:
        name: of the module, dotted.
        revision: what its ``REVISION`` must be: a build of another source is not used.
    """
    if os.environ.get("PYCONSUMER_PURE", "0") not in ("", "0"):
        return None, "PYCONSUMER_PURE is set"
    if sys.version_info >= (3, 13):
        import sysconfig

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            return None, "the compiled one is not used on free-threaded Python"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError):
            return None, "the compiled one was not built when pyconsumer was installed"
        return None, f"the compiled one cannot be loaded: {error}"
    if revision != module.REVISION:
        return None, "the compiled one is of another version; install pyconsumer again"
    return module, ""
