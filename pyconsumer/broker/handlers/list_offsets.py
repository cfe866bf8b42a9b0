"""ListOffsets: the first and last offset of a log, and offsets by timestamp (KIP-79, KIP-207, KIP-734)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import storage_error
from pyconsumer.broker.partition import Partition
from pyconsumer.errors import (
    BrokerResponseError,
    FencedLeaderEpochError,
    InvalidRequestError,
    LeaderNotAvailableError,
    OffsetNotAvailableError,
    UnsupportedVersionError,
)
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

__all__ = ["check_known_epoch", "handle"]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: The version of the request from which a special timestamp is allowed.
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def check_known_epoch(epoch: int) -> None:
    """Raise ``FencedLeaderEpochError`` for an epoch that no leader has had. Kafka does so here, but not in Fetch."""
    if epoch < -1:
        raise FencedLeaderEpochError(f"there is no leader epoch {epoch}")


async def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    """Return an offset for each partition, or an error code."""
    seen: set[tuple[str, int]] = set()
    duplicates = {
        key
        for topic in request.topics
        for part in topic.partitions
        if (key := (topic.name, part.partition_index)) in seen or seen.add(key)  # type: ignore[func-returns-value]
    }
    topics = []
    for topic in request.topics if len(request.topics) < 2 else {each.name: each for each in request.topics}.values():
        results = []
        for wanted in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
            try:
                if (topic.name, wanted.partition_index) in duplicates:
                    raise InvalidRequestError("the partition is in the request twice")
                if request.isolation_level not in (0, 1):
                    raise InvalidRequestError(f"isolation level {request.isolation_level} is unknown")
                if wanted.timestamp < 0 and context.api_version < _SINCE.get(wanted.timestamp, 0):
                    raise UnsupportedVersionError(f"timestamp {wanted.timestamp} needs a newer version of ListOffsets")
                partition = broker.partition(topic.name, wanted.partition_index, wanted.current_leader_epoch)
                check_known_epoch(wanted.current_leader_epoch)
                found = _find(partition, wanted, committed_only=request.isolation_level == 1)
                if context.api_version < 4:  # these versions have no leader epoch
                    found = ListOffsetsPartitionResponse(found.partition_index, 0, found.timestamp, found.offset)
                results.append(found)
            except OffsetNotAvailableError:
                code = OffsetNotAvailableError.errno if context.api_version >= 5 else LeaderNotAvailableError.errno
                results.append(ListOffsetsPartitionResponse(wanted.partition_index, code))
            except BrokerResponseError as error:
                results.append(ListOffsetsPartitionResponse(wanted.partition_index, error.errno))
            except OSError as error:
                failure = storage_error("read", topic.name, wanted.partition_index, broker.logs.folder, error)
                results.append(ListOffsetsPartitionResponse(wanted.partition_index, failure.errno))
        topics.append(ListOffsetsTopicResponse(topic.name, results))
    return ListOffsetsResponse(topics=topics)


def _find(partition: Partition, wanted: ListOffsetsPartition, *, committed_only: bool) -> ListOffsetsPartitionResponse:
    log, index = partition.log, wanted.partition_index
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    # A leader that was just elected may not know the high watermark yet. Until it does, the end offset would seem to
    # have moved back (KIP-207).
    is_unknown = end < partition.epoch_start
    if wanted.timestamp == LATEST:
        if is_unknown:
            raise OffsetNotAvailableError(f"the new leader of {partition.tp} does not know the high watermark yet")
        return ListOffsetsPartitionResponse(index, 0, -1, end, partition.leader_epoch)
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_of(log.log_start_offset)
        return ListOffsetsPartitionResponse(index, 0, -1, log.log_start_offset, epoch)
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return ListOffsetsPartitionResponse(index)  # there is no tiered storage
    if wanted.timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    elif wanted.timestamp < 0:
        raise UnsupportedVersionError(f"timestamp {wanted.timestamp} has no meaning")
    else:
        found = log.offset_for_timestamp(wanted.timestamp)
    if found is None or found.offset >= end:
        if is_unknown and found is not None:
            raise OffsetNotAvailableError(f"the new leader of {partition.tp} does not know the high watermark yet")
        return ListOffsetsPartitionResponse(index)
    return ListOffsetsPartitionResponse(index, 0, found.timestamp, found.offset, found.leader_epoch)
