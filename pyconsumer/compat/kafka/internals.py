"""Names with an underscore of kafka-python's clients that other programs read. See :mod:`pyconsumer.compat.internals`.

``_client`` and ``_metadata`` of the consumer are objects of ours, which differ from kafka-python's.
"""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internal
from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.subscription_state import SubscriptionState

__all__ = ["ConsumerInternals", "ProducerInternals"]


class ConsumerInternals:
    """The internal names of ``KafkaConsumer`` that are here."""

    config: Any
    _delegate: ConsumerDelegate
    _subscriptions: SubscriptionState

    @property
    def _subscription(self) -> SubscriptionView:
        """For Elastic's agent."""
        return SubscriptionView(self._subscriptions.subscription())

    @property
    def _coordinator(self) -> CoordinatorView:
        """For programs that log their member id and generation."""
        group = self._delegate.coordinator
        if group is None:
            return CoordinatorView(None, None)
        broker = group.coordinator_id
        return CoordinatorView(group.group_metadata(), None if broker is None else f"coordinator-{broker}")

    @property
    def _group_id(self) -> str | None:
        """For instrumentations that name a span by the group."""
        found: str | None = self.config["group_id"]
        return found

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "kafka-python")


class ProducerInternals:
    """The internal names of ``KafkaProducer`` that are here."""

    _delegate: Any

    @property
    def _metadata(self) -> ClusterMetadata:
        """For Elastic's agent, which reads the controller."""
        return ClusterMetadata(self._delegate.metadata)

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "kafka-python")
