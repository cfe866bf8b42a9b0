"""Sending of transaction markers until every partition has one (KIP-98).

The state is the transaction's: the partitions of its record that have no marker yet. Rules:

1. A marker is sent to the leader of each partition of the transaction. It is sent again, after a pause, until it is in
   the log of all replicas in sync, even if leaders change.
2. A partition that was deleted needs no marker.
3. When every partition has its marker, the completed state is written. That is retried, too, until it succeeds.
4. Sending and writing stop when this broker is no longer the coordinator, or is it in another epoch. The new
   coordinator begins again. It may write a marker twice, which has no effect.
5. A leader with a newer epoch of the producer or of the coordinator rejects the marker. Another coordinator has then
   ended the transaction, and sending stops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.transaction.metadata import TransactionMetadata, TransactionRecord, TransactionState
from pyconsumer.broker.transaction.state_manager import TransactionStateManager
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name
from pyconsumer.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from pyconsumer.structs import TopicPartition

__all__ = ["MarkerChannel", "MarkerSender"]

_log = Log(__name__)

_RETRY_S: Final = 0.05
#: Another coordinator has ended the transaction (rule 5).
_FENCED: Final = frozenset({Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED})
#: The partition cannot have a marker.
_NOT_NEEDED: Final = frozenset({Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION})


class MarkerChannel(Protocol):
    """The part of a cluster that is needed to write markers."""

    def leader_of(self, tp: TopicPartition) -> int | None:
        """Return the leader of a partition. It is -1 if there is none, and None if the partition does not exist."""

    def write_markers(self, node: int, marker: WritableTxnMarker) -> Deferred[Mapping[TopicPartition, int]]:
        """Make a node write a marker. The result has an error code for each partition."""


class _EndingTransaction(NamedTuple):
    """A transaction whose markers are being written. ``record`` is the completed state."""

    metadata: TransactionMetadata
    coordinator_epoch: int
    record: TransactionRecord
    marker: WritableTxnMarker


class MarkerSender:
    """Sends the end markers of the transactions of one coordinator.

    Args:
        channel: the brokers to which markers are sent.
    """

    def __init__(self, manager: TransactionStateManager, channel: MarkerChannel, timer: Timer, clock: Clock) -> None:
        self._manager = manager
        self._channel = channel
        self._timer = timer
        self._clock = clock
        self._stopped = False

    def stop(self) -> None:
        """Stop sending."""
        self._stopped = True

    def send(self, metadata: TransactionMetadata, coordinator_epoch: int) -> None:
        """Send the markers of an id in the state PREPARE_COMMIT or PREPARE_ABORT. Then complete its transaction."""
        present = metadata.record
        marker = WritableTxnMarker(
            producer_id=present.producer_id,
            producer_epoch=present.producer_epoch,
            transaction_result=present.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=coordinator_epoch,
            transaction_version=present.client_version,
        )
        record = metadata.prepare_complete(self._clock.wall_ms())
        self._send_missing(_EndingTransaction(metadata, coordinator_epoch, record, marker))

    def _is_current(self, ending: _EndingTransaction) -> bool:
        return not self._stopped and self._manager.is_current(
            ending.metadata.transactional_id, ending.coordinator_epoch, ending.metadata
        )

    def _send_missing(self, ending: _EndingTransaction) -> None:
        """Send the missing markers. If none is missing, complete the transaction."""
        if not self._is_current(ending):
            return
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in sorted(ending.metadata.record.partitions):
            leader = self._channel.leader_of(tp)
            if leader is None:
                _log.info("%s: %s was deleted and needs no marker", ending.metadata.transactional_id, tp)
                ending.metadata.marker_written(tp)
            else:
                by_leader[leader].append(tp)
        if not by_leader:
            self._complete(ending)
            return
        waiting = set(by_leader)
        fenced = False

        def on_result(node: int, errors: Mapping[TopicPartition, int]) -> None:
            nonlocal fenced
            if not self._is_current(ending):
                return
            fenced = self._apply(ending, by_leader[node], errors) or fenced
            waiting.discard(node)
            if waiting or fenced:
                return
            if ending.metadata.record.partitions:
                self._timer.schedule(self._clock.now() + _RETRY_S, lambda: self._send_missing(ending))
            else:
                self._complete(ending)

        for node, partitions in list(by_leader.items()):
            written = self._send_to(node, ending, partitions)
            written.on_done(lambda errors, node=node: on_result(node, errors))  # type: ignore[misc]

    def _send_to(
        self, node: int, ending: _EndingTransaction, partitions: list[TopicPartition]
    ) -> Deferred[Mapping[TopicPartition, int]]:
        if node < 0:
            return Deferred.of(dict.fromkeys(partitions, Errors.NOT_LEADER_OR_FOLLOWER))
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(partition)
        base = ending.marker
        marker = WritableTxnMarker(
            producer_id=base.producer_id,
            producer_epoch=base.producer_epoch,
            transaction_result=base.transaction_result,
            topics=[WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()],
            coordinator_epoch=base.coordinator_epoch,
            transaction_version=base.transaction_version,
        )
        return self._channel.write_markers(node, marker)

    def _apply(
        self, ending: _EndingTransaction, partitions: list[TopicPartition], errors: Mapping[TopicPartition, int]
    ) -> bool:
        """Record a leader's result. Return whether it fences the transaction (rule 5)."""
        transactional_id = ending.metadata.transactional_id
        for tp in partitions:
            code = errors.get(tp, Errors.UNKNOWN_SERVER_ERROR)
            if code == Errors.NONE or code in _NOT_NEEDED:
                ending.metadata.marker_written(tp)
            elif code in _FENCED:
                _log.info(
                    "%s: the marker for %s was rejected (%s): no more are sent", transactional_id, tp, error_name(code)
                )
                return True
            else:
                _log.debug("%s: sending the marker for %s again: %s", transactional_id, tp, error_name(code))
        return False

    def _complete(self, ending: _EndingTransaction) -> None:
        def on_written(error_code: int) -> None:
            if error_code == Errors.NONE or not self._is_current(ending):
                return
            self._timer.schedule(self._clock.now() + _RETRY_S, retry)

        def retry() -> None:
            if self._is_current(ending) and ending.metadata.pending_state is None:
                ending.metadata.prepare_complete(self._clock.wall_ms())
                self._complete(ending)

        self._manager.write(ending.metadata, ending.coordinator_epoch, ending.record).on_done(on_written)
