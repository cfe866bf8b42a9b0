"""Values of counters under the names of the table, for tests of parts that are no whole client."""

from __future__ import annotations

from pyconsumer.consumer.metric_scopes import group_scope
from pyconsumer.consumer.metrics import GroupMetrics
from pyconsumer.metrics.source import values_of
from pyconsumer.metrics.table import CONSUMER

__all__ = ["group_values"]


def group_values(metrics: GroupMetrics, now: float) -> dict[str, float | None]:
    """Return the metrics of a group member by name, at the time ``now`` (seconds)."""
    (family,) = (family for family in CONSUMER if family.group == "consumer-coordinator-metrics")
    return {spec.name: value for spec, value in values_of(family, group_scope(metrics, lambda: 0), now)}
