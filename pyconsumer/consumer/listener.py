"""What an application may be told about its assignment. Only the interface; the coordinator calls it."""

from __future__ import annotations

from collections.abc import Collection

from pyconsumer.structs import TopicPartition

__all__ = ["ConsumerRebalanceListener"]


class ConsumerRebalanceListener:
    """Told when partitions come and go. Derive from it and override what you need; the methods do nothing.

    All calls happen in the thread that uses the consumer, inside ``poll``, ``close``, ``unsubscribe`` or
    ``enforce_rebalance``, never at another time. Inside them ``commit``, ``commit_async``, ``seek*``, ``position``,
    ``committed``, ``pause``, ``resume``, ``assignment`` and ``wakeup`` may be called; ``poll``, ``subscribe``,
    ``unsubscribe``, ``assign`` and ``close`` raise ``IllegalStateError``. What a method raises comes out of the call
    that it runs in.

    Java: ``org.apache.kafka.clients.consumer.ConsumerRebalanceListener``; cooperative rebalancing: KIP-429.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """These partitions are about to be given up; nobody else has them yet. Commit what was processed.

        With an eager assignor it is called with all partitions before each rebalance; with a cooperative one only
        with those that really go, and not at all if there are none.
        """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """A rebalance has finished and these partitions are new; a ``seek`` here decides where they begin.

        It is called once for each finished rebalance, with an empty collection too.
        """

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """These partitions are gone without a chance to commit: somebody else may read them already.

        By default the same as :meth:`on_partitions_revoked`.
        """
        self.on_partitions_revoked(lost)
