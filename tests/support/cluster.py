"""One face for the brokers that behaviour tests run on: the embedded one and Apache Kafka."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import ConfigResource, ConfigResourceType
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.protocol.messages.metadata import MetadataRequest
from tests.support.apache_kafka import LISTENERS, ApacheKafka, ApacheKafkaNodes, Credentials
from tests.support.certificates import Certificates
from tests.support.java import NEW_VERSION, OLD_VERSION, VERSION
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.support.shared_classes import share_kafkas_classes

__all__ = ["COMMON_CONFIG", "KINDS", "Cluster", "start_cluster"]

KINDS = ("embedded", "apache", "apache_old")

#: The same on both kinds, so that one test's timing and limits hold on either.
COMMON_CONFIG: dict[str, object] = {
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    # Records with old timestamps stay: half a minute after a broker's start it would delete them.
    "log.retention.ms": -1,
}

#: Of groups of the consumer protocol, which have these times from the broker.
CONSUMER_GROUPS: dict[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 20_000,
}

#: Of clusters of several brokers: whatever one of them holds survives it.
NODES_CONFIG: dict[str, object] = {
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
}


class Cluster:
    """A running cluster.

    Attributes:
        kind: ``embedded``, ``apache`` or ``apache_old``.
        server: the :class:`EmbeddedCluster`, :class:`ApacheKafka` or :class:`ApacheKafkaNodes` itself, for its own
        features.
        node_ids: of its brokers.
        down: those that were killed and not started again.
        certificates: the authority and certificates of its TLS listeners.
        credentials: the user that the SASL listeners know.
    """

    def __init__(self, kind: str, server: Any, certificates: Certificates) -> None:
        self.kind = kind
        self.server = server
        self.certificates = certificates
        self.credentials = Credentials()
        self.down: set[int] = set()
        if isinstance(server, ApacheKafkaNodes):
            self.node_ids = tuple(server.nodes)
        elif isinstance(server, ApacheKafka):
            self.node_ids = (server.node_id,)
        else:
            self.node_ids = tuple(range(len(self.bootstrap_servers.split(","))))

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

    def raw(self, *, timeout_s: float = 60.0) -> RawClient:
        """A new raw connection to the first broker that is there. Close it."""
        addresses = self.bootstrap_servers.split(",")
        living = [address for node, address in zip(self.node_ids, addresses, strict=True) if node not in self.down]
        return RawClient((living or addresses)[0], timeout_s=timeout_s)

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

    def set_group(self, group_id: str, settings: Mapping[str, str]) -> None:
        """Set what a group has of its own, such as ``consumer.session.timeout.ms``. It need not be there yet."""
        with KafkaAdminClient(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, group_id): settings})

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        with closing(self.raw()) as client:
            client.delete_topic(name)

    def kill(self, node: int | None = None) -> None:
        """End a broker (by default the only one) as ``kill -9`` does. Its files and its address stay."""
        node = self._node(node)
        if isinstance(self.server, EmbeddedCluster):
            self.server.kill_broker(node)
        else:
            self._kafka(node).kill()
        self.down.add(node)

    def restart(self, node: int | None = None) -> None:
        """Start it again after :meth:`kill`, and wait until it answers (Apache Kafka: about 12 s)."""
        node = self._node(node)
        if isinstance(self.server, EmbeddedCluster):
            self.server.restart_broker(node)
        else:
            self._kafka(node).start()
        self.down.discard(node)

    def bounce(self, node: int) -> None:
        """Stop a broker in good order, as far as it can, and start it again."""
        if isinstance(self.server, EmbeddedCluster):
            self.kill(node)
        else:
            self._kafka(node).pause()
            self.down.add(node)
        self.restart(node)

    def freeze(self, node: int | None = None) -> None:
        """SIGSTOP to the processes of all brokers, or to that of one of Apache Kafka's. :meth:`thaw` resumes them."""
        if node is not None:
            self._kafka(node).signal(signal.SIGSTOP)
        elif isinstance(self.server, EmbeddedCluster):
            self._frozen = self.server.pid
            os.kill(self._frozen, signal.SIGSTOP)
        else:
            for node in self.node_ids:
                self._kafka(node).signal(signal.SIGSTOP)

    def thaw(self, node: int | None = None) -> None:
        if node is not None:
            self._kafka(node).signal(signal.SIGCONT)
        elif isinstance(self.server, EmbeddedCluster):
            os.kill(self._frozen, signal.SIGCONT)
        else:
            for node in self.node_ids:
                self._kafka(node).signal(signal.SIGCONT)

    def _node(self, node: int | None) -> int:
        assert node is not None or len(self.node_ids) == 1, "which of the brokers?"
        return self.node_ids[0] if node is None else node

    def _kafka(self, node: int) -> ApacheKafka:
        return self.server.nodes[node] if isinstance(self.server, ApacheKafkaNodes) else self.server

    def wait_in_sync(self, within_s: float = 60.0) -> None:
        """Wait until every replica of every partition is in sync, and leaders are there."""

        def in_sync() -> bool:
            with closing(self.raw()) as client:
                topics = client.request(MetadataRequest(topics=None)).topics
            partitions = [partition for topic in topics for partition in topic.partitions]
            return all(p.leader_id >= 0 and set(p.isr_nodes) == set(p.replica_nodes) for p in partitions)

        wait_until(in_sync, within_s, "all replicas in sync")

    def stop(self) -> None:
        self.server.stop()


def start_cluster(
    kind: str,
    certificates: Certificates,
    *,
    brokers: int = 1,
    config: Mapping[str, object] | None = None,
    features: Mapping[str, int] | None = None,
    data_dir: str | Path | None = None,
    server_pem: Path | None = None,
) -> Cluster:
    """Start a cluster of a kind, with all four listeners. The caller stops it.

    Args:
        certificates: for the TLS listeners and the clients.
        brokers: how many. Of several, each is a process of its own with Apache Kafka, and topics have 3 replicas.
        config: Kafka's broker settings, stronger than :data:`COMMON_CONFIG`.
        features: versions of features, on the embedded broker.
        data_dir: where data goes. A temporary folder by default.
        server_pem: certificate of the TLS listeners instead of ``certificates.server_pem``.
    """
    common = COMMON_CONFIG | CONSUMER_GROUPS
    settings = common | (NODES_CONFIG if brokers > 1 else {}) | dict(config or {})
    user = Credentials()
    asks = any(name.endswith("ssl.client.auth") for name in settings)
    server: EmbeddedCluster | ApacheKafka | ApacheKafkaNodes
    if kind == "apache":
        share_kafkas_classes()
    if kind == "embedded":
        server = EmbeddedCluster(
            brokers=brokers,
            data_dir=data_dir,
            config=settings,
            features=features,
            listeners=LISTENERS,
            ssl_certfile=server_pem or certificates.server_pem,
            ssl_client_cafile=certificates.ca_pem if asks else None,
            sasl_users={user.username: user.password},
        )
    elif brokers > 1:
        assert kind == "apache", "several nodes of the newest version only"
        server = ApacheKafkaNodes(
            nodes=brokers,
            config=settings,
            folder=None if data_dir is None else Path(data_dir),
            credentials=user,
        )
    else:
        if server_pem is not None:
            settings["ssl.keystore.location"] = server_pem
        server = ApacheKafka(
            version={"apache_old": OLD_VERSION, "apache_new": NEW_VERSION}.get(kind, VERSION),
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
