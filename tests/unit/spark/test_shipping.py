"""The package as a zip: it runs where only Spark and pyarrow are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pyconsumer import __version__
from pyconsumer.protocol.records.native_module import native_module
from pyconsumer.spark.launch import package_zip, register
from pyconsumer.spark.source import KafkaDataSource

_HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"{{name}} is hidden", name=name)
sys.meta_path.insert(0, Hide())
sys.path[:] = [p for p in sys.path if p not in {paths}]
for finder in list(sys.meta_path):
    if "editable" in repr(finder).lower():
        sys.meta_path.remove(finder)
sys.path.insert(1, {zip!r})
"""


def run(
    program: str, *, hidden: tuple[str, ...] = (), paths: tuple[str, ...] = (), temporary: Path | None = None
) -> str:
    """Return the output of a program with the zip on its path.

    Args:
        program: its source.
        hidden: modules that it cannot import.
        paths: folders that are taken off its path.
        temporary: its folder of temporary files. By default that of all programs.
    """
    prelude = _HIDE.format(hidden=set(hidden) | {"nothing"}, paths=set(paths) | {"nothing"}, zip=str(package_zip()))
    found = subprocess.run(
        [sys.executable, "-I", "-c", prelude + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ if temporary is None else {**os.environ, "TMPDIR": str(temporary)},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


ROOT = str(Path(__file__).parents[3])
_NOT_ON_WORKERS = ("click", "rich", "cramjam", "crc32c", "crcmod", "selectors2")
_READ = """
import pyconsumer, sys
from pyconsumer.spark.readers import BatchReader
from pyconsumer.spark.client_cache import SparkClient
from pyconsumer.spark.client_config import build_config
from pyconsumer.protocol.records import BatchBuilder, Cursor
from pyconsumer.spark.partition_reader import record_batch
from pyconsumer.structs import TopicPartition
SparkClient({"bootstrap.servers": "localhost:1"}).close()
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    builder = BatchBuilder(codec)
    for i in range(100):
        builder.try_append(i, b"k", b"v" * i)
    cursor = Cursor(TopicPartition("t", 0), builder.build(), fetch_offset=0)
    assert record_batch(cursor.take_columns(1000), 100, ("value",)).num_rows == 100
print(pyconsumer.__file__)
"""


@pytest.mark.slow
def test_readers_need_the_standard_library_and_pyarrow_alone() -> None:
    assert run(_READ, hidden=_NOT_ON_WORKERS, paths=(ROOT,)).startswith(str(package_zip()))


@pytest.mark.slow
def test_readers_import_no_command_line_no_broker_and_no_asyncio() -> None:
    program = _READ.rpartition("print")[0] + (
        "print(*[name for name in ('click', 'rich', 'asyncio', 'pandas', 'pyconsumer.broker', 'pyconsumer.cli',"
        " 'pyconsumer.consumer.consumer', 'pyconsumer.producer') if name in sys.modules])"
    )
    loaded = set(run(program, paths=(ROOT,)).split())
    by_pyspark = set(run("import sys, pyspark.sql.datasource, pyarrow; print(*sys.modules)", paths=(ROOT,)).split())
    assert loaded - by_pyspark == set()


_DECODERS = """
from pyconsumer.protocol.avro import coder
from pyconsumer.protocol.records import IMPLEMENTATION
from pyconsumer.protocol.records.decoder import describe
from pyconsumer.producer import implementation
print(IMPLEMENTATION, coder.Decoder.__module__, describe())
"""
_NATIVE = native_module()[0] is not None
needs_native = pytest.mark.skipif(not _NATIVE, reason="the compiled decoder is not in use here")


@pytest.mark.slow
@needs_native
def test_the_compiled_modules_come_with_the_zip_and_are_written_once() -> None:
    folder = package_zip().parent / f".pyconsumer-{os.getuid()}"
    shutil.rmtree(folder, ignore_errors=True)
    programs = [_DECODERS] * 4
    with ThreadPoolExecutor(4) as pool:  # tasks of several executors at once
        found = set(pool.map(lambda program: run(program, paths=(ROOT,)), programs))
    assert found == {"native pyconsumer.protocol.avro._native compiled"}
    files = sorted(path.name.partition("-")[0] for path in folder.iterdir())
    assert files == [f"pyconsumer.{part}._native" for part in ("producer", "protocol.avro", "protocol.records")]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in folder.iterdir())
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert run(_DECODERS, paths=(ROOT,)) == found.pop()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


_NOEXEC = """
import importlib.util
def fail(name, path):
    raise ImportError('failed to map segment')
importlib.util.spec_from_file_location = fail
"""


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        # Another Python or platform.
        ("import importlib.machinery as m; m.EXTENSION_SUFFIXES[:] = ['.cpython-399-riscv.so']", "for this Python and"),
        # A folder whose files cannot be loaded, as with noexec.
        (_NOEXEC, "failed to map segment.*failed to map segment"),
        # Folders that other users can change.
        ("import os\nos.getuid = lambda: 12345", "other users can change it.*other users can change it"),
    ],
)
def test_where_they_cannot_be_loaded_the_twins_are_used(spoil: str, said: str, tmp_path: Path) -> None:
    places = [place / ".pyconsumer-12345" for place in (package_zip().parent, tmp_path)]
    for folder in places:
        folder.mkdir()
        folder.chmod(0o777)
    try:
        found = run(f"{spoil}\n{_DECODERS}", paths=(ROOT,), temporary=tmp_path)
    finally:
        for folder in places:
            folder.rmdir()
    assert found.startswith("pure pyconsumer.protocol.avro._pure pure Python (the compiled module cannot be loaded: ")
    assert re.search(said, found)
    assert "install pyconsumer on the executors" in found


