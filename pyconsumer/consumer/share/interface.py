"""The interface between an application and a share consumer: ``ShareConsumer``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from pyconsumer.consumer.interface import Metrics
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.delegate import AcknowledgementCallback, CommitResults
from pyconsumer.generic import K, V, generic_alias
from pyconsumer.metrics.source import Metric
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Acknowledgeable", "Mask", "ShareConsumer", "ShareImmediateCalls", "place_of"]

Acknowledgeable: TypeAlias = ConsumerRecord[Any, Any] | tuple[str, int, int]
"""A record, or its topic, partition and offset."""

Mask: TypeAlias = Any
"""A value for each row of a batch: ``AcknowledgeType``, True to accept, False to release, or None. It is an Arrow
array, a list or a numpy array."""


class ShareImmediateCalls(Protocol):
    """The calls of a share consumer that never wait. They are the same on an event loop."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics. Later polls join the group.

        A new subscription replaces the previous one. An empty list has the effect of :meth:`unsubscribe`.

        Args:
            topics: names of topics. Share groups have no patterns.

        Raises:
            TypeError, ValueError: the topics are not names.
            IllegalStateError: a callback calls this.

        Example::

            consumer.subscribe(["orders", "payments"])
        """
        ...

    def subscription(self) -> set[str]:
        """Return the subscribed topics.

        Example::

            consumer.subscription()  # {'orders'}
        """
        ...

    def unsubscribe(self) -> None:
        """Leave the group and drop the subscription.

        Acknowledgements that :meth:`acknowledge` has queued are sent. Other records of the last poll can still be
        acknowledged, by :meth:`commit`.

        Raises:
            IllegalStateError: a callback calls this.

        Example::

            consumer.unsubscribe()
        """
        ...

    def acknowledge(
        self,
        record: Acknowledgeable | pyarrow.RecordBatch | pyarrow.Table,
        type: AcknowledgeType | Mask = AcknowledgeType.ACCEPT,
    ) -> None:
        """Say what became of records of the last poll, with ``share_acknowledgement_mode='explicit'``.

        The next poll or :meth:`commit` sends it. Until then another type replaces it.

        Args:
            record: the record, or its topic, partition and offset. Or rows of :meth:`poll_arrow`, with these columns:
                all of them are acknowledged, or none.
            type: ``ACCEPT``, ``RELEASE``, ``REJECT`` or ``RENEW``. A renewed record is returned by the next poll again,
                and that poll fetches no new ones (as in Java). For rows it may be a mask, with a value for each: a
                type, True to accept, False to release, or null to leave the row as it is.

        Raises:
            IllegalStateError: the mode is implicit, or the record was not returned by the last poll, or its
                acknowledgement was sent already.
            ValueError: the rows have no such columns, or the mask has another length.

        Java: ``acknowledge``.

        Example::

            consumer.acknowledge(record, AcknowledgeType.REJECT)
            consumer.acknowledge(("orders", 0, 17))
            consumer.acknowledge(batch, [True, True, False])
        """
        ...

    def delivery_count(self, record: Acknowledgeable) -> int:
        """Return how often a record was delivered to members of the group, this time included.

        Args:
            record: a record of the last poll, or its topic, partition and offset.

        Returns:
            1 for the first delivery. 0 if the record is not one of the last poll, or was acknowledged.

        Java: ``ConsumerRecord.deliveryCount``.

        Example::

            if consumer.delivery_count(record) >= 5:
                consumer.acknowledge(record, AcknowledgeType.REJECT)
        """
        ...

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting for the outcome.

        In implicit mode the records of the last poll are accepted. Later calls notify the callback of
        :meth:`set_acknowledgement_commit_callback`.

        Java: ``commitAsync``.

        Example::

            consumer.commit_async()
        """
        ...

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set a function that is notified of the outcome of acknowledgements.

        It is called inside ``poll``, ``commit`` and ``close``, with the offsets by partition, and with the error or
        None. On an event loop it may be a coroutine function.

        Args:
            callback: the function. None removes it.

        Java: ``setAcknowledgementCommitCallback``.

        Example::

            consumer.set_acknowledgement_commit_callback(lambda offsets, error: print(offsets, error))
        """
        ...

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long a record stays acquired, in ms. None before the first response of a broker.

        After that time without an acknowledgement, the record is delivered again, to any member.

        Java: ``acquisitionLockTimeoutMs``.

        Example::

            consumer.acquisition_lock_timeout_ms()  # 30000
        """
        ...

    def metrics(self, raw: bool = False) -> Metrics:
        """Return the metrics, by group and name.

        Args:
            raw: has no effect. It exists for kafka-python.

        Example::

            consumer.metrics()["consumer-share-fetch-manager-metrics"]["records-consumed-total"]
        """
        ...

    def metric_table(self) -> list[Metric]:
        """Return the metrics with their tags, units and descriptions. Any thread may call this.

        Example::

            for metric in consumer.metric_table():
                print(metric.group, metric.name, metric.value)
        """
        ...

    def wakeup(self) -> None:
        """Make the call that waits now, or the next one, raise ``WakeupError``. Any thread may call this.

        No record is lost: the next poll returns what has arrived.

        Java: ``wakeup``.

        Example::

            signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
        """
        ...


