"""The buffer of fetched records that wait for ``poll``, and the moves of positions. A core: no I/O, no clock.

How many bytes may be fetched ahead is decided in :mod:`.fetch_planner` (rule 4). This queue charges the memory that it
holds.

Rules

1. Fetches are returned in the order of their arrival. Those of one partition never overtake each other.
2. A fetch is valid only while its partition is in the fetch epoch in which it was requested. When that changes, the
   fetch and its memory are dropped at once.
3. Fetches of a paused partition wait outside the queue and come first after ``resume``.
4. The position moves past all that :meth:`CompletedFetch.take` has read, hidden records included, and only there.
5. Once a position has moved, no error is raised before the records are returned. Errors wait at their place in the
   queue and are raised only if no record was collected. Ctrl-C reverts the move (:meth:`FetchBuffer.roll_back`). An
   error that comes with data stays until a seek, and the other partitions take their turns in between. One without data
   is removed once it has been raised.
6. Iteration may take the records that were decoded ahead without calling us for each
   (:meth:`FetchBuffer.prefetched`). Positions are right again after :meth:`FetchBuffer.commit_taken`. No other method
   may be called before that.
7. All that one response brought is one piece of memory, that of its frame, however many partitions it is for. It is
   charged to the budget as a whole until the last partition has been read past its part. Fetches that stay longer
   (paused, or with an error) copy their own part.
8. The threads of a ``DecodeAhead`` may decompress batches before a poll needs them, in the order of the queue. Their
   output has a fixed limit, which is charged to the budget while batches wait there. If the budget has no room for it,
   the poll decompresses. A fetch that is dropped or paused leaves the threads' queue. A batch that a thread is at in
   that moment is finished and thrown away. Its output is within the limit, but is not charged for that long.
9. A record that waits for a schema (``PendingError``) does not hold up other partitions. They take their turns first.
   The error is raised when every partition of the queue waits: :attr:`FetchBuffer.pending` has what they wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyconsumer.consumer.completed_fetch import CompletedFetch, Convert
from pyconsumer.consumer.fetch_planner import ByteBudget
from pyconsumer.consumer.partition_state import FetchPosition, LeaderAndEpoch, TopicPartitionState
from pyconsumer.consumer.records import ConsumerRecords, empty_records
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.generic import PendingError
from pyconsumer.protocol.records import ColumnsBuilder, ConsumerRecord
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.typed_arrow import TypedRows
    from pyconsumer.protocol.records._native import DecodeAhead

__all__ = ["FetchBuffer"]


class FetchBuffer:
    """The fetches whose records wait to be returned to the application.

    Args:
        subscriptions: the state of each partition, whose positions are moved.
        budget: counts the memory that is in use.
        convert: see :data:`Convert`. None returns records unchanged.
        ahead: the threads that decompress waiting fetches, or None.

    Attributes:
        begun: of how many fetches iteration has taken records.
    """

    def __init__(
        self,
        subscriptions: SubscriptionState,
        budget: ByteBudget,
        convert: Convert | None = None,
        ahead: DecodeAhead | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._budget = budget
        self._convert = convert
        self._ahead = ahead
        self._ahead_bytes = 0  # charged for what is decompressed ahead
        self.begun = 0
        self._queue: deque[CompletedFetch] = deque()
        self._paused_fetches: dict[TopicPartition, list[CompletedFetch]] = {}
        self._of: dict[TopicPartition, list[CompletedFetch]] = {}
        self._moved: list[tuple[TopicPartitionState, int, int, LeaderAndEpoch]] = []
        self._moved_by_taking: list[tuple[TopicPartitionState, int, int, LeaderAndEpoch]] = []
        self._prefetched: tuple[CompletedFetch, int] | None = None
        self._pending: dict[TopicPartitionState, PendingError] = {}
        #: All records collected so far have reached the application: :meth:`roll_back` keeps their moves.
        self.note_delivered = self._moved.clear

    def convert_with(self, convert: Convert | None) -> None:
        """Change the conversion of records that are taken from now on."""
        self._convert = convert
        for fetches in self._of.values():
            for fetch in fetches:
                fetch.forget_ahead()  # iteration has converted records ahead

    def __bool__(self) -> bool:
        """Return whether there may be something to return or to raise."""
        return bool(self._queue)

    @property
    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that have something buffered."""
        return set(self._of)

    def add(self, fetch: CompletedFetch) -> bool:
        """Add a fetch that has just arrived. Return whether its partition is now full (``is_full``)."""
        tp = fetch.topic_partition
        if tp in self._of:
            self._of[tp].append(fetch)
        else:
            self._of[tp] = [fetch]
            if not self._subscriptions.commits_by_position:
                fetch.state.keep_lag_marks()
            fetch.state.await_record(fetch.cursor.next_timestamp)
        is_full = fetch.state.add_buffered(fetch.cursor.end_offset, fetch.blocks)
        frame = fetch.frame
        if frame is None:
            self._budget.hold(fetch.charge())
        else:  # as long as no batch is open, it holds nothing besides the frame
            if not frame.parts:
                self._budget.hold(len(frame.memory))
            frame.parts.add(fetch)
        if self._paused_fetches and tp in self._paused_fetches:
            self._pause(fetch)
            self._paused_fetches[tp].append(fetch)
        else:
            self._queue.append(fetch)
            if self._ahead is not None and fetch.cursor.packed_count:
                self._decode_ahead(self._ahead, fetch)
        return is_full

    def _decode_ahead(self, ahead: DecodeAhead, fetch: CompletedFetch) -> None:
        """Let threads decompress a fetch that is last in the queue (rule 8), unless a poll will take it as a whole."""
        if fetch.cursor.packed_count == 1 and len(self._queue) == 1:
            return
        size = ahead.size_bytes
        if (self._ahead_bytes or self._budget.free >= size) and ahead.add(fetch.cursor) and not self._ahead_bytes:
            self._ahead_bytes = size
            self._budget.hold(size)

    def _release_ahead(self) -> None:
        """Stop charging for the output of the threads if they have no work."""
        if self._ahead_bytes and self._ahead is not None and not self._ahead.is_used:
            self._budget.hold(-self._ahead_bytes)
            self._ahead_bytes = 0

    def on_changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the fetches that have become invalid.

        Put fetches back into the queue if their partition is no longer paused.
        """
        for tp in partitions:
            fetches = self._of.get(tp)
            if fetches is None:
                continue
            state = self._subscriptions.get(tp)
            for fetch in [f for f in fetches if state is None or f.state is not state or not f.is_current]:
                self._drop(fetch)
            if tp in self._paused_fetches and (state is None or state.is_fetchable or tp not in self._of):
                back = [f for f in self._paused_fetches.pop(tp) if not f.dropped]
                for fetch in back:
                    fetch.restore()
                    self._budget.pause(-fetch.charged)
                self._queue.extendleft(reversed(back))

    @property
    def pending(self) -> Iterable[PendingError]:
        """Return what the next records of the partitions wait for, if the last call raised PendingError."""
        return self._pending.values()

    @property
    def has_moved(self) -> bool:
        """Return whether the last call moved a position, even if only past records that no application sees."""
        return bool(self._moved)

    def in_hand(self) -> dict[TopicPartitionState, int]:
        """Return the first offset of each partition's records from the last call, by partition state.

        After the next call these records no longer count.
        """
        found: dict[TopicPartitionState, int] = {}
        for state, position, _, _ in self._moved:
            found.setdefault(state, position)
        return found

    def collect(self, max_records: int) -> ConsumerRecords[Any, Any]:
        """Take up to ``max_records`` records and move the positions past them.

        Raises:
            KafkaError: an error is first in the queue, and no record was collected before it.
            PendingError: the next record of every partition in the queue waits for something (rule 9).
        """
        ends: dict[TopicPartition, tuple[int, str, int]] = {}
        collected = empty_records(ends)
        self._moved.clear()
        if self._pending:
            self._pending.clear()
        remaining = max_records
        convert = self._convert
        queue = self._queue
        while remaining > 0 and queue:
            fetch = queue[0]
            state = fetch.state
            if fetch.fetch_epoch != state.fetch_epoch or not state.is_fetchable or fetch.dropped or fetch.error:
                if self._head(collected) is None:
                    break
                continue
            try:
                if convert or fetch.raw or fetch.ready:
                    records = fetch.take(remaining, convert)
                else:
                    records = fetch.cursor.take(remaining)
            except Exception as error:
                if collected:
                    break
                if self._set_aside(fetch, error):
                    continue
                raise
            if self._advance(fetch, not records) and records:
                tp = fetch.topic_partition
                collected[tp] = collected[tp] + records if tp in collected else records
                remaining -= len(records)
                ends[tp] = state.position, "", state.offset_epoch  # type: ignore[assignment]
        return collected

    def next_record(self, ahead: int) -> ConsumerRecord[Any, Any] | None:
        """Take one record and move the position past it. Return None if there is none.

        Errors are those of :meth:`collect`.
        """
        self._moved.clear()
        if self._pending:
            self._pending.clear()
        while (fetch := self._head(False)) is not None:
            if not fetch.is_begun:
                fetch.begin()
                self.begun += 1
            try:
                record = fetch.take_one(ahead, self._convert)
            except Exception as error:
                if self._set_aside(fetch, error):
                    continue
                raise
            if self._advance(fetch, record is None) and record is not None:
                return record
        return None

    def prefetched(self) -> list[ConsumerRecord[Any, Any]]:
        """Return the records that :meth:`next_record` decoded ahead. The next record is the last in the list.

        The caller may take records from the end of this list. After that it must call :meth:`commit_taken` before any
        other method. The list becomes empty when its records must no longer be returned.
        """
        fetch = self._queue[0] if self._queue else None
        if fetch is None or not fetch.ready or not fetch.is_current:
            return []
        self._prefetched = fetch, len(fetch.ready)
        return fetch.ready

    def decoded_ahead(self, most: int) -> list[ConsumerRecord[Any, Any]]:
        """Return the records, at most ``most``, that follow the one that :meth:`next_record` has returned last."""
        fetch = self._queue[0] if self._queue else None
        return [] if fetch is None else fetch.ready[: -most - 1 : -1]

    def commit_taken(self) -> tuple[TopicPartition, int] | None:
        """Move the position past the records that were taken from :meth:`prefetched`.

        Return their partition and number.
        """
        if self._prefetched is None:
            return None
        fetch, count = self._prefetched
        self._moved_by_taking[:] = self._moved[:1]
        self._moved.clear()  # all of these records have reached the application
        taken = 0
        if fetch.is_current:
            taken = count - len(fetch.ready)
            if taken:
                fetch.state.note_taken()
            fetch.state.advance(fetch.next_offset, fetch.cursor.last_leader_epoch)
            self._advance(fetch, not taken)
        self._prefetched = None
        return fetch.topic_partition, taken

    def taken_ahead(self) -> tuple[str, int]:
        """Return the topic and number of the records that iteration has taken since the last :meth:`prefetched`.

        Any thread may call this.
        """
        found = self._prefetched
        if found is None or not found[0].is_current:
            return "", 0
        return found[0].topic_partition.topic, max(0, found[1] - len(found[0].ready))

    def collect_columns(
        self, columns: ColumnsBuilder, max_records: int, max_bytes: int
    ) -> list[tuple[TopicPartition, int]]:
        """Append records to columns, up to about ``max_bytes``. Otherwise like :meth:`collect`.

        Returns:
            The partitions with their numbers of rows, in the order of the rows.
        """
        collected: list[tuple[TopicPartition, int]] = []
        self._moved.clear()
        first = len(columns)
        columns.expect(self._waiting_bytes(max_bytes))
        while len(columns) - first < max_records and columns.weight < max_bytes:
            fetch = self._head(bool(collected))
            if fetch is None:
                break
            try:
                count = fetch.take_into(columns, max_records - (len(columns) - first), max_bytes - columns.weight)
            except Exception:
                if collected:
                    break
                self._rotate(fetch)
                raise
            # No code of the application has run, so the fetch is still valid.
            self._advance(fetch, not count)
            if count:
                collected.append((fetch.topic_partition, count))
        return collected

    def collect_typed(self, typed: TypedRows, max_records: int, max_bytes: int) -> list[tuple[TopicPartition, int]]:
        """Append records to typed columns, part by part. Otherwise like :meth:`collect_columns`.

        Raises:
            PendingError: the next row of every partition needs a schema that is being fetched (rule 9).
            KafkaError: see :meth:`collect`.
        """
        collected: list[tuple[TopicPartition, int]] = []
        self._moved.clear()
        if self._pending:
            self._pending.clear()
        weight = 0
        while len(typed) < max_records and weight < max_bytes:
            fetch = self._head(bool(collected))
            if fetch is None:
                break
            start = offset = fetch.next_offset
            stop: Exception | None = fetch.awaited(typed.reader)
            is_decoded = stop is None
            count = used = 0
            try:
                if is_decoded:
                    part = typed.new_part()
                    part.expect(min(fetch.record_set_bytes, max_bytes))
                    count = fetch.take_into(part, max_records - len(typed), max_bytes - weight)
                    weight += part.weight
                if count:
                    used, offset, stop = typed.accept(fetch, part, start)
            except Exception as error:  # no row of the part is taken
                stop = error
            except BaseException:
                if not fetch.dropped:
                    fetch.restart(start)
                raise
            if (stop is not None or used < count) and is_decoded and not fetch.dropped:
                fetch.restart(offset if used else start)
            if not used and (stop is not None or count):
                if isinstance(stop, PendingError):
                    fetch.wait_for(start, typed.reader, stop)
                if stop is None or collected:
                    break
                if self._set_aside(fetch, stop):
                    continue
                raise stop
            # A cursor that begins again knows the epochs of no records before it.
            epoch = int(typed.parts[-1][1].leader_epochs[used - 1]) if used < count else None
            # The policy of the application may have moved the position.
            is_current = self._advance(fetch, not used, epoch)
            if not is_current:
                typed.drop_last(used)
            elif used:
                collected.append((fetch.topic_partition, used))
            if used < count:
                break
        return collected

    def _waiting_bytes(self, most: int) -> int:
        """Return the size of the record sets in the queue, at most ``most``."""
        size = 0
        for fetch in self._queue:
            size += fetch.record_set_bytes
            if size >= most:
                return most
        return size

    def roll_back(self, *, taken: bool = False) -> bool:
        """Revert the moves of the last call, because its records did not reach the application or are not processed.

        Args:
            taken: True if the last call was iteration, which took records by itself. Their moves are reverted, too.

        Returns:
            False if a position is being validated or reset, and so could not be reverted.
        """
        reverted = True
        for state, position, epoch, leader in reversed(self._moved or (self._moved_by_taking if taken else [])):
            tp = state.topic_partition
            if self._subscriptions.get(tp) is not state:
                continue
            if state.has_valid_position:
                self._subscriptions.seek_validated(tp, FetchPosition(position, epoch, leader))
            else:
                reverted = False
        self._moved.clear()
        return reverted

    def clear(self) -> None:
        """Drop everything and reset all counts."""
        for fetches in (*self._of.values(), self._queue):  # after Ctrl-C, one may be in the queue alone
            for fetch in fetches:
                fetch.drop()
        self._queue.clear()
        self._paused_fetches.clear()
        self._of.clear()
        self._budget.release_held()
        self._ahead_bytes = 0
        for state in self._subscriptions.states():
            state.clear_buffered()

    def close(self) -> None:
        """Drop everything, and stop decompressing ahead."""
        self.clear()
        self._ahead = None

    def _head(self, collected: object) -> CompletedFetch | None:
        """Return the fetch with data whose turn it is, or None if there is none.

        Raises:
            KafkaError: an error is before it in the queue. If records have been ``collected``, these are returned
                first: the result is None.
        """
        queue = self._queue
        while queue:
            fetch = queue[0]
            state = fetch.state
            is_current = fetch.fetch_epoch == state.fetch_epoch and not fetch.dropped
            if is_current and state.is_fetchable and not fetch.error:
                return fetch
            if not is_current:
                queue.popleft()
                self._drop(fetch)
            elif not state.is_fetchable:
                self._pause_partition(fetch.topic_partition)
            elif collected:
                return None
            else:
                self._raise_error(fetch)
        return None

    def _pause_partition(self, tp: TopicPartition) -> None:
        """Take the fetches of a paused partition out of the queue."""
        self._paused_fetches[tp] = self._take_out(tp)
        for fetch in self._paused_fetches[tp]:
            self._pause(fetch)

    def _pause(self, fetch: CompletedFetch) -> None:
        self._detach(fetch)
        if self._ahead is not None and fetch.cursor.packed_count:
            self._ahead.remove(fetch.cursor)
            self._release_ahead()
        fetch.pause()
        self._budget.pause(fetch.charged)

    def _take_out(self, tp: TopicPartition) -> list[CompletedFetch]:
        """Remove a partition from the queue, and return its fetches in order."""
        fetches = list(self._of[tp])
        for fetch in fetches:
            self._queue.remove(fetch)
        return fetches

    def _rotate(self, fetch: CompletedFetch) -> None:
        """Move a fetch whose records raised an error behind those of the other partitions."""
        if fetch.dropped:
            return
        stay = self._take_out(fetch.topic_partition)
        for other in stay:
            self._detach(other)
        self._queue.extend(stay)

    def _set_aside(self, fetch: CompletedFetch, error: Exception) -> bool:
        """Move a fetch whose records raised an error behind the others. Return False if the error is to be raised now.

        That of a record that waits is raised once the turn is at its partition again (rule 9).
        """
        self._rotate(fetch)
        if not isinstance(error, PendingError) or fetch.state in self._pending:
            return False
        self._pending[fetch.state] = error
        return True

    def _raise_error(self, fetch: CompletedFetch) -> None:
        """Remove a fetch without data, at its turn, and raise its error."""
        self._queue.popleft()
        self._drop(fetch)
        assert fetch.error is not None
        error = fetch.error()
        if error is not None:
            raise error

    def _advance(self, fetch: CompletedFetch, hidden: bool, last_epoch: int | None = None) -> bool:
        """Move the position past everything taken from a fetch, and drop the fetch when it is exhausted.

        Args:
            fetch: the fetch.
            hidden: True if no record was taken, only passed.
            last_epoch: the leader epoch of the last record. By default the cursor knows it.

        Returns:
            False, and the position stays, if a deserializer of the application has moved the position itself.
        """
        state = fetch.state
        if fetch.dropped or fetch.fetch_epoch != state.fetch_epoch:
            return False
        cursor = fetch.cursor
        is_ahead = fetch.ready or fetch.raw
        offset: int = fetch.next_offset if is_ahead else cursor.next_offset
        position = state.position
        if offset == position:
            epoch = state.offset_epoch
        else:
            epoch = cursor.last_leader_epoch if last_epoch is None else last_epoch
            if position is not None:
                self._moved.append((state, position, state.offset_epoch, state.position_leader))
        if cursor.exhausted and not is_ahead:
            following = self._of[fetch.topic_partition]
            state.pass_records(offset, epoch, following[1].next_timestamp if len(following) > 1 else None, hidden)
            self._queue.popleft()
            self._remove(fetch, state.remove_buffered(fetch.blocks))
            return True
        state.pass_records(offset, epoch, fetch.next_timestamp if is_ahead else cursor.next_timestamp, hidden)
        if cursor.decompressed_bytes != fetch.charged_decompressed:
            self._budget.hold(fetch.charge())
        return True

    # -- memory ------------------------------------------------------------------------------------------------------

    def _detach(self, fetch: CompletedFetch) -> None:
        """Give a fetch that stays its own memory, by a copy unless it is most of its response."""
        frame = fetch.frame
        if frame is None:
            return
        is_most = len(frame.parts) == 1 and 2 * fetch.record_set_bytes >= len(frame.memory)
        self._budget.hold(-fetch.leave(frame))
        if not is_most:
            fetch.detach()
        self._budget.hold(fetch.charge())

    # ----------------------------------------------------------------------------------------------------------------

    def _drop(self, fetch: CompletedFetch) -> None:
        if not fetch.dropped:
            state = fetch.state
            self._remove(fetch, fetch.fetch_epoch != state.fetch_epoch or state.remove_buffered(fetch.blocks))

    def _remove(self, fetch: CompletedFetch, changes: bool) -> None:
        """Forget a fetch that is not in the queue any more. ``changes``: its partition may be fetched again now."""
        tp = fetch.topic_partition
        fetches = self._of.pop(tp)
        fetches.remove(fetch)
        if fetches:
            self._of[tp] = fetches
        if fetch.charged:
            self._budget.hold(-fetch.charged)
            if fetch.is_paused:
                self._budget.pause(-fetch.charged)
        if changes:
            self._subscriptions.note_changed(tp)
        freed = fetch.drop()
        if freed:
            self._budget.hold(-freed)
        if self._ahead_bytes:
            self._release_ahead()
