"""The progress of groups: the committed offset, the end of the log and the owner of each partition. No state."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyconsumer.admin import GroupDescription, KafkaAdminClient, MemberDescription, OffsetSpec, groups
from pyconsumer.admin.client import run_steps
from pyconsumer.consumer.finished_gaps import FinishedRun, decode_finished
from pyconsumer.consumer.lag_time import age_of
from pyconsumer.errors import KafkaError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "Row",
    "descriptions_of",
    "ends_of",
    "offsets_of",
    "positions_of",
    "rows_of",
    "shown_age",
    "with_lag_times",
]


@dataclass(frozen=True, slots=True)
class Row:
    """A partition that has a committed offset or an owner.

    None stands for: no committed offset, an unknown end, no owner. ``finished`` are the runs of records above the
    committed offset that workers have finished already, from the commit's metadata. ``lag_time`` is the age in seconds
    of the first uncommitted record, None if it was not asked for. ``unfinished`` is the number of records that a share
    group has not finished. ``committed`` is the first of them.
    """

    partition: TopicPartition
    committed: int | None
    end: int | None
    owner: MemberDescription | None
    finished: tuple[FinishedRun, ...] = ()
    lag_time: float | None = None
    unfinished: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets that are left to read. None if unknown."""
        if self.unfinished is not None:
            return self.unfinished
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def positions_of(
    admin: KafkaAdminClient, names: Iterable[str], timeout_ms: int
) -> dict[str, tuple[GroupDescription, list[Row]] | KafkaError]:
    """Return the description and the progress of groups, by partition. An error of a group is its result.

    Each coordinator gets one request for up to 100 groups, and each leader one for the ends of all logs. The offsets of
    share groups are asked for group by group.

    Raises:
        KafkaError: the cluster could not be reached in time, or access was denied.
    """
    found: dict[str, tuple[GroupDescription, list[Row]] | KafkaError] = {}
    described: dict[str, GroupDescription] = {}
    for name, one in descriptions_of(admin, names, timeout_ms).items():
        if isinstance(one, KafkaError):
            found[name] = one
        elif one.group_type == "share":
            try:
                found[name] = one, _shared_positions(admin, one, timeout_ms)
            except KafkaError as error:
                found[name] = error
        else:
            described[name] = one
    committed: dict[str, Mapping[TopicPartition, OffsetAndMetadata]] = {}
    for name, offsets in offsets_of(admin, described, timeout_ms).items() if described else ():
        if isinstance(offsets, KafkaError):
            found[name] = offsets
        else:
            committed[name] = offsets
    partitions = {tp for offsets in committed.values() for tp in offsets}
    partitions |= {tp for name in committed for member in described[name].members for tp in member.assignment}
    ends = ends_of(admin, sorted(partitions), timeout_ms)
    for name, one_group in committed.items():
        found[name] = described[name], rows_of(described[name], one_group, ends)
    return found


def descriptions_of(
    admin: KafkaAdminClient, names: Iterable[str], timeout_ms: int
) -> dict[str, GroupDescription | KafkaError]:
    """Return the descriptions of groups, with one request to each coordinator for up to 100 groups."""
    wanted = list(names)
    return run_steps(admin, lambda calls, until: groups.describe_all(calls, wanted, until), timeout_ms)


def offsets_of(
    admin: KafkaAdminClient, names: Iterable[str], timeout_ms: int
) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
    """Return the committed offsets of groups, with one request to each coordinator for up to 100 groups."""
    wanted: dict[str, None] = dict.fromkeys(names)
    return run_steps(admin, lambda calls, until: groups.offsets_of(calls, wanted, until), timeout_ms)


def _shared_positions(admin: KafkaAdminClient, group: GroupDescription, timeout_ms: int) -> list[Row]:
    """Return the progress of a share group. A partition may have several members, so it has no owner."""
    starts = admin.list_share_group_offsets(group.group_id, timeout_ms=timeout_ms)
    assigned = {tp for member in group.members for tp in member.assignment}
    wanted = sorted(set(starts) | assigned)
    ends = ends_of(admin, wanted, timeout_ms)
    rows = []
    for tp in wanted:
        found = starts.get(tp)
        unfinished = None if found is None else found.lag
        rows.append(Row(tp, None if found is None else found.start_offset, ends.get(tp), None, unfinished=unfinished))
    return rows


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
