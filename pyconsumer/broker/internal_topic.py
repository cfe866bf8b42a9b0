"""Reads and writes an internal topic for its coordinator, in the logs of this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC, Controller
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult
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

__all__ = ["InternalTopicLog", "LocalBroker"]

_log = Log(__name__)

#: The most bytes that a load reads at a time, which keeps its steps short.
_PIECE_BYTES: Final = 64 << 10


class LocalBroker(Protocol):
    """The part of a broker that this module needs. The broker's logs hold the records of internal topics."""

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


class InternalTopicLog:
    """Implements :class:`~pyconsumer.broker.group.common.storage.GroupStorage` for one broker.

    Args:
        topic: the internal topic.
        codec: the compression of the topic's records. ``timeout_ms`` is the longest wait for the replicas.
        load_bytes: how many bytes a load reads at a time.
        replicated: True ends a load only when all in-sync replicas have every record that was read. Otherwise this
            leader could act on a record that the next leader lacks.
            could act on a record that the next one lacks.
    """

    def __init__(
        self, broker: LocalBroker, topic: str, *, codec: int, timeout_ms: int, load_bytes: int, replicated: bool = False
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._codec = codec
        self._timeout_s = timeout_ms / 1000
        self._load_bytes = load_bytes
        self._replicated = replicated

    @classmethod
    def of_offsets(cls, broker: LocalBroker) -> InternalTopicLog:
        """Return the log of ``__consumer_offsets``, with the broker's settings."""
        integer = broker.config.integer
        return cls(
            broker,
            OFFSETS_TOPIC,
            codec=integer("offsets.topic.compression.codec"),
            timeout_ms=integer("offsets.commit.timeout.ms"),
            load_bytes=integer("offsets.load.buffer.size"),
        )

    @classmethod
    def of_transactions(cls, broker: LocalBroker) -> InternalTopicLog:
        """Return the log of ``__transaction_state``, with the broker's settings.

        As in Kafka, it is never compressed.
        """
        integer = broker.config.integer
        return cls(
            broker,
            TRANSACTION_TOPIC,
            codec=0,
            timeout_ms=integer("request.timeout.ms"),
            load_bytes=integer("transaction.state.log.load.buffer.size"),
            replicated=True,
        )

    @classmethod
    def of_share_states(cls, broker: LocalBroker) -> InternalTopicLog:
        """Return the log of ``__share_group_state``, with the broker's settings."""
        integer = broker.config.integer
        return cls(
            broker,
            SHARE_STATE_TOPIC,
            codec=integer("share.coordinator.state.topic.compression.codec"),
            timeout_ms=integer("share.coordinator.write.timeout.ms"),
            load_bytes=integer("share.coordinator.load.buffer.size"),
            replicated=True,
        )

    def partition_count(self) -> int:
        """Return the number of partitions. If the topic does not exist, it is created.

        Raises:
            CoordinatorNotAvailableError: the topic cannot be created, because too few brokers are alive.
        """
        try:
            return len(self._broker.controller.ensure_internal(self._topic).partitions)
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
        """Write records as one batch. See :class:`~pyconsumer.broker.group.common.storage.GroupStorage`."""
        builder = BatchBuilder(self._codec)
        for key, value in records:
            builder.try_append(now_ms, key, value)
        batch = builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, is_transactional=producer_id >= 0
        )
        try:
            found = self._broker.partition(self._topic, partition)
            result = found.append(bytearray(batch), from_client=False)
        except BrokerResponseError as error:
            return Deferred.of(StoreResult(error.errno))
        except OSError as error:
            _log.error("cannot append to %s-%d: %s", self._topic, partition, error)
            return Deferred.of(StoreResult(KafkaStorageError.errno))
        appended = AppendProgress(found, result.last_offset + 1, found.leader_epoch)
        outcome = appended.outcome
        if outcome is not None:
            return Deferred.of(_result(outcome, result.first_offset))
        broker = self._broker
        until = broker.clock.now() + self._timeout_s
        stored: Deferred[StoreResult] = Deferred()
        replicated = DelayedProduce(broker.timer, broker.call_soon, until, [appended]).deferred
        replicated.on_done(lambda outcomes: stored.set(_result(outcomes[0], result.first_offset)))
        return stored

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Yield record batches from the log start to the log end. See the same class.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition, or no longer leads it in the same epoch.
                The batches read so far are incomplete and must not be used.
        """
        found = self._broker.partition(self._topic, partition)
        epoch = found.leader_epoch
        for piece in found.log.raw(min(self._load_bytes, _PIECE_BYTES)):
            yield piece
            self._check(found, epoch)
        end = found.log.log_end_offset
        while self._replicated and found.high_watermark < end:
            yield b""
            self._check(found, epoch)

    def _check(self, partition: Partition, epoch: int) -> None:
        if not partition.is_leader or partition.leader_epoch != epoch:
            raise NotLeaderOrFollowerError(f"{partition.tp} is in another leader epoch than when its load began")


def _result(error_code: int, base_offset: int) -> StoreResult:
    return StoreResult(0, base_offset) if error_code == 0 else StoreResult(error_code)
