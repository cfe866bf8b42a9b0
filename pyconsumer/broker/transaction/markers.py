"""Writes the end markers of a transaction into its partitions, and then completes the transaction (KIP-98).

Rules:

1. A marker is sent to the leader of each partition of the transaction. It is sent again, after a pause, until it is
   written in the log of all replicas in sync, whatever leaders do in the meantime.
2. A partition that was deleted needs no marker.
3. When every partition has its marker, the completed state is written; that too is tried again until it succeeds.
4. All that ends as soon as this broker is not the coordinator any more, or in another epoch: the next one begins
   again. So a marker may be written twice, which changes nothing.
5. A leader that knows a newer epoch of the producer or of the coordinator refuses: then somebody else has ended the
   transaction, and nothing more is sent.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.transaction.metadata import TransactionMetadata, TransactionRecord, TransactionState
from pyconsumer.broker.transaction.state_manager import TransactionStateManager
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name
from pyconsumer.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from pyconsumer.structs import TopicPartition

__all__ = ["MarkerChannel", "MarkerSender"]

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.05
#: Somebody else has ended the transaction (rule 5).
_FENCED: Final = frozenset({Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED})
#: The partition needs no marker (rule 2), or can have none.
_NOT_NEEDED: Final = frozenset({Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION})


class MarkerChannel(Protocol):
    """The brokers, as far as markers need them."""

    def leader_of(self, tp: TopicPartition) -> int | None:
        """The node that leads a partition, -1 if nobody does; None if there is no such partition."""

    def write_markers(self, node: int, marker: WritableTxnMarker) -> Deferred[Mapping[TopicPartition, int]]:
        """Let a node write a marker; an error code for each partition, once the replicas in sync have it."""


class _Job(NamedTuple):
    """A transaction that is being ended; ``record`` is the completed state."""

    metadata: TransactionMetadata
    coordinator_epoch: int
    record: TransactionRecord
    marker: WritableTxnMarker


class MarkerSender:
    """The transactions that one coordinator is ending.

    Args:
        channel: where markers are sent.
    """

    def __init__(self, manager: TransactionStateManager, channel: MarkerChannel, timer: Timer, clock: Clock) -> None:
        self._manager = manager
        self._channel = channel
        self._timer = timer
        self._clock = clock
        self._stopped = False

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True

    def send(self, metadata: TransactionMetadata, coordinator_epoch: int) -> None:
        """End the transaction of an id that is in PREPARE_COMMIT or PREPARE_ABORT."""
        present = metadata.record
        marker = WritableTxnMarker(
            producer_id=present.producer_id,
            producer_epoch=present.producer_epoch,
            transaction_result=present.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=coordinator_epoch,
            transaction_version=present.client_version,
        )
        record = metadata.prepare_complete(self._clock.wall_ms())
        self._continue(_Job(metadata, coordinator_epoch, record, marker))

    def _is_current(self, job: _Job) -> bool:
        return not self._stopped and self._manager.is_current(
            job.metadata.transactional_id, job.coordinator_epoch, job.metadata
        )

    def _continue(self, job: _Job) -> None:
        """Send the markers that are missing, or complete the transaction."""
        if not self._is_current(job):
            return
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in sorted(job.metadata.record.partitions):
            leader = self._channel.leader_of(tp)
            if leader is None:
                _log.info("%s: %s was deleted and needs no marker", job.metadata.transactional_id, tp)
                job.metadata.marker_written(tp)
            else:
                by_leader[leader].append(tp)
        if not by_leader:
            self._complete(job)
            return
        waiting = set(by_leader)
        fenced = False

        def on_answer(node: int, errors: Mapping[TopicPartition, int]) -> None:
            nonlocal fenced
            if not self._is_current(job):
                return
            fenced = self._note(job, by_leader[node], errors) or fenced
            waiting.discard(node)
            if waiting or fenced:
                return
            if job.metadata.record.partitions:
                self._timer.schedule(self._clock.now() + _RETRY_S, lambda: self._continue(job))
            else:
                self._complete(job)

        for node, partitions in list(by_leader.items()):
            self._ask(node, job, partitions).on_done(lambda errors, node=node: on_answer(node, errors))  # type: ignore[misc]

    def _ask(self, node: int, job: _Job, partitions: list[TopicPartition]) -> Deferred[Mapping[TopicPartition, int]]:
        if node < 0:
            return Deferred.of(dict.fromkeys(partitions, Errors.NOT_LEADER_OR_FOLLOWER))
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(partition)
        base = job.marker
        marker = WritableTxnMarker(
            producer_id=base.producer_id,
            producer_epoch=base.producer_epoch,
            transaction_result=base.transaction_result,
            topics=[WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()],
            coordinator_epoch=base.coordinator_epoch,
            transaction_version=base.transaction_version,
        )
        return self._channel.write_markers(node, marker)

    def _note(self, job: _Job, partitions: list[TopicPartition], errors: Mapping[TopicPartition, int]) -> bool:
        """Note what a leader answered; whether it has fenced the transaction."""
        for tp in partitions:
            code = errors.get(tp, Errors.UNKNOWN_SERVER_ERROR)
            if code == Errors.NONE or code in _NOT_NEEDED:
                job.metadata.marker_written(tp)
            elif code in _FENCED:
                _log.info(
                    "%s: the marker for %s is refused (%s): no more are sent",
                    job.metadata.transactional_id,
                    tp,
                    error_name(code),
                )
                return True
            else:
                _log.debug("%s: the marker for %s is sent again: %s", job.metadata, tp, error_name(code))
        return False

    def _complete(self, job: _Job) -> None:
        def on_written(error_code: int) -> None:
            if error_code == Errors.NONE or not self._is_current(job):
                return
            self._timer.schedule(self._clock.now() + _RETRY_S, retry)

        def retry() -> None:
            if self._is_current(job) and job.metadata.pending_state is None:
                job.metadata.prepare_complete(self._clock.wall_ms())
                self._complete(job)

        self._manager.write(job.metadata, job.coordinator_epoch, job.record).on_done(on_written)
