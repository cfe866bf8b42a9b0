"""The progress of groups: the committed offset, the end of the log and the owner of each partition. No state."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyconsumer.admin import GroupDescription, KafkaAdminClient, MemberDescription, OffsetSpec
from pyconsumer.consumer.finished_gaps import FinishedRun, decode_finished
from pyconsumer.errors import KafkaError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Row", "ends_of", "positions_of", "rows_of"]


@dataclass(frozen=True, slots=True)
class Row:
    """A partition that has a committed offset or an owner.

    None stands for: no committed offset, an unknown end, no owner. ``finished`` are the runs of records above the
    committed offset that workers have finished already, from the commit's metadata. ``unfinished`` is the number of
    records that a share group has not finished. ``committed`` is the first of them.
    """

    partition: TopicPartition
    committed: int | None
    end: int | None
    owner: MemberDescription | None
    finished: tuple[FinishedRun, ...] = ()
    unfinished: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets that are left to read. None if unknown."""
        if self.unfinished is not None:
            return self.unfinished
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def positions_of(admin: KafkaAdminClient, group: GroupDescription, timeout_ms: int) -> list[Row]:
    """Return the progress of a group by partition.

    Raises:
        KafkaError: the cluster could not be reached in time, or access was denied.
    """
    if group.group_type == "share":
        return _shared_positions(admin, group, timeout_ms)
    committed = admin.list_group_offsets(group.group_id, timeout_ms=timeout_ms)
    assigned = {tp for member in group.members for tp in member.assignment}
    return rows_of(group, committed, ends_of(admin, sorted(set(committed) | assigned), timeout_ms))


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
        rows.append(Row(tp, None if found is None else found.start_offset, ends.get(tp), None, (), unfinished))
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
