"""The offsets topic as the group coordinator sees it, over the log of this broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import OFFSETS_TOPIC, Controller
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.storage import KeyValue, StoreResult
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.purgatory import AppendProgress, DelayedProduce
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import (
    BrokerResponseError,
    CoordinatorNotAvailableError,
    InvalidReplicationFactorError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
)
from pyconsumer.protocol.records import BatchBuilder

__all__ = ["LogGroupStorage"]

_log = logging.getLogger(__name__)


class LocalBroker(Protocol):
    """The broker whose logs hold the group records, as far as they are needed here."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timer(self) -> Timer: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def call_soon(self) -> Callable[[Callable[[], None]], None]: ...
    def partition(self, topic: str, partition: int) -> Partition: ...


class LogGroupStorage:
    """Implements :class:`~pyconsumer.broker.group.storage.GroupStorage` for one broker."""

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker

    def partition_count(self) -> int:
        """Return how many partitions ``__consumer_offsets`` has; it is created if it is not there.

        Raises:
            CoordinatorNotAvailableError: it cannot be created, since too few brokers are alive.
        """
        try:
            return len(self._broker.controller.ensure_internal(OFFSETS_TOPIC).partitions)
        except InvalidReplicationFactorError as error:
            raise CoordinatorNotAvailableError(str(error)) from error

    def append(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[StoreResult]:
        """Write records as one batch; see the protocol."""
        builder = BatchBuilder(self._broker.config.integer("offsets.topic.compression.codec"))
        for key, value in records:
            builder.try_append(now_ms, key, value)
        batch = builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, is_transactional=producer_id >= 0
        )
        try:
            found = self._broker.partition(OFFSETS_TOPIC, partition)
            result = found.append(bytearray(batch), from_client=False)
        except BrokerResponseError as error:
            return Deferred.of(StoreResult(error.errno))
        except OSError as error:
            _log.error("cannot append to %s-%d: %s", OFFSETS_TOPIC, partition, error)
            return Deferred.of(StoreResult(KafkaStorageError.errno))
        appended = AppendProgress(found, result.last_offset + 1, found.leader_epoch)
        outcome = appended.outcome
        if outcome is not None:
            return Deferred.of(_result(outcome, result.first_offset))
        broker = self._broker
        until = broker.clock.now() + broker.config.integer("offsets.commit.timeout.ms") / 1000
        answer: Deferred[StoreResult] = Deferred()
        replicated = DelayedProduce(broker.timer, broker.call_soon, until, [appended]).deferred
        replicated.on_done(lambda outcomes: answer.set(_result(outcomes[0], result.first_offset)))
        return answer

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Record batches from the log start to the log end.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition, or not in the same epoch any more. What
                was read until then is not all there is, so it must not pass for it.
        """
        found = self._broker.partition(OFFSETS_TOPIC, partition)
        epoch = found.leader_epoch
        for piece in found.log.raw(self._broker.config.integer("offsets.load.buffer.size")):
            yield piece
            if not found.is_leader or found.leader_epoch != epoch:
                raise NotLeaderOrFollowerError(f"{found.tp} is in another leader epoch than when its load began")


def _result(error_code: int, base_offset: int) -> StoreResult:
    return StoreResult(0, base_offset) if error_code == 0 else StoreResult(error_code)
