"""Names with an underscore of kafka-python's clients that programs read. See :mod:`pyconsumer.compat.internals`."""

from __future__ import annotations

from typing import Any, Final

from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internals
from pyconsumer.compat.kafka.client_async import KnownCluster
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
    """The internal names of ``KafkaConsumer`` that exist here."""

    config: Any
    _delegate: ConsumerDelegate
    _subscriptions: SubscriptionState
    _guard: Any

    @property
    def _client(self) -> KnownCluster:
        """For programs that look at the brokers."""
        return KnownCluster(self._delegate.config, self._delegate.metadata)

    @property
    def _metadata(self) -> ClusterMetadata:
        """For programs that look at the brokers, by its name in kafka-python 2.x."""
        return ClusterMetadata(self._delegate.metadata)

    @property
    def _closed(self) -> bool:
        """For checks of a consumer's health."""
        closed: bool = self._guard.closed
        return closed

    @property
    def _max_poll_records(self) -> int:
        """For workers that size their queues by it."""
        return self._delegate.config.max_poll_records

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_CONSUMER, "kafka-python")


class ProducerInternals:
    """The internal names of ``KafkaProducer`` that exist here."""

    _delegate: Any

    @property
    def _metadata(self) -> ClusterMetadata:
        """For Elastic's agent, which reads the controller."""
        return ClusterMetadata(self._delegate.metadata)

    @property
    def _closed(self) -> bool:
        """For checks of a producer's health."""
        closed: bool = self._delegate.closed
        return closed

    @property
    def _key_serializer(self) -> Any:
        """For instrumentations that serialize a key themselves."""
        return self._delegate.config.key_serializer

    @property
    def _value_serializer(self) -> Any:
        """For instrumentations that serialize a value themselves."""
        return self._delegate.config.value_serializer

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_PRODUCER, "kafka-python")
