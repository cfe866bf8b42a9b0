"""One partition's answer to a fetch, and the queue of those that wait to be handed out. Cores: no I/O, no clock.

Rules

1. Answers are handed out in the order in which they came; those of one partition never overtake each other.
2. An answer counts only while its partition is in the fetch epoch that it was asked for in. When that changes, the
   answer and its memory are dropped at once.
3. Answers of a paused partition are put aside and come first after ``resume``.
4. The position moves to what :meth:`CompletedFetch.take` has gone past, hidden records included, and to nothing else.
5. After a position has moved nothing may raise before the records are returned: errors wait at their place in the
   queue and are raised only when nothing was collected; Ctrl-C takes the move back. An error with data stays until a
   seek (its partition's turn passes to the others meanwhile); one without data goes when it was raised.
6. Iteration may take the records decoded ahead by itself, without a call of ours for each (:meth:`FetchBuffer.lend`).
   Positions are right again after :meth:`FetchBuffer.settle`, and nothing else may be done before that.
7. What one request brought is one piece of memory, that of its frame, however many partitions it is for. So it is
   charged to the budget whole, and until the last of them has gone past its part. Those that stay behind, paused or
   with an error, take a copy of their part along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from pyconsumer.consumer.fetch_planner import ByteBudget
from pyconsumer.consumer.partition_state import FetchPosition, LeaderAndEpoch, TopicPartitionState
from pyconsumer.consumer.records import ConsumerRecords, empty_records
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.protocol.records import ColumnsBuilder, ConsumerRecord, Cursor
from pyconsumer.structs import TopicPartition

__all__ = ["CompletedFetch", "FetchBuffer"]

Buffer = bytes | bytearray | memoryview
Convert = Callable[[list[ConsumerRecord]], tuple[list[ConsumerRecord], int, Exception | None]]
"""Turns raw records into the user's: those that are good, how many raw ones they took, and what stopped it."""


class CompletedFetch:
    """One partition's record set, or the error that came in its place.

    Args:
        state: the partition.
        buffer: the record set, a view into the answer's frame; empty with an error.
        fetch_offset: the offset asked for.
        check_crcs: whether to check each batch's checksum.
        aborted: of the answer, for ``read_committed``; None otherwise.
        error: called at this answer's turn: returns what to raise, or None if there is nothing to raise any more.

    Attributes:
        frame: what its record set is a part of, while it is in a :class:`FetchBuffer`; None if that is all its own.
        blocks: whether nothing more is to be fetched before it is gone.
        parked: whether it was put aside (rule 3).
        raw: records decoded and not converted yet.
        ready: records decoded ahead for iteration, the next one last.
    """

    __slots__ = (
        "_aborted",
        "_buffer",
        "_check_crcs",
        "blocks",
        "charged",
        "charged_decompressed",
        "cursor",
        "dropped",
        "error",
        "fetch_epoch",
        "frame",
        "parked",
        "raw",
        "ready",
        "state",
        "topic_partition",
    )

    def __init__(
        self,
        state: TopicPartitionState,
        buffer: Buffer = b"",
        *,
        fetch_offset: int,
        check_crcs: bool = True,
        aborted: Sequence[tuple[int, int]] | None = None,
        error: Callable[[], Exception | None] | None = None,
    ) -> None:
        self.state = state
        self.topic_partition = state.topic_partition
        self.fetch_epoch = state.fetch_epoch
        self.error = error
        self.frame: _Frame | None = None
        self.charged = 0
        self.charged_decompressed = 0
        self.dropped = False
        self.blocks = False
        self.parked = False
        self._buffer = buffer
        self._check_crcs = check_crcs
        self._aborted = aborted
        self.raw: list[ConsumerRecord] = []
        self.ready: list[ConsumerRecord] = []
        self.cursor = Cursor(
            self.topic_partition, buffer, fetch_offset=fetch_offset, check_crcs=check_crcs, aborted=aborted
        )

    @property
    def is_current(self) -> bool:
        """Whether it still counts (rule 2)."""
        return not self.dropped and self.fetch_epoch == self.state.fetch_epoch

    @property
    def next_offset(self) -> int:
        """The offset that follows what was taken."""
        if self.ready:
            return self.ready[-1].offset
        if self.raw:
            return self.raw[0].offset
        return self.cursor.next_offset

    @property
    def memory(self) -> bytearray | None:
        """The frame's memory, of which its record set is a view; None if it is no view."""
        return self._buffer.obj if isinstance(self._buffer, memoryview) else None  # type: ignore[return-value]

    @property
    def size_bytes(self) -> int:
        """Memory that it alone holds: its record set, if that is not a part of a ``frame``, and the open batch."""
        if self.dropped:
            return 0
        own = 0 if self.frame is not None else len(self.memory or self._buffer)
        return own + self.cursor.decompressed_bytes

    @property
    def record_set_bytes(self) -> int:
        """Size of its record set."""
        return len(self._buffer)

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left in it."""
        return not self.ready and not self.raw and self.cursor.exhausted

    @property
    def is_damaged(self) -> bool:
        """Whether the next fetch cannot go on after it: a batch's header makes no sense."""
        return not self.cursor.has_incomplete_batch and self.cursor.size_bytes < len(self._buffer)

    def take(self, count: int, convert: Convert | None) -> list[ConsumerRecord]:
        """Up to ``count`` records, made what the user wants by ``convert``.

        Raises:
            KafkaError: of the decoder or of ``convert``, if there is no good record before it. It comes again.
        """
        if self.ready:
            records = self.ready[: -count - 1 : -1]
            del self.ready[-count:]
            return records
        if self.raw:
            raw, self.raw = self.raw[:count], self.raw[count:]
        else:
            raw = self.cursor.take(count)
        if convert is None or not raw:
            return raw
        offset = raw[0].offset
        try:
            records, used, error = convert(raw)
        except BaseException:
            self._restart(offset)  # Ctrl-C in a deserializer: none of them is delivered
            raise
        if used < len(raw):
            self.raw[:0] = raw[used:]
        if error is not None and not records and used == 0:
            raise error
        return records

    def take_one(self, ahead: int, convert: Convert | None) -> ConsumerRecord | None:
        """One record, for iteration: up to ``ahead`` are decoded at a time. None if none is left; raises as take."""
        if not self.ready:
            ready = self.take(ahead, convert)
            if not ready:
                return None
            ready.reverse()
            self.ready = ready
        return self.ready.pop()

    def take_into(self, columns: ColumnsBuilder, max_records: int, max_bytes: int) -> int:
        """Append records to columns; how many. Raises as take."""
        if self.ready or self.raw:
            self._restart(self.next_offset)
        return self.cursor.take_into(columns, max_records, max_bytes)

    def detach(self) -> None:
        """Keep only this partition's bytes of the frame that it came in."""
        offset = self.next_offset
        self._buffer = bytes(self._buffer)
        self._restart(offset)

    def _restart(self, offset: int) -> None:
        """Begin again at an offset; records decoded ahead are dropped."""
        self.raw = []
        self.ready.clear()  # it may be lent
        self.cursor = Cursor(
            self.topic_partition, self._buffer, fetch_offset=offset, check_crcs=self._check_crcs, aborted=self._aborted
        )

    def drop(self) -> None:
        """Let go of all memory."""
        self.dropped = True
        self._buffer = b""
        self.raw = []
        self.ready.clear()  # it may be lent
        self.cursor.close()


