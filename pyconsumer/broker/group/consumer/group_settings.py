"""Settings of single groups: a group's own value, or else the broker's (KIP-848, KIP-1263)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyconsumer.broker.group.common.config import GroupConfig

__all__ = ["GroupSettings"]


class GroupSettings:
    """Looks up the settings of single groups.

    Args:
        config: the broker's settings.
        dynamic: returns the dynamic settings of a group, by Kafka's names.
    """

    def __init__(self, config: GroupConfig, dynamic: Callable[[str], Mapping[str, str]] = lambda group_id: {}) -> None:
        self._config = config
        self._dynamic = dynamic

    def _value(self, group_id: str, name: str, default: int, low: int, high: int) -> int:
        text = self._dynamic(group_id).get(name)
        # The broker's bounds may have changed since the value was set.
        return default if text is None else min(max(int(text), low), high)

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout: the longest time that a member may go without a heartbeat."""
        config = self._config
        return self._value(
            group_id,
            "consumer.session.timeout.ms",
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        )

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval at which members must send heartbeats."""
        config = self._config
        return self._value(
            group_id,
            "consumer.heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments."""
        config = self._config
        return self._value(
            group_id,
            "consumer.assignment.interval.ms",
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        )
