"""One face for the brokers that behaviour tests run on: the embedded one and Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pyconsumer.broker import EmbeddedCluster
from tests.support.apache_kafka import LISTENERS, ApacheKafka, Credentials
from tests.support.certificates import Certificates
from tests.support.java import OLD_VERSION, VERSION
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
        certificates: the authority and certificates of its TLS listeners.
        credentials: the user that the SASL listeners know.
    """

    def __init__(self, kind: str, server: Any, certificates: Certificates) -> None:
        self.kind = kind
        self.server = server
        self.certificates = certificates
        self.credentials = Credentials()

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.bootstrap_servers}>"

    @property
    def bootstrap_servers(self) -> str:
        """``host:port[,host:port]`` of the plain listeners."""
        return str(self.server.bootstrap_servers)

    def address(self, listener: str) -> str:
        """The same of another listener: one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""
        return str(self.server.address(listener))

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

    def kill(self) -> None:
        """End the (only) broker as ``kill -9`` does; its files and its address stay."""
        if isinstance(self.server, EmbeddedCluster):
            self.server.kill_broker(0)
        else:
            self.server.kill()

    def restart(self) -> None:
        """Start it again after :meth:`kill`, and wait until it answers (Apache Kafka: about 12 s)."""
        if isinstance(self.server, EmbeddedCluster):
            self.server.restart_broker(0)
        else:
            self.server.start()

    def stop(self) -> None:
        self.server.stop()


def start_cluster(
    kind: str,
    certificates: Certificates,
    *,
    brokers: int = 1,
    config: Mapping[str, object] | None = None,
    data_dir: str | Path | None = None,
    server_pem: Path | None = None,
) -> Cluster:
    """Start a cluster of a kind, with all four listeners; the caller stops it.

    Args:
        certificates: for the TLS listeners and the clients.
        brokers: how many; Apache Kafka has one.
        config: Kafka's broker settings, stronger than :data:`COMMON_CONFIG`.
        data_dir: where data goes; a temporary folder by default.
        server_pem: what the TLS listeners show instead of ``certificates.server_pem``.
    """
    settings = COMMON_CONFIG | dict(config or {})
    user = Credentials()
    server: EmbeddedCluster | ApacheKafka
    if kind == "embedded":
        server = EmbeddedCluster(
            brokers=brokers,
            data_dir=data_dir,
            config=settings,
            listeners=LISTENERS,
            ssl_certfile=server_pem or certificates.server_pem,
            sasl_users={user.username: user.password},
        )
    else:
        assert brokers == 1, "Apache Kafka is started with one broker"
        if server_pem is not None:
            settings["ssl.keystore.location"] = server_pem
        server = ApacheKafka(
            version=OLD_VERSION if kind == "apache_old" else VERSION,
            config=settings,
            folder=None if data_dir is None else Path(data_dir),
            certificates=certificates,
            credentials=user,
        )
    try:
        server.start()
    except BaseException:
        server.stop()
        raise
    return Cluster(kind, server, certificates)
