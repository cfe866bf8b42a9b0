"""The pytest plugin: fixtures for an embedded cluster, new topics, clients and a clock.

=========================  ========  ==================================================================================
fixture                    scope     value
=========================  ========  ==================================================================================
``kafka_cluster``          session   a running :class:`pyconsumer.broker.EmbeddedCluster` of one broker on disk
``kafka_topic``            function  the name of a new topic in it, with one partition
``kafka_group``            function  the name of a consumer group that no other test uses
``kafka_faults``           function  ``kafka_cluster.faults``: errors, delays and lost connections that a test plans
``kafka_clock``            function  a :class:`pyconsumer.testing.RunningClock`, which the clients below use
``kafka_consumer``         function  a function that creates consumers, with settings as for ``KafkaConsumer``
``kafka_producer``         function  a function that creates producers, with settings as for ``KafkaProducer``
``kafka_admin``            function  an admin client
``kafka_async_consumer``   function  as ``kafka_consumer``, for ``pyconsumer.aio`` (needs pytest-asyncio)
``kafka_async_producer``   function  as ``kafka_producer``, for ``pyconsumer.aio`` (needs pytest-asyncio)
``kafka_schema_registry``  session   the URL of the cluster's Schema Registry
``kafka_cluster_config``   session   the cluster's broker settings: define it in ``conftest.py`` to change them
``kafka_cluster_brokers``  session   the number of brokers (1): define it in ``conftest.py`` to change it
``kafka_cluster_users``    session   passwords of users (none): define it in ``conftest.py``, see :mod:`.acl_plugin`
=========================  ========  ==================================================================================

``@pytest.mark.kafka_topic(partitions=3, config={"cleanup.policy": "compact"})`` sets the partitions and settings of a
test's topic. ``@pytest.mark.kafka_acls("alice: READ topic orders")`` sets the rights of users, see :mod:`.acl_plugin`.

After each test that uses the cluster its faults are removed, and brokers that it has killed are started again. Users,
rules and quotas are those of the start again. Clients that these fixtures have created are closed at the end of the
test, the last one first.

No process starts, and the broker is not imported, before a test uses a fixture. The cluster is a child process,
which ends with the test run, also if that is killed.
"""

from __future__ import annotations

import importlib
import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pyconsumer.clock import RunningClock
from pyconsumer.testing.acl_plugin import (
    cluster_options,
    configure,
    kafka_cluster_users,
    pytest_addoption,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
    rights_of,
)
from pyconsumer.testing.fixture_settings import CLOSE_MS, consumer_settings, producer_settings

if TYPE_CHECKING:
    from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from pyconsumer.broker import EmbeddedCluster
    from pyconsumer.broker.cluster import ClusterFaults

__all__ = [
    "kafka_admin",
    "kafka_async_consumer",
    "kafka_async_producer",
    "kafka_clock",
    "kafka_cluster",
    "kafka_cluster_brokers",
    "kafka_cluster_config",
    "kafka_cluster_users",
    "kafka_consumer",
    "kafka_faults",
    "kafka_group",
    "kafka_producer",
    "kafka_schema_registry",
    "kafka_topic",
    "pytest_addoption",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]

_RUN = uuid.uuid4().hex[:8]
_NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin's marks. If pytest-asyncio is active, register the fixtures for asyncio, too."""
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=1, config=None): partitions and settings of the topic that the fixture kafka_topic"
        " creates",
    )
    configure(config)
    if any(map(config.pluginmanager.hasplugin, ("asyncio", "pytest_asyncio", "pytest_asyncio.plugin"))):
        module = importlib.import_module("pyconsumer.testing.asyncio_plugin")
        config.pluginmanager.register(module, "pyconsumer-asyncio")


@pytest.fixture(scope="session")
def kafka_cluster_config() -> Mapping[str, object]:
    """The broker settings for :func:`kafka_cluster`, such as ``{"auto.create.topics.enable": "false"}``.

    By default ``group.initial.rebalance.delay.ms`` is 0, so that groups form at once. ``log.retention.ms`` is -1, so
    that records with old timestamps are kept.
    """
    return {"group.initial.rebalance.delay.ms": 0, "log.retention.ms": -1}


@pytest.fixture(scope="session")
def kafka_cluster_brokers() -> int:
    """The number of brokers in :func:`kafka_cluster`."""
    return 1


