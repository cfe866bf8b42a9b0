"""The offsets of each micro-batch of a stream, and the limits of its size.

State of a planner: the initial offsets, the target of an AvailableNow query, and the cluster's offsets as last seen (by
``ClusterOffsets``). Spark's offset process owns it, and calls it from one thread.

How Spark calls a source (PySpark 4.2 and later), and the consequences

1. A new query asks for the initial offset twice, then again if its first batch is repeated after a crash. The source
   cannot see the checkpoint. "latest" would be another offset each time. So the first result is kept, and if the start
   drifts (``Bound.drifts``) the first batch is empty: it only writes to the checkpoint where the query begins.
2. Spark writes the end of a batch to the checkpoint before it runs the batch, and repeats it unchanged. Its start is
   the end of the previous batch, so only the first batch has no start in the checkpoint. When that one is repeated, its
   end may lie before its new start. If the start drifts, this is the empty batch of rule 1, and there is no record to
   read. Otherwise the records that it should read have been deleted.
3. With ``Trigger.AvailableNow`` the target is requested before the initial offset, so it may lie before the start.
   Then the query reads no records, and the start does not move back.
4. Spark compares positions as text. So if there are no new records, it gets back the very position that it passed.
5. ``latestOffset(start)`` is called after each completed batch, whose end is ``start``, once more at the end of an
   AvailableNow query, and on every idle trigger. ``commit(end)`` is not called for the last batch. So the progress is
   the ``start`` of ``latestOffset``, unless it is the first position.

Rules of Spark's own connector

6. A new partition is read from its earliest offset. If that is not 0, data is lost.
7. Data is also lost if a partition was deleted, or if a log ends before the query's position. Lost data is an error,
   or a warning with ``failOnDataLoss=false``, then deleted partitions are left out, and the others continue at the new
   end of the log. The error is raised before the batch is written to the checkpoint, which stays usable. If a topic
   named in the options was deleted, a running query continues with ``failOnDataLoss=false`` only. A new query always
   fails.

Limits of one micro-batch: pure arithmetic and a clock (8 to 10 are the rules of Spark's own connector)

8. ``maxOffsetsPerTrigger`` is shared among partitions in proportion to the offsets that each has to read. A partition
   with data gets at least one offset. Many of them may exceed a small limit.
9. ``minOffsetsPerTrigger``: with fewer offsets there is no batch, unless ``maxTriggerDelay`` has passed since the last
   one. The first batch of a query does not wait, and an AvailableNow query never does.
10. With both, the minimum is checked first.
11. ``maxBytesPerTrigger`` is shared in proportion to the estimated bytes that each partition has to read. Together with
    ``maxOffsetsPerTrigger``, the smaller share applies.
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
    """Limit a batch by the number of offsets (rule 8). Return the end of each partition.

    Args:
        begins, ends: the first and last possible offsets of the same partitions.
        most: the limit, in offsets over all partitions.
    """
    return _shared(begins, ends, dict.fromkeys(ends, 1.0), most)


def limit_bytes(
    begins: _Offsets, ends: _Offsets, most: int, bytes_per_offset: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """Limit a batch by size (rule 11). Return the end of each partition.

    Args:
        most: the limit, in bytes over all partitions.
        bytes_per_offset: estimates of sizes. A partition without an estimate gets the mean of the others, or 1 kB.
    """
    known = [found for found in bytes_per_offset.values() if found > 0]
    usual = sum(known) / len(known) if known else 1024.0
    return _shared(begins, ends, {tp: bytes_per_offset.get(tp) or usual for tp in ends}, most)


def _shared(
    begins: _Offsets, ends: _Offsets, weights: Mapping[TopicPartition, float], most: int
) -> dict[TopicPartition, int]:
    """Return the end of each partition if ``most`` is shared in proportion to offsets times weights."""
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
    """Decides whether there is a batch (rule 9).

    Args:
        least: the smallest number of offsets for a batch. None always allows a batch.
        delay_s: the longest time between two batches if there are offsets to read, in seconds.
        now: returns monotonic seconds.
    """

    def __init__(self, least: int | None, delay_s: float, now: Callable[[], float]) -> None:
        self._least = least
        self._delay = delay_s
        self._now = now
        self._passed_at = -math.inf

    def passes(self, waiting: int) -> bool:
        """Return whether there is a batch now. If so, remember its time.

        Args:
            waiting: the number of offsets to read, at least one.
        """
        now = self._now()
        if self._least is not None and waiting < self._least and now - self._passed_at < self._delay:
            return False
        self._passed_at = now
        return True


_log = logging.getLogger("pyconsumer.spark")

Offsets = dict[TopicPartition, int]

#: The list of partitions is used for this time. An idle query asks for new records a hundred times a second.
_PARTITIONS_AGE_S: Final = 1.0


class StreamPlanner:
    """Plans the batches of one query.

    Args:
        options: the options of the source.
        cluster: looks up partitions and offsets.
        now: returns monotonic seconds.
        sleep: waits for a number of seconds.

    Attributes:
        latest_known: the ends of all partitions at the last look-up, for Spark's progress report. None before the first
            look-up.

    Raises:
        ConfigurationError: the options cannot be used for a stream.
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
        self._bytes_per_offset: dict[TopicPartition, float] = {}
        self.latest_known: Offsets | None = None

    # -- what Spark asks ---------------------------------------------------------------------------------------------

    def initial(self) -> Offsets:
        """Return the offsets at which a new query starts. They are always the same (rule 1).

        Raises:
            OffsetsError: the offsets or timestamps of the options do not match the partitions.
            KafkaError: the cluster cannot be reached, a topic does not exist, or access was denied.
        """
        if self._initial is None:
            partitions = self._find_partitions(fresh=True, missing_ok=False)
            self._initial = resolve(self._starting, partitions, self._cluster, on_no_match=self._options.on_no_match)
        return self._initial

    def prepare_available_now(self) -> None:
        """Make the present ends of the logs the target at which reading ends."""
        self._target = self._look_up_ends(fresh=True)

    def latest(self, start: Offsets, *, limited: bool = True) -> Offsets:
        """Return the end of the next micro-batch. If there is none, it equals ``start``.

        Args:
            limited: True applies the limits of the options. ``Trigger.Once`` passes False, to read everything.

        Raises:
            DataLossError: data was lost (rules 6 and 7), and ``failOnDataLoss`` is true.
            KafkaError: the cluster cannot be reached, or access was denied.
        """
        ends = self._look_up_ends()
        if start.keys() - ends.keys():  # seemingly deleted: check again, with a new list of partitions
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
        """Return the ranges of a batch, one for each partition with data.

        Raises:
            DataLossError: data was lost (rules 2 and 6), and ``failOnDataLoss`` is true.
        """
        self._anchored = True  # the start is in the checkpoint, also if this is the first batch, repeated
        begins = self._begins(start, end)
        found = []
        for tp in sorted(end):
            if end[tp] > begins[tp]:
                found.append(OffsetRange(tp.topic, tp.partition, begins[tp], end[tp]))
            elif end[tp] < begins[tp] and (start != self._initial or not self._starting.drifts):
                self._report_data_loss(
                    "PARTITION_OFFSET_CHANGED", f"{tp}: its offset went back from {begins[tp]} to {end[tp]}"
                )
        return found

    def is_progress(self, position: Offsets) -> bool:
        """Return whether a position from Spark is the end of a completed batch (rule 5)."""
        return position != self._initial

    # -- cluster -----------------------------------------------------------------------------------------------------

    def _find_partitions(self, *, fresh: bool = False, missing_ok: bool = True) -> list[TopicPartition]:
        now = self._now()
        if fresh or self._partitions is None or now - self._partitions[0] >= _PARTITIONS_AGE_S:
            missing_ok = missing_ok and not self._options.fail_on_data_loss
            self._partitions = (now, self._cluster.partitions(self._options.subscription, missing_ok=missing_ok))
            if not self._partitions[1]:
                self._warn(f"{self._options.subscription} matches no topic so far")
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
                self._report_data_loss(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"new partition {tp} begins at offset {offset}: the records before it have been deleted",
                )
        return start | earliest

    def _limited(self, begins: Offsets, ends: Offsets) -> Offsets:
        options = self._options
        limited = ends
        if options.max_offsets is not None:
            limited = limit_offsets(begins, ends, options.max_offsets)
        if options.max_bytes is not None:
            waiting = {tp: begins[tp] for tp in ends if ends[tp] > begins[tp]}
            self._bytes_per_offset |= self._cluster.bytes_per_offset(waiting)
            weights = {tp: self._bytes_per_offset[tp] for tp in waiting if tp in self._bytes_per_offset}
            by_bytes = limit_bytes(begins, ends, options.max_bytes, weights)
            limited = {tp: min(limited[tp], by_bytes[tp]) for tp in ends}
        return limited

    # -- lost data ---------------------------------------------------------------------------------------------------

    def _checked(self, start: Offsets, ends: Offsets) -> Offsets:
        """Return the ends, none of which lies before its start (rules 3 and 7).

        Raises:
            DataLossError: partitions were deleted, or logs end before their start, and ``failOnDataLoss`` is true.
        """
        gone = sorted(start.keys() - ends.keys())
        if gone:
            names = ", ".join(map(str, gone))
            self._report_data_loss("PARTITIONS_DELETED", f"partitions that the query reads were deleted: {names}")
        behind = [tp for tp, offset in start.items() if ends.get(tp, offset) < offset]
        if not behind:
            return ends
        checked = dict(ends)
        now_at = self._recheck_ends(start, behind)
        for tp in behind:
            if now_at[tp] >= start[tp]:  # the target is older than the start, or a new leader was behind for a moment
                checked[tp] = start[tp]
                continue
            self._report_data_loss(
                "PARTITION_OFFSET_CHANGED",
                f"{tp} ends at offset {now_at[tp]}, before offset {start[tp]}, the query's position: the log was"
                " truncated, or the topic deleted and created again",
            )
            checked[tp] = now_at[tp]
        return checked

    def _recheck_ends(self, start: Offsets, behind: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up ends again, several times: a new leader may report an old one for a moment."""
        for attempt in range(self._options.fetch_offset_attempts):
            if attempt:
                self._sleep(self._options.fetch_offset_retry_ms / 1000)
            found = known_offsets(self._cluster.offsets(dict.fromkeys(behind, LATEST)), "latest")
            if all(found[tp] >= start[tp] for tp in behind):
                break
        return found

    def _report_data_loss(self, condition: str, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"KAFKA_DATA_LOSS.{condition}",
                f"{text}. With failOnDataLoss=false the query continues without the lost records",
            )
        self._warn(text)

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)
