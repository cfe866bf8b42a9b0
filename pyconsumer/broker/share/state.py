"""The state of a share partition as the share coordinator keeps it: values and their records. No state of its own.

State
-----
1. The *start offset* is the first offset that is not done with. -1 means that no leader has chosen it yet.
2. *Batches* are ranges of offsets from the start offset on, with a delivery state and a delivery count. Offsets in no
   batch have not been delivered, as far as the log knows.
3. The *state epoch* rises when the group coordinator initializes the state again. The *leader epoch* is that of the
   last leader. A request with an older one of either is refused.
4. A *snapshot* has the whole state. An *update* has what has changed since. Each snapshot has the next snapshot epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.protocol.share_state_topic import (
    SNAPSHOT,
    UPDATE,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    StateBatch,
    encode_state_key,
)

__all__ = [
    "ACKNOWLEDGED",
    "ACQUIRED",
    "ARCHIVED",
    "AVAILABLE",
    "NO_OFFSET",
    "Batch",
    "ShareState",
    "StateChange",
    "combine",
    "state_tombstones",
]

#: Delivery states, with Kafka's numbers. ACQUIRED is never stored.
AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4

#: The start offset of a share partition for which no leader has chosen one yet.
NO_OFFSET: Final = -1


class Batch(NamedTuple):
    """Offsets with the same delivery state and delivery count. Both ends belong to it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class StateChange(NamedTuple):
    """A change that a leader writes.

    Attributes:
        state_epoch, leader_epoch: the epochs that the leader knows. -1 is not compared.
        start_offset: the present start offset. -1 leaves it as it is.
        complete_count: how many records from the start offset on are done with (KIP-1226). -1 is unknown.
        batches: what has changed.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[Batch]


def combine(before: Iterable[Batch], after: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """Return the batches of a state after a change, in order and without overlaps.

    Where two batches overlap, the one with the greater delivery count holds, and at equal counts the greater state. An
    older request that comes late so changes nothing. Offsets before ``start_offset`` are left out.
    """
    edges: list[tuple[int, int, tuple[int, int]]] = []  # offset, +1 or -1, count and state
    for first, last, state, count in (*before, *after):
        low = max(first, start_offset)
        if low <= last:
            edges.append((low, 1, (count, state)))
            edges.append((last + 1, -1, (count, state)))
    edges.sort()
    open_ones: dict[tuple[int, int], int] = {}
    found: list[Batch] = []
    position = 0
    for offset, step, key in edges:
        if open_ones and offset > position:
            count, state = max(open_ones)
            before_it = found[-1] if found else None
            if before_it is not None and before_it[1:] == (position - 1, state, count):
                found[-1] = before_it._replace(last_offset=offset - 1)
            else:
                found.append(Batch(position, offset - 1, state, count))
        position = offset
        number = open_ones.get(key, 0) + step
        if number:
            open_ones[key] = number
        else:
            del open_ones[key]
    return tuple(found)


class ShareState(NamedTuple):
    """The state of one share partition. See the module."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    complete_count: int = -1
    created_ms: int = 0
    written_ms: int = 0
    batches: tuple[Batch, ...] = ()

    @classmethod
    def of_snapshot(cls, value: ShareSnapshotValue) -> ShareState:
        """Return the state of a snapshot's record."""
        return cls(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            value.create_timestamp,
            value.write_timestamp,
            _batches(value.state_batches),
        )

    def changed_by(self, value: ShareUpdateValue) -> ShareState:
        """Return the state after an update."""
        start = self.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        return self._replace(
            leader_epoch=self.leader_epoch if value.leader_epoch == -1 else value.leader_epoch,
            start_offset=start,
            complete_count=value.delivery_complete_count,
            batches=combine(self.batches, _batches(value.state_batches), start),
        )

    def snapshot_after(self, change: StateChange, now_ms: int) -> ShareState:
        """Return the state after a change, as the next snapshot."""
        start = self.start_offset if change.start_offset == NO_OFFSET else change.start_offset
        return ShareState(
            self.snapshot_epoch + 1,
            self.state_epoch,
            self.leader_epoch if change.leader_epoch == -1 else change.leader_epoch,
            start,
            change.complete_count,
            now_ms,
            now_ms,
            combine(self.batches, change.batches, start),
        )

    def snapshot_record(self, key: ShareStateKey) -> tuple[KeyValue, ShareSnapshotValue]:
        """Return the record of this state, and its value."""
        value = ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=_written(self.batches),
        )
        return (encode_state_key(SNAPSHOT, key), value.encode_with_version(0)), value

    def update_record(self, key: ShareStateKey, change: StateChange) -> tuple[KeyValue, ShareUpdateValue]:
        """Return the record of a change of this state, and its value."""
        value = ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch if change.leader_epoch == -1 else change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.complete_count,
            state_batches=_written(combine((), change.batches, change.start_offset)),
        )
        return (encode_state_key(UPDATE, key), value.encode_with_version(0)), value


def state_tombstones(key: ShareStateKey) -> list[KeyValue]:
    """Return the records that remove the state of a share partition."""
    return [(encode_state_key(SNAPSHOT, key), None)]


def _batches(found: Iterable[StateBatch]) -> tuple[Batch, ...]:
    return tuple(Batch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in found)


def _written(batches: Iterable[Batch]) -> list[StateBatch]:
    return [
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]
