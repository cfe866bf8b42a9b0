"""The checks of pre-commit and of the workflows are those of tox, and cover the Pythons that the package names."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Where a test reads a variable of the environment.
_READ = re.compile(r"""environ(?:\.\w+\(|\[)["'](PYCONSUMER_\w+)["']""")


def test_hooks_before_a_commit_run_the_commands_of_lint() -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"^ +entry: (.+)$", hooks, re.MULTILINE) == tox["testenv:lint"]["commands"].split("\n")[1:]


def test_the_workflow_has_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [found[1] for text in project["classifiers"] if (found := re.fullmatch(r".* :: (3\.\d+)", text))]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert re.findall(r"\d\.\d+", matrix) == named


def test_variables_that_tests_read_are_set_by_a_lane_or_explained() -> None:
    paths = [path for path in (ROOT / "tests").rglob("*.py") if "originals" not in path.parts]
    texts = [path.read_text("utf-8") for path in paths]
    read = {name for text in texts for name in _READ.findall(text)}
    named = {name for text in texts for name in re.findall(r"""["'](PYCONSUMER_\w+)["']""", text)}
    lanes = set(re.findall(r"^ +(PYCONSUMER_\w+) =", (ROOT / "tox.ini").read_text("utf-8"), re.MULTILINE))
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    explained = {name for path in pages for name in re.findall(r"PYCONSUMER_\w+", path.read_text("utf-8"))}
    assert "PYCONSUMER_SPARK_KILLS" in read
    assert sorted(read - lanes - explained) == []
    assert sorted(lanes - named) == []
