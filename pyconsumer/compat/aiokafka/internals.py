"""Views for internal names of aiokafka's clients that other programs read. See :mod:`pyconsumer.compat.internals`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from pyconsumer.aio.group_consumer import GroupConsumer
from pyconsumer.aio.wrapped_producer import WrappedProducer
from pyconsumer.compat.aiokafka.client import KnownCluster
from pyconsumer.compat.aiokafka.cluster import ClusterMetadata
from pyconsumer.compat.aiokafka.partitioner import DefaultPartitioner
from pyconsumer.compat.internals import CoordinatorView, SubscriptionView, refuse_internals
from pyconsumer.errors import KafkaError

__all__ = ["ClientView", "ConsumerInternals", "ProducerInternals", "SenderView"]

#: Internal names of aiokafka's consumer that are not here.
_OF_CONSUMER: Final = """
    _auto_commit_interval_ms _auto_offset_reset _check_crcs _client_rack _consumer_timeout _enable_auto_commit
    _exclude_internal_topics _fetch_max_bytes _fetch_max_wait_ms _fetch_min_bytes _fetcher _group_instance_id
    _heartbeat_interval_ms _isolation_level _key_deserializer _loop _max_partition_fetch_bytes
    _max_poll_interval_ms _partition_assignment_strategy _rebalance_timeout_ms _request_timeout_ms
    _retry_backoff_ms _session_timeout_ms _source_traceback _validate_topics _value_deserializer _wait_topics
"""
#: Internal names of aiokafka's producer that are not here.
_OF_PRODUCER: Final = """
    _COMPRESSORS _PRODUCER_CLIENT_ID_SEQUENCE _compression_type _ensure_transactional _loop _max_request_size
    _message_accumulator _metadata _partitioner _producer_magic _request_timeout_ms _serialize _source_traceback
    _txn_manager
"""


#: Requests for metadata that nothing else refers to: a task is referred to weakly by its loop.
_requests: Final[set[asyncio.Task[bool]]] = set()


class ClientView(KnownCluster):
    """A view of the connections of a consumer or producer.

    Args:
        client: the consumer or producer.
        addresses: the setting ``bootstrap_servers`` as the program gave it.
    """

    def __init__(self, client: GroupConsumer | WrappedProducer, addresses: Any) -> None:
        super().__init__(client.config.client_id, addresses, client.metadata)
        self._client = client

    def force_metadata_update(self) -> asyncio.Future[bool]:
        """Request metadata again, and return a future: whether it has arrived."""
        return _begun(self._client.refresh())

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Request the metadata of a topic, and return a future: whether it has arrived."""
        return _begun(self._wait_on_metadata(topic))

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        """Wait for the metadata of a topic, for OpenTelemetry's instrumentation, and return its partitions."""
        if isinstance(self._client, WrappedProducer):
            return await self._client.partitions_for(topic)
        return await self._client.partitions_for_topic(topic) or set()


def _begun(request: Coroutine[Any, Any, object]) -> asyncio.Future[bool]:
    async def arrived() -> bool:
        try:
            await request
        except KafkaError:
            return False
        return True

    task = asyncio.ensure_future(arrived())
    _requests.add(task)
    task.add_done_callback(_requests.discard)
    return task


class SenderView:
    """Stands for the task that sends. By it, programs check that a producer has been started."""

    def __init__(self, task: asyncio.Future[Any] | None) -> None:
        self.sender_task = self._sender_task = task


class ConsumerInternals:
    """The internal names of ``AIOKafkaConsumer`` that exist here."""

    consumer: GroupConsumer
    _addresses: Any
    _stopped: bool
    _given_limit: int | None

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
        return ClientView(self.consumer, self._addresses)

    @property
    def _closed(self) -> bool:
        """For checks of a consumer's health."""
        return self._stopped

    @property
    def _max_poll_records(self) -> int | None:
        """For workers that size their queues by it. None without a limit."""
        return self._given_limit

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_CONSUMER, "aiokafka")


class ProducerInternals:
    """The internal names of ``AIOKafkaProducer`` that exist here."""

    producer: WrappedProducer
    _addresses: Any
    _stopped: bool
    _started: asyncio.Future[Any] | None

    @property
    def client(self) -> ClientView:
        """A read-only view of the producer's connections."""
        return ClientView(self.producer, self._addresses)

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_internals(cls, _OF_PRODUCER, "aiokafka")
