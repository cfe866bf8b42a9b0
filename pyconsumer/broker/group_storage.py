"""The offsets topic as the group coordinator sees it, over the log of this broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.storage import AppendResult, KeyValue
from pyconsumer.error_codes import KafkaStorageError
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.broker.broker import Broker

__all__ = ["LogGroupStorage"]


class LogGroupStorage:
    """Implements :class:`~pyconsumer.broker.group.storage.GroupStorage` for one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def partition_count(self) -> int:
        """How many partitions ``__consumer_offsets`` has; it is created if it is not there."""
        return len(self._broker.controller.ensure_internal(OFFSETS_TOPIC).partitions)

    def append(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[AppendResult]:
        """Write records as one batch; see the protocol."""
        builder = BatchBuilder(self._broker.config.integer("offsets.topic.compression.codec"))
        for key, value in records:
            builder.try_append(now_ms, key, value)
        batch = builder.build(producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=producer_id >= 0)
        try:
            found = self._broker.partition(OFFSETS_TOPIC, partition)
            result = found.append(bytearray(batch), from_client=False)
        except BrokerResponseError as error:
            return Deferred.of(AppendResult(error.errno))
        except OSError:
            return Deferred.of(AppendResult(KafkaStorageError.errno))
        return Deferred.of(AppendResult(0, result.first_offset))

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Record batches from the log start to the log end."""
        found = self._broker.partitions.get(TopicPartition(OFFSETS_TOPIC, partition))
        if found is None or not found.is_leader:
            return
        epoch = found.leader_epoch
        for piece in found.log.raw(self._broker.config.integer("offsets.load.buffer.size")):
            yield piece
            if not found.is_leader or found.leader_epoch != epoch:
                return
