"""The group coordinator's settings, under Kafka's names for brokers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pyconsumer.broker.coordinator_config import CoordinatorConfig
from pyconsumer.errors import ConfigurationError

__all__ = ["GroupConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(CoordinatorConfig):
    """Settings of one coordinator. Each field is Kafka's setting with dots for underscores; the defaults are Kafka's.

    Args:
        group_min_session_timeout_ms, group_max_session_timeout_ms: bounds of a member's session timeout, inclusive.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members.
        group_max_size: most members of a group.
        group_new_member_join_timeout_ms: how long a new member may wait in its first JoinGroup before it is given up.
        offset_metadata_max_bytes: longest metadata string of a commit, in characters as Java counts them, inclusive.
        offsets_retention_minutes: life of offsets that nobody uses any more (KIP-211).
        offsets_retention_check_interval_ms: how often they are looked for.
        offsets_load_buffer_size: bytes that are read in one step while a partition is loaded.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_load_buffer_size: int = 5_242_880

    def __post_init__(self) -> None:
        least = {"group_initial_rebalance_delay_ms": 0, "offset_metadata_max_bytes": 0}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value < least.get(item.name, 1):
                raise ConfigurationError(f"{item.name.replace('_', '.')} must be positive, not {value}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigurationError("group.min.session.timeout.ms is larger than group.max.session.timeout.ms")

    @property
    def retention_ms(self) -> int:
        """:attr:`offsets_retention_minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
