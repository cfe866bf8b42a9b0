"""Names with an underscore of aiokafka's clients that other programs read. See :mod:`pyconsumer.compat.internals`."""

from __future__ import annotations

import asyncio
from typing import Any

from pyconsumer.aio.group_consumer import GroupConsumer
from pyconsumer.aio.wrapped_producer import WrappedProducer
from pyconsumer.compat.aiokafka.client import KnownCluster
from pyconsumer.compat.aiokafka.cluster import ClusterMetadata
from pyconsumer.compat.aiokafka.partitioner import DefaultPartitioner
from pyconsumer.compat.aiokafka.util import INTEGER_MAX_VALUE
from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internal
from pyconsumer.network.metadata import Metadata

__all__ = ["ClientView", "ConsumerInternals", "ProducerInternals", "SenderView"]


class ClientView(KnownCluster):
    """The connections of a consumer or producer.

    Args:
        config: settings of the client.
        addresses: the setting ``bootstrap_servers`` as the program gave it.
        metadata: the brokers and topics that it knows.
        producer: waits for the metadata of a topic, None for a consumer.
    """

    def __init__(
        self, config: Any, addresses: Any, metadata: Metadata, producer: WrappedProducer | None = None
    ) -> None:
        super().__init__(config.client_id, addresses, metadata)
        self._producer = producer

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        """Wait for the metadata of a topic, for OpenTelemetry's instrumentation, and return its partitions."""
        if self._producer is None:
            return self.cluster.partitions_for_topic(topic) or set()
        return await self._producer.partitions_for(topic)


class SenderView:
    """The task that sends, by which programs check that a producer has been started."""

    def __init__(self, task: asyncio.Future[Any] | None) -> None:
        self.sender_task = task


class ConsumerInternals:
    """The internal names of ``AIOKafkaConsumer`` that are here."""

    consumer: GroupConsumer
    _addresses: Any
    _stopped: bool

    @property
    def _group_id(self) -> str | None:
        """For FastStream's messages and OpenTelemetry's instrumentation."""
        return self.consumer.config.group_id

    @property
    def _coordinator(self) -> CoordinatorView:
        """For FastStream's messages."""
        if self.consumer.config.group_id is None:
            return CoordinatorView(None, None)
        return CoordinatorView(self.consumer.group_metadata(), self.consumer.coordinator_id)

    @property
    def _subscription(self) -> SubscriptionView:
        """For FastStream's messages."""
        return SubscriptionView(self.consumer.subscription())

    @property
    def _client(self) -> ClientView:
        """For OpenTelemetry's instrumentation."""
        return ClientView(self.consumer.config, self._addresses, self.consumer.metadata)

    @property
    def _closed(self) -> bool:
        """For checks of a consumer's health."""
        return self._stopped

    @property
    def _max_poll_records(self) -> int | None:
        """For workers that size their queues by it. None without a limit."""
        limit = self.consumer.config.max_poll_records
        return None if limit == INTEGER_MAX_VALUE else limit

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "aiokafka")


class ProducerInternals:
    """The internal names of ``AIOKafkaProducer`` that are here."""

    producer: WrappedProducer
    _addresses: Any
    _stopped: bool
    _started: asyncio.Future[Any] | None

    @property
    def client(self) -> ClientView:
        """The connections of the producer. They can be read only."""
        return ClientView(self.producer.config, self._addresses, self.producer.metadata, self.producer)

    @property
    def _client(self) -> ClientView:
        """Another name of :attr:`client`."""
        return self.client

    @property
    def _closed(self) -> bool:
        """For checks of a producer's health."""
        return self._stopped

    @property
    def _sender(self) -> SenderView:
        """For checks of a producer's health: the task is there after ``start``, and done after ``stop``."""
        return SenderView(self._started)

    @property
    def _key_serializer(self) -> Any:
        """For OpenTelemetry's instrumentation."""
        return self.producer.config.key_serializer

    @property
    def _value_serializer(self) -> Any:
        """For OpenTelemetry's instrumentation."""
        return self.producer.config.value_serializer

    @property
    def _metadata(self) -> ClusterMetadata:
        """For kstreams, which chooses the partitions of a batch's records."""
        return self.client.cluster

    @property
    def _partitioner(self) -> Any:
        """For the same: it is called with the packed key and the partitions."""
        return self.producer.config.partitioner or DefaultPartitioner()

    def _partition(self, topic: str, partition: int | None, key: Any, value: Any, packed: Any, _: Any) -> int | None:
        """Return the partition of a record, for OpenTelemetry's instrumentation. None for a record without a key.

        The producer chooses the partition of a record without a key when it adds the record to a batch.
        """
        known = self.client.cluster.partitions_for_topic(topic)
        if partition is not None:
            return partition
        if not known or (packed is None and len(known) > 1):
            return None
        chosen: int = DefaultPartitioner()(packed, sorted(known), sorted(known))
        return chosen

    def __getattr__(self, name: str) -> Any:
        refuse_internal(self, name, "aiokafka")