@needs_native
def test_a_folder_that_cannot_be_used_leaves_the_other() -> None:
    folder = package_zip().parent / f".pyconsumer-{os.getuid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.touch()  # no folder
    try:
        assert run(_DECODERS, paths=(ROOT,)).startswith("native ")
    finally:
        folder.unlink()


def test_the_registrys_client_comes_with_the_zip() -> None:
    program = """
from importlib.machinery import PathFinder
real = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    if name == "urllib3":
        path = [place for place in sys.path if "_libraries" in place]
    return real(name, path, target)
PathFinder.find_spec = find_spec
from pyconsumer.spark.registry import kept_client
client = kept_client({"url": "http://127.0.0.1:1", "timeout": "0.01", "max.retries": "0"})
import urllib3
print(urllib3.__file__)
try:
    client.get_subjects()
except Exception as error:
    print(type(error).__name__)
"""
    first, second = run(
        program.replace("from pyconsumer", "import importlib.util\nfrom pyconsumer", 1), paths=(ROOT,)
    ).split()
    assert first.startswith(f"{package_zip()}/pyconsumer/_libraries/urllib3/")
    assert second in ("SchemaRegistryUnavailableError", "SchemaRegistryTimeoutError")


def test_the_library_of_protobuf_comes_with_the_zip_and_hides_no_package_of_google(tmp_path: Path) -> None:
    (tmp_path / "google" / "cloud").mkdir(parents=True)
    (tmp_path / "google" / "protobuf").mkdir()  # as in Spark's jar
    (tmp_path / "google" / "protobuf" / "any.proto").touch()
    (tmp_path / "google" / "cloud" / "__init__.py").touch()
    program = f"""
from importlib.machinery import PathFinder
sys.path.append({str(tmp_path)!r})
real = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    if name.partition(".")[0] == "google":
        path = [place for place in path or sys.path if "_libraries" in place or place.startswith({str(tmp_path)!r})]
    return real(name, path, target)
PathFinder.find_spec = find_spec
import google
assert not [place for place in sys.path if "_libraries" in place]
from pyconsumer.protocol.shipped import need_library
need_library("google.protobuf")
import google.cloud
import google.protobuf
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.internal import api_implementation
copy = Timestamp.FromString(Timestamp(seconds=7).SerializeToString())
print(google.protobuf.__file__, api_implementation.Type(), copy.seconds)
"""
    file, kind, seconds = run(program, paths=(ROOT,)).split()
    assert file.startswith(f"{package_zip()}/pyconsumer/_libraries/google/protobuf/")
    assert (kind, seconds) == ("python", "7")


