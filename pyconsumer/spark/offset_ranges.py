"""The offset ranges of a batch read, and their division into tasks. No state.

The checks are those of Spark's own connector. For a stream see :mod:`.stream_planner`, which uses the same division.

Ranges are divided into tasks by ``maxRecordsPerPartition`` and ``minPartitions``: pure arithmetic, with the rules of
Spark's own connector (``KafkaOffsetRangeCalculator``), so that a job keeps its number of tasks

1. An empty range has no task.
2. ``maxRecordsPerPartition`` comes first: a range of n offsets is cut into ceil(n / maximum) parts.
3. If that makes fewer tasks than ``minPartitions``, ranges are cut further in proportion to their size. A range that
   would get one part by its share of the whole stays as it is, and the others share the rest.
4. The sizes of the parts of a range differ by at most one offset. The later parts are the larger ones.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyconsumer.spark.errors import OffsetsError
from pyconsumer.spark.offset_reader import ClusterOffsets
from pyconsumer.spark.offsets_json import EARLIEST, LATEST
from pyconsumer.spark.options import Bound, SourceOptions
from pyconsumer.structs import TopicPartition

__all__ = [
    "OffsetRange",
    "batch_ranges",
    "divide",
    "known_offsets",
    "resolve",
]

_log = logging.getLogger("pyconsumer.spark")

_FIXED: Final = {"earliest": EARLIEST, "latest": LATEST}


def batch_ranges(options: SourceOptions, cluster: ClusterOffsets) -> list[OffsetRange]:
    """Return the range of each partition, before ranges are divided into tasks. Empty ranges are included.

    Starts are looked up before ends. So a start cannot be after its end, even if records arrive in between.

    Raises:
        ConfigurationError: the options cannot be used in a batch read.
        OffsetsError: offsets or timestamps in the options do not match the partitions, or a start is after its end.
        KafkaError: the cluster cannot be reached, a topic does not exist, or access was denied.
    """
    starting, ending = options.batch_bounds()
    partitions = cluster.partitions(options.subscription)
    if not partitions:
        _log.warning("%s matches no topic", options.subscription)
        return []
    starts = resolve(starting, partitions, cluster, on_no_match=options.on_no_match)
    ends = resolve(ending, partitions, cluster, on_no_match="latest")
    if ending.kind == "offsets":
        _check_ends(ends, ending, cluster, fail=options.fail_on_data_loss)
    given = starting.kind == ending.kind == "offsets"
    for tp in partitions:
        if starts[tp] > ends[tp]:
            raise OffsetsError(
                f"{'UNRESOLVED' if given else 'RESOLVED'}_START_OFFSET_GREATER_THAN_END_OFFSET",
                f"{tp}: the start, offset {starts[tp]} ({starting.option}), lies after the end, offset {ends[tp]}"
                f" ({ending.option})",
            )
    return [OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp]) for tp in partitions]


def resolve(
    bound: Bound, partitions: Sequence[TopicPartition], cluster: ClusterOffsets, *, on_no_match: str
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for a bound (the start or the end of a read).

    Args:
        on_no_match: the reaction if no record is at or after a timestamp: ``latest`` or ``error``.

    Raises:
        OffsetsError: the offsets or timestamps do not match the partitions, or a timestamp matches no record and
            ``on_no_match`` is ``error``.
        KafkaError: the cluster cannot be reached, or access was denied.
    """
    if bound.kind == "group":
        committed = cluster.committed(bound.group, partitions)
        rest = [tp for tp in partitions if tp not in committed]
        if rest:
            names = ", ".join(map(str, rest))
            _log.warning("group %r has no committed offset for %s: reading from the earliest", bound.group, names)
        return dict(committed) | known_offsets(cluster.offsets(dict.fromkeys(rest, EARLIEST)), bound.option)
    if bound.kind in _FIXED:
        return known_offsets(cluster.offsets(dict.fromkeys(partitions, _FIXED[bound.kind])), bound.option)
    if bound.kind == "offsets":
        _check_names(bound, partitions, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED")
        open_ends = {tp: bound.numbers[tp] for tp in partitions if bound.numbers[tp] < 0}
        return {tp: bound.numbers[tp] for tp in partitions} | known_offsets(cluster.offsets(open_ends), bound.option)
    if bound.kind == "timestamps":
        _check_names(bound, partitions, "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED")
        times = {tp: bound.numbers[tp] for tp in partitions}
    else:
        times = dict.fromkeys(partitions, bound.timestamp)
    found = cluster.offsets(times)
    nothing = [tp for tp in partitions if found[tp] is None]
    if nothing and on_no_match == "error":
        raise OffsetsError(
            "KAFKA_NO_OFFSET_FOR_TIMESTAMP",
            f"{bound.option}: no record is at or after that time in "
            + ", ".join(f"{tp} ({times[tp]})" for tp in nothing)
            + ". With startingOffsetsByTimestampStrategy=latest the read begins at the end of those partitions",
        )
    return {tp: offset for tp, offset in found.items() if offset is not None} | known_offsets(
        cluster.offsets(dict.fromkeys(nothing, LATEST)), bound.option
    )


def known_offsets(offsets: Mapping[TopicPartition, int | None], option: str) -> dict[TopicPartition, int]:
    """Check that offsets were found for all partitions, and return them.

    Args:
        option: the option for which the offsets were looked up, for the message.

    Raises:
        OffsetsError: some partitions have no offset.
    """
    known = {tp: offset for tp, offset in offsets.items() if offset is not None}
    if len(known) < len(offsets):
        lost = sorted(offsets.keys() - known.keys())
        raise OffsetsError(
            "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
            f"{option}: the brokers gave no offset for {', '.join(map(str, lost))}",
        )
    return known


def _check_names(bound: Bound, partitions: Iterable[TopicPartition], condition: str) -> None:
    given, wanted = set(bound.numbers), set(partitions)
    if given == wanted:
        return
    parts = [
        f"{what} {', '.join(map(str, sorted(which)))}"
        for what, which in (("it lacks", wanted - given), ("these do not exist:", given - wanted))
        if which
    ]
    raise OffsetsError(
        condition,
        f"{bound.option} must name exactly the partitions that are read: {'; '.join(parts)}. As an offset, -1 stands"
        " for the latest and -2 for the earliest",
    )


def _check_ends(ends: dict[TopicPartition, int], ending: Bound, cluster: ClusterOffsets, *, fail: bool) -> None:
    """Check that the logs have reached the ends that the user gave: a task would wait for the rest until it times out.

    Raises:
        OffsetsError: a log ends before, and ``fail`` is True. Otherwise the end is corrected in place.
    """
    latest = known_offsets(
        cluster.offsets(dict.fromkeys((tp for tp in ends if ending.numbers[tp] >= 0), LATEST)), ending.option
    )
    for tp, offset in latest.items():
        if ends[tp] <= offset:
            continue
        text = f"{tp} ends at offset {offset}, before offset {ends[tp]} ({ending.option})"
        if fail:
            raise OffsetsError(
                "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
                f"{text}. With failOnDataLoss=false the read ends there",
            )
        _log.warning("%s. The read ends there", text)
        ends[tp] = offset


class OffsetRange(NamedTuple):
    """A range of offsets of one partition, from ``start`` up to, but not including, ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets in the range. There are at most this many records."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def divide(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """Divide ranges into the ranges of all tasks. The order of ``ranges`` is kept.

    Args:
        min_partitions: the intended number of tasks. The result may have slightly fewer or more.
        max_records_per_partition: the most offsets in one task.
    """
    whole = [found for found in ranges if found.size > 0]
    if max_records_per_partition is not None:
        maximum = max_records_per_partition
        whole = [part for found in whole for part in _cut(found, -(-found.size // maximum))]
    if min_partitions is None or min_partitions <= len(whole):
        return whole
    total = sum(found.size for found in whole)
    small = [found for found in whole if _share(found.size, total, min_partitions) == 1]
    unsplit = {found.topic_partition for found in small}
    left = total - sum(found.size for found in small)
    parts_left = max(min_partitions - len(small), 1)
    divided: list[OffsetRange] = []
    for found in whole:
        parts = 1 if found.topic_partition in unsplit else _share(found.size, left, parts_left)
        divided += _cut(found, parts)
    return divided


def _share(size: int, total: int, parts: int) -> int:
    # Halves are rounded up, as Java does.
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    cut: list[OffsetRange] = []
    start, left = whole.start, whole.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        end = whole.end if part == parts - 1 else start + size
        if end > start:
            cut.append(whole._replace(start=start, end=end))
        start = end
    return cut
