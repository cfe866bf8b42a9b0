"""How far a streaming query is behind, from the progress that Spark reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.offsets_json import offsets_from_spark
from pyconsumer.structs import TopicPartition

__all__ = ["lag"]


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Offsets that a query had still to read when its last batch was planned, by partition.

    Spark has no place where a Python source could report it, but it keeps the offsets. Sources of other kinds are
    passed over; Spark's own Kafka connector is understood too.

    Args:
        progress: ``query.lastProgress``, an element of ``query.recentProgress``, or ``event.progress`` in a listener;
            also as a dict or JSON. None, before the first batch, has no partitions.
    """
    if progress is None:
        return {}
    if isinstance(progress, str):
        progress = json.loads(progress)
    found: dict[TopicPartition, int] = {}
    for source in _of(progress, "sources") or ():
        try:
            end, latest = (offsets_from_spark(_offsets(_of(source, name))) for name in ("endOffset", "latestOffset"))
        except (ConfigurationError, ValueError):
            continue
        found |= {tp: max(0, offset - end.get(tp, 0)) for tp, offset in latest.items()}
    return found


def _of(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name)


def _offsets(position: Any) -> Any:
    return json.loads(position) if isinstance(position, str) else position
