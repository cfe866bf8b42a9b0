"""A stream's progress: ``commitToGroup`` and ``lag``.

Spark resumes from its checkpoint alone. The commits are for lag monitors and for ``startingOffsets=group``, and they
are best effort: a failure is logged, the commit is retried later, and the query never fails because of it.

State: the last commit and the last failure (:class:`GroupProgress`), owned by Spark's offset process.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.consumer.lag_time import age_of
from pyconsumer.errors import ConfigurationError, KafkaError
from pyconsumer.spark.offsets_json import offsets_from_spark
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.admin import KafkaAdminClient


__all__ = [
    "GroupProgress",
    "lag",
    "lag_metrics",
    "lag_times",
]

_log = logging.getLogger("pyconsumer.spark")

#: Longest time that a commit delays the query.
_TIMEOUT_MS: Final = 10_000
#: After a failure there is no commit for this time.
_PAUSE_S: Final = 30.0
#: An idle query repeats its commit after this time: brokers delete the offsets of an idle group, by default after a
#: week.
_REPEAT_S: Final = 600.0


class GroupProgress:
    """Commits positions to a consumer group that has no members.

    Args:
        group_id: the group.
        connect: a function that makes an admin client. It is called at the first commit.
        now: returns monotonic seconds.
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
        """Commit offsets. If they are committed already, or the last commit has just failed, do nothing.

        A failure is only logged.
        """
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
                "could not commit the progress to group %r; the query continues: %s: %s",
                self._group_id,
                type(error).__name__,
                error,
            )
        else:
            self._committed = dict(position)
            self._committed_at = now

    def close(self) -> None:
        """Close the admin client."""
        if self._admin is not None:
            self._admin.close()


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Return the lag of a streaming query by partition: the offsets that are left to read after its last batch.

    Spark has no place where Python sources can report their lag. So the lag is computed from the offsets in Spark's
    progress report. Sources of other kinds are left out, but Spark's own Kafka connector is understood.

    Args:
        progress: ``query.lastProgress``, an element of ``query.recentProgress``, or ``event.progress`` in a listener.
            It may also be a dict or JSON. With None (before the first batch) the result is empty.
    """
    found: dict[TopicPartition, int] = {}
    for end, latest in _offsets_of(progress):
        found |= {tp: max(0, offset - end.get(tp, 0)) for tp, offset in latest.items()}
    return found


def _ends(progress: Any) -> dict[TopicPartition, int]:
    """Return the offsets after the last batch."""
    found: dict[TopicPartition, int] = {}
    for end, _ in _offsets_of(progress):
        found |= end
    return found


def _offsets_of(progress: Any) -> Iterator[tuple[dict[TopicPartition, int], dict[TopicPartition, int]]]:
    """Return the offsets after the last batch and the latest ones, of each source of ours or of Spark's connector."""
    if progress is None:
        return
    if isinstance(progress, str):
        progress = json.loads(progress)
    for source in _of(progress, "sources") or ():
        try:
            end, latest = (offsets_from_spark(_offsets(_of(source, name))) for name in ("endOffset", "latestOffset"))
        except (ConfigurationError, ValueError):
            continue
        yield end, latest


def lag_times(progress: Any, options: Mapping[str, str]) -> dict[TopicPartition, float]:
    """Return the lag of a streaming query as time: the age of the first record that its last batch has not read.

    Spark's progress report has no times. So the first record of each partition with a lag is fetched, one batch each.

    Args:
        progress: see :func:`lag`.
        options: those of the query's source: ``kafka.bootstrap.servers``, and what is needed to log in. Others are
            ignored.

    Returns:
        The age by partition, in seconds. 0.0 if nothing is left to read, or if the timestamp is in the future.
        Partitions whose record cannot be read, or has no timestamp, are left out.

    Raises:
        KafkaError: the cluster could not be reached in time.

    Example::

        oldest = max(lag_times(query.lastProgress, {"kafka.bootstrap.servers": "localhost:9092"}).values(), default=0.0)
    """
    from pyconsumer.spark.client_cache import borrow_admin  # a task needs none

    behind = lag(progress)
    ages = {tp: 0.0 for tp, count in behind.items() if not count}
    ends = _ends(progress)
    waiting = {tp: ends.get(tp, 0) for tp, count in behind.items() if count}
    if waiting:
        settings = {name[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")}
        with borrow_admin(settings) as admin:
            found = admin.first_records(waiting, timeout_ms=_TIMEOUT_MS)
        now = time.time_ns() // 1_000_000
        for tp, first in found.items():
            age = 0.0 if first is None else age_of(first.timestamp, now)
            if age is not None:
                ages[tp] = age
    return ages


def lag_metrics(progress: Any) -> dict[str, str]:
    """Return the lag in the form in which Spark's own Kafka connector reports it, in ``sources[].metrics``.

    For Python sources, Spark (up to 4.3) leaves ``metrics`` empty.

    Args:
        progress: see :func:`lag`.

    Returns:
        ``minOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and ``avgOffsetsBehindLatest`` over all partitions, as
        text. Empty if no offsets are known.
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
