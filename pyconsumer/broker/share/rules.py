"""The settings of single share groups: a group's own value, or else the broker's (KIP-932). No state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.group_configs import resolve_group

__all__ = ["ShareGroupRules"]


class ShareGroupRules:
    """Looks up the settings of share groups. Implements :class:`~.share_partition.ShareRules`.

    Args:
        config: the broker's settings.
        dynamic: returns the dynamic settings of a group, by Kafka's names.
    """

    def __init__(self, config: BrokerConfig, dynamic: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._dynamic = dynamic

    def _value(self, group_id: str, name: str) -> object:
        return resolve_group(name, self._dynamic(group_id), self._config).value

    def _number(self, group_id: str, name: str) -> int:
        value = int(str(self._value(group_id, f"share.{name}")))
        low, high = (self._config.integer(f"group.share.{bound}.{name}") for bound in ("min", "max"))
        # The broker's own value may be outside of the bounds for groups. A group's value may be older than the bounds.
        return value if f"share.{name}" not in self._dynamic(group_id) else min(max(value, low), high)

    def lock_ms(self, group_id: str) -> int:
        """Return for how long a record is locked."""
        return self._number(group_id, "record.lock.duration.ms")

    def delivery_limit(self, group_id: str) -> int:
        """Return how often a record is delivered at most."""
        return self._number(group_id, "delivery.count.limit")

    def max_locks(self, group_id: str) -> int:
        """Return how many records may be between the start and the end of a share partition."""
        return self._number(group_id, "partition.max.record.locks")

    def may_renew(self, group_id: str) -> bool:
        """Return whether members may renew locks (KIP-1222)."""
        return bool(self._value(group_id, "share.renew.acknowledge.enable"))

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the longest time that a member may go without a heartbeat."""
        return self._number(group_id, "session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval at which members must send heartbeats."""
        return self._number(group_id, "heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments."""
        return self._number(group_id, "assignment.interval.ms")

    def is_committed_only(self, group_id: str) -> bool:
        """Return whether records of open and aborted transactions are left out."""
        return self._value(group_id, "share.isolation.level") == "read_committed"

    def reset(self, group_id: str) -> str:
        """Return where a group without offsets begins: ``earliest``, ``latest`` or ``by_duration:`` with a duration."""
        return str(self._value(group_id, "share.auto.offset.reset"))
