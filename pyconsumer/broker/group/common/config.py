"""The group coordinator's settings, under Kafka's names for brokers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from pyconsumer.broker.coordinator_config import CoordinatorConfig
from pyconsumer.errors import ConfigurationError

__all__ = ["SERVER_ASSIGNORS", "GroupConfig", "MigrationPolicy"]

#: Names of the assignors that a broker has, the default first.
SERVER_ASSIGNORS = ("uniform", "range")


class MigrationPolicy(Enum):
    """The conversions of groups with members that are allowed (``group.consumer.migration.policy``)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)

    @property
    def allows_classic_members(self) -> bool:
        return self is not MigrationPolicy.DISABLED


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(CoordinatorConfig):
    """Settings of one group coordinator.

    Each field is Kafka's setting, with underscores for dots. The defaults are Kafka's, too.

    Args:
        group_min_session_timeout_ms, group_max_session_timeout_ms: the bounds of a member's session timeout. Both
            bounds are allowed values.
        group_initial_rebalance_delay_ms: how long the first rebalance of an empty group waits for more members.
        group_max_size: maximum number of members of a classic group.
        group_new_member_join_timeout_ms: how long the first JoinGroup of a new member may be pending. After that the
            member is removed.
        offset_metadata_max_bytes: the longest allowed metadata string of a commit, in UTF-16 units.
        offsets_retention_minutes: how long unused offsets are kept (KIP-211).
        offsets_retention_check_interval_ms: how often the broker looks for expired offsets.
        offsets_load_buffer_size: how many bytes are read in one step when a partition is loaded.
        group_consumer_session_timeout_ms: session timeout of members of the consumer protocol. A group may have its own
            value, between the settings with ``min`` and ``max``. The same holds for the next two settings.
        group_consumer_heartbeat_interval_ms: the interval in which members of the consumer protocol send heartbeats.
        group_consumer_assignment_interval_ms: shortest time between two target assignments (KIP-1263).
        group_consumer_max_size: maximum number of members of a group of the consumer protocol.
        group_consumer_regex_refresh_interval_ms: how often regular expressions are evaluated again.
        group_share_max_size: maximum number of members of a share group.
        group_share_initialize_retry_interval_ms: the time after which a share partition that has no state yet is begun
            once more.
        migration_policy: ``group.consumer.migration.policy``.
        assignors: ``group.consumer.assignors``. The first is the default.
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
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    assignors: tuple[str, ...] = SERVER_ASSIGNORS

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Create the configuration from a broker's settings, which have Kafka's dotted names. See the base class."""
        found = CoordinatorConfig.numbers_of(cls, settings)
        policy = settings.get("group.consumer.migration.policy")
        if policy is not None:
            found["migration_policy"] = MigrationPolicy(str(policy).lower())
        assignors = settings.get("group.consumer.assignors")
        if assignors is not None:
            found["assignors"] = tuple(assignors)
        return cls(**found)

    def __post_init__(self) -> None:
        may_be_zero = {
            "group_initial_rebalance_delay_ms",
            "offset_metadata_max_bytes",
            "group_consumer_assignment_interval_ms",
            "group_consumer_min_assignment_interval_ms",
            "group_consumer_max_assignment_interval_ms",
        }
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and value < (item.name not in may_be_zero):
                raise ConfigurationError(f"{item.name.replace('_', '.')} must be positive, not {value}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigurationError("group.min.session.timeout.ms is larger than group.max.session.timeout.ms")
        if not self.assignors or not set(self.assignors) <= set(SERVER_ASSIGNORS):
            raise ConfigurationError(
                f"group.consumer.assignors may contain {', '.join(SERVER_ASSIGNORS)}, not {', '.join(self.assignors)}"
            )
        for name in ("session_timeout", "heartbeat_interval", "assignment_interval"):
            self._check_bounds(name)
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigurationError(
                "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"
            )

    def _check_bounds(self, name: str) -> None:
        low, value, high = (getattr(self, f"group_consumer_{bound}{name}_ms") for bound in ("min_", "", "max_"))
        if not low <= value <= high:
            dotted = name.replace("_", ".")
            raise ConfigurationError(
                f"group.consumer.{dotted}.ms is {value}: it must be at least group.consumer.min.{dotted}.ms ({low}) "
                f"and at most group.consumer.max.{dotted}.ms ({high})"
            )

    @property
    def retention_ms(self) -> int:
        """:attr:`offsets_retention_minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
