"""``aiokafka.client``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.aio import AsyncKafkaAdminClient
from pyconsumer.compat.aiokafka.cluster import ClusterMetadata

__all__ = ["AIOKafkaClient", "ClientOfAdmin"]


class AIOKafkaClient:
    """aiokafka's network client, which other clients have inside. None can be made here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: Any) -> None:
        raise TypeError("aiokafka's network client is not here: call the method of AIOKafkaAdminClient that you need")


class ClientOfAdmin(AIOKafkaClient):
    """The connections of an admin client, to be read.

    Attributes:
        cluster: the brokers that are known.
    """

    def __init__(self, admin: AsyncKafkaAdminClient) -> None:
        self._admin = admin
        self._bootstrap_servers = admin.config.bootstrap_servers
        self._client_id = admin.config.client_id
        self.cluster = ClusterMetadata(admin.calls.metadata)

    async def ready(self, node_id: int) -> bool:
        """Return whether a broker is known. The next request to it connects."""
        return self.cluster.broker_metadata(node_id) is not None

    def __repr__(self) -> str:
        return f"<AIOKafkaClient client_id={self._client_id}>"
