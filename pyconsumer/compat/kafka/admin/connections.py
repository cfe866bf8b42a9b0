"""The connections of an admin client, for programs that read kafka-python's network client."""

from __future__ import annotations

from pyconsumer.admin import KafkaAdminClient
from pyconsumer.compat.kafka.client_async import KnownCluster
from pyconsumer.network.metadata import Metadata

__all__ = ["ClientOfAdmin"]


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
