"""``kafka.client_async``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.network.metadata import Metadata
from pyconsumer.settings.config import ClientConfig

__all__ = ["ClientOfAdmin", "KafkaClient", "KnownCluster"]


class KafkaClient:
    """kafka-python's network client, which other clients have inside. None can be made here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: Any) -> None:
        raise TypeError("kafka-python's network client is not here: call the method of KafkaAdminClient that you need")


class KnownCluster(KafkaClient):
    """The connections of a client, to be read.

    Args:
        config: the settings of the client.
        metadata: the brokers and topics that it knows.

    Attributes:
        cluster: these brokers and topics.
    """

    def __init__(self, config: ClientConfig, metadata: Metadata) -> None:
        self.cluster = ClusterMetadata(metadata)
        self._bootstrap_servers = config.bootstrap_servers
        self._client_id = config.client_id

    def __repr__(self) -> str:
        return f"<KafkaClient client_id={self._client_id}>"


class ClientOfAdmin(KnownCluster):
    """The connections of an admin client, to be read.

    Args:
        admin: our client.
        metadata: the brokers that it knows.
    """

    def __init__(self, admin: KafkaAdminClient, metadata: Metadata) -> None:
        super().__init__(admin.config, metadata)
        self._admin = admin

    def least_loaded_node(self) -> int:
        """Return the id of a broker. It connects if none is known yet.

        Raises:
            KafkaTimeoutError: no broker could be reached.
        """
        known = [each.node_id for each in self.cluster.brokers() if not self.cluster.is_bootstrap(each.node_id)]
        return min(known or [each.node_id for each in self._admin.describe_cluster().brokers])
