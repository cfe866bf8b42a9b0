"""ShareFetch: waits until records can be acquired, and acquires them (KIP-932).

1. Records are acquired when the wait ends, not when the request arrives. A client that goes away in between holds
   nothing.
2. A wait ends when a partition has ``min_bytes`` that can be acquired, or an error, or when its time is up. It looks
   again whenever a high watermark moves, or records are released.
3. A wait ends with the session, and then nothing is acquired. Nobody would release it.
4. The partitions take turns to be the first.
5. A log is read in pieces, until there are as many records as the member wants. What is sent are whole batches. The
   member is told which of their records are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.share.partitions import SharePartitions
from pyconsumer.broker.share.sessions import SharedPartition, ShareSession
from pyconsumer.broker.share.share_partition import Acquired, SharePartition
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    KafkaStorageError,
    OffsetOutOfRangeError,
    ShareSessionNotFoundError,
)
from pyconsumer.protocol.records import BatchInfo, scan

__all__ = ["Fetched", "ShareFetch", "fetch"]

_log = Log(__name__)

#: Bytes of a log that are read at a time.
_PIECE_BYTES: Final = 256 << 10


class ShareFetch(NamedTuple):
    """The wishes of a member.

    Attributes:
        until: the latest end of the wait (monotonic seconds).
        batch_size, exact: see :meth:`SharePartition.acquire`.
    """

    group_id: str
    member_id: str
    until: float
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    exact: bool


class Fetched(NamedTuple):
    """The result for one partition: an error, or records and which of them are acquired."""

    shared: SharedPartition
    error_code: int = 0
    error_message: str | None = None
    records: bytes = b""
    acquired: Sequence[Acquired] = ()


class _Read(NamedTuple):
    """The result of reading one partition: the offset asked for, the bytes, their batches, the aborted ones."""

    shared: SharedPartition
    share: SharePartition
    offset: int
    data: bytes
    batches: list[BatchInfo]
    aborted: list[tuple[int, int]]


class _Look:
    """One look at all partitions.

    Attributes:
        failed: partitions with an error.
        reads: partitions with records that can be acquired.
        size_bytes: of those.
        shares, partitions: whose changes end a wait.
    """

    def __init__(self) -> None:
        self.failed: list[Fetched] = []
        self.reads: list[_Read] = []
        self.size_bytes = 0
        self.shares: list[SharePartition] = []
        self.partitions: list[Partition] = []

    def add(self, read: _Read) -> None:
        """Add what was read of a partition."""
        self.reads.append(read)
        self.size_bytes += len(read.data)


async def fetch(
    shares: SharePartitions,
    wanted: ShareFetch,
    session: ShareSession,
    partitions: Sequence[SharedPartition],
    timer: Timer,
    clock: Clock,
    call_soon: Callable[[Callable[[], None]], None],
) -> list[Fetched]:
    """Acquire records for a member. Partitions without any are not in the result.

    Args:
        session: the session of the request.
        partitions: those of the session that the member may read.

    Raises:
        ShareSessionNotFoundError: the session has ended.
    """
    if not partitions or wanted.max_records <= 0 or wanted.max_bytes <= 0:
        return []
    while True:
        if session.is_over:
            raise ShareSessionNotFoundError("The share session has ended.")
        look = _look(shares, wanted, partitions)
        is_late = clock.now() >= wanted.until
        found = look.failed
        if look.reads and (look.size_bytes >= wanted.min_bytes or look.failed or is_late):
            found = [*found, *_acquire(wanted, look.reads)]
            if not found and any(read.share.next_offset() != read.offset for read in look.reads):
                continue  # there were only aborted records
        if found or is_late:
            return found
        wait = _Wait(look, session, wanted.until, timer, call_soon)
        try:
            await wait_for(wait.done)
        finally:
            wait.cancel()


def _look(shares: SharePartitions, wanted: ShareFetch, partitions: Iterable[SharedPartition]) -> _Look:
    look = _Look()
    room, missing = wanted.max_bytes, wanted.max_records
    committed_only = shares.rules.is_committed_only(wanted.group_id)
    for shared in partitions:
        try:
            partition = shares.partition_of(shared)
            share = shares.get(wanted.group_id, shared)
            look.shares.append(share)
            look.partitions.append(partition)
            loaded = share.load()
            if not loaded.done:
                continue
            if loaded.value.error_code != Errors.NONE:
                look.failed.append(Fetched(shared, *loaded.value))
                continue
            share.on_log_start(partition.log.log_start_offset)
            if room > 0 and missing > 0:
                read = _read(share, partition, shared, room, missing, committed_only, first=not look.reads)
                if read is not None:
                    look.add(read)
                    room -= len(read.data)
                    missing -= share.acquirable(read.batches)
        except BrokerResponseError as error:
            look.failed.append(Fetched(shared, error.errno, str(error)))
        except OSError as error:
            _log.error("cannot read a share partition of group %s: %s", wanted.group_id, error)
            look.failed.append(Fetched(shared, KafkaStorageError.errno, "the broker cannot read the partition"))
    return look


def _read(
    share: SharePartition,
    partition: Partition,
    shared: SharedPartition,
    room: int,
    missing: int,
    committed_only: bool,
    *,
    first: bool,
) -> _Read | None:
    """Read as many records as are missing. Return None if there are none."""
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    while (begin := share.next_offset()) is not None:
        found = _read_from(share, partition, begin, end, room, missing, first=first)
        if found is None:
            return None
        share.skip_missing(begin, found[1])
        if share.acquirable(found[1]):
            aborted = _aborted(partition, begin, found[1]) if committed_only else []
            return _Read(shared, share, begin, *found, aborted)
        if share.next_offset() == begin:
            return None
    return None


def _read_from(
    share: SharePartition, partition: Partition, begin: int, end: int, room: int, missing: int, *, first: bool
) -> tuple[bytes, list[BatchInfo]] | None:
    """Read batches from an offset on, until they have as many records as are missing."""
    offset, size = begin, 0
    parts: list[bytes] = []
    batches: list[BatchInfo] = []
    while offset < end and size < room:
        try:
            piece = partition.log.read(offset, min(_PIECE_BYTES, room - size), end, at_least_one=first and not parts)
        except OffsetOutOfRangeError:
            break
        found = scan(piece) if piece else []
        if not found:
            break
        whole = found[-1].end_position
        batches += [batch._replace(position=batch.position + size) for batch in found]
        parts.append(piece[:whole])
        size += whole
        offset = found[-1].next_offset
        missing -= share.acquirable(found)
        if missing <= 0:
            break
    return (parts[0] if len(parts) == 1 else b"".join(parts), batches) if batches else None


def _aborted(partition: Partition, offset: int, batches: Sequence[BatchInfo]) -> list[tuple[int, int]]:
    """Return the offsets of the batches that belong to aborted transactions."""
    aborted = partition.log.aborted_transactions(offset, partition.last_stable_offset)
    if not aborted:
        return []
    return [
        (batch.base_offset, batch.last_offset)
        for batch in batches
        if batch.is_transactional
        and not batch.is_control
        and any(
            one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset
            for one in aborted
        )
    ]


def _acquire(wanted: ShareFetch, reads: Iterable[_Read]) -> list[Fetched]:
    found = []
    missing = wanted.max_records
    for read in reads:
        acquired = read.share.acquire(
            wanted.member_id,
            read.batches,
            read.offset,
            max_records=missing,
            batch_size=wanted.batch_size,
            exact=wanted.exact,
            aborted=read.aborted,
        )
        if acquired:
            missing -= sum(last - first + 1 for first, last, _ in acquired)
            found.append(Fetched(read.shared, records=_slice(read, acquired), acquired=acquired))
    return found


def _slice(read: _Read, acquired: Sequence[Acquired]) -> bytes:
    """Return the batches that have the acquired records, and those in between."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    kept = [batch for batch in read.batches if batch.last_offset >= first and batch.base_offset <= last]
    if not kept:
        return b""
    begin, end = kept[0].position, kept[-1].end_position
    return read.data if (begin, end) == (0, len(read.data)) else read.data[begin:end]


class _Wait:
    """A wait until something may have changed, or the time is up."""

    def __init__(
        self,
        look: _Look,
        session: ShareSession,
        until: float,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self.done: Deferred[None] = Deferred()
        self._look = look
        self._session = session
        self._call_soon = call_soon
        self._ending = self._over = False
        self._timer = timer.schedule(until, self._end)
        for partition in look.partitions:
            partition.watch(self._on_log)
        for share in look.shares:
            share.watch(self._on_share)
        session.watch(self._on_share)

    def _on_log(self, size_bytes: int) -> None:
        self._on_share()

    def _on_share(self) -> None:
        if not self._ending:
            self._ending = True
            self._call_soon(self._end)

    def _end(self) -> None:
        if not self._over:
            self.cancel()
            self.done.set(None)

    def cancel(self) -> None:
        """Stop waiting."""
        self._over = True
        self._timer.cancel()
        for partition in self._look.partitions:
            partition.unwatch(self._on_log)
        for share in self._look.shares:
            share.unwatch(self._on_share)
        self._session.unwatch(self._on_share)
