"""Modules of tests are read without the packages that a lane of tox does not install: tests are skipped, not broken."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.process import run

ROOT = Path(__file__).parents[3]

#: A process in which some packages cannot be found, as where they are not installed.
_COLLECT = """
import importlib.machinery, json, os, sys
import pytest

hidden = set(json.loads(os.environ["HIDDEN"]))
find_spec = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda finder, name, *where: None if name.partition(".")[0] in hidden else find_spec(name, *where)
)
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def _installed_with(name: str, extras: Collection[str], found: dict[str, set[str]]) -> None:
    """Add a distribution to ``found``, with all its requirements for these extras."""
    known = found.setdefault(name, set())
    if known and known.issuperset(extras):
        return
    known.update(extras, {""})
    for text in importlib.metadata.distribution(name).requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            _installed_with(canonicalize_name(needed.name), needed.extras, found)


def _modules_not_in(lane: str) -> set[str]:
    """Names of the modules at top level that are installed here and not in an environment of ``tox.ini``."""
    tox = configparser.RawConfigParser()
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    needed: dict[str, set[str]] = {}
    _installed_with("pyconsumer", tox[f"testenv:{lane}"]["extras"].replace(",", " ").split(), needed)
    return {
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not needed.keys() & {canonicalize_name(distribution) for distribution in distributions}
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lane", "folders", "missing"),
    [
        ("unit", ("tests/unit", "tests/vectors", "tests/spec"), {"pyspark", "matplotlib", "confluent_kafka"}),
        ("quick", ("tests",), {"pyspark", "matplotlib"}),
        ("sim", ("tests/simulation",), {"pyspark", "matplotlib", "confluent_kafka", "pyarrow"}),
    ],
)
def test_modules_are_collected_without_the_packages_that_a_lane_lacks(
    lane: str, folders: tuple[str, ...], missing: set[str]
) -> None:
    hidden = _modules_not_in(lane)
    assert not hidden & {"pytest", "pyconsumer", "click", "hypothesis"}
    if os.environ.get("CI"):
        assert hidden >= missing

    collected = run(
        [sys.executable, "-c", _COLLECT, *folders],
        timeout_s=120,
        cwd=ROOT,
        env=os.environ | {"HIDDEN": json.dumps(sorted(hidden))},
    )

    assert collected.returncode == 0, "\n".join(collected.lines[-40:])
    assert " tests collected in " in collected.stdout
