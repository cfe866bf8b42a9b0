"""pytest plugin: after a full run, every item that is to have a test must have been named by one that passed.

Loaded by `pytest_plugins = ["tests.spec.plugin"]` in tests/conftest.py. A run is full when it was started without
paths, `-k`, `-m` or anything else that leaves tests out, and was not stopped early; `--spec-check` says otherwise.

Where Apache Kafka or Spark cannot run their tests are skipped, and then the items that only they show are not missed.
With `CI` set no test is skipped for that, and a skip excuses nothing.

A test names the ids of its `spec` marks and those that are in its parameters. An id that stands elsewhere in a module
(in a loop's table, say) counts as shown when tests of that module passed and none failed.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.spec.items import FULL_ID, read_lists
from tests.spec.naming import TESTS, scan

_PROPERTY = "spec"
_DEEPEST = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("spec").addoption(
        "--spec-check",
        choices=("auto", "always", "never"),
        default="auto",
        help="check after the run that every item of tests/spec that needs a test was shown (auto: after a full run)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist only sends its reports to the one that checks
        config.pluginmanager.register(SpecFollower(config), "spec-follower")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for full_id in sorted(ids_of(item)):
            item.user_properties.append((_PROPERTY, full_id))


def ids_of(item: pytest.Item) -> set[str]:
    """The full ids that one test names by its marks and its parameters."""
    ids = {arg for mark in item.iter_markers("spec") for arg in mark.args if isinstance(arg, str)}
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        ids.update(_ids_inside(callspec.params.values(), _DEEPEST))
    return ids


def _ids_inside(values: Iterable[object], depth: int) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            if FULL_ID.fullmatch(value):
                yield value
        elif depth and isinstance(value, list | tuple | set | frozenset):
            yield from _ids_inside(value, depth - 1)
        elif depth and isinstance(value, dict):
            yield from _ids_inside(value.values(), depth - 1)
        elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _ids_inside((getattr(value, one.name) for one in dataclasses.fields(value)), depth - 1)


class SpecFollower:
    """Collects the outcome of each test, and at the end compares it with the lists."""

    def __init__(self, config: pytest.Config, *, lists: Path | None = None, tests: Path | None = None) -> None:
        self._config = config
        self._lists = lists
        self._tests = tests
        self._called: set[str] = set()  # node ids whose call passed
        self._failed: set[str] = set()  # node ids with a failed setup, call or teardown
        self._skipped: set[str] = set()  # node ids of tests that were skipped
        self._named: dict[str, set[str]] = {}  # node id -> full ids, for every test that was run or skipped
        self._deselected = False
        self.missing: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected = self._deselected or bool(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._named[report.nodeid] = {str(value) for name, value in report.user_properties if name == _PROPERTY}
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._called.add(report.nodeid)

    def shown(self) -> set[str]:
        """The full ids that a passing test named."""
        passed = self._called - self._failed
        shown = {full_id for node_id in passed for full_id in self._named[node_id]}
        whole = {_module(node_id) for node_id in passed} - {_module(node_id) for node_id in self._failed}
        directly = {full_id for ids in self._named.values() for full_id in ids}
        for full_id, places in scan(self._tests or TESTS).literal.items():
            modules = {_module(place.rpartition(":")[0]) for place in places}
            if full_id not in directly and modules & whole:
                shown.add(full_id)
        return shown

    def excused(self) -> set[str]:
        """The full ids that only a skipped test could have shown here; none with `CI` set."""
        if os.environ.get("CI"):
            return set()
        excused = {full_id for node_id in self._skipped for full_id in self._named[node_id]}
        modules = {_module(node_id) for node_id in self._skipped}
        for full_id, places in scan(self._tests or TESTS).literal.items():
            if modules & {_module(place.rpartition(":")[0]) for place in places}:
                excused.add(full_id)
        return excused

    def is_full(self, session: pytest.Session) -> bool:
        config = session.config
        started_bare = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        narrowed = config.option.keyword or config.option.markexpr or self._deselected or config.getoption("lf", False)
        stopped = session.shouldstop or session.shouldfail or config.option.collectonly
        return bool(started_bare and not narrowed and not stopped)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        wanted = self._config.getoption("--spec-check")
        if wanted == "never" or (wanted == "auto" and not self.is_full(session)):
            return
        shown = self.shown() | self.excused()
        items = read_lists(self._lists) if self._lists else read_lists()
        self.missing = [item.full_id for item in items if item.needs_test and item.full_id not in shown]
        if self.missing and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.missing:
            terminalreporter.section("items of tests/spec that need a test but that no passing test named", red=True)
            terminalreporter.line(" ".join(self.missing))


def _module(place: str) -> str:
    """`tests/unit/test_x.py` of a node id or a path."""
    return Path(place.partition("::")[0]).as_posix()
