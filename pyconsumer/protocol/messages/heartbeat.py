"""Heartbeat: keep a member's session alive, and report rebalances to it."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    STRING,
    Message,
    field,
    message,
)


@message(ApiKey.HEARTBEAT, "request", versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    generation_id: int = field(INT32, "0+", default=0)
    member_id: str = field(STRING, "0+", default="")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)


@message(ApiKey.HEARTBEAT, "response", versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
