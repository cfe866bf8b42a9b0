"""Processes of one run import the test modules from different ends, and a module that fails is reported as always."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.importing import modules_in_turn

_MODULE = """
import os

with open(os.environ["SEEN"], "a") as file:
    print(os.environ.get("PYTEST_XDIST_WORKER"), __name__, file=file)

def test_it():
    assert __name__
"""


def test_each_process_begins_at_a_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "suite" / "inner").mkdir(parents=True)
    for name in ("test_a", "inner/test_b", "test_c", "helper", "test_d"):
        (tmp_path / "suite" / f"{name}.py").touch()

    found = [modules_in_turn(tmp_path, [tmp_path / "suite"], process, 2) for process in range(2)]

    names = ["suite.inner.test_b", "suite.test_a", "suite.test_c", "suite.test_d"]
    assert found == [names, names[2:] + names[:2]]


@pytest.mark.slow
def test_the_processes_of_a_run_do_so(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEN", str(inner.path / "seen"))
    suite = inner.mkpydir("suite")
    for name in ("a", "b", "c"):
        (suite / f"test_{name}.py").write_text(_MODULE)
    (suite / "test_d.py").write_text(f"{_MODULE}\nimport pytest\npytest.skip('not here', allow_module_level=True)\n")
    options = ("-p", "xdist.plugin", "-p", "tests.conftest", "-n", "2", "suite")

    inner.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=3, skipped=1)
    seen = [line.split() for line in (inner.path / "seen").read_text().splitlines()]
    orders = {worker: [name for each, name in seen if each == worker] for worker in ("gw0", "gw1")}

    assert orders["gw0"][:4] == ["suite.test_a", "suite.test_b", "suite.test_c", "suite.test_d"]
    assert orders["gw1"][:4] == ["suite.test_c", "suite.test_d", "suite.test_a", "suite.test_b"]

    (suite / "test_e.py").write_text("import no_such_module\n")
    result = inner.runpytest_subprocess(*options, timeout=60)

    result.stdout.fnmatch_lines(["*ModuleNotFoundError: No module named 'no_such_module'"])
    assert result.ret != 0
