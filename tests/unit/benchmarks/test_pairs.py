"""Pairs: the ratio, its interval, and the package that is measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.benchmarks.measure import ROOT
from tests.benchmarks.pairs import main, ratio


def test_the_ratio_is_the_geometric_mean_of_the_pairs() -> None:
    found = ratio([(1.0, 2.0), (4.0, 2.0), (1.0, 2.0), (4.0, 2.0)])
    assert found.mean == pytest.approx(1.0)
    assert found.least == pytest.approx(1 / found.most)


def test_a_slowdown_of_both_of_a_pair_is_left_out() -> None:
    found = ratio([(1.0, 1.1), (10.0, 11.0), (3.0, 3.3)])
    assert str(found) == "1.100 [1.100, 1.100]"


def test_the_interval_is_that_of_students_t() -> None:
    # ln 1.0, ln 1.1 and ln 1.2: mean 0.09254, deviation 0.09138; t for three is 4.303.
    found = ratio([(1.0, 1.0), (1.0, 1.1), (1.0, 1.2)])
    assert (found.mean, found.least, found.most) == pytest.approx((1.0970, 0.8742, 1.3764), abs=2e-3)


@pytest.mark.slow
@pytest.mark.concurrent
def test_each_package_is_that_of_its_folder(tmp_path: Path) -> None:
    # Python writes to the folders of compiled modules at any time.
    shutil.copytree(ROOT / "pyconsumer", tmp_path / "pyconsumer", ignore=shutil.ignore_patterns("__pycache__"))
    slow = tmp_path / "pyconsumer" / "__init__.py"
    slow.write_text(f"{slow.read_text()}\nfor _ in range(10_000_000): pass\n")
    result = CliRunner().invoke(main, [str(tmp_path), "--pairs", "2", "--workload", "import"])
    assert result.exit_code == 0, result.output
    line = next(line for line in result.output.splitlines() if line.startswith("import: processor time"))
    assert float(line.split()[3]) < 0.9


@pytest.mark.slow
@pytest.mark.concurrent
def test_brokers_are_compared_with_and_without_rules() -> None:
    options = ["--broker", "--pairs", "2", "--scale", "0.001", "--workload", "group"]
    for more in ([], ["--acls", "10"]):
        result = CliRunner().invoke(main, [str(ROOT), *options, *more])
        assert result.exit_code == 0, result.output
        assert "group: processor time of the broker " in result.output
        assert "group: of the client " in result.output


def test_a_folder_without_the_package_is_a_wrong_call(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 2
    assert f"no package pyconsumer in {tmp_path}" in result.output
