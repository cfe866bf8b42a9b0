"""DescribeCluster: brokers, controller and cluster id (KIP-700)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from pyconsumer.errors import MismatchedEndpointTypeError
from pyconsumer.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

__all__ = ["handle"]

_BROKERS = 1


async def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Answer with the brokers that are alive, and the others if asked for (KIP-1073).

    MISMATCHED_ENDPOINT_TYPE if controllers are asked for (KIP-919).
    """
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=MismatchedEndpointTypeError.errno,
            error_message="this endpoint is of type BROKER, and one of another type was wanted",
            endpoint_type=_BROKERS,
        )
    response = DescribeClusterResponse(
        cluster_id=broker.controller.cluster_id,
        controller_id=broker.controller.controller_id,
        brokers=[DescribeClusterBroker(*node) for node in broker.endpoints(context.listener)],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )
    if request.include_fenced_brokers:
        for node in broker.fenced_endpoints(context.listener):
            response.brokers.append(DescribeClusterBroker(*node, is_fenced=True))
    return response
