"""``kafka.client_async``: a name for annotations and ``isinstance``, and a view of the brokers that a client knows."""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.network.metadata import Metadata
from pyconsumer.settings.config import ClientConfig

__all__ = ["KafkaClient", "KnownCluster"]


class KafkaClient:
    """kafka-python's network client, which its other clients contain. It cannot be created here.

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
