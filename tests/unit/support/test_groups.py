"""Tests that share a broker are run by one process."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

_MODULE = """
    import pytest

    @pytest.fixture
    def embedded():
        pass

    @pytest.mark.parametrize("number", range(8))
    def test_it(embedded, number):
        pass
"""


@pytest.mark.slow
def test_a_group_of_tests_is_run_by_one_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    pytester.makepyfile(test_one=_MODULE, test_two=_MODULE)

    result = pytester.runpytest_subprocess(
        *("-p", "xdist.plugin", "-p", "tests.conftest"),
        *("-v", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"),
        timeout=60,
    )

    result.assert_outcomes(passed=16)
    ran = re.findall(r"^\[(gw\d)\] .* PASSED (\w+\.py)::test_it\[\d\]", "\n".join(result.outlines), re.MULTILINE)
    processes = defaultdict(set)
    for process, module in ran:
        processes[module].add(process)
    assert len(ran) == 16
    assert {module: len(found) for module, found in processes.items()} == {"test_one.py": 1, "test_two.py": 1}
