"""The interface between an application and a producer: ``Producer``.

A program that takes a :class:`Producer` works with :class:`pyconsumer.KafkaProducer`, and is tested with
:class:`pyconsumer.testing.MockProducer`, which needs no cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Never, Protocol, Self, runtime_checkable

from pyconsumer.generic import Header, KeyIn, ValueIn, generic_alias
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Producer"]


@runtime_checkable
class Producer(Protocol[KeyIn, ValueIn]):
    """The methods of a producer of keys and values, each with its arguments, errors and an example.

    Java: ``org.apache.kafka.clients.producer.Producer``.
    """

    def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record. The call returns at once, unless metadata is missing or the buffer is full.

        Args:
            topic: name of the topic.
            value, key: objects for the serializers. Without serializers: bytes, str (sent as UTF-8) or None.
            headers: pairs of a name and bytes or None.
            partition: number of the partition. By default the partitioner chooses.
            timestamp_ms: ms since the epoch. By default now.

        Returns:
            The future of its :class:`pyconsumer.structs.RecordMetadata`. Getting its result raises the errors that
            concern the record or the broker.

        Raises:
            SerializationError: a serializer raised.
            AuthenticationError: the cluster rejected your credentials or certificate.
            InvalidTopicError: no topic can have this name. TopicAuthorizationFailedError: not allowed.
            ValueError: the partition does not exist, or the timestamp is out of range.
            KafkaTimeoutError: no metadata within ``max_block_ms``.
            BufferExhaustedError: the buffer stayed full for ``max_block_ms``.
            RecordTooLargeError: the record is larger than ``max_request_size`` or ``buffer_memory``.
            IllegalStateError: the producer is closed, or was made by another process. Or it has a transactional id,
                and no transaction is open.
            TransactionAbortableError: something in this transaction has failed: abort it, then repeat it.
            ApplicationRecoverableError: another producer with this transactional id has taken over, or the like: close
                this one.

        In a callback of a record, ``send`` never waits: where it would have to, it raises at once.

        Example::

            future = producer.send("orders", b"two coffees", key=b"table 4", headers=[("shop", b"north")])
            future.get(timeout=10).topic  # 'orders'
        """
        ...

    def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Send many records, with one future for all. Each costs much less than with :meth:`send`.

        Args:
            topic: name of the topic.
            values: one for each record, as for :meth:`send`.
            keys: one for each value. None sends records without keys.
            partition: the partition of all records. By default the partitioner chooses for each.
            timestamp_ms: timestamp of all records, in ms since the epoch. By default now.

        Returns:
            The future of their partitions and offsets.

        Raises:
            ValueError: there are more or fewer keys than values.
            KafkaError, ValueError: as :meth:`send`, for the first record that is rejected. Those before it are sent
                all the same: the error's notes contain their number.

        Example::

            records = producer.send_many("orders", [b"tea", b"coffee"], keys=[b"table 4", b"table 5"])
            len(records)  # 2
        """
        ...

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table, as Spark's sink takes them: column ``value``, and ``key`` if there is one.

        Args:
            topic: name of the topic.
            table: ``value`` and ``key`` are binary or string columns. Optional columns are ``partition`` (integers)
                and ``timestamp`` (a timestamp, or ms since the epoch). Serializers and interceptors get bytes and
                text.
            partition: the partition of all rows. By default the partitioner chooses for each.

        Returns:
            The future of their partitions and offsets.

        Raises:
            ValueError: there is no column ``value``, or an unknown column.
            KafkaError, ValueError: as :meth:`send_many`.

        Example::

            import pyarrow

            records = producer.send_arrow("orders", pyarrow.table({"value": [b"tea", b"coffee"]}))
            len(records)  # 2
        """
        ...

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send all records that were passed to :meth:`send` before this call, and wait until each has its result.

        Args:
            timeout_ms: longest wait. None waits as long as deliveries may take. By name only, because other clients
                count in seconds.

        Raises:
            KafkaTimeoutError: some records have no result in time. They are still being sent. Without a time: a
                callback of a record has not returned for ``delivery_timeout_ms``.
            TypeError: the time was not given by name.
            IllegalStateError: the producer is closed, or a callback of a record calls this, whose thread is the one
                that sends. Or that thread has ended, because a callback called :func:`sys.exit`.

        Example::

            future = producer.send("orders", b"tea")
            producer.flush(timeout_ms=10_000)
            future.done()  # True
        """
        ...

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Raises as :meth:`send` if metadata is missing.

        Example::

            producer.partitions_for("orders")  # {0}
        """
        ...

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name.

        Example::

            future = producer.send("orders", b"tea")
            producer.metrics()["producer-metrics"]["record-send-total"] >= 1  # True
        """
        ...

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions. Call this once, before the first one (KIP-98).

        An earlier producer with the same transactional id is fenced, and its open transaction is ended.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            KafkaTimeoutError: not done in time. The producer keeps trying, and you may call this again.
            IllegalStateError: there is no ``transactional_id``, or this was called before.
            TransactionalIdAuthorizationFailedError: the broker denied access to the ``transactional_id``.
            InvalidTransactionTimeoutError: ``transaction_timeout_ms`` is more than the broker allows.

        Example::

            producer.init_transactions()
        """
        ...

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded.

        Example::

            producer.is_initialized  # True
        """
        ...

    def begin_transaction(self) -> None:
        """Begin a transaction: the records sent until its commit become visible together, or never.

        Raises:
            IllegalStateError: a transaction is open already, or :meth:`init_transactions` was not called.
            ApplicationRecoverableError: this producer was fenced. Close it.

        Example::

            producer.begin_transaction()
            future = producer.send("orders", b"tea")
            producer.commit_transaction()
        """
        ...

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction (KIP-447).

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: the result of the consumer's ``group_metadata()``. With it, a consumer that has lost its
                partitions is rejected. The name of the group alone has no such protection.
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: abort the transaction, then repeat it. Its cause is a
                :class:`CommitFailedError` if the consumer is not a member of the group any more.
            KafkaTimeoutError: not done in time. Abort the transaction, or call this again.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            producer.send_offsets_to_transaction({TopicPartition("orders", 0): 17}, "kitchen")
            producer.commit_transaction()
        """
        ...

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send the buffered records and commit. All records and offsets of the transaction become visible together.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: something could not be delivered. Abort, then repeat the transaction.
            ApplicationRecoverableError: this producer was fenced, and its transaction aborted. Close it.
            KafkaTimeoutError: not done in time. The commit continues, and you may only call ``commit_transaction``
                next.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = producer.send("orders", b"tea")
            producer.commit_transaction(timeout_ms=10_000)
        """
        ...

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. Consumers with ``isolation_level=read_committed`` never see its records.

        Buffered records are not sent, and fail with ``TransactionAbortedError``.

        Args:
            timeout_ms: longest wait. By default ``max_block_ms``.

        Raises:
            ApplicationRecoverableError: this producer was fenced, and the broker has aborted for it. Close it.
            KafkaTimeoutError: not done in time. The abort continues, and you may only call ``abort_transaction`` next.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = producer.send("orders", b"tea")
            producer.abort_transaction()
        """
        ...

    def transaction(self) -> AbstractContextManager[Self]:
        """Run a block as a transaction. It is committed at the end, or aborted if the block or the commit fails.

        Raises:
            TransactionAbortableError: the transaction failed and was aborted. You may repeat the block.
            ApplicationRecoverableError: this producer was fenced. Close it, make another one and repeat the block.

        Example::

            with producer.transaction():
                future = producer.send("orders", b"tea")
        """
        ...

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records and end the background thread. An open transaction is aborted.

        Args:
            timeout_ms: longest wait. After it the remaining records fail with ``RequestCancelledError``, and a warning
                has their number. None waits until every record is sent or its delivery timeout has passed. 0 drops
                the records that are not sent, and so does a call in a callback of a record. By name only, because
                other clients count in seconds.

        Raises:
            KafkaTimeoutError: records were dropped, and ``timeout_ms`` was not 0. Or it is None, and a callback of a
                record has not returned for ``delivery_timeout_ms``. The producer is closed.
            TypeError: the time was not given by name.
            KeyboardInterrupt: Ctrl-C ends the wait at once, and the remaining records fail with
                ``RequestCancelledError``.

        Example::

            producer.close(timeout_ms=10_000)
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
