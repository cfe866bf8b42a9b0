"""Loads compiled modules, or reports that one is missing. If one is missing, its equivalent in Python is used instead.

That is logged once, when the first client is created, because it is slow. It is not logged if it was chosen
(``PYCONSUMER_PURE=1``), or if the compiled module cannot be used (free-threaded Python).

State: the reason that is still to be logged.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any, Final

__all__ = ["load_compiled", "not_copied", "report_missing", "source_tree"]

_log = logging.getLogger("pyconsumer.records")
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load_compiled(name: str, revision: int) -> tuple[Any, str]:
    """Return a compiled module and an empty text. If it cannot be used, return None and the reason.

    Args:
        name: the dotted name of the module.
        revision: the ``REVISION`` that the module must have. A module that was built from other sources is not used.
    """
    if os.environ.get("PYCONSUMER_PURE", "0") not in ("", "0"):
        return None, "PYCONSUMER_PURE is set"
    if "t" in getattr(sys, "abiflags", ""):  # (sysconfig says so, too, but takes long to import)
        return None, "the compiled module is not used on free-threaded Python"
    try:
        module = _imported(name)
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            remedy = "reinstall pyconsumer" if os.path.isdir(_PACKAGE) else "install pyconsumer on the executors"
            return _missing(f"the compiled module cannot be loaded: {error}", remedy)
        tree = source_tree()
        if tree is None:
            return _missing(
                "the compiled module was not built when pyconsumer was installed",
                "install a C compiler and Python's headers, then reinstall pyconsumer",
            )
        return _missing(f"this is the source tree {tree}, in which it was not compiled", _remedy(tree))
    if revision != module.REVISION:
        tree = source_tree()
        return _missing(
            "the compiled module is of another version", "reinstall pyconsumer" if tree is None else _remedy(tree)
        )
    return module, ""


def _imported(name: str) -> Any:
    """Import a compiled module. In a zip that Spark has sent, take the one that came with it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        if os.path.isdir(_PACKAGE):
            raise
        from pyconsumer.protocol.shipped import load_shipped, zip_of

        archive = zip_of(_PACKAGE)
        if archive is None:
            raise
        return load_shipped(name, archive)


def not_copied(self: Any) -> str | tuple[Any, ...]:
    """Refuse ``copy`` and ``pickle``. This is ``__reduce__`` of types that refer to memory, threads or callbacks.

    Raises:
        TypeError: always.
    """
    raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


_to_report: list[tuple[str, str]] = []  # why a compiled module is missing, and what to do


def _missing(reason: str, remedy: str) -> tuple[None, str]:
    _to_report.append((reason, remedy))
    return None, f"{reason}: {remedy}"


def report_missing() -> None:
    """Log once that a compiled module is missing, with the consequence and the remedy.

    If that is intended, log nothing.
    """
    if not _to_report:
        return
    reason, remedy = _to_report[0]
    _to_report.clear()
    _log.warning(
        "records are decoded in Python, about eight times slower than by compiled code, because %s: %s", reason, remedy
    )


def source_tree() -> str | None:
    """Return the source tree from which this package is imported, or None if the package is installed."""
    root = os.path.dirname(_PACKAGE)
    here = all(os.path.isfile(os.path.join(root, name)) for name in ("setup.py", "pyproject.toml"))
    return root if here else None


def _remedy(tree: str) -> str:
    """Return the remedy in a source tree without compiled modules, which may only hide an installed package."""
    from importlib import metadata
    from pathlib import Path

    for found in metadata.distributions(name="pyconsumer"):  # the tree itself may be one of them
        installed = Path(str(found.locate_file("pyconsumer")))
        if installed.resolve() != Path(_PACKAGE).resolve() and any(installed.glob("protocol/records/_native.*.so")):
            return f"start Python in another folder, so that it imports the installed package in {installed.parent}"
    return f"compile it with pip install -e {tree} (which needs a C compiler), or start Python in another folder"
