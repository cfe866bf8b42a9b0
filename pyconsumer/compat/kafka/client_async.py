"""``kafka.client_async``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.network.metadata import Metadata

__all__ = ["ClientOfAdmin", "KafkaClient"]


class KafkaClient:
    """kafka-python's network client, which its other clients contain. It cannot be created here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: Any) -> None:
        raise TypeError("kafka-python's network client is not here: call the method of KafkaAdminClient that you need")


class ClientOfAdmin(KafkaClient):
    """A read-only view of an admin client's connections.

    Args:
        admin: pyconsumer's admin client.
        metadata: the brokers that the client knows.

    Attributes:
        cluster: the brokers that the client knows.
    """

    def __init__(self, admin: KafkaAdminClient, metadata: Metadata) -> None:
        self.cluster = ClusterMetadata(metadata)
        self._admin = admin
        self._bootstrap_servers = admin.config.bootstrap_servers
        self._client_id = admin.config.client_id

    def least_loaded_node(self) -> int:
        """Return the id of a broker. If none is known yet, connect first.

        Raises:
            KafkaTimeoutError: no broker could be reached.
        """
        known = [each.node_id for each in self.cluster.brokers() if not self.cluster.is_bootstrap(each.node_id)]
        return min(known or [each.node_id for each in self._admin.describe_cluster().brokers])

    def __repr__(self) -> str:
        return f"<KafkaClient client_id={self._client_id}>"
