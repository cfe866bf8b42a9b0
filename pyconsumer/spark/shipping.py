"""The package as a zip, for executors that have not installed it.

The zip holds the pure package, compiled and as source. At its top it has, in place of ``pyconsumer/__init__.py``, a
few lines that prefer an installed pyconsumer of the same version, whose compiled parts are faster. (Sending the
classes by value inside the pickles was tried: locks and imports inside functions break it.)
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import logging
import marshal
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from pyconsumer.spark.source import FORMAT, KafkaDataSource

__all__ = ["package_zip", "register"]

_log = logging.getLogger("pyconsumer.spark")

_PACKAGE: Final = "pyconsumer"
_NOT_SHIPPED: Final = frozenset({"autoload", "cli", "broker", "testing", "__pycache__"})

_FRONT: Final = '''\
"""An installed pyconsumer of the same version is used instead of the one in this zip."""
import sys as _sys
from importlib.machinery import PathFinder as _PathFinder
_here = __file__.rpartition("/{package}/")[0]
_spec = _PathFinder.find_spec("{package}", [_p for _p in _sys.path if _p != _here])
if _spec is not None and _spec.origin and not _spec.origin.startswith(_here):
    try:
        with open(_spec.origin, "rb") as _file:
            _text = _file.read()
        if b'__version__ = "{version}"' in _text:
            __path__ = list(_spec.submodule_search_locations or __path__)
            __file__ = _spec.origin
            __spec__.submodule_search_locations = __path__
    except OSError:
        pass
'''


def register(spark: Any) -> None:
    """Make ``format("pyconsumer")`` known to a session, and send the package to its executors.

    Executors need nothing but Python and pyarrow then. A second call for the same session changes nothing.

    Args:
        spark: a ``SparkSession``, also one of Spark Connect.
    """
    path = str(package_zip())
    if hasattr(spark, "_jvm") or not hasattr(spark, "addArtifacts"):
        context = spark.sparkContext
        if not any(os.path.basename(found) == os.path.basename(path) for found in context._python_includes):
            context.addPyFile(path)
    else:
        _add_artifact(spark, path)
    spark.dataSource.register(KafkaDataSource)
    _log.debug("format %s is registered, %s was shipped", FORMAT, path)


def _add_artifact(spark: Any, path: str) -> None:
    try:
        spark.addArtifacts(path, pyfile=True)
    except Exception as error:
        if "ARTIFACT_ALREADY_EXISTS" not in str(error):
            raise


@functools.cache
def package_zip() -> Path:
    """The zip, made once for this process and removed at its end. Its name changes with its content."""
    root = Path(__file__).parents[1]
    if not root.is_dir():  # we run from such a zip ourselves
        for parent in Path(__file__).parents:
            if parent.is_file():
                return parent
    files = {
        path.relative_to(root.parent).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*.py"))
        if not _NOT_SHIPPED & set(path.relative_to(root).parts)
    }
    from pyconsumer import __version__

    front = f"{_PACKAGE}/__init__.py"
    files[front] = _FRONT.format(package=_PACKAGE, version=__version__).encode() + _without_future(files[front])
    digest = hashlib.sha256()
    for name, source in files.items():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    folder = tempfile.mkdtemp(prefix="pyconsumer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"{_PACKAGE}-{__version__}-{digest.hexdigest()[:12]}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in files.items():
            _write(archive, name, source)
            _write(archive, f"{name}c", _compiled(name, source))
    return path


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 1)


def _without_future(source: bytes) -> bytes:
    """The package's own first module, to stand after other code."""
    return source.replace(b"from __future__ import annotations\n", b"", 1)


def _compiled(name: str, source: bytes) -> bytes:
    """Byte code that zipimport takes as it is; another version of Python takes the source instead."""
    code = compile(source, name, "exec", dont_inherit=True)
    # A file with flags 1 and the hash of its source: not checked against the source.
    flags = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code)
