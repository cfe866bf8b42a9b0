"""What a run makes once and keeps is not a part of any test's time, and where it cannot be made its tests say so."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.concurrent

_CONFTEST = """
import time
import tests.conftest as it

def make(item):
    {make}

it.make_what_is_kept = make
"""


@pytest.fixture
def run(inner: pytest.Pytester) -> pytest.Pytester:
    """A pytest of its own under the rules of tests/conftest.py, and in it a test that takes no time."""
    inner.makepyfile("def test_it(): pass")
    return inner


def _result(run: pytest.Pytester, make: str) -> pytest.RunResult:
    run.makeconftest(_CONFTEST.format(make=make))
    options = ("-p", "pytest_timeout", "-p", "tests.conftest", "--spec-check", "never", "--timeout", "0.5")
    return run.runpytest_subprocess(*options, timeout=60)


def test_what_is_made_once_is_outside_of_a_tests_time(run: pytest.Pytester) -> None:
    _result(run, "time.sleep(1)").assert_outcomes(passed=1)


def test_what_cannot_be_made_fails_the_test_that_needs_it(run: pytest.Pytester) -> None:
    result = _result(run, "raise AssertionError('status 1 from: mvn')")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*AssertionError: status 1 from: mvn*"])