@runtime_checkable
class ShareConsumer(ShareImmediateCalls, Protocol[K, V]):
    """The calls of a share consumer of keys ``K`` and values ``V``. See :class:`pyconsumer.KafkaShareConsumer`."""

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the group has acquired for this member, or wait for records.

        Each record is locked for this member until it is acknowledged, or until
        :meth:`acquisition_lock_timeout_ms` has passed. In implicit mode the call accepts the records of the poll
        before.

        Args:
            timeout_ms: longest time to wait if no record has arrived.
            max_records: the most records to return. By default ``max_poll_records``, and with the setting
                ``share_acquire_mode="batch_optimized"`` also the rest of the last batch, as in Java.

        Returns:
            The records, by partition. Empty at the end of the time.

        Raises:
            IllegalStateError: nothing is subscribed, or a record of the last poll is not acknowledged in explicit mode.
            WakeupError: :meth:`wakeup` was called.
            RecordDeserializationError: a record could not be deserialized. It was released.
            CorruptRecordError: a batch is damaged. Its records were rejected.
            UnsupportedVersionError: the brokers do not serve share groups. The message says how to enable them.
            GroupIdNotFoundError: the group id belongs to a group of another type.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: access is denied.

        Java: ``poll``, KIP-932.

        Example::

            for record in consumer.poll(timeout_ms=1000).records():
                print(record.value)
        """
        ...

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns. Otherwise like :meth:`poll`.

        Keys and values are bytes as they were sent. The deserializers are not applied. A record that an earlier
        ``poll`` returned, and that was renewed, comes as bytes, too.

        Args:
            timeout_ms: longest time to wait if no record has arrived.
            max_records: the most rows. The default is that of :meth:`poll`.
            columns: names of the columns, in the order of the result. By default those of
                :meth:`pyconsumer.KafkaConsumer.poll_arrow`, and ``delivery_count``: how often the record was delivered,
                this time included. :meth:`acknowledge` needs ``topic``, ``partition`` and ``offset``.
            dictionary_topic: True encodes the topic column as a dictionary (a type of Arrow).

        Returns:
            The rows. If no record arrived in time, the batch is empty and has the same schema.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: a column is unknown, or is named twice.
            KafkaError: an error of :meth:`poll`.

        Example::

            batch = consumer.poll_arrow(timeout_ms=1000, columns=["topic", "partition", "offset", "value"])
            consumer.acknowledge(batch)
        """
        ...

    def commit(self, timeout_ms: float | None = None) -> CommitResults:
        """Send the acknowledgements, and wait for their outcome.

        In implicit mode the records of the last poll are accepted. In explicit mode those that are not acknowledged
        stay acquired.

        Args:
            timeout_ms: the longest time. By default ``default_api_timeout_ms``.

        Returns:
            For each partition None, or the error of its acknowledgements. It is ``InvalidRecordStateError`` if a lock
            had expired, and ``NotLeaderOrFollowerError`` if the leader has moved. If the session was lost, it is
            ``ShareSessionNotFoundError`` or ``KafkaConnectionError``. At the end of the time it is
            ``KafkaTimeoutError``. The records are then delivered again.

        Raises:
            WakeupError: :meth:`wakeup` was called. The acknowledgements are still sent.

        Java: ``commitSync``.

        Example::

            results = consumer.commit()
            results[TopicPartition("orders", 0)]  # None
        """
        ...

    def close(self, timeout_ms: float | None = None) -> None:
        """Send the acknowledgements, release all other records, leave the group, and close the connections.

        In implicit mode the records of the last poll are released, as nobody has said that they were processed.
        To accept them instead, call :meth:`commit` before you close.

        Args:
            timeout_ms: the longest time, by default 30 s. ``close`` ends within it even if all brokers are dead.

        Java: ``close``.

        Example::

            consumer.close(timeout_ms=5000)
        """
        ...

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]: ...

    def __next__(self) -> ConsumerRecord[K, V]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


def place_of(record: Any) -> tuple[TopicPartition, int]:
    """Return partition and offset of a record, or of its topic, partition and offset."""
    if isinstance(record, tuple):
        topic, partition, offset = record
        return TopicPartition(topic, partition), offset
    return TopicPartition(record.topic, record.partition), record.offset
