"""Names with an underscore of kafka-python's clients that other programs read. See :mod:`pyconsumer.compat.internals`.

``_client`` and ``_metadata`` of the consumer are objects of ours, which differ from kafka-python's.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internals
from pyconsumer.compat.kafka.cluster import ClusterMetadata
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.subscription_state import SubscriptionState

__all__ = ["ConsumerInternals", "ProducerInternals"]

#: Internal names of kafka-python's consumer that are not here.
_OF_CONSUMER: Final = """
    _closed _cluster _consumer_timeout _fetch_all_topic_metadata _fetcher _iterator _manager
    _message_generator_v2 _metrics _net _poll_once _refresh_committed_offsets _set_consumer_timeout
    _update_fetch_positions _use_consumer_group _validate_group_instance_id
"""
#: Internal names of kafka-python's producer that are not here.
_OF_PRODUCER: Final = """
    _COMPRESSORS _accumulator _cleanup _cleanup_factory _closed _ensure_valid_record_size
    _estimate_size_in_bytes _init_transactions_result _metrics _partition _sender _serialize
    _transaction_manager _unregister_cleanup _wait_on_metadata
"""


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
        return CoordinatorView(group.group_metadata(), group.coordinator_id)

    @property
    def _group_id(self) -> str | None:
        """For instrumentations that name a span by the group."""
        found: str | None = self.config["group_id"]
        return found

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_CONSUMER, "kafka-python")


class ProducerInternals:
    """The internal names of ``KafkaProducer`` that are here."""

    _delegate: Any

    @property
    def _metadata(self) -> ClusterMetadata:
        """For Elastic's agent, which reads the controller."""
        return ClusterMetadata(self._delegate.metadata)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_PRODUCER, "kafka-python")
