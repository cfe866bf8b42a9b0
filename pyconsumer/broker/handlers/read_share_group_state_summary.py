"""ReadShareGroupStateSummary: where share partitions begin, for a group coordinator (KIP-932, KIP-1226)."""

from __future__ import annotations

from typing import Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.broker.share.state import ShareState
from pyconsumer.broker.share.state_requests import serve_states
from pyconsumer.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    """Serve each share partition."""
    return ReadShareGroupStateSummaryResponse(
        results=await serve_states(
            request,
            lambda key, one: Deferred.of(broker.share_coordinator.read_summary(key)),
            ReadStateSummaryResult,
            PartitionResult,
            _summary,
        )
    )


def _summary(answer: StateResult) -> dict[str, Any]:
    state = answer.state or ShareState()
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.complete_count,
    }
