"""DescribeCluster: the brokers, the controller and the cluster id (KIP-700)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.handlers.metadata import AUTHORIZED_OPERATIONS_OMITTED, CLUSTER_OPERATIONS
from pyconsumer.errors import MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from pyconsumer.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

__all__ = ["handle"]

_BROKERS = 1
_CONTROLLERS = 2


async def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Return the live brokers. If the request asks for fenced brokers, return those, too (KIP-1073).

    If the request is meant for controllers, the result is MISMATCHED_ENDPOINT_TYPE (KIP-919).
    """
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS):
        return DescribeClusterResponse(
            error_code=UnsupportedEndpointTypeError.errno,
            error_message=f"endpoint type {request.endpoint_type} is unknown",
            endpoint_type=_BROKERS,
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=MismatchedEndpointTypeError.errno,
            error_message="the request is for another endpoint type, but this endpoint is of type BROKER",
            endpoint_type=_BROKERS,
        )
    response = DescribeClusterResponse(
        cluster_id=broker.controller.cluster_id,
        controller_id=broker.controller.controller_id,
        brokers=[DescribeClusterBroker(*node) for node in broker.endpoints(context.listener)],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
        ),
    )
    if request.include_fenced_brokers:
        for node in broker.fenced_endpoints(context.listener):
            response.brokers.append(DescribeClusterBroker(*node, is_fenced=True))
    return response
