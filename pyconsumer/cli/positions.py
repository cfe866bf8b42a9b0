"""The progress of groups: the committed offset, the end of the log and the owner of each partition. No state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pyconsumer.admin import (
    GroupDescription,
    KafkaAdminClient,
    MemberDescription,
    ShareOffset,
    groups,
    log_ends,
)
from pyconsumer.admin.client import run_steps
from pyconsumer.admin.log_ends import LogEnds
from pyconsumer.consumer.finished_gaps import FinishedRun, decode_finished
from pyconsumer.consumer.lag_time import age_of
from pyconsumer.errors import KafkaError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.admin.first_records import FirstRecords

__all__ = [
    "Row",
    "descriptions_of",
    "ends_of",
    "first_records_of",
    "offsets_of",
    "positions_of",
    "rows_of",
    "share_offsets_of",
    "shown_age",
]


_Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata] | Mapping[TopicPartition, ShareOffset]


@dataclass(frozen=True, slots=True)
class Row:
    """A partition that has a committed offset or an owner.

    None stands for: no committed offset, an unknown end, no owner. ``finished`` are the runs of records above the
    committed offset that workers have finished already, from the commit's metadata. ``lag_time`` is the age in seconds
    of the first uncommitted record, None if it was not asked for. ``unfinished`` is the number of records that a share
    group has not finished. ``committed`` is the first of them. ``reason`` says why the end is unknown, for people,
    and ``lag_time_reason`` why the lag as time is, where the lag is known.
    """

    partition: TopicPartition
    committed: int | None
    end: int | None
    owner: MemberDescription | None
    finished: tuple[FinishedRun, ...] = ()
    lag_time: float | None = None
    unfinished: int | None = None
    reason: str | None = None
    lag_time_reason: str | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets that are left to read. None if unknown."""
        if self.unfinished is not None:
            return self.unfinished
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def positions_of(
    admin: KafkaAdminClient, names: Iterable[str], timeout_ms: int, *, lag_time: bool = False
) -> dict[str, tuple[GroupDescription, list[Row]] | KafkaError]:
    """Return the description and the progress of groups, by partition. An error of a group is its result.

    Each coordinator gets one request for up to 100 groups, and each leader one for the ends of all logs.

    Args:
        lag_time: also the lag as time, by a fetch of each partition with a lag. Groups that wait at the same offset
            share a fetch.

    Raises:
        KafkaError: the cluster could not be reached in time, or access was denied.
    """
    found: dict[str, tuple[GroupDescription, list[Row]] | KafkaError] = {}
    described: dict[str, GroupDescription] = {}
    for name, one in descriptions_of(admin, names, timeout_ms).items():
        if isinstance(one, KafkaError):
            found[name] = one
        else:
            described[name] = one
    shared = [name for name, one in described.items() if one.group_type == "share"]
    others = [name for name in described if name not in set(shared)]
    offsets: dict[str, _Offsets | KafkaError] = {}
    if others:
        offsets.update(offsets_of(admin, others, timeout_ms))
    if shared:
        offsets.update(share_offsets_of(admin, shared, timeout_ms))
    known: dict[str, _Offsets] = {}
    for name, of_group in offsets.items():
        if isinstance(of_group, KafkaError):
            found[name] = of_group
        else:
            known[name] = of_group
    partitions = {tp for of_group in known.values() for tp in of_group}
    partitions |= {tp for name in known for member in described[name].members for tp in member.assignment}
    ends = ends_of(admin, sorted(partitions), timeout_ms)
    rows = {name: rows_of(described[name], of_group, ends) for name, of_group in known.items()}
    if lag_time:
        every = [row for of_group in rows.values() for row in of_group]
        times, reasons = _lag_times(admin, [row for row in every if row.lag], timeout_ms)
        rows = {name: [_with_time(row, times, reasons) for row in of_group] for name, of_group in rows.items()}
    return {**found, **{name: (described[name], of_group) for name, of_group in rows.items()}}


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


