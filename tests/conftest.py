"""For all tests: the requirement lists, certificates, Kafka's tools, and a look at what a test leaves behind."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.certificates import Certificates, make_certificates
from tests.support.java import KafkaTools, need_jars, tools
from tests.support.process import descendants

pytest_plugins = ["tests.spec.plugin", "pytester"]

_THREADS_END_WITHIN_S = 30.0
_CHILDREN_END_WITHIN_S = 30.0
# Python's own helpers; they end with the interpreter.
_KNOWN_CHILDREN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def pytest_configure() -> None:
    """A shell lets what it starts with ``&`` ignore Ctrl-C, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of one authority, good and bad ones; see :class:`Certificates`."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Apache Kafka's command-line programs; usable against any broker. Mark such tests ``kafka``."""
    return tools()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """All tests that lack Java are skipped from here, so that the run's report has one line for them."""
    if item.get_closest_marker("kafka"):
        need_jars()


def _strays(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that a test started and that must have ended: ours, and all that would hold the interpreter back."""
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before and (not thread.daemon or thread.name.startswith("pyconsumer"))
    ]


@pytest.fixture(autouse=True)
def _no_stray_threads() -> Iterator[None]:
    """A test that leaves a thread behind fails, under its own name rather than a later one's."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + _THREADS_END_WITHIN_S
    for thread in _strays(before):
        thread.join(max(0.0, deadline - time.monotonic()))
    left = _strays(before)
    assert not left, f"threads left behind: {', '.join(thread.name for thread in left)}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """No child process may be left when the last fixture has been torn down."""
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    _end_spark()
    deadline = time.monotonic() + _CHILDREN_END_WITHIN_S
    while (left := _left_children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.section("processes left behind", red=True)
            for pid, command in left.items():
                reporter.line(f"{pid}: {command[:300]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left_children() -> dict[int, str]:
    return {
        pid: command for pid, command in descendants().items() if not any(known in command for known in _KNOWN_CHILDREN)
    }


def _end_spark() -> None:
    """PySpark's JVM ends when Python does; end it now so that it is not taken for a stray."""
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark and pyspark.SparkContext._gateway
    if gateway:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(30)
