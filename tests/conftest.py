"""For all tests: the requirement lists, certificates, Kafka's tools, and a check for leftovers of tests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.background_log import flush as flush_log
from tests.support.certificates import Certificates, make_certificates
from tests.support.event_loops import EVENT_LOOP, new_event_loop
from tests.support.examples import load_profile
from tests.support.groups import broker_of, group_of
from tests.support.importing import import_in_turn
from tests.support.installed_copy import other_copy
from tests.support.java import NEW_VERSION, OLD_VERSION, KafkaTools, missing_kafka, need_jars, tools
from tests.support.open_clients import OpenClients
from tests.support.ports import unused_address
from tests.support.process import descendants, keep_bytecode
from tests.support.shared_classes import share_kafkas_classes, share_sparks_classes
from tests.support.spark import connector_jars, missing_spark, use_unpacked_spark

pytest_plugins = ["tests.support.folder_times", "pytester"]

_THREADS_END_WITHIN_S = 30.0
_CHILDREN_END_WITHIN_S = 30.0
_LINES_ARRIVE_WITHIN_S = 30.0
_LEFT_BY_WORKERS = pytest.StashKey[dict[int, str]]()
_OPEN_CLIENTS = pytest.StashKey[OpenClients]()
_OPEN_IN_WORKERS = pytest.StashKey[list[str]]()
_CACHE_ERROR = pytest.StashKey[Exception]()
# Python's own helpers; they end with the interpreter.
_KNOWN_CHILDREN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def pytest_configure(config: pytest.Config) -> None:
    """Load hypothesis's profile, keep bytecode, and let Ctrl-C end what tests start, also under a shell's ``&``.

    From here on, the places are noted where clients are made.

    Raises:
        pytest.UsageError: tests that start programs would test an installed copy instead of these sources.
    """
    hint = other_copy(Path(__file__).parents[1])
    if hint is not None:
        raise pytest.UsageError(hint)
    keep_bytecode()
    load_profile()
    config.stash[_OPEN_CLIENTS] = OpenClients()
    config.stash[_OPEN_CLIENTS].open()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Collect tests without garbage collections: they take a good part of the time, and modules are no garbage."""
    gc.disable()
    try:
        import_in_turn(session.config)
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Garbage collections of the tests leave out the modules imported before: a full one takes 0.2 s for them.

    There is none before it, which would take 0.5 s and find little.
    """
    gc.freeze()


if EVENT_LOOP != "asyncio":

    @pytest.hookimpl(optionalhook=True)
    def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Tests marked ``asyncio`` run on the loop that the environment names. See tests/support/event_loops.py."""
        return {EVENT_LOOP: new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """With ``-n 4 --dist loadgroup --no-loadscope-reorder``: a group of tests runs in one process, long groups first.

    Tests that share an expensive fixture are one group: Spark's session, three brokers, the oldest Apache Kafka. So
    are tests that start programs with Spark, since Python starts too slowly for two of them at a time. Those
    on a single broker are a group for each module, so that processes share them out. A process that gets one starts its
    own broker, for all groups that it gets later. Tests without a broker come last: those that parse all sources, which
    one process does once, then those that may take long, one by one, and the quick ones by modules. See
    :mod:`tests.support.groups`.
    """
    if not hasattr(config, "workerinput") or not config.getvalue("loadgroup"):
        yield
        return
    ranks = {}
    for item in items:
        rank, group = group_of(item)
        ranks[item] = rank
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    yield
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None:
            _name_group(item, mark.args[0])
    items.sort(key=ranks.__getitem__)


def _name_group(item: pytest.Item, group: str) -> None:
    """Let the name of an item end with that of its group: by this pytest-xdist's controller knows the groups.

    pytest-xdist has written it already, but where pytest 9.2 no longer looks (pytest-xdist issue 1386, open with 3.8):
    groups fall apart without a word, and each process starts its own Spark and its own Apache Kafka.
    """
    named = f"{item.nodeid}@{group}"
    if not item.nodeid.endswith(f"@{group}"):
        item._id = type(item._id).parse(named)  # type: ignore[attr-defined]
    assert item.nodeid.endswith(f"@{group}"), "groups of tests would fall apart"


@pytest.fixture
def dead_address() -> Iterator[str]:
    """``host:port`` on which nobody listens."""
    with unused_address() as address:
        yield address


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of one authority, good and bad ones. See :class:`Certificates`."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Apache Kafka's command-line programs. Usable against any broker. Mark such tests ``kafka``."""
    return tools()


@pytest.fixture(scope="session")
def newest_tools() -> KafkaTools:
    """The same of the newest version, whose definitions ours are compared with. Mark such tests ``kafka``."""
    return tools(NEW_VERSION)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Before a test's time begins: downloads and preparation for the cache, minutes of them on a new machine.

    This is outside of pytest-timeout's hook. Each download and each program that runs here has a deadline of its own.
    """
    try:
        fill_cache(item)
    except Exception as error:
        item.stash[_CACHE_ERROR] = error
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """All tests that lack Java are skipped from here, so that the run's report has one line for them."""
    if item.get_closest_marker("kafka"):
        need_jars()
    if _CACHE_ERROR in item.stash:
        raise item.stash[_CACHE_ERROR]


def fill_cache(item: pytest.Item) -> None:
    """Put into the cache, unless they are there, the jars and prepared classes that this test's programs need."""
    if item.get_closest_marker("kafka") and not missing_kafka():
        share_kafkas_classes()
        version = {"apache_old": OLD_VERSION, "apache_new": NEW_VERSION}.get(broker_of(item) or "")
        if "newest_tools" in getattr(item, "fixturenames", ()):
            version = NEW_VERSION
        if version is not None and not missing_kafka(version):
            tools(version)
    if item.get_closest_marker("spark") and not missing_spark():
        use_unpacked_spark()
        share_sparks_classes()
        connector_jars()


def _strays(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that a test started and that must have ended: ours, and all that would hold the interpreter back."""
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before
        and (not thread.daemon or thread.name.startswith("pyconsumer"))
        and thread.name != "pyconsumer-log"  # one for the process, which stays
    ]


def _threads_of_librdkafka() -> set[str]:
    """Linux: the ids of its threads in this process. Python does not know them."""
    if "confluent_kafka" not in sys.modules:
        return set()
    found = set()
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            if task.read_text().startswith("rdk:"):
                found.add(task.parent.name)
    return found


@pytest.fixture(autouse=True)
def _no_stray_threads() -> Iterator[None]:
    """A test that leaves a thread behind fails, under its own name rather than a later one's.

    A client of librdkafka has no ``close``, or need not be closed. As part of a cycle it would live on, and its threads
    would write to the standard error of later tests.
    """
    before, native = set(threading.enumerate()), _threads_of_librdkafka()
    yield
    if _threads_of_librdkafka() - native:
        gc.collect()
    deadline = time.monotonic() + _THREADS_END_WITHIN_S
    for thread in _strays(before):
        thread.join(max(0.0, deadline - time.monotonic()))
    left = _strays(before)
    assert not left, f"threads left behind: {', '.join(thread.name for thread in left)}"
    while left_native := _threads_of_librdkafka() - native:
        assert time.monotonic() < deadline, f"{len(left_native)} threads of librdkafka left behind"
        time.sleep(0.01)


class _AllLines:
    """``caplog`` with the lines that the package's log thread is about to pass on."""

    def __init__(self, found: pytest.LogCaptureFixture) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        assert flush_log(_LINES_ARRIVE_WITHIN_S)
        return getattr(self._found, name)

    @contextlib.contextmanager
    def at_level(self, level: int | str, logger: str | None = None) -> Iterator[None]:
        assert flush_log(_LINES_ARRIVE_WITHIN_S)
        with self._found.at_level(level, logger):
            yield
            assert flush_log(_LINES_ARRIVE_WITHIN_S)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """pytest's fixture, which waits for the package's log thread."""
    yield _AllLines(caplog)  # type: ignore[misc]
    assert flush_log(_LINES_ARRIVE_WITHIN_S)  # while the level that the test has set is in force


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """No child process and no open client may be left when the last fixture has been torn down."""
    config = session.config
    if config.option.collectonly:
        return
    _end_spark()
    deadline = time.monotonic() + _CHILDREN_END_WITHIN_S
    while (left := _left_children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    config.stash[_OPEN_CLIENTS].close()
    clients = config.stash[_OPEN_CLIENTS].left()
    if hasattr(config, "workeroutput"):  # one of several processes: the one that reports will say it
        config.workeroutput["left behind"] = left
        config.workeroutput["left open"] = clients
        return
    left |= config.stash.get(_LEFT_BY_WORKERS, {})
    clients += config.stash.get(_OPEN_IN_WORKERS, [])
    _report(session, "processes left behind", [f"{pid}: {command[:300]}" for pid, command in left.items()])
    _report(session, "clients left open", clients)


def _report(session: pytest.Session, title: str, lines: list[str]) -> None:
    """Fail the run if there are lines, and print them."""
    if not lines:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.section(title, red=True)
        for line in lines:
            reporter.line(line)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended: keep its leftovers."""
    output = getattr(node, "workeroutput", {})
    node.config.stash.setdefault(_LEFT_BY_WORKERS, {}).update(output.get("left behind", {}))
    node.config.stash.setdefault(_OPEN_IN_WORKERS, []).extend(output.get("left open", []))


def _left_children() -> dict[int, str]:
    return {
        pid: command for pid, command in descendants().items() if not any(known in command for known in _KNOWN_CHILDREN)
    }


def _end_spark() -> None:
    """PySpark's JVM and idle clients end when Python does. End them now so that they are not taken for strays."""
    if cache := sys.modules.get("pyconsumer.spark.client_cache"):
        cache.close_idle()
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark and pyspark.SparkContext._gateway
    if gateway:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(30)
