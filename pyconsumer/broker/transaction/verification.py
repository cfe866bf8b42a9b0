"""Verification (KIP-890): the coordinator confirms that a partition belongs to a transaction.

See KIP-890. Without verification, a late batch of an ended transaction would open a transaction in the partition that
never ends, and ``read_committed`` consumers would stop there for ever. The guards are the state of the partition's
producers (:mod:`pyconsumer.broker.log.producer_state`).

1. A partition in which the producer's transaction is open need not be verified.
2. Clients of transaction version 2 do not add partitions themselves: verification adds them (Produce from version 12,
   TxnOffsetCommit from version 5). For older clients the partition is only looked up.
3. If the transaction ends before the coordinator responds, its marker invalidates the guard, and the append of the
   batch is rejected.
4. The coordinator adds no partition while the previous transaction is ending or another leader's partitions are being
   added. The request waits and is tried again. The marker of that transaction invalidates the guards in the meantime,
   so each attempt needs its own. Requests that only look up partitions do not wait, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.log.producer_state import VerificationGuard
from pyconsumer.broker.transaction.cluster import BrokerCluster, TransactionBroker
from pyconsumer.broker.transaction.coordinator import TransactionCoordinator
from pyconsumer.errors import BrokerResponseError, Errors
from pyconsumer.structs import TopicPartition

__all__ = ["RequestingProducer", "Verified", "add_partitions", "is_enabled", "verify"]

#: Errors after which the client must send the batch again. It gets NOT_ENOUGH_REPLICAS, which all producers retry
#: without a metadata request.
_RETRIABLE: Final = frozenset(
    {
        Errors.NETWORK_EXCEPTION,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
    }
)


class RequestingProducer(NamedTuple):
    """The producer of a request.

    Attributes:
        adds: True if the broker adds partitions for the producer (rule 2).
        knows_abortable: True if the producer knows the error TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    knows_abortable: bool


class Verified(NamedTuple):
    """The result for a partition: an error code or a guard. It has neither if the transaction is already open there."""

    error_code: int = 0
    guard: VerificationGuard | None = None


class VerifyingBroker(TransactionBroker, Protocol):
    @property
    def cluster(self) -> BrokerCluster: ...


def is_enabled(broker: TransactionBroker) -> bool:
    """Return whether the broker opens transactions only after verification."""
    return broker.config.boolean("transaction.partition.verification.enable")


async def verify(
    broker: VerifyingBroker, producer: RequestingProducer, sequences: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Verified]:
    """Verify all partitions of a request at once.

    Args:
        sequences: the first sequence number of each partition's batch.

    Returns:
        The result for each partition that this broker leads. (In other partitions the append fails anyway.)
    """
    cluster, until = broker.cluster, broker.cluster.adding_ends_at()
    who = producer.transactional_id, producer.producer_id, producer.producer_epoch
    while True:
        found, guards = _begin(broker, producer, sequences)
        if not guards:
            return found
        errors = await wait_for(cluster.check_transaction(*who, guards, add=producer.adds))
        if (
            producer.adds
            and Errors.CONCURRENT_TRANSACTIONS in errors.values()
            and await wait_for(cluster.when_settled(*who, guards, until))
        ):
            continue
        for tp, guard in guards.items():
            found[tp] = Verified(_for_client(errors[tp], producer), guard)
        return found


def _begin(
    broker: VerifyingBroker, producer: RequestingProducer, sequences: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, Verified], dict[TopicPartition, VerificationGuard]]:
    """Return the partitions that this broker leads, and guards for those to verify (rule 1)."""
    found: dict[TopicPartition, Verified] = {}
    guards: dict[TopicPartition, VerificationGuard] = {}
    verifies = producer.adds or is_enabled(broker)
    for tp, sequence in sequences.items():
        try:
            producers = broker.partition(tp.topic, tp.partition).log.producers
        except BrokerResponseError:
            continue
        found[tp] = Verified()
        if verifies and not producers.is_open(producer.producer_id, producer.producer_epoch):
            guards[tp] = producers.begin_verification(
                producer.producer_id,
                producer.producer_epoch,
                sequence,
                broker.clock.wall_ms(),
                is_strict=producer.adds,
            )
    return found, guards


async def add_partitions(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
    *,
    client_version: int = 0,
) -> int:
    """Serve a client that adds partitions itself. If necessary, wait until the previous transaction has ended (rule 4).

    Arguments and result are those of :meth:`TransactionCoordinator.add_partitions`.
    """
    until = coordinator.adding_ends_at()
    who = transactional_id, producer_id, producer_epoch
    while True:
        code = await wait_for(coordinator.add_partitions(*who, partitions, client_version=client_version))
        if code != Errors.CONCURRENT_TRANSACTIONS:
            return code
        if not await wait_for(coordinator.when_settled(*who, partitions, until)):
            return code


def _for_client(code: int, producer: RequestingProducer) -> int:
    if code in _RETRIABLE or (code == Errors.CONCURRENT_TRANSACTIONS and not producer.adds):
        return Errors.NOT_ENOUGH_REPLICAS
    if code == Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH  # the error that producers expect in a Produce response
    if code == Errors.TRANSACTION_ABORTABLE and not producer.knows_abortable:
        return Errors.INVALID_TXN_STATE
    return code
