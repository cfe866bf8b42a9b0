"""The pytest plugin: fixtures that return an embedded cluster and fresh topics.

=========================  ========  ==================================================================================
fixture                    scope     what it is
=========================  ========  ==================================================================================
``kafka_cluster``          session   a running :class:`pyconsumer.broker.EmbeddedCluster` of one broker on disk
``kafka_topic``            function  the name of a topic that was just created in it, with one partition
``kafka_cluster_config``   session   Kafka's broker settings for it; define it in ``conftest.py`` to change them
``kafka_cluster_brokers``  session   how many brokers it has (1); define it to change that
=========================  ========  ==================================================================================

``@pytest.mark.kafka_topic(partitions=3, config={"cleanup.policy": "compact"})`` shapes the topic of one test.

Nothing starts, and nothing of the broker is imported, before a test asks for a fixture. The cluster is a child process
that ends with the test run, also when that is killed.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyconsumer.broker import EmbeddedCluster

__all__ = ["kafka_cluster", "kafka_cluster_brokers", "kafka_cluster_config", "kafka_topic"]

_RUN = uuid.uuid4().hex[:8]
_NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers", "kafka_topic(partitions=1, config=None): shape of the topic that the fixture kafka_topic creates"
    )


@pytest.fixture(scope="session")
def kafka_cluster_config() -> Mapping[str, object]:
    """Kafka's broker settings for :func:`kafka_cluster`, such as ``{"auto.create.topics.enable": "false"}``.

    By default groups form at once, and records with old timestamps are kept: ``group.initial.rebalance.delay.ms`` is 0,
    ``log.retention.ms`` -1.
    """
    return {"group.initial.rebalance.delay.ms": 0, "log.retention.ms": -1}


@pytest.fixture(scope="session")
def kafka_cluster_brokers() -> int:
    """Return how many brokers :func:`kafka_cluster` has."""
    return 1


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_config: Mapping[str, object], kafka_cluster_brokers: int) -> Iterator[EmbeddedCluster]:
    """A running embedded cluster for the whole test run; its ``bootstrap_servers`` is what clients need."""
    from pyconsumer.broker import EmbeddedCluster

    with EmbeddedCluster(brokers=kafka_cluster_brokers, config=dict(kafka_cluster_config)) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_cluster: EmbeddedCluster) -> str:
    """The name of a topic that nobody else uses, created in :func:`kafka_cluster`.

    Its name begins with the test's. Shape it with ``@pytest.mark.kafka_topic(partitions=..., config={...})``.
    """
    shape: dict[str, object] = {}
    for mark in request.node.iter_markers("kafka_topic"):
        if mark.args:
            raise pytest.UsageError(
                f"kafka_topic takes partitions and config by name, such as kafka_topic(partitions=3), not {mark.args!r}"
            )
        shape = {**mark.kwargs, **shape}  # the mark nearest to the test comes first and wins
    unknown = shape.keys() - {"partitions", "config"}
    if unknown:
        raise pytest.UsageError(f"kafka_topic takes partitions and config, not {', '.join(sorted(unknown))}")
    name = f"{re.sub('[^A-Za-z0-9._-]+', '-', request.node.name)[:150]}-{_RUN}-{next(_NUMBERS)}"
    partitions, config = shape.get("partitions", 1), shape.get("config") or {}
    if not isinstance(partitions, int) or not isinstance(config, Mapping):
        raise pytest.UsageError("kafka_topic takes a number of partitions and a mapping of settings")
    kafka_cluster.create_topic(name, partitions=partitions, config=dict(config))
    return name
