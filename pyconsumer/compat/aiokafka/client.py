"""``aiokafka.client``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.aiokafka.cluster import ClusterMetadata
from pyconsumer.network.metadata import Metadata

__all__ = ["AIOKafkaClient", "KnownCluster"]


class AIOKafkaClient:
    """aiokafka's network client, which its other clients contain. It cannot be created here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: Any) -> None:
        raise TypeError("aiokafka's network client is not here: call the method of AIOKafkaAdminClient that you need")


class KnownCluster(AIOKafkaClient):
    """A read-only view of a client's connections. Instrumentations read the addresses and the client's id from it.

    Args:
        client_id: the setting ``client_id``.
        addresses: the setting ``bootstrap_servers``.
        metadata: the brokers and topics that the client knows.

    Attributes:
        cluster: the brokers and topics that the client knows.
    """

    def __init__(self, client_id: str, addresses: Any, metadata: Metadata) -> None:
        self._bootstrap_servers = addresses
        self._client_id = client_id
        self.cluster = ClusterMetadata(metadata)

    async def ready(self, node_id: int) -> bool:
        """Return whether a broker is known. The next request to the broker connects to it."""
        return self.cluster.broker_metadata(node_id) is not None

    def __repr__(self) -> str:
        return f"<AIOKafkaClient client_id={self._client_id}>"
