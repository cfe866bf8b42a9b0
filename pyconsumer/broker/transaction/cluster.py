"""Calls of transactions to other brokers: markers to partition leaders, verification at coordinators.

As in replication, the brokers of a cluster call each other directly, in one process: no request between them can be
lost. A broker that is not alive is not among the peers. This module has no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.elections import NO_LEADER
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.broker.internal_topic import LocalBroker
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.broker.transaction.coordinator import TransactionCoordinator
from pyconsumer.broker.transaction.metadata import TV_2
from pyconsumer.errors import BrokerResponseError, CoordinatorNotAvailableError, Errors
from pyconsumer.protocol.messages.write_txn_markers import WritableTxnMarker
from pyconsumer.structs import TopicPartition

__all__ = ["TRANSACTION_VERSION", "BrokerCluster", "TransactionBroker", "write_marker"]

_log = Log(__name__)

#: The feature that decides the version of the transaction protocol (KIP-890).
TRANSACTION_VERSION = "transaction.version"


class TransactionBroker(LocalBroker, Protocol):
    """The part of a broker that transactions need."""

    @property
    def group_coordinator(self) -> GroupCoordinator: ...
    @property
    def transaction_coordinator(self) -> TransactionCoordinator: ...
    def next_producer_id(self) -> int: ...


def write_marker(broker: TransactionBroker, marker: WritableTxnMarker) -> Deferred[Mapping[TopicPartition, int]]:
    """Write the end marker of a transaction into partitions that this broker leads.

    If a partition belongs to ``__consumer_offsets``, the group coordinator then applies or drops the transaction's
    offsets. It does so when all in-sync replicas have the marker.

    Returns:
        An error code for each partition. It is REQUEST_TIMED_OUT if the replicas took longer than
        ``request.timeout.ms``.
    """
    errors: dict[TopicPartition, int] = {}
    waiting: list[tuple[TopicPartition, AppendProgress]] = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            tp = TopicPartition(topic.name, index)
            try:
                partition = broker.partition(topic.name, index)
                result = partition.append_marker(
                    marker.producer_id,
                    marker.producer_epoch,
                    commit=marker.transaction_result,
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                )
            except BrokerResponseError as error:
                errors[tp] = error.errno
            except OSError as error:
                _log.error("cannot append the marker of producer %d to %s: %s", marker.producer_id, tp, error)
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
            else:
                waiting.append((tp, AppendProgress(partition, result.last_offset + 1, partition.leader_epoch)))
    written: Deferred[Mapping[TopicPartition, int]] = Deferred()

    def on_replicated(outcomes: Iterable[int]) -> None:
        errors.update(zip((tp for tp, _ in waiting), outcomes, strict=True))
        offsets = [tp.partition for tp, code in errors.items() if tp.topic == OFFSETS_TOPIC and code == Errors.NONE]
        if offsets:
            broker.group_coordinator.on_transaction_completed(
                marker.producer_id, offsets, commit=marker.transaction_result
            )
        written.set(errors)

    outcomes = [append.outcome for _, append in waiting]
    if None not in outcomes:
        on_replicated([code for code in outcomes if code is not None])
    else:
        until = broker.clock.now() + broker.config.integer("request.timeout.ms") / 1000
        appends = [append for _, append in waiting]
        DelayedProduce(broker.timer, broker.call_soon, until, appends).deferred.on_done(on_replicated)
    return written


class BrokerCluster:
    """The cluster, as one of its brokers sees it.

    Args:
        peers: all live brokers by node id, including this one.
    """

    def __init__(self, broker: TransactionBroker, peers: Mapping[int, TransactionBroker]) -> None:
        self._broker = broker
        self._peers = peers

    @property
    def transaction_version(self) -> int:
        """Return the finalized feature ``transaction.version``."""
        return self._broker.controller.features.get(TRANSACTION_VERSION, 0)

    def next_producer_id(self) -> int:
        """Return a producer id that was never used in this cluster."""
        return self._broker.next_producer_id()

    def leader_of(self, tp: TopicPartition) -> int | None:
        """Return the leader of a partition. It is -1 if there is none, and None if the partition does not exist."""
        topic = self._broker.controller.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition].leader

    def write_markers(self, node: int, marker: WritableTxnMarker) -> Deferred[Mapping[TopicPartition, int]]:
        """Make a node write a marker. See :func:`write_marker`."""
        peer = self._peers.get(node)
        if peer is None:
            partitions = (TopicPartition(topic.name, one) for topic in marker.topics for one in topic.partition_indexes)
            return Deferred.of(dict.fromkeys(partitions, Errors.NOT_LEADER_OR_FOLLOWER))
        return write_marker(peer, marker)

    def check_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> Deferred[Mapping[TopicPartition, int]]:
        """Ask the coordinator of a transactional id whether partitions are part of its open transaction (KIP-890).

        Args:
            add: True adds the partitions to the transaction, for a producer of transaction version 2. If the error is
                CONCURRENT_TRANSACTIONS, wait for :meth:`when_settled` and ask again.

        Returns:
            An error code for each partition.
        """
        wanted = list(partitions)
        try:
            coordinator = self._coordinator(transactional_id)
        except CoordinatorNotAvailableError as error:
            return Deferred.of(dict.fromkeys(wanted, error.errno))
        if not add:
            return Deferred.of(coordinator.verify_partitions(transactional_id, producer_id, producer_epoch, wanted))
        added: Deferred[Mapping[TopicPartition, int]] = Deferred()
        coordinator.add_partitions(transactional_id, producer_id, producer_epoch, wanted, client_version=TV_2).on_done(
            lambda code: added.set(dict.fromkeys(wanted, code))
        )
        return added

    def adding_ends_at(self) -> float:
        """Return how long a request that begins now may wait to add its partitions (a point in monotonic time)."""
        return self._broker.transaction_coordinator.adding_ends_at()

    def when_settled(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        until: float,
    ) -> Deferred[bool]:
        """Wait at the coordinator of an id. See :meth:`TransactionCoordinator.when_settled`."""
        try:
            coordinator = self._coordinator(transactional_id)
        except CoordinatorNotAvailableError:
            return Deferred.of(True)  # the next attempt fails with the same error
        return coordinator.when_settled(transactional_id, producer_id, producer_epoch, partitions, until)

    def _coordinator(self, transactional_id: str) -> TransactionCoordinator:
        number = self._broker.transaction_coordinator.partition_for(transactional_id)
        leader = self.leader_of(TopicPartition(TRANSACTION_TOPIC, number))
        peer = None if leader in (None, NO_LEADER) else self._peers.get(leader)
        if peer is None:
            raise CoordinatorNotAvailableError(f"transactional id {transactional_id!r} has no coordinator now")
        return peer.transaction_coordinator
