"""DescribeLogDirs: the folder of this broker's logs, the size of its replicas, and the space on its disk (KIP-827)."""

from __future__ import annotations

import shutil

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_IN_MEMORY = "(memory)"


async def handle(broker: Broker, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Return the replicas on this broker, of all topics or of the requested partitions.

    Unknown partitions are left out.
    """
    wanted = (
        None
        if request.topics is None
        else {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for tp, partition in sorted(broker.partitions.items()):
        if wanted is None or tp in wanted:
            lag = max(0, partition.high_watermark - partition.log.log_end_offset)
            found = DescribeLogDirsPartition(tp.partition, partition.log.size_bytes, lag)
            topics.setdefault(tp.topic, DescribeLogDirsTopic(tp.topic)).partitions.append(found)
    folder = broker.logs.folder
    total, _, usable = (-1, -1, -1) if folder is None else shutil.disk_usage(folder)
    place = _IN_MEMORY if folder is None else str(folder.absolute())
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(0, place, list(topics.values()), total, usable)])
