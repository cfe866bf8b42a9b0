"""``metrics()`` for the buffer of fetched records, and the lag and lead of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.consumer.subscription_state import SubscriptionState

if TYPE_CHECKING:
    from pyconsumer.consumer.fetcher import Fetcher
    from pyconsumer.consumer.interface import Metrics

__all__ = ["add_partitions"]


def add_partitions(found: Metrics, fetcher: Fetcher, subscriptions: SubscriptionState, *, read_committed: bool) -> None:
    """Add the metrics that are computed when they are read.

    Args:
        found: the consumer's counters by group, which are added to.
        fetcher: has the buffer.
        subscriptions: has the partitions.
        read_committed: True counts the lag up to the last stable offset.
    """
    budget = fetcher.planner.budget
    fetch = found["consumer-fetch-manager-metrics"]
    fetch["buffered-bytes"] = budget.held
    fetch["reserved-bytes"] = budget.reserved
    fetch["buffer-limit-bytes"] = budget.limit
    fetch["records-skipped-total"] = fetcher.deserialization.skipped
    lags = []
    for tp in subscriptions.assigned_list():
        lag = subscriptions.partition_lag(tp, read_committed=read_committed)
        lead = subscriptions.partition_lead(tp)
        key = f"consumer-fetch-manager-metrics.{tp.topic}-{tp.partition}"
        found[key] = {"records-lag": lag, "records-lead": lead}
        if lag is not None:
            lags.append(lag)
    fetch["records-lag-max"] = max(lags, default=None)
    found["consumer-coordinator-metrics"]["assigned-partitions"] = subscriptions.assigned_count
