"""The hint about an installed copy of the package."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.installed_copy import other_copy
from tests.support.process import run

ROOT = Path(__file__).parents[3]


def install(folder: Path, *, editable: bool) -> list[metadata.Distribution]:
    info = folder / "pyconsumer-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyconsumer\nVersion: 0.1.0\n")
    if not editable:
        (folder / "pyconsumer").mkdir()
        (folder / "pyconsumer" / "__init__.py").touch()
    return list(metadata.distributions(name="pyconsumer", path=[str(folder)]))


def test_a_copy_beside_the_sources_is_named_with_the_remedy(tmp_path: Path) -> None:
    hint = other_copy(ROOT, install(tmp_path, editable=False))
    assert hint is not None
    assert f"the copy of pyconsumer in {tmp_path} instead of {ROOT}" in hint
    assert f"pip install -e '{ROOT}[test]'" in hint


@pytest.mark.parametrize("editable", [True, None])
def test_an_editable_installation_and_none_are_right(editable: bool | None, tmp_path: Path) -> None:
    assert other_copy(ROOT, [] if editable is None else install(tmp_path, editable=True)) is None
    assert other_copy(tmp_path, [] if editable is None else install(tmp_path / "x", editable=True)) is None


@pytest.mark.slow
def test_the_tests_do_not_run_beside_a_copy(tmp_path: Path) -> None:
    install(tmp_path, editable=False)
    started = run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", __file__],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": ""},
        timeout_s=100,
    )
    assert started.returncode == 4, started.stdout
    assert f"the copy of pyconsumer in {tmp_path}" in started.stderr
