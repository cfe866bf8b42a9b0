"""One face for the brokers that behaviour tests run on: the embedded one and Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Certificates
from tests.support.raw_client import RawClient

__all__ = ["COMMON_CONFIG", "KINDS", "Cluster", "start_cluster"]

KINDS = ("embedded", "apache", "apache_old")

#: The same on both kinds, so that one test's timing and limits hold on either.
COMMON_CONFIG: dict[str, object] = {
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
}


class Cluster:
    """A running cluster.

    Attributes:
        kind: ``embedded``, ``apache`` or ``apache_old``.
        server: the :class:`EmbeddedCluster` or the :class:`ApacheKafka` itself, for what only that one can do.
        certificates: the authority and certificates of its TLS listeners, where it has such.
    """

    def __init__(self, kind: str, server: Any, certificates: Certificates | None = None) -> None:
        self.kind = kind
        self.server = server
        self.certificates = certificates

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.bootstrap_servers}>"

    @property
    def bootstrap_servers(self) -> str:
        """``host:port[,host:port]`` of the plain listeners."""
        return str(self.server.bootstrap_servers)

    @property
    def embedded(self) -> bool:
        return self.kind == "embedded"

    def raw(self, *, timeout_s: float = 30.0) -> RawClient:
        """A new raw connection to the first broker; close it."""
        return RawClient(self.bootstrap_servers, timeout_s=timeout_s)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, wait for its leaders, and return its name."""
        with closing(self.raw()) as client:
            client.create_topic(name, partitions, replication_factor=replication_factor, config=config)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        with closing(self.raw()) as client:
            client.delete_topic(name)

    def stop(self) -> None:
        self.server.stop()


def start_cluster(
    kind: str,
    *,
    brokers: int = 1,
    config: Mapping[str, object] | None = None,
    data_dir: str | None = None,
    certificates: Certificates | None = None,
) -> Cluster:
    """Start a cluster of a kind; the caller stops it.

    Args:
        brokers: how many; Apache Kafka has one.
        config: Kafka's broker settings, stronger than :data:`COMMON_CONFIG`.
        data_dir: of the embedded cluster; a temporary folder by default.
        certificates: for Apache Kafka's TLS listeners.
    """
    settings = COMMON_CONFIG | dict(config or {})
    if kind == "embedded":
        from pyconsumer.broker import EmbeddedCluster

        cluster = EmbeddedCluster(brokers=brokers, data_dir=data_dir, config=settings)
        cluster.start()
        return Cluster(kind, cluster)
    assert brokers == 1, "Apache Kafka is started with one broker"
    from tests.support.java import OLD_VERSION, VERSION

    version = OLD_VERSION if kind == "apache_old" else VERSION
    server = ApacheKafka(version=version, config=settings, certificates=certificates)
    try:
        server.start()
    except BaseException:
        server.stop()
        raise
    return Cluster(kind, server, certificates)
