"""The settings of single share groups that their coordinator needs, as an interface, with Kafka's defaults."""

from __future__ import annotations

from typing import Protocol

__all__ = ["DefaultShareTimes", "ShareTimes"]


class ShareTimes(Protocol):
    """The settings of single groups. They may change at any time."""

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the longest time that a member may go without a heartbeat."""

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval at which members must send heartbeats."""

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments."""


class DefaultShareTimes:
    """Kafka's defaults for all groups."""

    def session_timeout_ms(self, group_id: str) -> int:
        return 45_000

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return 5_000

    def assignment_interval_ms(self, group_id: str) -> int:
        return 1_000