@pytest.fixture(scope="session")
def kafka_cluster(
    request: pytest.FixtureRequest,
    kafka_cluster_config: Mapping[str, object],
    kafka_cluster_brokers: int,
    kafka_cluster_users: Mapping[str, str],
) -> Iterator[EmbeddedCluster]:
    """A running embedded cluster for the whole test run. Pass its ``bootstrap_servers`` to clients.

    It has a Schema Registry if a test of this run uses :func:`kafka_schema_registry`. With users it has a second
    listener, at which they log in (:meth:`~pyconsumer.broker.EmbeddedCluster.login`).
    """
    from pyconsumer.broker import EmbeddedCluster

    wanted = any("kafka_schema_registry" in getattr(item, "fixturenames", ()) for item in request.session.items)
    config = ({"super.users": "User:ANONYMOUS"} if kafka_cluster_users else {}) | dict(kafka_cluster_config)
    options = cluster_options(kafka_cluster_users)
    with EmbeddedCluster(brokers=kafka_cluster_brokers, config=config, schema_registry=wanted, **options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_schema_registry(kafka_cluster: EmbeddedCluster) -> str:
    """The URL of the Schema Registry of :func:`kafka_cluster`. Its schemas stay for the whole test run."""
    return kafka_cluster.schema_registry_url


@pytest.fixture(autouse=True)
def _kafka_cluster_is_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Repair the cluster after a test. This fixture is set up first, so it ends after the clients of the test."""
    if "kafka_cluster" not in request.fixturenames:
        yield
        return
    from pyconsumer.broker import EmbeddedCluster

    cluster: object = request.getfixturevalue("kafka_cluster")
    if not isinstance(cluster, EmbeddedCluster):  # a fixture of the user's, with the same name
        yield
        return
    users: Mapping[str, str] = request.getfixturevalue("kafka_cluster_users")
    with rights_of(request, _RUN, has_users=bool(users)):
        yield
    cluster.repair()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_cluster: EmbeddedCluster) -> str:
    """The name of a new topic in :func:`kafka_cluster`. It begins with the name of the test.

    ``@pytest.mark.kafka_topic(partitions=..., config={...})`` sets its partitions and settings.
    """
    shape: dict[str, object] = {}
    for mark in request.node.iter_markers("kafka_topic"):
        if mark.args:
            raise pytest.UsageError(
                f"kafka_topic takes partitions and config by name, such as kafka_topic(partitions=3), not {mark.args!r}"
            )
        shape = {**mark.kwargs, **shape}  # the mark nearest to the test comes first, and takes precedence
    unknown = shape.keys() - {"partitions", "config"}
    if unknown:
        raise pytest.UsageError(f"kafka_topic takes partitions and config, not {', '.join(sorted(unknown))}")
    name = _fresh(request)
    partitions, config = shape.get("partitions", 1), shape.get("config") or {}
    if not isinstance(partitions, int) or not isinstance(config, Mapping):
        raise pytest.UsageError("kafka_topic takes a number of partitions and a mapping of settings")
    kafka_cluster.create_topic(name, partitions=partitions, config=dict(config))
    return name


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """The name of a consumer group that no other test uses."""
    return _fresh(request)


@pytest.fixture
def kafka_faults(kafka_cluster: EmbeddedCluster) -> ClusterFaults:
    """The fault injector of :func:`kafka_cluster`. Its faults are removed after the test.

    See :mod:`pyconsumer.broker.faults`.
    """
    return kafka_cluster.faults


@pytest.fixture
def kafka_clock() -> RunningClock:
    """A running clock that the test can move ahead. The clients of the fixtures use it."""
    return RunningClock()


@pytest.fixture
def kafka_consumer(
    kafka_cluster: EmbeddedCluster, kafka_clock: RunningClock
) -> Iterator[Callable[..., KafkaConsumer[Any, Any]]]:
    """A function that creates consumers, as in ``kafka_consumer("orders", group_id="g")``.

    Their ``auto_offset_reset`` is ``earliest`` by default.
    """
    from pyconsumer import KafkaConsumer

    with ExitStack() as made:

        def make(*topics: str, **settings: Any) -> KafkaConsumer[Any, Any]:
            consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
                *topics, **consumer_settings(kafka_cluster, settings), clock=kafka_clock
            )
            made.callback(consumer.close, CLOSE_MS)
            return consumer

        yield make


@pytest.fixture
def kafka_producer(
    kafka_cluster: EmbeddedCluster, kafka_clock: RunningClock
) -> Iterator[Callable[..., KafkaProducer[Any, Any]]]:
    """A function that creates producers, as in ``kafka_producer(linger_ms=0)``."""
    from pyconsumer import KafkaProducer

    with ExitStack() as made:

        def make(**settings: Any) -> KafkaProducer[Any, Any]:
            producer: KafkaProducer[Any, Any] = KafkaProducer(
                **producer_settings(kafka_cluster, settings), clock=kafka_clock
            )
            made.callback(producer.close, timeout_ms=0)
            return producer

        yield make


@pytest.fixture
def kafka_admin(kafka_cluster: EmbeddedCluster) -> Iterator[KafkaAdminClient]:
    """An admin client of :func:`kafka_cluster`."""
    from pyconsumer import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        yield admin


def _needs_pytest_asyncio() -> None:
    raise pytest.UsageError("this fixture needs pytest-asyncio: pip install pytest-asyncio")


@pytest.fixture
def kafka_async_consumer() -> None:
    """Fails if pytest-asyncio is missing.

    With it, the fixture of :mod:`pyconsumer.testing.asyncio_plugin` is used instead.
    """
    _needs_pytest_asyncio()


@pytest.fixture
def kafka_async_producer() -> None:
    """Fails if pytest-asyncio is missing.

    With it, the fixture of :mod:`pyconsumer.testing.asyncio_plugin` is used instead.
    """
    _needs_pytest_asyncio()


def _fresh(request: pytest.FixtureRequest) -> str:
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', request.node.name)[:150]}-{_RUN}-{next(_NUMBERS)}"
