"""The progress of groups: the committed offset, the end of the log and the owner of each partition. No state."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyconsumer.admin import GroupDescription, KafkaAdminClient, MemberDescription, OffsetSpec
from pyconsumer.consumer.finished_gaps import FinishedRun, decode_finished
from pyconsumer.consumer.lag_time import age_of
from pyconsumer.errors import KafkaError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Row", "ends_of", "positions_of", "rows_of", "shown_age", "with_lag_times"]


@dataclass(frozen=True, slots=True)
class Row:
    """A partition that has a committed offset or an owner.

    None stands for: no committed offset, an unknown end, no owner. ``finished`` are the runs of records above the
    committed offset that workers have finished already, from the commit's metadata. ``lag_time`` is the age in seconds
    of the first uncommitted record, None if it was not asked for.
    """

    partition: TopicPartition
    committed: int | None
    end: int | None
    owner: MemberDescription | None
    finished: tuple[FinishedRun, ...] = ()
    lag_time: float | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets that are left to read. None if unknown."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def positions_of(admin: KafkaAdminClient, group: GroupDescription, timeout_ms: int) -> list[Row]:
    """Return the progress of a group by partition.

    Raises:
        KafkaError: the cluster could not be reached in time, or access was denied.
    """
    committed = admin.list_group_offsets(group.group_id, timeout_ms=timeout_ms)
    assigned = {tp for member in group.members for tp in member.assignment}
    return rows_of(group, committed, ends_of(admin, sorted(set(committed) | assigned), timeout_ms))


def rows_of(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int]
) -> list[Row]:
    """Return the progress of a group by partition, from its committed offsets and the ends of the logs."""
    owners = {tp: member for member in group.members for tp in member.assignment}
    rows = []
    for tp in sorted(set(committed) | set(owners)):
        found = committed.get(tp)
        finished = () if found is None else tuple(decode_finished(found.offset, found.metadata or ""))
        rows.append(Row(tp, None if found is None else found.offset, ends.get(tp), owners.get(tp), finished))
    return rows


def ends_of(admin: KafkaAdminClient, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
    """Return the ends of the logs that exist."""
    # For a deleted topic the request would look for a leader until the timeout. Its lag is unknown.
    there = set(admin.list_topics(include_internal=True, timeout_ms=timeout_ms)) if partitions else set()
    wanted = [tp for tp in partitions if tp.topic in there]
    try:
        found = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), timeout_ms=timeout_ms)
    except KafkaError:
        found = {}
        for tp in wanted:  # one of the topics may have been deleted just now
            with contextlib.suppress(KafkaError):
                found |= admin.list_offsets({tp: OffsetSpec.LATEST}, timeout_ms=min(timeout_ms, 2000))
    return {tp: end.offset for tp, end in found.items() if end is not None}


def with_lag_times(admin: KafkaAdminClient, rows: Iterable[Row], timeout_ms: int) -> list[Row]:
    """Return rows with their lag as time: 0 without uncommitted records, None where it is unknown.

    Each partition with a lag costs a fetch.

    Raises:
        KafkaError: the brokers did not respond in time.
    """
    rows = list(rows)
    times = _lag_times(admin, [row for row in rows if row.lag], timeout_ms)
    return [replace(row, lag_time=_lag_time(row, times)) for row in rows]


def _lag_time(row: Row, times: Mapping[tuple[TopicPartition, int], float]) -> float | None:
    if not row.lag:
        return None if row.lag is None else 0.0
    return None if row.committed is None else times.get((row.partition, row.committed))


def _lag_times(
    admin: KafkaAdminClient, rows: Iterable[Row], timeout_ms: int
) -> dict[tuple[TopicPartition, int], float]:
    """Return the age in seconds of the first record at each committed offset, by partition and offset.

    Groups that wait at the same offset share a fetch.
    """
    wanted = sorted({(row.partition, row.committed) for row in rows if row.committed is not None})
    ages: dict[tuple[TopicPartition, int], float] = {}
    while wanted:  # a call has one offset of each partition
        offsets = dict(wanted)
        for tp, first in admin.first_records(offsets, timeout_ms=timeout_ms).items():
            age = 0.0 if first is None else age_of(first.timestamp, time.time_ns() // 1_000_000)
            if age is not None:
                ages[tp, offsets[tp]] = age
        wanted = [one for one in wanted if offsets[one[0]] != one[1]]
    return ages


def shown_age(seconds: float | None) -> str:
    """Return an age for a table: ``0 s``, ``4.2 s``, ``3 min``, ``2 h``, ``5 d``. A dash if it is unknown."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds else "0 s"
    for unit, size, most in (("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
