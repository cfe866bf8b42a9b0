"""Filling the cache does not count in a test's time. If it fails, the tests that need it fail."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.concurrent

_CONFTEST = """
import time
import tests.conftest as it

def fill(item):
    {fill}

it.fill_cache = fill
"""


@pytest.fixture
def run(inner: pytest.Pytester) -> pytest.Pytester:
    """A pytest of its own under the rules of tests/conftest.py, with a test that takes no time."""
    inner.makepyfile("def test_it(): pass")
    return inner


def _result(run: pytest.Pytester, fill: str, most_s: float = 60) -> pytest.RunResult:
    run.makeconftest(_CONFTEST.format(fill=fill))
    options = ("-p", "pytest_timeout", "-p", "tests.conftest", "--timeout", str(most_s))
    return run.runpytest_subprocess(*options, timeout=60)


def test_filling_the_cache_does_not_count_in_a_tests_time(run: pytest.Pytester) -> None:
    _result(run, "time.sleep(3)", most_s=2.5).assert_outcomes(passed=1)


def test_a_failure_to_fill_the_cache_fails_the_test_that_needs_it(run: pytest.Pytester) -> None:
    result = _result(run, "raise AssertionError('status 1 from: mvn')")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*AssertionError: status 1 from: mvn*"])
