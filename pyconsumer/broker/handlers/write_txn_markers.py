"""WriteTxnMarkers: write end markers of transactions, for a coordinator or a tool (KIP-98, KIP-1228)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.transaction.cluster import write_marker
from pyconsumer.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]


async def handle(broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    """Return an error code for each partition as soon as the in-sync replicas have the markers."""
    results = []
    for marker, written in [(marker, write_marker(broker, marker)) for marker in request.markers]:
        errors = await wait_for(written)
        topics = [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(index, errors[TopicPartition(topic.name, index)])
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        results.append(WritableTxnMarkerResult(marker.producer_id, topics))
    return WriteTxnMarkersResponse(markers=results)
