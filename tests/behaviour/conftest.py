"""Brokers for behaviour tests. Every test that takes ``cluster`` runs on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.consumer import decode_threads as decode_threads_module
from pyconsumer.protocol.records import IMPLEMENTATION
from tests.behaviour import consumer_support, group_members
from tests.behaviour.consumer_support import use_decoder
from tests.behaviour.raw_members import Connect, fetch_offset
from tests.support.asyncio_face import AsyncioAdmin, AsyncioConsumer, AsyncioProducer
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.faces import FACES, faces_of, is_combined
from tests.support.groups import KINDS_OF_BROKERS, may_be_used_later
from tests.support.health_watch import HealthWatch
from tests.support.log_watch import LogWatch
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy
from tests.support.raw_client import RawClient
from tests.support.share_groups import SHARE_CONFIG, ShareWorld
from tests.support.spark import start_spark
from tests.unit.protocol.records.helpers import Decoder, decoder_named

#: Programs in Go and JavaScript fetch their clients from elsewhere: ``tox -e clients`` and ``tox -e registries``
#: ask for them. ``tox -e gssapi`` needs a KDC.
_LANES = {
    "PYCONSUMER_CLIENT_SUITES": "test_client_suites.py",
    "PYCONSUMER_OTHER_CLIENTS": "test_other_clients.py",
    "PYCONSUMER_OTHER_REGISTRIES": "test_registry_clients.py",
    "PYCONSUMER_GSSAPI": "test_gssapi.py",
}
collect_ignore = [name for variable, name in _LANES.items() if not os.environ.get(variable)]

_RUN = uuid.uuid4().hex[:6]
_NUMBERS = itertools.count(1)
_OTHER_TWIN = "pure" if IMPLEMENTATION == "native" else "native"

#: Modules that run the originals beside our layers. They leave connections and tasks that nobody has closed.
_WITH_ORIGINALS = frozenset(
    f"tests.behaviour.test_{name}"
    for name in (
        "aiokafka_members",
        "compat_aiokafka_admin",
        "compat_calls",
        "compat_errors",
        "compat_odd_calls",
        "compat_records",
    )
)

#: Kinds of brokers that have the consumer group protocol (KIP-848).
_WITH_CONSUMER_PROTOCOL = ("embedded", "apache", "apache_new")

#: A killed Apache Kafka starts again only when its controller has given up the dead one: after 3 s rather than 9.
_SOON_GIVEN_UP = {"broker.heartbeat.interval.ms": 500, "broker.session.timeout.ms": 3000}


@pytest.fixture(autouse=True)
def _originals_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect the originals' objects, whose warnings would fail a later test. (Python 3.11 cannot parse then.)"""
    yield
    if request.module.__name__ in _WITH_ORIGINALS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


@pytest.fixture(scope="session")
def _health_watch() -> Iterator[HealthWatch]:
    with HealthWatch() as watch:
        yield watch


