"""Before a partition opens a transaction, the coordinator is asked whether the partition belongs to it (KIP-890).

Without this a batch that was late, from a transaction that has ended, would open a transaction in the partition that
nobody ends: readers of committed records would stop there for ever.

1. A partition in which the producer's transaction is open already need not be asked for.
2. Clients of transaction version 2 don't add partitions themselves: asking adds the partition (Produce from version 12,
   TxnOffsetCommit from version 5). For older clients it is only looked up.
3. While the coordinator answers, the transaction may end: then its marker has made the guard invalid, and the batch is
   refused when it is appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.log.producer_state import VerificationGuard
from pyconsumer.broker.transaction.cluster import BrokerCluster, TransactionBroker
from pyconsumer.errors import BrokerResponseError, Errors
from pyconsumer.structs import TopicPartition

__all__ = ["RequestingProducer", "Verified", "is_enabled", "verify"]

#: What older clients would not repeat is reported as an error after which they repeat without asking for metadata.
_RETRIABLE: Final = frozenset(
    {
        Errors.NETWORK_EXCEPTION,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
    }
)


class RequestingProducer(NamedTuple):
    """The producer that asks.

    Attributes:
        adds: it leaves it to brokers to add partitions (rule 2).
        knows_abortable: it understands TRANSACTION_ABORTABLE.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    knows_abortable: bool


class Verified(NamedTuple):
    """The outcome for a partition: an error code, or a guard; neither where the transaction is open already."""

    error_code: int = 0
    guard: VerificationGuard | None = None


class VerifyingBroker(TransactionBroker, Protocol):
    @property
    def cluster(self) -> BrokerCluster: ...


def is_enabled(broker: TransactionBroker) -> bool:
    """Return whether transactions are opened only after the coordinator was asked."""
    return broker.config.boolean("transaction.partition.verification.enable")


async def verify(
    broker: VerifyingBroker, producer: RequestingProducer, sequences: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Verified]:
    """Ask for all partitions of a request at once.

    Args:
        sequences: the first sequence of each partition's batch. Partitions that this broker does not lead are left out
            of the result: their append fails anyway.
    """
    found: dict[TopicPartition, Verified] = {}
    guards: dict[TopicPartition, VerificationGuard] = {}
    asks = producer.adds or is_enabled(broker)
    for tp, sequence in sequences.items():
        try:
            producers = broker.partition(tp.topic, tp.partition).log.producers
        except BrokerResponseError:
            continue
        found[tp] = Verified()
        if asks and not producers.is_open(producer.producer_id, producer.producer_epoch):
            guards[tp] = producers.begin_verification(
                producer.producer_id,
                producer.producer_epoch,
                sequence,
                broker.clock.wall_ms(),
                is_strict=producer.adds,
            )
    if guards:
        errors = await wait_for(
            broker.cluster.check_transaction(
                producer.transactional_id,
                producer.producer_id,
                producer.producer_epoch,
                guards,
                add=producer.adds,
            )
        )
        for tp, guard in guards.items():
            found[tp] = Verified(_for_client(errors[tp], producer), guard)
    return found


def _for_client(code: int, producer: RequestingProducer) -> int:
    if code in _RETRIABLE or (code == Errors.CONCURRENT_TRANSACTIONS and not producer.adds):
        return Errors.NOT_ENOUGH_REPLICAS
    if code == Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH  # what producers expect as the answer to a batch
    if code == Errors.TRANSACTION_ABORTABLE and not producer.knows_abortable:
        return Errors.INVALID_TXN_STATE
    return code
