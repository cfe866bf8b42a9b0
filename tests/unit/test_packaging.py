"""What is shipped: the wheel holds every module and the type marker; the sdist is enough to build and to test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_BUILD = """
import sys, setuptools.build_meta as build
print(build.build_{what}(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is needed for a build, so that the build leaves nothing in the work tree."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "tox.ini"):
        shutil.copy(ROOT / name, copy)
    for name in ("pyconsumer", "tests", ".ci"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def _build(what: str, tree: Path, into: Path) -> Path:
    built = subprocess.run(
        [sys.executable, "-c", _BUILD.format(what=what), str(into)],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return into / built.stdout.splitlines()[-1]


def test_the_wheel_holds_every_module(tree: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(_build("wheel", tree, tmp_path)) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {"pyconsumer/py.typed"}
    for path in (ROOT / "pyconsumer").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        expected.add(name.replace("pyconsumer/spark/autoload/", "pyspark_pyconsumer/"))
    assert shipped == expected


def test_the_sdist_is_enough_to_build_and_test(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", tree, tmp_path)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "setup.py", "tox.ini", "README.md", "LICENSE", "CHANGELOG.md", ".ci/run"} <= names
    for folder in ("pyconsumer", "tests"):
        wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
        assert wanted <= names
    assert "tests/vectors/messages.jsonl.gz" in names