def share_offsets_of(
    admin: KafkaAdminClient, names: Iterable[str], timeout_ms: int
) -> dict[str, dict[TopicPartition, ShareOffset] | KafkaError]:
    """Return where share groups begin, with one request to each coordinator for up to 100 groups."""
    from pyconsumer.admin import share_groups  # few programs need it

    wanted: dict[str, None] = dict.fromkeys(names)
    return run_steps(admin, lambda calls, until: share_groups.offsets_of(calls, wanted, until), timeout_ms)


def rows_of(group: GroupDescription, offsets: _Offsets, found: LogEnds) -> list[Row]:
    """Return the progress of a group by partition, from its offsets and the ends of the logs.

    A partition of a share group may have several members, so it has no owner.
    """
    assigned = {tp: member for member in group.members for tp in member.assignment}
    owners = {} if group.group_type == "share" else assigned
    return [
        _row(tp, offsets.get(tp), found.ends.get(tp), owners.get(tp), found.reasons.get(tp))
        for tp in sorted({*offsets, *assigned})
    ]


def _row(
    tp: TopicPartition,
    found: OffsetAndMetadata | ShareOffset | None,
    end: int | None,
    owner: MemberDescription | None,
    reason: str | None,
) -> Row:
    if found is None:
        return Row(tp, None, end, owner, reason=reason)
    if isinstance(found, ShareOffset):
        return Row(tp, found.start_offset, end, owner, unfinished=found.lag, reason=reason)
    return Row(tp, found.offset, end, owner, tuple(decode_finished(found.offset, found.metadata or "")), reason=reason)


def ends_of(admin: KafkaAdminClient, partitions: list[TopicPartition], timeout_ms: int) -> LogEnds:
    """Return the ends of the logs, as far as they can be read now. See :mod:`pyconsumer.admin.log_ends`."""
    if not partitions:
        return LogEnds({}, {})
    return run_steps(admin, lambda calls, until: log_ends.find(calls, partitions, until), timeout_ms)


def first_records_of(admin: KafkaAdminClient, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> FirstRecords:
    """Return the first records at or after offsets. See :mod:`pyconsumer.admin.first_records`."""
    from pyconsumer.admin import first_records  # which reads logs, as few commands do

    return run_steps(admin, lambda calls, until: first_records.find(calls, offsets, until), timeout_ms)


def _with_time(
    row: Row, times: Mapping[tuple[TopicPartition, int], float], reasons: Mapping[TopicPartition, str]
) -> Row:
    """Return a row with its lag as time, or the reason why that is unknown."""
    if not row.lag or row.committed is None:
        return replace(row, lag_time=0.0) if row.lag == 0 else row
    age = times.get((row.partition, row.committed))
    return replace(row, lag_time=age, lag_time_reason=reasons.get(row.partition) if age is None else None)


def _lag_times(
    admin: KafkaAdminClient, rows: Iterable[Row], timeout_ms: int
) -> tuple[dict[tuple[TopicPartition, int], float], dict[TopicPartition, str]]:
    """Return the age in seconds of the first record at each committed offset, by partition and offset.

    Beside it are the reasons of partitions that cannot be read. They are not asked a second time.
    """
    wanted = sorted({(row.partition, row.committed) for row in rows if row.committed is not None})
    ages: dict[tuple[TopicPartition, int], float] = {}
    reasons: dict[TopicPartition, str] = {}
    while wanted:  # a call has one offset of each partition
        offsets = dict(wanted)
        found = first_records_of(admin, offsets, timeout_ms)
        reasons.update(found.reasons)
        for tp, first in found.records.items():
            age = 0.0 if first is None else age_of(first.timestamp, time.time_ns() // 1_000_000)
            if age is not None:
                ages[tp, offsets[tp]] = age
            else:
                reasons[tp] = "its first record has no time"
        wanted = [one for one in wanted if offsets[one[0]] != one[1] and one[0] not in found.reasons]
    return ages, reasons


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
