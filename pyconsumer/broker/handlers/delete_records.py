"""DeleteRecords: a log begins later (KIP-107)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import INTERNAL_TOPICS
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import storage_error
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.purgatory import DelayedStart
from pyconsumer.errors import (
    BrokerResponseError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RequestTimedOutError,
)
from pyconsumer.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_HIGH_WATERMARK = -1


async def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Raise each log start offset; the answer holds what it is now."""
    starts: list[tuple[Partition, int]] = []
    topics = [
        DeleteRecordsTopicResult(
            topic.name, [_delete(broker, topic.name, wanted, starts) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    broker.logs.write_log_starts()
    waiting = [start for start in starts if not start[0].starts_everywhere_at(start[1])]
    if waiting:
        # Or the records would be back if another replica led before it knew.
        wait = DelayedStart(broker.timer, broker.call_soon, context.now + request.timeout_ms / 1000, waiting)
        try:
            await wait_for(wait.deferred)
        finally:
            wait.cancel()
        late = {start[0].tp: _outcome(*start) for start in waiting}
        topics = [
            DeleteRecordsTopicResult(topic.name, [_late(topic.name, result, late) for result in topic.partitions])
            for topic in topics
        ]
    return DeleteRecordsResponse(topics=topics)


def _late(
    topic: str, result: DeleteRecordsPartitionResult, late: dict[TopicPartition, int]
) -> DeleteRecordsPartitionResult:
    """Return the result of a partition after the wait for its replicas: an error where they did not follow."""
    index = result.partition_index
    code = late.get(TopicPartition(topic, index), 0)
    return DeleteRecordsPartitionResult(index, -1, code) if code and not result.error_code else result


def _outcome(partition: Partition, offset: int) -> int:
    if not partition.is_leader:
        return NotLeaderOrFollowerError.errno
    return 0 if partition.starts_everywhere_at(offset) else RequestTimedOutError.errno


def _delete(
    broker: Broker, topic: str, wanted: DeleteRecordsPartition, starts: list[tuple[Partition, int]]
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"records of the internal topic {topic} cannot be deleted")
        partition = broker.partition(topic, wanted.partition_index)
        if not partition.log.config.delete:
            raise PolicyViolationError(f"{topic} is compacted, and cleanup.policy has no delete")
        offset = partition.high_watermark if wanted.offset == _HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise OffsetOutOfRangeError(f"offset {offset} is not in {topic}-{wanted.partition_index}")
        partition.start_at(offset)
        starts.append((partition, offset))
    except BrokerResponseError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.errno)
    except OSError as error:
        refused = storage_error("delete records of", topic, wanted.partition_index, broker.logs.folder, error)
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, refused.errno)
    return DeleteRecordsPartitionResult(wanted.partition_index, partition.log.log_start_offset, 0)