@pytest.mark.parametrize(("version", "used"), [(__version__, True), ("0.0.1", False)])
def test_an_installed_package_of_the_same_version_is_used(tmp_path: Path, version: str, used: bool) -> None:
    installed = tmp_path / "pyconsumer"
    installed.mkdir()
    (installed / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (installed / "errors.py").write_text("HERE = True\n")
    shutil.copy(Path(ROOT) / "pyconsumer" / "lazy_names.py", installed)  # the zip's package itself needs it
    program = f"sys.path.append({str(tmp_path)!r})\nimport pyconsumer.errors; print(hasattr(pyconsumer.errors, 'HERE'))"
    assert run(program, paths=(ROOT,)) == str(used)


@pytest.mark.slow
def test_a_zip_of_the_same_sources_has_the_same_name() -> None:
    first = package_zip()
    assert package_zip() == first
    package_zip.cache_clear()
    second = package_zip()
    assert second.name == first.name
    assert second.read_bytes() == first.read_bytes()


def test_the_zip_holds_the_modules_of_tasks_and_no_large_file() -> None:
    with zipfile.ZipFile(package_zip()) as archive:
        names = archive.namelist()
        compiled = sum(archive.getinfo(name).compress_size for name in names if "/_compiled/" in name)
    assert {"pyconsumer/__init__.py", "pyconsumer/spark/partition_reader.pyc", "pyconsumer/network/client.py"} <= set(
        names
    )
    assert not [name for name in names if "/cli/" in name or "/broker/" in name or "autoload" in name]
    assert package_zip().stat().st_size < 4_500_000 + compiled


@pytest.mark.slow
def test_a_source_sends_the_zip_to_a_process_of_the_same_machine_that_lacks_it() -> None:
    program = """
from pyspark import cloudpickle
from pyconsumer.spark.source import KafkaDataSource
sent = cloudpickle.dumps(KafkaDataSource({"subscribe": "t"}))
sys.path.remove(<zip>)
for name in [name for name in sys.modules if name.split(".")[0] == "pyconsumer"]:
    del sys.modules[name]
found = cloudpickle.loads(sent)
import pyconsumer
print(found.options["subscribe"], pyconsumer.__file__)
"""
    program = program.replace("<zip>", repr(str(package_zip())))
    assert run(program, paths=(ROOT,)) == f"t {package_zip()}/pyconsumer/__init__.pyc"


class FakeSession:
    """Records the artifacts of a session. ``connect`` makes it one of Spark Connect."""

    def __init__(self, *, connect: bool) -> None:
        self.sent: list[str] = []
        self.registered: list[Any] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)
        if connect:
            self.addArtifacts = self._add
        else:
            self._jvm: object = object()
            self.sparkContext = SimpleNamespace(
                _python_includes=[], addPyFile=self._add, pythonExec=sys.executable, master="local"
            )

    def _add(self, path: str, *, pyfile: bool = True) -> None:
        assert pyfile
        self.sent.append(path)
        if hasattr(self, "sparkContext"):
            self.sparkContext._python_includes.append(Path(path).name)


@pytest.mark.parametrize("connect", [False, True])
def test_a_session_gets_the_zip_first_and_then_the_format(connect: bool) -> None:
    session = FakeSession(connect=connect)
    register(session)
    assert session.sent == [str(package_zip())]
    assert session.registered == [KafkaDataSource]


def test_a_session_gets_the_zip_once() -> None:
    session = FakeSession(connect=False)
    register(session)
    register(session)
    assert len(session.sent) == 1


def test_over_connect_a_zip_that_is_there_already_is_no_error() -> None:
    session = FakeSession(connect=True)

    def refuse(path: str, *, pyfile: bool) -> None:
        raise RuntimeError("[ARTIFACT_ALREADY_EXISTS] The artifact exists")

    session.addArtifacts = refuse  # type: ignore[method-assign]
    register(session)
    assert session.registered == [KafkaDataSource]


class FakeLogger:
    """Records its log levels. Its own is INFO."""

    def __init__(self) -> None:
        self.levels = [Level("INFO", 400)]

    def getLevel(self) -> Level:  # noqa: N802 - Log4j's name
        return self.levels[-1]

    def setLevel(self, level: Level) -> None:  # noqa: N802 - Log4j's name
        self.levels.append(level)


class Level(NamedTuple):
    """A level of Log4j."""

    name: str
    number: int

    def isLessSpecificThan(self, other: Level) -> bool:  # noqa: N802 - Log4j's name
        return self.number >= other.number


@pytest.mark.parametrize("fails", [False, True])
def test_spark_does_not_warn_that_we_replace_ourselves(fails: bool) -> None:
    logger, session = FakeLogger(), FakeSession(connect=False)
    log4j = SimpleNamespace(
        LogManager=SimpleNamespace(getLogger=lambda name: logger),
        Level=SimpleNamespace(WARN=Level("WARN", 300), ERROR=Level("ERROR", 200)),
    )
    session._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(logging=SimpleNamespace(log4j=log4j))))
    during: list[str] = []

    def note(source: Any) -> None:
        during.append(logger.levels[-1].name)
        if fails:
            raise RuntimeError("no")

    session.dataSource.register = note
    with pytest.raises(RuntimeError) if fails else nullcontext():
        register(session)
    assert during == ["ERROR"]
    assert [level.name for level in logger.levels] == ["INFO", "ERROR", "INFO"]
