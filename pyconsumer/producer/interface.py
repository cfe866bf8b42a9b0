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
from pyconsumer.metrics.source import Metric
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.metrics.health import ProducerHealth

__all__ = ["Producer"]


@runtime_checkable
class Producer(Protocol[KeyIn, ValueIn]):
    """The methods of a producer of keys ``KeyIn`` and values ``ValueIn``.

    Each has its arguments, errors and an example.

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
            value, key: objects for the serializers. Without serializers: bytes, str (which is sent as UTF-8) or None.
            headers: pairs of a name, and bytes or None.
            partition: number of the partition. By default the partitioner chooses.
            timestamp_ms: ms since the epoch. By default the present time.

        Returns:
            The future of the record's :class:`pyconsumer.structs.RecordMetadata`. Its ``get`` raises the error if the
            record could not be sent.

        Raises:
            SerializationError: a serializer raised an error.
            AuthenticationError: the cluster rejected your credentials or certificate.
            InvalidTopicError: the name is not valid for a topic.
            TopicAuthorizationFailedError: the broker denied access to the topic.
            ValueError: the partition does not exist, or the timestamp is out of range.
            KafkaTimeoutError: no metadata arrived within ``max_block_ms``.
            BufferExhaustedError: the buffer stayed full for ``max_block_ms``.
            RecordTooLargeError: the record is larger than ``max_request_size`` or ``buffer_memory``.
            IllegalStateError: the producer is closed, or was made in another process. Or it has a transactional id, and
                no transaction is open.
            TransactionAbortableError: an earlier call or record in this transaction has failed. Abort the transaction
                and repeat it.
            ApplicationRecoverableError: this producer cannot continue, for instance because another producer with its
                transactional id has taken over. Close it.

        In a callback of a record ``send`` never waits. If it would have to wait, it raises at once.

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
        """Send many records, with one future for all. A record costs much less time than with :meth:`send`.

        Args:
            topic: name of the topic.
            values: the value of each record, as for :meth:`send`.
            keys: the key of each record. None sends records without keys.
            partition: the partition of all records. By default the partitioner chooses for each.
            timestamp_ms: timestamp of all records, in ms since the epoch. By default now.

        Returns:
            The future of the records' partitions and offsets.

        Raises:
            ValueError: there are more or fewer keys than values.
            KafkaError, ValueError: a record was rejected, with an error of :meth:`send`. The records before it are sent
                all the same. The notes of the error contain their number.

        Example::

            records = producer.send_many("orders", [b"tea", b"coffee"], keys=[b"table 4", b"table 5"])
            len(records)  # 2
        """
        ...

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table.

        Each row is a record with the column ``value``, and ``key`` if there is such a column.

        Args:
            topic: name of the topic.
            table: the columns ``value`` and ``key`` are binary or string. Optional columns are ``partition`` (integers)
                and ``timestamp`` (a timestamp, or ms since the epoch). The columns have the names that Spark's sink
                uses. Serializers and interceptors get bytes and text.
            partition: the partition of all rows. By default the partitioner chooses for each.

        Returns:
            The future of the records' partitions and offsets.

        Raises:
            ValueError: the column ``value`` is missing, or a column is unknown.
            KafkaError, ValueError: an error of :meth:`send_many`.

        Example::

            import pyarrow

            records = producer.send_arrow("orders", pyarrow.table({"value": [b"tea", b"coffee"]}))
            len(records)  # 2
        """
        ...

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send all records that were passed to :meth:`send` before this call. Wait until each of them has a result.

        Args:
            timeout_ms: longest time to wait, in ms. None waits as long as deliveries may take. It must be given by
                name, because other clients count it in seconds.

        Raises:
            KafkaTimeoutError: some records have no result in time, and are still being sent. If no time was given: a
                callback of a record has not returned for ``delivery_timeout_ms``.
            TypeError: the time was not given by name.
            IllegalStateError: the producer is closed, or its thread has ended because a callback called
                :func:`sys.exit`. Or a callback of a record makes this call. It runs in the thread that sends, so it
                cannot wait for that thread.

        Example::

            future = producer.send("orders", b"tea")
            producer.flush(timeout_ms=10_000)
            future.done()  # True
        """
        ...

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions. If metadata is missing, the errors are those of :meth:`send`.

        Example::

            producer.partitions_for("orders")  # {0}
        """
        ...

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics by group and name. The names are those of Java's producer, and some of our own.

        Any thread may call this at any time, also while another call waits, and after :meth:`close`. Rates, averages
        and maxima are those of the last minute (``metrics_sample_window_ms``, ``metrics_num_samples``). Without an
        event in that time a rate is 0.0, and an average or a maximum is NaN.

        Example::

            future = producer.send("orders", b"tea")
            producer.metrics()["producer-metrics"]["record-send-total"] >= 1  # True
        """
        ...

    def metric_table(self) -> list[Metric]:
        """Return each metric with its name, group, tags, unit, description and value.

        Any thread may call this at any time. A value that does not exist is NaN.

        Example::

            slow = [metric for metric in producer.metric_table() if metric.name == "request-latency-max"]
        """
        ...

    def health(self) -> ProducerHealth:
        """Return what the producer is doing: its connections, its buffer, and what the oldest batch waits for.

        Any thread may call this at any time: while another call waits, after :meth:`close`, and in a forked child. It
        takes no lock, makes no request and does not raise.

        Example::

            producer.health().is_alive()  # True
        """
        ...

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions. Call this once, before the first one (KIP-98).

        If an earlier producer has the same transactional id, it is fenced, and its open transaction is ended.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            KafkaTimeoutError: the call is not done in time. The producer keeps trying, and you may call this again.
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
        """Begin a transaction. The records sent until its commit become visible together, or never.

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
            group_metadata: the result of the consumer's ``group_metadata()``. If the consumer has lost its partitions,
                the offsets are then rejected. You can also give the group's id, but then there is no such check.
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: the offsets could not be added. Abort the transaction, then repeat it. If the
                consumer is no longer a member of the group, the cause is a :class:`CommitFailedError`.
            KafkaTimeoutError: the call is not done in time. Abort the transaction, or call this again.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            producer.send_offsets_to_transaction({TopicPartition("orders", 0): 17}, "kitchen")
            producer.commit_transaction()
        """
        ...

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Commit the transaction. Buffered records are sent first. All its records and offsets become visible together.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            TransactionAbortableError: a record or an offset could not be delivered. Abort the transaction, then repeat
                it.
            ApplicationRecoverableError: this producer was fenced, and its transaction was aborted. Close it.
            KafkaTimeoutError: the commit is not done in time. It continues, and the only call that you may make next is
                ``commit_transaction``.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = producer.send("orders", b"tea")
            producer.commit_transaction(timeout_ms=10_000)
        """
        ...

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. Consumers with ``isolation_level=read_committed`` never see its records.

        Buffered records are not sent. They fail with ``TransactionAbortedError``.

        Args:
            timeout_ms: longest time to wait, in ms. By default ``max_block_ms``.

        Raises:
            ApplicationRecoverableError: this producer was fenced, and the broker has aborted its transaction. Close it.
            KafkaTimeoutError: the abort is not done in time. It continues, and the only call that you may make next is
                ``abort_transaction``.
            IllegalStateError: no transaction is open.

        Example::

            producer.begin_transaction()
            future = producer.send("orders", b"tea")
            producer.abort_transaction()
        """
        ...

    def transaction(self) -> AbstractContextManager[Self]:
        """Run a block as a transaction. It is committed at the end of the block.

        If the block or the commit fails, it is aborted.

        Raises:
            TransactionAbortableError: the transaction failed and was aborted. You may repeat the block.
            ApplicationRecoverableError: this producer was fenced. Close it, create another one and repeat the block.

        Example::

            with producer.transaction():
                future = producer.send("orders", b"tea")
        """
        ...

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records, then end the background thread. If a transaction is open, it is aborted.

        Args:
            timeout_ms: longest time to wait, in ms. When the time is up, the remaining records fail with
                ``RequestCancelledError``, and a warning has their number. None waits until every record is sent or has
                reached its delivery timeout. 0 drops the records that are not sent yet. A close in a callback of a
                record does the same. The time must be given by name, because other clients count it in seconds.

        Raises:
            KafkaTimeoutError: ``timeout_ms`` is not 0, and records were dropped. Or ``timeout_ms`` is None, and a
                callback of a record has not returned for ``delivery_timeout_ms``. The producer is closed all the same.
            TypeError: the time was not given by name.
            KeyboardInterrupt: Ctrl-C ended the wait. The remaining records have failed with ``RequestCancelledError``.

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
