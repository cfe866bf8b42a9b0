"""DeleteRecords: raise the log start offsets of partitions (KIP-107)."""

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
    """Raise the log start offsets. Return the new offsets as soon as all in-sync replicas have them."""
    starts: list[tuple[Partition, int]] = []
    topics = [
        DeleteRecordsTopicResult(
            topic.name,
            [
                _delete(broker, topic.name, wanted, starts)
                for wanted in {each.partition_index: each for each in topic.partitions}.values()
            ],
        )
        for topic in request.topics
    ]
    broker.logs.write_log_starts()
    waiting = [start for start in starts if not start[0].starts_everywhere_at(start[1])]
    if waiting:
        # Otherwise the records would be readable again if a replica became the leader before it knew.
        wait = DelayedStart(broker.timer, broker.call_soon, context.now + request.timeout_ms / 1000, waiting)
        try:
            await wait_for(wait.deferred)
        finally:
            wait.cancel()
        codes = {start[0].tp: _replicated(*start) for start in waiting}
        topics = [
            DeleteRecordsTopicResult(topic.name, [_after_wait(topic.name, one, codes) for one in topic.partitions])
            for topic in topics
        ]
    return DeleteRecordsResponse(topics=topics)


def _after_wait(
    topic: str, result: DeleteRecordsPartitionResult, codes: dict[TopicPartition, int]
) -> DeleteRecordsPartitionResult:
    """Return the result of a partition after the wait: an error if a replica lacks the log start offset."""
    index = result.partition_index
    code = codes.get(TopicPartition(topic, index), 0)
    return DeleteRecordsPartitionResult(index, -1, code) if code and not result.error_code else result


def _replicated(partition: Partition, offset: int) -> int:
    """Return an error code unless all replicas in sync have the log start offset."""
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
            raise PolicyViolationError(f"records of {topic} cannot be deleted: its cleanup.policy has no delete")
        offset = partition.high_watermark if wanted.offset == _HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {topic}-{wanted.partition_index} is after the high watermark "
                f"{partition.high_watermark}, or negative"
            )
        partition.start_at(offset)
        starts.append((partition, offset))
    except BrokerResponseError as error:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.errno)
    except OSError as error:
        failure = storage_error("delete records of", topic, wanted.partition_index, broker.logs.folder, error)
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, failure.errno)
    return DeleteRecordsPartitionResult(wanted.partition_index, partition.log.log_start_offset, 0)