class _Frame:
    """Memory that record sets share: its size in bytes, and how many of them are left."""

    __slots__ = ("parts", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.parts = 0


class FetchBuffer:
    """Answers that wait to be handed out.

    Args:
        subscriptions: positions are moved there.
        budget: charged with what is held.
        convert: see :data:`Convert`; None if records are handed out as they are.
    """

    def __init__(self, subscriptions: SubscriptionState, budget: ByteBudget, convert: Convert | None = None) -> None:
        self._subscriptions = subscriptions
        self._budget = budget
        self._convert = convert
        self._queue: deque[CompletedFetch] = deque()
        self._parked: dict[TopicPartition, list[CompletedFetch]] = {}
        self._of: dict[TopicPartition, list[CompletedFetch]] = {}
        self._frames: dict[int, _Frame] = {}  # by the id of their memory, which is there as long as they are
        self._moved: list[tuple[TopicPartitionState, int, int, LeaderAndEpoch]] = []
        self._lent: tuple[CompletedFetch, int] | None = None

    def __bool__(self) -> bool:
        """Whether something may be there to hand out or to raise."""
        return bool(self._queue)

    @property
    def partitions(self) -> set[TopicPartition]:
        """Partitions with something buffered."""
        return set(self._of)

    def add(self, fetch: CompletedFetch) -> None:
        """A new answer came."""
        self._of.setdefault(fetch.topic_partition, []).append(fetch)
        fetch.state.buffered_fetches += 1
        if fetch.error is not None or fetch.is_damaged:
            fetch.blocks = fetch.state.fetch_blocked = True
        self._enter_frame(fetch)
        self._charge(fetch)
        if fetch.topic_partition in self._parked:
            self._put_aside(fetch)
            self._parked[fetch.topic_partition].append(fetch)
        else:
            self._queue.append(fetch)

    def on_changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what lost its meaning; bring back what was put aside for a pause that has ended."""
        for tp in partitions:
            fetches = self._of.get(tp)
            if fetches is None:
                continue
            state = self._subscriptions.get(tp)
            for fetch in [f for f in fetches if state is None or f.state is not state or not f.is_current]:
                self._drop(fetch)
            if tp in self._parked and (state is None or state.is_fetchable or tp not in self._of):
                parked = [f for f in self._parked.pop(tp) if not f.dropped]
                for fetch in parked:
                    fetch.parked = False
                    self._budget.parked -= fetch.charged
                self._queue.extendleft(reversed(parked))

    def collect(self, max_records: int) -> ConsumerRecords:
        """Take up to ``max_records`` records and move the positions past them.

        Raises:
            KafkaError: if there is an error at the head of the queue and nothing was collected before it.
        """
        ends: dict[TopicPartition, tuple[int, str, int]] = {}
        collected = empty_records(ends)
        self._moved.clear()
        remaining = max_records
        convert = self._convert
        while remaining > 0:
            fetch = self._head(bool(collected))
            if fetch is None:
                break
            try:
                records = fetch.take(remaining, convert)
            except Exception:
                if collected:
                    break
                self._pass_turn(fetch)
                raise
            if self._advance(fetch) and records:
                tp = fetch.topic_partition
                earlier = collected.get(tp)
                collected[tp] = records if earlier is None else earlier + records
                remaining -= len(records)
        for tp in collected:
            state = self._subscriptions.get(tp)
            if state is not None and state.position is not None:
                ends[tp] = state.position, "", state.offset_epoch
        return collected

    def next_record(self, ahead: int) -> ConsumerRecord | None:
        """Take one record and move the position past it; None if there is none. Raises as :meth:`collect`."""
        self._moved.clear()
        while (fetch := self._head(False)) is not None:
            try:
                record = fetch.take_one(ahead, self._convert)
            except Exception:
                self._pass_turn(fetch)
                raise
            if self._advance(fetch) and record is not None:
                return record
        return None

    def lend(self) -> list[ConsumerRecord]:
        """The records that :meth:`next_record` decoded ahead, the next one last: whoever has it may take from its end.

        :meth:`settle` has to be called before anything else is done here. The list becomes empty when the records are
        not to be handed out any more.
        """
        fetch = self._queue[0] if self._queue else None
        if fetch is None or not fetch.ready or not fetch.is_current:
            return []
        self._lent = fetch, len(fetch.ready)
        return fetch.ready

    def settle(self) -> tuple[TopicPartition, int] | None:
        """Move the position past what was taken from the lent records: whose, and how many; None if nobody has any."""
        if self._lent is None:
            return None
        fetch, count = self._lent
        self._moved.clear()  # all of it has reached the application
        taken = 0
        if fetch.is_current:
            taken = count - len(fetch.ready)
            state = fetch.state
            state.position = fetch.next_offset
            state.offset_epoch = fetch.cursor.last_leader_epoch
            self._advance(fetch)
        self._lent = None
        return fetch.topic_partition, taken

    def collect_columns(
        self, columns: ColumnsBuilder, max_records: int, max_bytes: int
    ) -> list[tuple[TopicPartition, int]]:
        """Like :meth:`collect`, but into columns, up to ``max_bytes`` of them or so.

        Returns:
            Whose rows they are: partitions with numbers of rows, in the order of the rows.
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
                self._pass_turn(fetch)
                raise
            # Nobody else's code has run, so the answer still counts.
            self._advance(fetch)
            if count:
                collected.append((fetch.topic_partition, count))
        return collected

    def _waiting_bytes(self, most: int) -> int:
        """Size of the record sets in the queue, or ``most`` if that is less."""
        size = 0
        for fetch in self._queue:
            size += fetch.record_set_bytes
            if size >= most:
                return most
        return size

    def note_delivered(self) -> None:
        """What was collected until now has reached the application: :meth:`roll_back` does not touch it."""
        self._moved.clear()

    def roll_back(self) -> None:
        """What the last call collected did not reach the application (Ctrl-C): go back to before it."""
        for state, position, epoch, leader in reversed(self._moved):
            tp = state.topic_partition
            if self._subscriptions.get(tp) is state and state.has_valid_position:
                self._subscriptions.seek_validated(tp, FetchPosition(position, epoch, leader))
        self._moved.clear()

    def clear(self) -> None:
        """Drop everything, and begin to count anew."""
        for fetches in self._of.values():
            for fetch in fetches:
                fetch.drop()
        self._queue.clear()
        self._parked.clear()
        self._of.clear()
        self._frames.clear()
        self._budget.held = self._budget.parked = 0
        for state in self._subscriptions.states():
            state.buffered_fetches = 0
            state.fetch_blocked = False

    def _head(self, collected: bool) -> CompletedFetch | None:
        """The answer with data whose turn it is; None if there is none.

        Raises:
            KafkaError: what comes before it. If something was ``collected``, that goes first: None is returned.
        """
        queue = self._queue
        while queue:
            fetch = queue[0]
            state = fetch.state
            if fetch.dropped or fetch.fetch_epoch != state.fetch_epoch:
                queue.popleft()
                self._drop(fetch)
            elif not state.is_fetchable:
                self._park(fetch.topic_partition)
            elif fetch.error is None:
                return fetch
            elif collected:
                return None
            else:
                self._raise_error(fetch)
        return None

    def _park(self, tp: TopicPartition) -> None:
        """Put a partition's answers aside."""
        self._parked[tp] = self._take_out(tp)
        for fetch in self._parked[tp]:
            self._put_aside(fetch)

    def _put_aside(self, fetch: CompletedFetch) -> None:
        self._detach(fetch)
        fetch.parked = True
        self._budget.parked += fetch.charged

    def _take_out(self, tp: TopicPartition) -> list[CompletedFetch]:
        """Remove a partition from the queue; its answers in order."""
        fetches = list(self._of[tp])
        for fetch in fetches:
            self._queue.remove(fetch)
        return fetches

    def _pass_turn(self, fetch: CompletedFetch) -> None:
        """An answer with data raised: it stays, and the other partitions have their turn before it comes again."""
        if fetch.dropped:
            return
        stay = self._take_out(fetch.topic_partition)
        for other in stay:
            self._detach(other)
        self._queue.extend(stay)

    def _raise_error(self, fetch: CompletedFetch) -> None:
        """It is the turn of an answer without data: it goes, and what it has to say is raised."""
        self._queue.popleft()
        self._drop(fetch)
        assert fetch.error is not None
        error = fetch.error()
        if error is not None:
            raise error

    def _advance(self, fetch: CompletedFetch) -> bool:
        """Move the position to where the answer has been taken to; drop the answer when it is at its end.

        Returns False, and moves nothing, if a deserializer of the user's has moved the position meanwhile.
        """
        state = fetch.state
        if fetch.dropped or fetch.fetch_epoch != state.fetch_epoch:
            return False
        cursor = fetch.cursor
        is_ahead = fetch.ready or fetch.raw
        offset = fetch.next_offset if is_ahead else cursor.next_offset
        position = state.position
        if offset != position:
            if position is not None:
                self._moved.append((state, position, state.offset_epoch, state.position_leader))
            state.position = offset
            state.offset_epoch = cursor.last_leader_epoch
        if cursor.exhausted and not is_ahead:
            self._queue.popleft()
            self._drop(fetch)
        elif cursor.decompressed_bytes != fetch.charged_decompressed:
            self._charge(fetch)
        return True

    # -- memory ------------------------------------------------------------------------------------------------------

    def _charge(self, fetch: CompletedFetch) -> None:
        size = fetch.size_bytes
        fetch.charged_decompressed = fetch.cursor.decompressed_bytes
        self._budget.held += size - fetch.charged
        fetch.charged = size

    def _enter_frame(self, fetch: CompletedFetch) -> None:
        memory = fetch.memory
        if memory is None:
            return
        frame = self._frames.get(id(memory))
        if frame is None:
            frame = self._frames[id(memory)] = _Frame(len(memory))
            self._budget.held += frame.size_bytes
        frame.parts += 1
        fetch.frame = frame

    def _leave_frame(self, fetch: CompletedFetch) -> None:
        """Its part is not needed any more."""
        frame, fetch.frame = fetch.frame, None
        if frame is None:
            return
        frame.parts -= 1
        if not frame.parts:
            del self._frames[id(fetch.memory)]
            self._budget.held -= frame.size_bytes

    def _detach(self, fetch: CompletedFetch) -> None:
        """It is going to stay: let it have its memory for itself, by a copy if that is only a part of something."""
        frame = fetch.frame
        if frame is None:
            return
        is_most = frame.parts == 1 and 2 * fetch.record_set_bytes >= frame.size_bytes
        self._leave_frame(fetch)
        if not is_most:
            fetch.detach()
        self._charge(fetch)

    # ----------------------------------------------------------------------------------------------------------------

    def _drop(self, fetch: CompletedFetch) -> None:
        if fetch.dropped:
            return
        tp = fetch.topic_partition
        fetches = self._of[tp]
        fetches.remove(fetch)
        if not fetches:
            del self._of[tp]
        self._budget.held -= fetch.charged
        if fetch.parked:
            self._budget.parked -= fetch.charged
        if fetch.fetch_epoch == fetch.state.fetch_epoch:
            fetch.state.buffered_fetches -= 1
            if fetch.blocks:
                fetch.state.fetch_blocked = False
        self._leave_frame(fetch)
        fetch.charged = 0
        fetch.drop()
        self._subscriptions.note_changed(tp)
