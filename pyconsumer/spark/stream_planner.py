"""The offsets that the micro-batches of a stream read: the rules, and the limits of one batch.

The facts about the cluster come from ``ClusterOffsets``.

How Spark calls a source (PySpark 4.2 and later), and what follows from it

1. A new query asks for the initial offset twice, then again if its first batch is run again after a crash; the source
   cannot see the checkpoint. "latest" would be another offset each time. So the first answer is kept, and where the
   start drifts (``Bound.drifts``) the first batch is empty: it only writes down where the query begins.
2. A batch is written down as (start, end] before it runs, and is run again as it was. The only start that is not
   written down is that of the first batch; when that one comes again, its end may lie before its new start. Where
   the start drifts it is the empty batch of rule 1, and nothing is to be read; elsewhere what it was to read is gone.
3. With ``Trigger.AvailableNow`` the target is asked for before the initial offset, so it may lie before the start.
   Nothing is read then, and the start does not go back.
4. Positions are compared as text; so where nothing is new, the caller gets the very position that it gave.
5. ``latestOffset(start)`` is called after each batch that was finished, ``start`` being that batch's end, once more at
   the end of an AvailableNow query, and on every idle trigger; ``commit(end)`` lacks the last batch. So progress is
   what ``latestOffset`` is given, except for a start that nothing was read from.

Rules of Spark's own connector

6. A partition that was not there before is read from its earliest offset, which must be 0, else records are lost.
7. Partitions that are gone, and logs that end before our position, are lost data: an error, or with
   ``failOnDataLoss=false`` a warning; then the former are left out and the latter continue at the log's new end. The
   error comes before the batch is written down, so that the checkpoint stays good. A topic that was named and is
   deleted counts as such with ``failOnDataLoss=false`` alone; a new query does not begin without it.

Limits of one micro-batch: pure arithmetic and a clock (8 to 10 are the rules of Spark's own connector)

8. ``maxOffsetsPerTrigger`` is shared among partitions in proportion to what waits in each; a partition with anything
   gets one offset at least, that many partitions may exceed a small limit.
9. ``minOffsetsPerTrigger``: with fewer offsets than that there is no batch, unless ``maxTriggerDelay`` has passed since
   the last one. The first batch of a query does not wait. A query for all that is available now never waits.
10. With both, the minimum is checked first.
11. ``maxBytesPerTrigger`` is shared in proportion to the bytes that wait in each partition, as estimated; with
    ``maxOffsetsPerTrigger`` too, the smaller share counts.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pyconsumer.errors import UnknownTopicOrPartitionError
from pyconsumer.spark.errors import DataLossError
from pyconsumer.spark.offset_ranges import OffsetRange, known_offsets, resolve
from pyconsumer.spark.offset_reader import ClusterOffsets
from pyconsumer.spark.offsets_json import EARLIEST, LATEST
from pyconsumer.spark.options import SourceOptions
from pyconsumer.structs import TopicPartition

__all__ = [
    "MinimumGate",
    "Offsets",
    "StreamPlanner",
    "limit_bytes",
    "limit_offsets",
]

_Offsets = Mapping[TopicPartition, int]


def limit_offsets(begins: _Offsets, ends: _Offsets, most: int) -> dict[TopicPartition, int]:
    """The end of each partition by rule 8.

    Args:
        begins, ends: offsets of the same partitions.
        most: offsets in all.
    """
    return _shared(begins, ends, dict.fromkeys(ends, 1.0), most)


def limit_bytes(
    begins: _Offsets, ends: _Offsets, most: int, bytes_per_offset: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """The end of each partition by rule 11.

    Args:
        most: bytes in all.
        bytes_per_offset: estimates; a partition without one counts as the mean of the others, or 1 kB.
    """
    known = [found for found in bytes_per_offset.values() if found > 0]
    usual = sum(known) / len(known) if known else 1024.0
    return _shared(begins, ends, {tp: bytes_per_offset.get(tp) or usual for tp in ends}, most)


def _shared(
    begins: _Offsets, ends: _Offsets, weights: Mapping[TopicPartition, float], most: int
) -> dict[TopicPartition, int]:
    """Share ``most`` among partitions whose offsets weigh so much each."""
    sizes = {tp: max(end - begins[tp], 0) * weights[tp] for tp, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    limited = {}
    for tp, end in ends.items():
        share = most * (sizes[tp] / total) / weights[tp]
        offsets = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = end if end <= begins[tp] else min(end, begins[tp] + offsets)
    return limited


class MinimumGate:
    """Rule 9.

    Args:
        least: offsets; None lets everything pass.
        delay_s: longest time between two batches while something waits.
        now: monotonic seconds.
    """

    def __init__(self, least: int | None, delay_s: float, now: Callable[[], float]) -> None:
        self._least = least
        self._delay = delay_s
        self._now = now
        self._passed_at = -math.inf

    def passes(self, waiting: int) -> bool:
        """Return whether there is to be a batch of that many offsets, of one at least; if so, it counts as the last
        one.
        """
        now = self._now()
        if self._least is not None and waiting < self._least and now - self._passed_at < self._delay:
            return False
        self._passed_at = now
        return True


_log = logging.getLogger("pyconsumer.spark")

Offsets = dict[TopicPartition, int]

#: How long the list of partitions counts. Idle queries look for new records a hundred times a second.
_PARTITIONS_AGE_S: Final = 1.0


class StreamPlanner:
    """Plans one query, in the process that Spark keeps for the source's offsets.

    Args:
        options: checked ones; :meth:`SourceOptions.stream_start` is called.
        cluster: asks the cluster.
        now: monotonic seconds.
        sleep: waits for some seconds.

    Attributes:
        latest_known: the ends of all partitions as they were last seen, for the query's progress; None before.
    """

    def __init__(
        self,
        options: SourceOptions,
        cluster: ClusterOffsets,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._now = now
        self._sleep = sleep
        self._starting = options.stream_start()
        self._initial: Offsets | None = None
        self._anchored = not self._starting.drifts
        self._target: Offsets | None = None
        self._partitions: tuple[float, list[TopicPartition]] | None = None
        self._gate = MinimumGate(options.min_offsets, options.max_delay_ms / 1000, now)
        self._warned: set[str] = set()
        self._density: dict[TopicPartition, float] = {}
        self.latest_known: Offsets | None = None

    # -- what Spark asks ---------------------------------------------------------------------------------------------

    def initial(self) -> Offsets:
        """Return where a new query begins; the same for the life of this object (rule 1)."""
        if self._initial is None:
            partitions = self._find_partitions(fresh=True, missing_ok=False)
            self._initial = resolve(self._starting, partitions, self._cluster, late=self._options.late_timestamps)
        return self._initial

    def prepare_available_now(self) -> None:
        """Take the present ends as the target, beyond which nothing is read."""
        self._target = self._look_up_ends(fresh=True)

    def latest(self, start: Offsets, *, limited: bool = True) -> Offsets:
        """The end of the next micro-batch; equal to ``start`` if there is to be none.

        Args:
            limited: whether the limits of the options count; ``Trigger.Once`` reads everything.

        Raises:
            DataLossError: rules 6 and 7.
            KafkaError: of the cluster.
        """
        ends = self._look_up_ends()
        if start.keys() - ends.keys():  # gone, it seems: look twice
            ends = self._look_up_ends(fresh=True)
        self.latest_known = ends
        if self._target is not None:
            ends = {tp: self._target.get(tp, 0) for tp in ends if tp in self._target or tp in start}
        if not self._anchored:
            self._anchored = True
            if start == self._initial:
                return start
        ends = self._checked(start, ends)
        if ends == start:
            return start
        begins = self._begins(start, ends)
        if not limited:
            return ends
        waiting = sum(ends[tp] - begins[tp] for tp in ends if ends[tp] > begins[tp])
        if waiting and self._target is None and not self._gate.passes(waiting):
            return start
        return self._limited(begins, ends)

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Return what a batch reads, each partition's range whole; empty ones are left out."""
        self._anchored = True  # a batch has been planned: if it was the first one, it came from a checkpoint
        begins = self._begins(start, end)
        found = []
        for tp in sorted(end):
            if end[tp] > begins[tp]:
                found.append(OffsetRange(tp.topic, tp.partition, begins[tp], end[tp]))
            elif end[tp] < begins[tp] and (start != self._initial or not self._starting.drifts):
                self._lose("PARTITION_OFFSET_CHANGED", f"{tp}: its offset went from {begins[tp]} back to {end[tp]}")
        return found

    def is_progress(self, position: Offsets) -> bool:
        """Return whether a position that Spark gave belongs to a finished batch (rule 5)."""
        return position != self._initial

    # -- cluster -----------------------------------------------------------------------------------------------------

    def _find_partitions(self, *, fresh: bool = False, missing_ok: bool = True) -> list[TopicPartition]:
        now = self._now()
        if fresh or self._partitions is None or now - self._partitions[0] >= _PARTITIONS_AGE_S:
            missing_ok = missing_ok and not self._options.fail_on_data_loss
            self._partitions = (now, self._cluster.partitions(self._options.subscription, missing_ok=missing_ok))
            if not self._partitions[1]:
                self._warn(f"{self._options.subscription} matches no topic yet")
        return self._partitions[1]

    def _look_up_ends(self, *, fresh: bool = False) -> Offsets:
        partitions = self._find_partitions(fresh=fresh)
        try:
            return known_offsets(self._cluster.offsets(dict.fromkeys(partitions, LATEST)), "latest")
        except UnknownTopicOrPartitionError:  # a topic was deleted since the partitions were listed
            if fresh:
                raise
            return self._look_up_ends(fresh=True)

    def _begins(self, start: Offsets, ends: Iterable[TopicPartition]) -> Offsets:
        """Return where to read from: ``start``, and for new partitions the earliest offset (rule 6)."""
        new = [tp for tp in ends if tp not in start]
        if not new:
            return start
        earliest = known_offsets(self._cluster.offsets(dict.fromkeys(new, EARLIEST)), "new partitions")
        for tp, offset in earliest.items():
            if offset:
                self._lose(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"new partition {tp} begins at offset {offset}: the records before it are gone",
                )
        return start | earliest

    def _limited(self, begins: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        limited = ends
        if options.max_offsets is not None:
            limited = limit_offsets(begins, ends, options.max_offsets)
        if options.max_bytes is not None:
            waiting = {tp: begins[tp] for tp in ends if ends[tp] > begins[tp]}
            self._density |= self._cluster.bytes_per_offset(waiting)
            weights = {tp: self._density[tp] for tp in waiting if tp in self._density}
            by_bytes = limit_bytes(begins, ends, options.max_bytes, weights)
            limited = {tp: min(limited[tp], by_bytes[tp]) for tp in ends}
        return limited

    # -- lost data ---------------------------------------------------------------------------------------------------

    def _checked(self, start: Offsets, ends: Offsets) -> Offsets:
        """The ends without what a start at or beyond them asks for (rules 3 and 7)."""
        gone = sorted(start.keys() - ends.keys())
        if gone:
            names = ", ".join(map(str, gone))
            self._lose("PARTITIONS_DELETED", f"{names} had been read from and are not there any more")
        behind = [tp for tp, offset in start.items() if ends.get(tp, offset) < offset]
        if not behind:
            return ends
        checked = dict(ends)
        now_at = self._behind_again(start, behind)
        for tp in behind:
            if now_at[tp] >= start[tp]:  # the target was taken earlier, or a new leader had been behind
                checked[tp] = start[tp]
                continue
            self._lose(
                "PARTITION_OFFSET_CHANGED",
                f"{tp} ends at offset {now_at[tp]}, before offset {start[tp]}, where the query stands: the log was"
                " truncated or the topic created again",
            )
            checked[tp] = now_at[tp]
        return checked

    def _behind_again(self, start: Offsets, behind: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Ends looked up again: a new leader may report an old one for a moment."""
        for attempt in range(self._options.fetch_offset_attempts):
            if attempt:
                self._sleep(self._options.fetch_offset_retry_ms / 1000)
            found = known_offsets(self._cluster.offsets(dict.fromkeys(behind, LATEST)), "latest")
            if all(found[tp] >= start[tp] for tp in behind):
                break
        return found

    def _lose(self, condition: str, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"KAFKA_DATA_LOSS.{condition}",
                f"{text}. With failOnDataLoss=false the query continues with what there is",
            )
        self._warn(text)

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)
