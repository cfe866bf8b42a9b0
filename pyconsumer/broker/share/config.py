"""The settings of the share coordinator, and of share partitions, under Kafka's names for brokers."""

from __future__ import annotations

from dataclasses import dataclass

from pyconsumer.broker.coordinator_config import CoordinatorConfig

__all__ = ["ShareConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConfig(CoordinatorConfig):
    """Settings of one broker for share groups, without those of the group coordinator.

    Each field is Kafka's setting, with underscores for dots. The defaults are Kafka's, too.

    Args:
        group_share_max_share_sessions: the largest number of share sessions.
        share_coordinator_snapshot_update_records_per_snapshot: after this many updates, the next record of a share
            partition is a snapshot.
        share_coordinator_load_buffer_size: how many bytes are read in one step when a partition is loaded.
        share_coordinator_state_topic_prune_interval_ms: how often the beginning of the log is removed.
        share_coordinator_cold_partition_snapshot_interval_ms: how often share partitions that are hardly used get a
            snapshot, so that the log can be removed up to it.
    """

    group_share_max_share_sessions: int = 2_000
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_load_buffer_size: int = 5_242_880
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
