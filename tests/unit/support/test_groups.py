"""Tests that share a broker are run by one process, which stops the broker after the last of them."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.groups import may_be_used_later
from tests.support.process import run

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


#: Notes after each test how many brokers of Apache Kafka its process has.
_PLUGIN = """
import os
from tests.support.process import descendants

def pytest_configure(config):
    global is_worker  # the variables of pytest-xdist may be those of the run that this one is a test of
    is_worker = hasattr(config, "workerinput")

def pytest_runtest_logfinish():
    if is_worker:
        found = [each for each in descendants().values() if " kafka.Kafka " in each and "guard.py" not in each]
        with open(os.environ["SEEN"], "a") as file:
            print(len(found), file=file)
"""


class _Item:
    """A test with these marks, on this kind of broker."""

    nodeid = "tests/behaviour/test_one.py::test_it"
    fixturenames = ()

    def __init__(self, kind: str, *marks: str) -> None:
        self.callspec = SimpleNamespace(params={"cluster_kind": kind} if kind else {})
        self._marks = marks
        if kind == "embedded":
            self.fixturenames = ("embedded",)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._marks else None


#: In the order in which a process gets them.
_TESTS = {
    "spark": _Item("", "spark"),
    "cluster-apache": _Item("apache", "cluster"),
    "apache_old": _Item("apache_old"),
    "apache": _Item("apache"),
    "embedded": _Item("embedded"),
    "no broker": _Item(""),
}


@pytest.mark.parametrize(
    ("kind", "brokers", "tests"),
    [
        ("apache", 3, {"spark", "cluster-apache"}),
        ("apache_old", 1, {"spark", "cluster-apache", "apache_old"}),
        ("apache", 1, {"spark", "cluster-apache", "apache_old", "apache"}),
        ("embedded", 1, {"spark", "cluster-apache", "apache_old", "apache", "embedded"}),
    ],
)
def test_a_cluster_is_kept_before_tests_that_may_be_followed_by_some_that_use_it(
    kind: str, brokers: int, tests: set[str]
) -> None:
    found = {name for name, item in _TESTS.items() if may_be_used_later(item, kind, brokers)}  # type: ignore[arg-type]

    assert found == tests


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_is_stopped_after_the_last_test_that_uses_it(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Two tests of Apache Kafka come first, then two of the embedded broker."""
    seen = tmp_path / "seen"
    plugin = tmp_path / "running_brokers.py"
    plugin.write_text(_PLUGIN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "running_brokers", "-p", "no:cacheprovider", "-n", "1"]
    command += ["--dist", "loadgroup", "--no-loadscope-reorder", "tests/behaviour/test_idle.py"]
    command += ["-k", "idle_producer or empty_topic"]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    run(command, timeout_s=200, cwd=request.config.rootpath, env={"PYTHONPATH": paths, "SEEN": str(seen)}).check()

    assert seen.read_text().split() == ["1", "0", "0", "0"]
