"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a reader detects a truncation (KIP-320)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.handlers.list_offsets import check_known_epoch
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Return the greatest known epoch that is not above the requested one, and its end offset.

    If there is none, return -1 and -1.
    """
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [_end(broker, topic.topic, wanted) for wanted in topic.partitions])
            for topic in request.topics
        ]
    )


def _end(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.partition(topic, wanted.partition, wanted.current_leader_epoch)
        check_known_epoch(wanted.current_leader_epoch)
    except BrokerResponseError as error:
        return EpochEndOffset(error.errno, wanted.partition)
    epoch, end = partition.log.epochs.end_offset(wanted.leader_epoch, partition.log.log_end_offset)
    return EpochEndOffset(0, wanted.partition, epoch, end)
