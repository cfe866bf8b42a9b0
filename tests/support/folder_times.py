"""A pytest plugin that ends a run with items, seconds and CPU seconds by folder, and with slow tests that have no mark.

``--times-by file`` prints a line for each file instead, ``--times-by test`` one for each test, ``--times-by no`` no
table. CPU seconds include those of processes that a test started and waited for. Unless by folder, they also include
those of brokers that go on running. These are read after the last test of a file, or after each test. Unlike the
seconds, they hardly depend on the machine's load. The last line has the CPU seconds of the whole run: with imports,
collection, and what pytest does between tests. With pytest-xdist another table has its processes and their longest
groups of tests, since no run is shorter than its longest group.
A test that measures something may have its table printed there, too: ``record_property("table", lines)``, of which the
first line is the title.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.process import descendants

#: A test that takes longer is to be made cheaper or marked ``slow``. It is reported and does not fail: machines differ.
SLOW_S = 2.0
_MOST_LISTED = 20
#: Keywords that are read in reports, here and by pytest. A report goes to another process with all of its keywords.
_READ_KEYWORDS = ("slow", "skip", "pytestmark")


def cpu_seconds(*, with_living: bool = False) -> float:
    """Return the CPU time of this process and of those of its children that have ended.

    Args:
        with_living: of all processes below it, too, which takes some milliseconds. Without /proc they are left out.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + (_cpu_of_living() if with_living else 0.0)


def _cpu_of_living() -> float:
    """Return the CPU time of the living processes below this one, and of those of their children that have ended."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0.0  # there are none
    ticks = 0
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass  # it ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


class _Busy:
    """Seconds and CPU seconds of some tests."""

    seconds = cpu = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.cpu += getattr(report, "cpu_s", 0.0)


class Times:
    """Times of the tests of a run, by folder, by file or by test."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._items: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._cpu: dict[str, float] = defaultdict(float)
        self._tests: dict[str, float] = defaultdict(float)  # those not marked slow
        self._processes: dict[str, _Busy] = defaultdict(_Busy)  # of pytest-xdist
        self._groups: dict[str, _Busy] = defaultdict(_Busy)

    def add(self, report: pytest.TestReport) -> None:
        """Count one phase of a test. The setup of a shared fixture counts for the test that came first."""
        file = report.nodeid.partition("::")[0]
        place = {"test": report.nodeid, "file": file}.get(self._by) or file.rpartition("/")[0] or "."
        self._items[place] += report.when == "setup"
        self._seconds[place] += report.duration
        self._cpu[place] += getattr(report, "cpu_s", 0.0)
        if "slow" not in report.keywords and report.when == "call":
            self._tests[report.nodeid] += report.duration
        if hasattr(report, "node"):
            _, at, group = report.nodeid.rpartition("@")
            self._processes[report.node.gateway.id].add(report)
            if at and not group.endswith("]"):  # else it is a part of a parameter
                self._groups[group].add(report)

    def lines(self) -> Iterator[str]:
        """Return the table, longest first, and its total."""
        if not self._items:
            return
        width = max(map(len, self._items))
        yield f"{'':{width}}   items   seconds       CPU"
        for place in sorted(self._items, key=lambda each: -self._seconds[each]):
            yield f"{place:{width}} {self._items[place]:7,} {self._seconds[place]:9,.1f} {self._cpu[place]:9,.1f}"
        totals = sum(self._items.values()), sum(self._seconds.values()), sum(self._cpu.values())
        yield f"{'':{width}} {totals[0]:7,} {totals[1]:9,.1f} {totals[2]:9,.1f}"

    def groups(self) -> Iterator[str]:
        """Return what kept the processes of pytest-xdist busy, the longest groups first: a run lasts as long as one."""
        longest = sorted(self._groups.items(), key=lambda each: -each[1].seconds)[:_MOST_LISTED]
        for name, busy in [*sorted(self._processes.items()), *longest]:
            yield f"{busy.seconds:9,.1f} {busy.cpu:9,.1f} {name}"

    def slow(self) -> Iterator[str]:
        """Return the tests that took longer than ``SLOW_S`` and are not marked ``slow``, longest first."""
        slow = sorted(((took, test) for test, took in self._tests.items() if took > SLOW_S), reverse=True)
        for took, test in slow[:_MOST_LISTED]:
            yield f"{took:9.1f} {test}"
        if len(slow) > _MOST_LISTED:
            yield f"          and {len(slow) - _MOST_LISTED} more"


class _Plugin:
    def __init__(self, by: str) -> None:
        self._times = Times(by)
        self._by = by
        self._cpu_s = cpu_seconds()
        self._whole_cpu_s = cpu_seconds(with_living=True)
        self._reported_cpu_s = 0.0  # since that reading
        self._reads_all = False
        self._tables: list[list[str]] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[object]:
        """Begin a test. Where pytest-xdist runs it elsewhere, this hook is not called."""
        self._cpu_s = cpu_seconds()
        another = nextitem is None or nextitem.path != item.path
        self._reads_all = self._by == "test" or (self._by == "file" and another)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        now = cpu_seconds()
        report.cpu_s = now - self._cpu_s  # goes along to the process that reports
        self._reported_cpu_s += report.cpu_s
        if self._reads_all and call.when == "teardown":
            whole = cpu_seconds(with_living=True)
            # Below 0 for the last test of a broker, whose whole time is that of an ended process.
            report.cpu_s += whole - self._whole_cpu_s - self._reported_cpu_s
            self._whole_cpu_s, self._reported_cpu_s = whole, 0.0
        report.keywords = {name: report.keywords[name] for name in _READ_KEYWORDS if name in report.keywords}
        self._cpu_s = now
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._times.add(report)
        if report.when == "call":
            self._tables.extend(value for name, value in report.user_properties if name == "table")

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        times = list(self._times.lines())
        if times:  # processes of pytest-xdist have ended
            times.append(f"{cpu_seconds():.1f} CPU seconds in all")
        for title, lines in (
            ("times", times),
            ("seconds and CPU of processes and of their longest groups", list(self._times.groups())),
            (f"longer than {SLOW_S:g} s and not marked slow", list(self._times.slow())),
            *((table[0], table[1:]) for table in self._tables),
        ):
            if lines:
                terminalreporter.section(title, sep="-")
                for line in lines:
                    terminalreporter.line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the table."""
    parser.addoption("--times-by", choices=["folder", "file", "test", "no"], default="folder", help="what each took")


def pytest_configure(config: pytest.Config) -> None:
    """Start to measure."""
    by = config.getoption("--times-by")
    if by != "no":
        config.pluginmanager.register(_Plugin(by), "folder-times")
