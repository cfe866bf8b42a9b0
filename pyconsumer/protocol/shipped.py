"""Compiled modules, and pure libraries, inside the zip that a Spark session sends to its executors.

Rules

1. The zip holds the modules of the driver's Python and platform as plain files, under :data:`FOLDER`. A process of
   another Python or platform finds none that fits, and uses the twins.
2. A process writes a module to a folder beside the zip, or else in the system's temporary folder. The folder is ours
   alone (mode 0700, our user). The file appears whole, by a rename, so processes that start together do no harm. Its
   name has the digest of its content, so a file that is there is the same one.
3. Where it cannot be loaded from one folder (``noexec``), the other one is tried. Then the twins are used.
4. Libraries stand under :data:`LIBRARIES`, for processes that have none of their own.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import stat
import sys
import tempfile
from typing import Any, Final

__all__ = ["FOLDER", "LIBRARIES", "load_shipped", "module_file", "need_library", "use_shipped_libraries", "zip_of"]

FOLDER: Final = "pyconsumer/_compiled"
LIBRARIES: Final = "pyconsumer/_libraries"
_NOBODY_ELSE: Final = 0o077


def module_file(name: str) -> str:
    """Return the path in the zip of a compiled module for this Python and platform."""
    return f"{FOLDER}/{name}{importlib.machinery.EXTENSION_SUFFIXES[0]}"


def zip_of(place: str) -> str | None:
    """Return the zip that a file is in, or None if it is a file of its own."""
    while not os.path.exists(place):
        above = os.path.dirname(place)
        if above == place:
            return None
        place = above
    return place if os.path.isfile(place) and place.endswith(".zip") else None


def use_shipped_libraries() -> bool:
    """Let this process import the libraries in the zip that this package is in. Those that are installed come first.

    Returns:
        False if the package is in no zip.
    """
    archive = zip_of(os.path.dirname(os.path.abspath(__file__)))
    if archive is None:
        return False
    path = f"{archive}/{LIBRARIES}"
    if path not in sys.path:
        sys.path.append(path)
    return True


def need_library(name: str) -> None:
    """Let this process import a library of the zip, unless it is installed."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # not even its parent is there
        found = None
    # A folder of that name is no library: Spark has its own jar on the path, with google/protobuf and no module in it.
    if found is None or found.origin is None:
        use_shipped_libraries()


def load_shipped(name: str, archive: str) -> Any:
    """Load a compiled module from a zip.

    Args:
        name: the module's dotted name.
        archive: the path of the zip.

    Raises:
        ImportError: it has none for this Python and platform, or it cannot be loaded. The message says why.
    """
    data = _content(archive, module_file(name))
    file = f"{name}-{hashlib.sha256(data).hexdigest()[:16]}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    failures = []
    for base in (os.path.dirname(archive), tempfile.gettempdir()):
        folder = os.path.join(base, f".pyconsumer-{os.getuid()}")
        try:
            path = _written(folder, file, data)
            module = _loaded(name, path)
        except (OSError, ImportError) as error:
            failures.append(f"{folder}: {error}")
        else:
            return module
    raise ImportError(f"the compiled module that was sent cannot be loaded ({', '.join(failures)})")


def _content(archive: str, name: str) -> bytes:
    from zipimport import zipimporter

    try:
        return zipimporter(archive).get_data(os.path.join(archive, *name.split("/")))
    except OSError:
        raise ImportError(
            "no compiled module was sent for this Python and platform"
            f" ({importlib.machinery.EXTENSION_SUFFIXES[0].strip('.')})"
        ) from None


def _written(folder: str, name: str, data: bytes) -> str:
    """Write a file to a folder of ours, unless it is there, and return its path (rule 2)."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _NOBODY_ELSE:
        raise PermissionError("other users can change it")
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        handle, fresh = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(handle, 0o700)
            os.replace(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise
    return path


def _loaded(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module
