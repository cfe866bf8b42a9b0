"""The originals' own tests, through ``python -m pyconsumer.compat``: each passes, or is in a list with the reason.

Rules

1. The tests are those of a commit: see :mod:`tests.support.repositories`.
2. ``originals/conftest_of_*.py`` takes the place of the fixtures that start a broker. Nothing else is changed.
3. A test that does not pass is in ``originals/*.tsv`` with the reason. One that passes must not be there, unless its
   reason begins with "sometimes".
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

import pytest

from tests.support.process import run
from tests.support.repositories import check_out

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

_FOLDER: Final = Path(__file__).parent / "originals"
_LONG_S: Final = 1200.0
#: For one test. The originals' own limits are longer, and no test that can pass takes as long.
_TEST_S: Final = 100


class Suite(NamedTuple):
    """Tests of an original.

    Attributes:
        repository, commit: where they come from.
        folder: of the tests in the repository, a package.
        files: to run, below the folder.
        passing: at least as many tests pass.
    """

    repository: str
    commit: str
    folder: str
    files: tuple[str, ...]
    passing: int


SUITES: Final = {
    "aiokafka": Suite(
        "https://github.com/aio-libs/aiokafka",
        "672947afe85c91b7d953f0259e69837a711d3246",  # 0.14.0
        "tests",
        (
            "test_consumer.py",
            "test_producer.py",
            "test_pep492.py",
            "test_transactional_consumer.py",
            "test_transactional_producer.py",
            "test_sasl.py",
        ),
        91,
    ),
    "kafka": Suite(
        "https://github.com/dpkp/kafka-python",
        "a3b3836ff3a4b34ebaa42fd93500bfcb16c1e9b7",  # 3.1.0.dev
        "test",
        (
            "integration/test_admin_integration.py",
            "integration/test_consumer_integration.py",
            "integration/test_producer_integration.py",
        ),
        46,
    ),
}


def _fetch(suite: Suite, name: str, to: Path) -> None:
    """Put the tests into a folder, with our fixtures."""
    check_out(suite.repository, suite.commit, suite.folder, to)
    shutil.copy(_FOLDER / f"conftest_of_{name}.py", to / suite.folder / "conftest.py")
    shutil.copy(_FOLDER / "stand_ins.py", to)
    (to / suite.folder / "__init__.py").write_text("")


def _outcomes(report: Path) -> dict[str, str]:
    """Return the outcome of each test: ``passed``, ``failed`` or ``skipped``."""
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.attrib['classname'].split('.')[-1]}.{case.attrib['name']}"
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def reasons(name: str) -> dict[str, str]:
    """Return the tests of an original that do not pass, with the reason."""
    lines = (_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)  # type: ignore[misc]


@pytest.mark.parametrize("name", SUITES)
def test_the_tests_of_an_original_pass_or_are_listed(name: str, tmp_path: Path) -> None:
    suite = SUITES[name]
    _fetch(suite, name, tmp_path)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-W", "ignore", "-m", "pyconsumer.compat", name, "-m", "pytest", "-q", "--tb=native"]
    options = ["-p", "no:cacheprovider", "-o", "asyncio_mode=strict", f"--timeout={_TEST_S}", f"--junitxml={report}"]
    files = [f"{suite.folder}/{file}" for file in suite.files]
    done = run([*command, *options, *files], cwd=tmp_path, timeout_s=_LONG_S)
    assert report.exists(), done.stdout + done.stderr
    outcomes = _outcomes(report)
    listed = reasons(name)
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    assert failed - listed.keys() == set(), done.stdout[-20_000:]
    always = {test for test, reason in listed.items() if not reason.startswith("sometimes")}
    assert {test for test in always if outcomes.get(test) == "passed"} == set(), "these pass: remove them from the list"
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= suite.passing


def test_each_reason_is_one_line_for_one_test() -> None:
    for name in SUITES:
        listed = reasons(name)
        assert all(reason and reason[-1] != "." for reason in listed.values())
        assert list(listed) == sorted(listed)