@pytest.fixture(autouse=True)
def _no_false_alarm(_health_watch: HealthWatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a client was called dead or not ready without a cause, or ``health()`` raised."""
    _health_watch.take_alarms()
    needs_collector = request.module.__name__ == "tests.behaviour.test_unclosed"  # its listeners hold their consumers
    with _health_watch.paused() if needs_collector else nullcontext():
        yield
    assert _health_watch.take_alarms() == []


@pytest.fixture(scope="session")
def _log_watch() -> Iterator[LogWatch]:
    watch = LogWatch()
    logging.getLogger("pyconsumer").addHandler(watch)
    yield watch
    logging.getLogger("pyconsumer").removeHandler(watch)


@pytest.fixture(autouse=True)
def _lines_name_their_client(request: pytest.FixtureRequest, _log_watch: LogWatch) -> Iterator[None]:
    """Fail a test in which a client logged a line without its client id or group. At the levels that tests set."""
    _log_watch.take()
    yield
    nameless = _log_watch.take()
    assert nameless == [] or "mock]" in request.node.name  # a mock is no client of a broker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give ``cluster_kind`` its values: both brokers, unless a mark says otherwise.

    ``embedded_only`` leaves Apache Kafka out, ``smoke`` adds its oldest and its newest version, and ``newest`` takes
    the newest one instead. Tests marked ``spark`` run on the embedded broker, and those also marked ``spark_smoke`` on
    Apache Kafka, too. (The source and the sink reach brokers only through our clients. The clients' own tests show that
    both brokers answer alike.) Tests marked ``twins`` read with the other decoder, too, on the embedded broker. Those
    also marked ``ahead`` read topics in zstd, too, with 0, 1 and 4 threads that decompress (on Apache Kafka with 1).
    Tests marked ``faces`` use the clients for asyncio, too. See :mod:`tests.support.faces` for ``PYCONSUMER_FACES``, by
    which some use one alone. Groups of tests marked ``protocols`` use the consumer protocol, too, on the brokers that
    have it.
    """
    if "cluster_kind" not in metafunc.fixturenames:
        return
    kinds: list[Any] = ["embedded"]
    alone = metafunc.definition.get_closest_marker("embedded_only")
    if alone is None and _on_apache(metafunc.definition):
        version = "apache_new" if metafunc.definition.get_closest_marker("newest") else "apache"
        kinds.append(pytest.param(version, marks=pytest.mark.kafka))
    elif alone is not None and not (alone.args or alone.kwargs.get("reason")):
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: embedded_only needs a reason")
    if metafunc.definition.get_closest_marker("smoke"):
        kinds += [pytest.param(kind, marks=pytest.mark.kafka) for kind in ("apache_old", "apache_new")]
    if metafunc.definition.get_closest_marker("faces") and _has_faces(metafunc.definition):
        metafunc.fixturenames.append("face")
        metafunc.parametrize("face", FACES, indirect=True)
    if not metafunc.definition.get_closest_marker("twins"):
        if metafunc.definition.get_closest_marker("consumer_protocol"):
            found = [kind for kind in _with_protocols(kinds) if kind.values[-1] == "consumer"]
            metafunc.fixturenames.append("group_protocol")
            metafunc.parametrize(
                ("cluster_kind", "group_protocol"), found, indirect=["group_protocol"], scope="session"
            )
        elif metafunc.definition.get_closest_marker("protocols"):
            metafunc.fixturenames.append("group_protocol")
            metafunc.parametrize(
                ("cluster_kind", "group_protocol"), _with_protocols(kinds), indirect=["group_protocol"], scope="session"
            )
        else:
            metafunc.parametrize("cluster_kind", kinds, scope="session")
        return
    pairs = [
        pytest.param(*kind.values, IMPLEMENTATION, id=kind.values[0], marks=kind.marks)
        for kind in (each if isinstance(each, type(pytest.param())) else pytest.param(each) for each in kinds)
    ]
    pairs.append(pytest.param("embedded", _OTHER_TWIN, id=f"embedded-{_OTHER_TWIN}", marks=pytest.mark.slow))
    metafunc.fixturenames.extend(("decoder_name", "decoder"))
    if metafunc.definition.get_closest_marker("ahead") is None:
        metafunc.parametrize(("cluster_kind", "decoder_name"), pairs, indirect=["decoder_name"], scope="session")
        return
    found = [pytest.param(*pair.values, None, id=pair.id, marks=pair.marks) for pair in pairs]
    found += [
        pytest.param(*pair.values, threads, id=f"{pair.id}-zstd-{threads}", marks=pair.marks)
        for pair in pairs[:-1]
        for threads in ((0, 1, 4) if pair.values[0] == "embedded" else (1,))  # the bytes are the same from each broker
    ]
    metafunc.fixturenames.append("decode_threads")
    metafunc.parametrize(
        ("cluster_kind", "decoder_name", "decode_threads"),
        found,
        indirect=["decoder_name", "decode_threads"],
        scope="session",
    )


def _with_protocols(kinds: list[Any]) -> list[Any]:
    """Return each kind of broker with the classic group protocol, then those that have the consumer protocol, too."""
    found = []
    for protocol in ("classic", "consumer"):
        for each in kinds:
            kind = each if isinstance(each, type(pytest.param())) else pytest.param(each)
            if protocol == "consumer" and kind.values[0] not in _WITH_CONSUMER_PROTOCOL:
                continue
            name = str(kind.values[0]) if protocol == "classic" else f"{kind.values[0]}-consumer"
            found.append(pytest.param(*kind.values, protocol, id=name, marks=kind.marks))
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the faces that this run does not use, and the combinations of tests marked ``pairs``."""
    items[:] = [item for item in items if _has_face_of_this_run(item) and _is_combination_of_this_run(item)]


def _is_combination_of_this_run(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("pairs")
    if mark is None or not isinstance(item, pytest.Function):
        return True
    parameters = item.callspec.params
    values = {each.args[0]: list(each.args[1]) for each in item.iter_markers("parametrize")}
    return is_combined(
        (
            mark.kwargs.get("swap", 0),
            parameters.get("cluster_kind", "embedded") != "embedded",
            parameters.get("group_protocol") == "consumer",
            *(values[name].index(parameters[name]) for name in mark.args),
        )
    )


def _has_face_of_this_run(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    face = parameters.get("face", parameters.get("world"))  # that of the tests of share groups
    if face not in FACES or not isinstance(item, pytest.Function):
        return True
    swaps = (parameters.get("group_protocol") == "consumer") + (parameters.get("decoder_name") == _OTHER_TWIN)
    axes = (*FACES, "apache", "apache_old", "apache_new", "embedded", "consumer", "native", "pure", "zstd")
    others = [part for part in item.callspec.id.split("-") if part not in axes]
    kinds = [str(parameters[name]) for name in KINDS_OF_BROKERS if name in parameters]
    return face in faces_of(
        "-".join([item.originalname, *others]),
        kinds[0] if kinds else "embedded",
        swaps=swaps,
        embedded_only=item.get_closest_marker("embedded_only") is not None or not _on_apache(item),
    )


def _has_faces(definition: pytest.Item) -> bool:
    """Return if a test marked ``faces`` uses both."""
    alone = definition.get_closest_marker("blocking_only")
    if alone is not None and not (alone.args or alone.kwargs.get("reason")):
        raise pytest.UsageError(f"{definition.nodeid}: blocking_only needs a reason")
    return alone is None


def _on_apache(definition: pytest.Item) -> bool:
    """Return if a test runs on Apache Kafka, too."""
    return not definition.get_closest_marker("spark") or bool(definition.get_closest_marker("spark_smoke"))


@pytest.fixture(autouse=True)
def _what_members_log(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> None:
    """Show the members' log lines with a failure in groups: it may take hundreds of runs to see it again."""
    if request.path.name.startswith("test_group"):
        caplog.set_level(logging.INFO, "pyconsumer.consumer.coordinator")


@pytest.fixture(autouse=True)
def _variant(request: pytest.FixtureRequest) -> None:
    """Set up the fixtures for a test's marks: pytest drops fixtures that only a parameter names, not the function."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    for parameter, fixture in (
        ("face", "face"),
        ("decoder_name", "decoder"),
        ("decode_threads", "_decompress_ahead"),
        ("group_protocol", "_use_protocol"),
    ):
        if parameter in parameters:
            request.getfixturevalue(fixture)


@pytest.fixture(scope="session")
def group_protocol(request: pytest.FixtureRequest) -> str:
    """The protocol of the groups of a test marked ``protocols``."""
    return str(request.param)


@pytest.fixture
def _use_protocol(group_protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all consumers that the helpers of a test marked ``protocols`` make have its protocol."""
    monkeypatch.setattr(group_members, "group_protocol", group_protocol)


@pytest.fixture
def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test marked ``faces`` and its helpers make clients of one kind. Helpers that fill topics keep theirs."""
    if request.param == "blocking":
        return
    for module in (consumer_support, group_members, request.module):
        if hasattr(module, "KafkaConsumer"):
            monkeypatch.setattr(module, "KafkaConsumer", AsyncioConsumer)
    for module, name, made in (
        (request.module, "KafkaProducer", AsyncioProducer),
        (request.module, "KafkaAdminClient", AsyncioAdmin),
        (sys.modules[__name__], "KafkaAdminClient", AsyncioAdmin),
    ):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, made)


@pytest.fixture(scope="session")
def decode_threads(request: pytest.FixtureRequest) -> int | None:
    """``decode_threads`` of a test marked ``ahead``, which reads a topic in zstd then. None: the default, no codec."""
    found: int | None = request.param
    return found


@pytest.fixture
def _decompress_ahead(decode_threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test marked ``ahead`` read a topic in zstd by that many threads. Even the smallest batch wakes them."""
    if decode_threads is None:
        return
    monkeypatch.setattr(consumer_support, "default_codec", "zstd")
    monkeypatch.setattr(consumer_support, "default_settings", {"decode_threads": decode_threads})
    made = decode_threads_module.DecodeAhead
    if made is not None:
        monkeypatch.setattr(decode_threads_module, "DecodeAhead", partial(made, worth_bytes=1))


@pytest.fixture(scope="session")
def decoder_name(request: pytest.FixtureRequest) -> str:
    """The name of the decoder that a test marked ``twins`` runs on."""
    return str(request.param)


@pytest.fixture
def decoder(decoder_name: str) -> Iterator[Decoder]:
    """The decoder of consumers of this process, for one test marked ``twins``. Brokers and other processes keep
    theirs.
    """
    chosen = decoder_named(decoder_name)
    if chosen is None:
        pytest.skip("the compiled decoder was not built")
    with pytest.MonkeyPatch.context() as patch:
        use_decoder(chosen, patch)
        yield chosen


class _Clusters:
    """Started clusters by kind and number of brokers, each for the rest of the run or as long as it is needed."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._running: dict[tuple[str, int], Cluster] = {}

    def get(self, kind: str, brokers: int = 1) -> Cluster:
        """Return the cluster of this kind, which is started if it does not run."""
        key = (kind, brokers)
        if key not in self._running:
            self._running[key] = start_cluster(kind, self._certificates, brokers=brokers)
        return self._running[key]

    def stop_unless(self, needed: Callable[[str, int], bool] = lambda kind, brokers: False) -> None:
        """Stop those that are no longer needed, by default all."""
        for key in [key for key in self._running if not needed(*key)]:
            self._running.pop(key).stop()


_CLUSTERS = pytest.StashKey[_Clusters]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the Apache Kafkas that no later test of this process uses: one that idles takes 1 to 3 % of a core.

    Processes of pytest-xdist get groups of tests in the order of their ranks, so the next test tells. A test that comes
    out of turn, after one of these processes was lost, starts its cluster again.

    The embedded brokers run to the end: kafka-python's clients that a test has left open try to connect for ever, and
    each attempt that fails leaves a socket, whose warning fails another test.
    """
    yield
    running = item.config.stash.get(_CLUSTERS, None)
    if running is not None and nextitem is not None and hasattr(item.config, "workerinput"):
        running.stop_unless(partial(_may_be_used_later, nextitem))


def _may_be_used_later(nextitem: pytest.Item, kind: str, brokers: int) -> bool:
    return kind == "embedded" or may_be_used_later(nextitem, kind, brokers)


@pytest.fixture(scope="session")
def _clusters(certificates: Certificates, pytestconfig: pytest.Config) -> Iterator[_Clusters]:
    running = pytestconfig.stash[_CLUSTERS] = _Clusters(certificates)
    yield running
    running.stop_unless()


@pytest.fixture(scope="session")
def cluster(cluster_kind: str, _clusters: _Clusters) -> Cluster:
    """A cluster shared by the whole run: use fresh topics and groups, and leave it intact."""
    return _clusters.get(cluster_kind)


@pytest.fixture(scope="session")
def embedded(_clusters: _Clusters) -> Cluster:
    """The embedded cluster of the run alone, for foreign clients and tools that test the broker."""
    return _clusters.get("embedded")


@pytest.fixture(scope="session")
def apache(_clusters: _Clusters) -> Cluster:
    """Apache Kafka of the run alone. Mark such tests ``kafka``."""
    return _clusters.get("apache")


@pytest.fixture(scope="session")
def apache_old(_clusters: _Clusters) -> Cluster:
    """The oldest Apache Kafka that tests run against, for a smoke test. Mark such tests ``kafka``."""
    return _clusters.get("apache_old")


@pytest.fixture(scope="module", params=["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def sharing(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Cluster]:
    """A broker with share groups and short times, for the tests of a module."""
    cluster = start_cluster(request.param, certificates, config=SHARE_CONFIG)
    yield cluster
    cluster.stop()


@pytest.fixture
def world(sharing: Cluster) -> Iterator[ShareWorld]:
    """A new share group that reads from the beginning."""
    world = ShareWorld(sharing, "blocking")
    world.set_group(share_auto_offset_reset="earliest")
    yield world
    world.close()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    """An admin client of ``cluster``."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=60_000) as client:
        yield client


@pytest.fixture
def new_cluster(certificates: Certificates) -> Iterator[Callable[..., Cluster]]:
    """Starts clusters for one test: ``new_cluster(kind, brokers=1, config={}, data_dir=None, server_pem=None)``.

    For tests that break, restart or configure a broker. ``kind`` is usually the fixture ``cluster_kind``.
    """
    started: list[Cluster] = []

    def start(kind: str, **options: Any) -> Cluster:
        if kind != "embedded":
            options["config"] = _SOON_GIVEN_UP | options.get("config", {})
        made = start_cluster(kind, certificates, **options)
        started.append(made)
        return made

    yield start
    for made in reversed(started):
        made.stop()


@pytest.fixture(scope="module")
def victim(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    """A cluster of one broker for the tests of one module that kill it or stop it. They let it live again."""
    config = {} if cluster_kind == "embedded" else _SOON_GIVEN_UP
    made = start_cluster(cluster_kind, certificates, config=config)
    yield made
    made.stop()


@pytest.fixture
def nodes(cluster_kind: str, _clusters: _Clusters) -> Iterator[Cluster]:
    """A cluster of three brokers, whole again before each test: kill and restart any of them. Mark it ``cluster``."""
    cluster = _clusters.get(cluster_kind, 3)
    yield cluster
    for node in sorted(cluster.down):
        cluster.restart(node)
    cluster.wait_in_sync()


@pytest.fixture
def new_proxy(cluster: Cluster) -> Iterator[Callable[..., KafkaProxy]]:
    """Starts proxies before ``cluster``: ``new_proxy(round_trip_ms=5)``."""
    with ExitStack() as running:
        yield lambda **options: running.enter_context(KafkaProxy(cluster.bootstrap_servers, **options))


@pytest.fixture
def proxy(new_proxy: Callable[..., KafkaProxy]) -> KafkaProxy:
    """A proxy before ``cluster``, transparent until it gets rules."""
    return new_proxy()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session of the run. It knows our source. Mark such tests ``spark``."""
    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def _fresh(kind: str, node_name: str) -> str:
    """An unused name that contains the name of the test."""
    plain = "".join(c if c.isalnum() else "-" for c in node_name.partition("[")[0])[:60]
    return f"{kind}-{plain}-{_RUN}-{next(_NUMBERS)}"


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A fresh topic name. The topic does not exist."""
    return _fresh("t", request.node.name)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """A fresh group id."""
    return _fresh("g", request.node.name)


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, cluster: Cluster) -> Callable[..., str]:
    """Creates topics on ``cluster``: ``make_topic(partitions=1, config={})`` returns the name."""

    def make(partitions: int = 1, *, config: dict[str, object] | None = None, replication_factor: int = 1) -> str:
        name = _fresh("t", request.node.name)
        return cluster.create_topic(name, partitions, replication_factor=replication_factor, config=config)

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """The name of a fresh topic of one partition on ``cluster``."""
    return make_topic()


@pytest.fixture
def connect(cluster: Cluster, group_id: str) -> Iterator[Connect]:
    """Opens raw connections, closed at the end. The coordinator of ``group_id`` is there from the first one on."""
    with ExitStack() as open_ones:

        def make() -> RawClient:
            return open_ones.enter_context(cluster.raw())

        first = make()
        first.coordinator(group_id)
        # A broker that has just started still loads the partitions of groups.
        wait_until(lambda: fetch_offset(first, group_id, "any")[1] == 0, 60, "groups are served")
        yield make
