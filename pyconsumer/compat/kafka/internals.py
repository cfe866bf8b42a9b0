"""Names with an underscore of kafka-python's clients that programs read. See :mod:`pyconsumer.compat.internals`."""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internal
from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.producer.delegate import ProducerDelegate

__all__ = ["ConsumerInternals", "ProducerInternals"]


class ConsumerInternals:
    """The internal names of ``KafkaConsumer`` that are here."""

    _delegate: ConsumerDelegate

    @property
    def _subscription(self) -> SubscriptionView:
        """For Elastic's agent, which names a span by it."""
        return SubscriptionView(self._delegate.subscriptions.subscription())

    @property
    def _coordinator(self) -> CoordinatorView:
        """For programs that log the member's id and generation."""
        group = self._delegate.coordinator
        return CoordinatorView(
            None if group is None else group.group_metadata(), None if group is None else group.coordinator_id
        )

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "kafka-python")


class ProducerInternals:
    """The internal names of ``KafkaProducer`` that are here."""

    _delegate: ProducerDelegate

    @property
    def _metadata(self) -> ClusterMetadata:
        """For Elastic's agent, which puts the controller's address into a span."""
        return ClusterMetadata(self._delegate.metadata)

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "kafka-python")
