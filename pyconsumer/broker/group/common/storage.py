"""The interface of a coordinator to the log of its internal topic.

The broker implements it on its replicated log. Tests implement it in memory, with appends that are late or fail. It
keeps no state of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import Deferred
from pyconsumer.errors import Errors

__all__ = ["GroupStorage", "KeyValue", "StoreResult", "from_append"]

#: One record of the internal topic: its key, and its value or None for a tombstone.
KeyValue = tuple[bytes, bytes | None]


class StoreResult(NamedTuple):
    """The result of an append.

    ``error_code`` is Kafka's. It is 0 when every in-sync replica has the batch in its log. ``base_offset`` is the
    offset of the batch's first record, or -1 after an error.
    """

    error_code: int = 0
    base_offset: int = -1


class GroupStorage(Protocol):
    """The partitions of an internal topic, as one broker sees them."""

    def partition_count(self) -> int:
        """Return the number of the topic's partitions. The first call creates the topic if it does not exist."""

    def append(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[StoreResult]:
        """Write the records as one batch and wait for the in-sync replicas.

        Args:
            partition: number of the topic's partition.
            records: the records, at least one.
            now_ms: the records' timestamp, in ms since the epoch.
            producer_id, producer_epoch: the producer of the transaction to which the batch belongs. Both are -1 outside
                a transaction.

        Returns:
            The result. Its error is REQUEST_TIMED_OUT if the replicas took too long (the limit is
            ``offsets.commit.timeout.ms`` for offsets, and ``request.timeout.ms`` for transactions). It is
            NOT_LEADER_OR_FOLLOWER if this broker does not lead the partition.
        """

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Yield the batches from the log's start to its end. Each piece has any number of whole batches.

        An empty piece means that the remaining batches are not replicated yet, so that they cannot be read. This
        happens only for ``__transaction_state``. Its coordinator then asks for the next piece later.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition, or no longer leads it in the epoch in
                which the read began. The batches read so far are incomplete and must not be used.
        """


#: Kafka 4's table of append errors, the same for commits, group records and transactions; others are passed on.
_FROM_APPEND: Final[dict[int, int]] = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}


def from_append(error_code: int) -> int:
    """Return the error code for a client, if the append to an internal topic ended with ``error_code``.

    The errors of a log name its partition, which the coordinator's client does not know.
    """
    return _FROM_APPEND.get(error_code, error_code)
