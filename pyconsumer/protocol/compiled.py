"""Finding a compiled module, whose twin in Python serves where it is missing, and saying what that costs.

That Python decodes records where a compiled module could is one line in the log, when the first client is made. It is
none where it was chosen (``PYCONSUMER_PURE=1``), or nothing can be compiled (free-threaded Python).
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any, Final

__all__ = ["load_compiled", "report_missing", "source_tree"]

_log = logging.getLogger("pyconsumer.records")
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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
        if not isinstance(error, ModuleNotFoundError):
            return _missing(f"the compiled one cannot be loaded: {error}", "install pyconsumer again")
        tree = source_tree()
        if tree is None:
            return _missing(
                "the compiled one was not built when pyconsumer was installed",
                "install a C compiler and Python's headers, then pyconsumer again",
            )
        return _missing(f"this is the source tree {tree}, in which nothing is compiled", _cure(tree))
    if revision != module.REVISION:
        tree = source_tree()
        return _missing(
            "the compiled one is of another version", "install pyconsumer again" if tree is None else _cure(tree)
        )
    return module, ""


_cures: list[tuple[str, str]] = []  # why a compiled module is missing that could be there, and what helps


def _missing(reason: str, cure: str) -> tuple[None, str]:
    _cures.append((reason, cure))
    return None, f"{reason}: {cure}"


def report_missing() -> None:
    """Log once what it costs that a compiled module is missing; nothing if none could be there."""
    if not _cures:
        return
    reason, cure = _cures[0]
    _cures.clear()
    _log.warning(
        "records are decoded in Python, about eight times slower than by compiled code, because %s: %s", reason, cure
    )


def source_tree() -> str | None:
    """Return the folder of the source tree that this package is in; None if it was installed."""
    root = os.path.dirname(_PACKAGE)
    here = all(os.path.isfile(os.path.join(root, name)) for name in ("setup.py", "pyproject.toml"))
    return root if here else None


def _cure(tree: str) -> str:
    """Return what helps in a source tree without compiled modules: perhaps it only hides an installed package."""
    from importlib import metadata
    from pathlib import Path

    for found in metadata.distributions(name="pyconsumer"):  # the tree itself may be one of them
        installed = Path(str(found.locate_file("pyconsumer")))
        if installed.resolve() != Path(_PACKAGE).resolve() and any(installed.glob("protocol/records/_native.*.so")):
            return f"start Python in another folder, which uses the installed package in {installed.parent}"
    return f"compile it with pip install -e {tree} (which needs a C compiler), or start Python in another folder"
