"""DescribeProducers: the producers whose state a partition's leader has (KIP-664)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import check_topic_name
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError
from pyconsumer.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Return the producers of each partition. If this broker is not the leader, return an error code."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [_partition(broker, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _partition(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = broker.partition(topic, index).log.producers
    except BrokerResponseError as error:
        return PartitionResponse(index, *code_and_text(error))
    return PartitionResponse(
        index,
        active_producers=[
            ProducerState(
                entry.producer_id,
                entry.epoch,
                entry.batches[-1].last_sequence if entry.batches else -1,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
            for entry in producers
        ],
    )
