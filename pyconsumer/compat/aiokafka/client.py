"""``aiokafka.client``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.aiokafka.cluster import ClusterMetadata
from pyconsumer.network.metadata import Metadata

__all__ = ["AIOKafkaClient", "KnownCluster"]


class AIOKafkaClient:
    """aiokafka's network client, which other clients have inside. None can be made here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: Any) -> None:
        raise TypeError("aiokafka's network client is not here: call the method of AIOKafkaAdminClient that you need")


class KnownCluster(AIOKafkaClient):
    """The connections of a client, to be read. Instrumentations read the addresses and the client's id.

    Args:
        client_id: the client's setting.
        addresses: the setting ``bootstrap_servers``.
        metadata: the brokers and topics that it knows.

    Attributes:
        cluster: these brokers and topics.
    """

    def __init__(self, client_id: str, addresses: Any, metadata: Metadata) -> None:
        self._bootstrap_servers = addresses
        self._client_id = client_id
        self.cluster = ClusterMetadata(metadata)

    async def ready(self, node_id: int) -> bool:
        """Return whether a broker is known. The next request to it connects."""
        return self.cluster.broker_metadata(node_id) is not None

    def __repr__(self) -> str:
        return f"<AIOKafkaClient client_id={self._client_id}>"
