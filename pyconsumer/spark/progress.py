"""The progress of a stream: committed to a consumer group (``commitToGroup``), and as lag (:func:`lag`).

Spark's checkpoint stays the truth: these commits are for lag monitors and for ``startingOffsets=group``. So they are
best effort: what fails is logged, tried again later, and never ends the query.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.spark.offsets_json import offsets_from_spark
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.admin import KafkaAdminClient


__all__ = [
    "GroupProgress",
    "lag",
    "lag_metrics",
]

_log = logging.getLogger("pyconsumer.spark")

#: Longest time that a commit holds the query up.
_TIMEOUT_MS: Final = 10_000
#: After a failure there is no commit for this time, and the query continues undisturbed.
_PAUSE_S: Final = 30.0
#: Brokers forget what an idle group has committed, after a week by default; so it is committed again now and then.
_REPEAT_S: Final = 600.0


class GroupProgress:
    """Commits positions to a group that has no members.

    Args:
        group_id: the group.
        connect: makes an admin client; called at the first commit.
        now: monotonic seconds.
    """

    def __init__(
        self, group_id: str, connect: Callable[[], KafkaAdminClient], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._group_id = group_id
        self._connect = connect
        self._now = now
        self._admin: KafkaAdminClient | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at = -math.inf
        self._failed_at = -math.inf

    def commit(self, position: Mapping[TopicPartition, int]) -> None:
        """Commit offsets, unless they are committed already or the last commit failed a moment ago. Raises nothing."""
        now = self._now()
        if not position or now - self._failed_at < _PAUSE_S:
            return
        if position == self._committed and now - self._committed_at < _REPEAT_S:
            return
        try:
            if self._admin is None:
                self._admin = self._connect()
            offsets = {tp: OffsetAndMetadata(offset) for tp, offset in position.items()}
            self._admin.alter_group_offsets(self._group_id, offsets, timeout_ms=_TIMEOUT_MS)
        except (KafkaError, OSError) as error:
            self._failed_at = self._now()
            _log.warning(
                "progress could not be committed to group %r, the query continues: %s: %s",
                self._group_id,
                type(error).__name__,
                error,
            )
        else:
            self._committed = dict(position)
            self._committed_at = now

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Offsets that a query had still to read when its last batch was planned, by partition.

    Spark has no place where a Python source could report it, but it keeps the offsets. Sources of other kinds are
    skipped; Spark's own Kafka connector is understood too.

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


def lag_metrics(progress: Any) -> dict[str, str]:
    """Lag by the names, and as the texts, that Spark's own Kafka connector reports in ``sources[].metrics``.

    Spark leaves that place empty for every Python source: none of its classes for them reports metrics, up to 4.3.

    Args:
        progress: as for :func:`lag`.

    Returns:
        ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest``, of all partitions; empty
        where no offsets are known.
    """
    found = lag(progress).values()
    if not found:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(found)),
        "maxOffsetsBehindLatest": str(max(found)),
        "avgOffsetsBehindLatest": str(sum(found) / len(found)),
    }


def _of(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name)


def _offsets(position: Any) -> Any:
    return json.loads(position) if isinstance(position, str) else position
