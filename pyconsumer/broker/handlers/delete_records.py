"""DeleteRecords: a log begins later (KIP-107)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidTopicError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    PolicyViolationError,
)
from pyconsumer.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

__all__ = ["handle"]

_HIGH_WATERMARK = -1


async def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Raise each log start offset; the answer holds what it is now."""
    topics = [
        DeleteRecordsTopicResult(topic.name, [_delete(broker, topic.name, wanted) for wanted in topic.partitions])
        for topic in request.topics
    ]
    broker.logs.write_log_starts()
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"records of the internal topic {topic} cannot be deleted")
        partition = broker.partition(topic, wanted.partition_index)
        if not partition.log.config.delete:
            raise PolicyViolationError(f"{topic} is compacted, and cleanup.policy has no delete")
        offset = partition.high_watermark if wanted.offset == _HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise OffsetOutOfRangeError(f"offset {offset} is not in {topic}-{wanted.partition_index}")
        partition.log.advance_log_start_offset(offset)
    except BrokerResponseError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.errno)
    except OSError:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, KafkaStorageError.errno)
    return DeleteRecordsPartitionResult(wanted.partition_index, partition.log.log_start_offset, 0)
