"""One replica of a partition: leader or follower, high watermark, ISR, appends and reads.

Rules:

1. The leader appends, and followers copy its log batch by batch. The offset that a follower fetches next is also its
   report to the leader: everything before it has been copied.
2. The high watermark of the leader is the least log end offset of the replicas in sync (ISR), and never falls. It
   stands still while fewer replicas are in sync than ``min.insync.replicas`` demands (or than there are, if that is
   less). A follower adopts the leader's, but never beyond the end of its own log. Consumers read up to it.
3. A record sent with ``acks=all`` is acknowledged when the high watermark has passed it, in the leader epoch in which
   it was appended.
4. A follower enters the ISR when it has reached the high watermark and the offset at which the leader's epoch began. It
   leaves when it has not caught up for ``replica.lag.time.max.ms``. Both take effect once the controller has stored the
   change.
5. An election begins an epoch at the new leader's log end offset. A follower whose log diverges from the leader's
   truncates it to the point of divergence before it copies more (KIP-101, KIP-279, KIP-595).

This module opens no socket and reads no clock: times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pyconsumer.broker.elections import NO_LEADER
from pyconsumer.broker.log.partition_log import AppendResult, PartitionLog
from pyconsumer.broker.log.producer_state import VerificationGuard
from pyconsumer.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.structs import TopicPartition

__all__ = ["FollowerProgress", "Partition", "ReplicaRead", "Watcher"]


#: Called with the number of bytes by which the high watermark has moved. -1 means "check again": leadership or the log
#: start offset has changed.
Watcher = Callable[[int], None]


class FollowerProgress:
    """The progress of a follower, as its leader knows it.

    Attributes:
        log_end_offset, log_start_offset: offsets of the follower's log. -1 before its first fetch.
        caught_up_at: the time (monotonic seconds) at which it last had all records of the leader.
    """

    __slots__ = ("_asked_at", "_leader_end", "caught_up_at", "log_end_offset", "log_start_offset")

    def __init__(self, now: float) -> None:
        self.log_end_offset = self.log_start_offset = -1
        self.caught_up_at = now
        self._asked_at = now
        self._leader_end = -1

    def update(self, log_end_offset: int, log_start_offset: int, leader_end: int, now: float) -> None:
        """Record that the follower has fetched from its log end offset.

        At that time the leader's log ended at ``leader_end``.
        """
        if log_end_offset >= leader_end:
            self.caught_up_at = now
        elif 0 <= self._leader_end <= log_end_offset:
            # It has everything that the leader had at its last fetch: a follower of a busy leader never quite reaches
            # the end.
            self.caught_up_at = max(self.caught_up_at, self._asked_at)
        self.log_end_offset, self.log_start_offset = log_end_offset, log_start_offset
        self._asked_at, self._leader_end = now, leader_end

    def is_caught_up(self, leader_end: int, now: float, lag_s: float) -> bool:
        """Return whether the follower has caught up, now or within the last ``lag_s`` seconds."""
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_s


class ReplicaRead(NamedTuple):
    """A leader's response to a follower: batches, and the bounds of the leader's log.

    ``diverging`` is set if the follower's log diverges from the leader's. It is an epoch and its end offset in the
    leader's log. The follower must truncate its log before it fetches again. The other fields have no meaning then.
    """

    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None


class Partition:
    """A replica of a partition on one broker. ``log`` stays the same when the leader changes.

    Attributes:
        leader: node id of the leader, or -1. Every election raises ``leader_epoch``.
        replicas, isr: the node ids of all replicas, and of those that are in sync.
        high_watermark: the offset up to which consumers may read.
        epoch_start: on the leader, the offset at which its epoch began.
        on_progress: on the leader, called when there is news for followers. The argument is the node that knows the
            news already, or -1.
        on_isr: on the leader, called with the ISR that the leader proposes (rule 4).
    """

    def __init__(
        self,
        node_id: int,
        tp: TopicPartition,
        topic_id: bytes,
        log: PartitionLog,
        *,
        on_isr: Callable[[Partition, tuple[int, ...]], None] | None = None,
    ) -> None:
        self.node_id = node_id
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.high_watermark = log.log_start_offset
        self.epoch_start = -1
        self.followers: dict[int, FollowerProgress] = {}
        self.on_progress: Callable[[Partition, int], None] | None = None
        self.on_isr = on_isr
        self._in_sync: list[FollowerProgress] = []
        #: The end offsets and sizes in bytes of the appends that the high watermark has not passed yet.
        self._waiting: deque[tuple[int, int]] = deque()
        #: Appends before this offset were not recorded there.
        self._noted_from = log.log_end_offset
        #: In order: appends end in the order in which they were made.
        self._watchers: dict[Watcher, None] = {}

    def notify_followers(self, on_progress: Callable[[Partition, int], None]) -> None:
        """Set a function that is called on the leader whenever there is news for followers."""
        self.on_progress = on_progress

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def last_stable_offset(self) -> int:
        """Return the offset up to which ``read_committed`` consumers may read.

        It is the first offset of a transaction that is open, or whose marker is at or after the high watermark. If
        there is no such transaction, it is the high watermark (KIP-98).
        """
        first = self.log.producers.first_unstable_offset
        if first < 0:
            return self.high_watermark
        return min(self.high_watermark, max(first, self.log.log_start_offset))

    # --- who leads

    def lead(
        self, leader: int, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], now: float = 0.0
    ) -> None:
        """Apply a decision of the controller: a new leader epoch, or other replicas in sync.

        Args:
            now: monotonic seconds. From this time on, followers have ``replica.lag.time.max.ms`` to fetch.
        """
        new_epoch = leader_epoch != self.leader_epoch
        self.leader, self.leader_epoch, self.replicas, self.isr = leader, leader_epoch, replicas, isr
        if not self.is_leader:
            self.followers, self._in_sync = {}, []
            if new_epoch:
                self._notify(-1)
            return
        if new_epoch:
            self.epoch_start = self.log.log_end_offset
            self.log.epochs.assign(leader_epoch, self.epoch_start, write=False)
            self.followers = {node: FollowerProgress(now) for node in replicas if node != self.node_id}
            self._notify(-1)  # records of an earlier epoch are not acknowledged by this one
        self._in_sync = [progress for node, progress in self.followers.items() if node in isr]
        self._advance()
        if self.on_progress is not None:
            self.on_progress(self, -1)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Check that this broker leads the partition, in the epoch that the client knows (KIP-320).

        -1 matches any epoch.

        Raises:
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError: the check failed.
        """
        self.check_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise NotLeaderOrFollowerError(f"{self.tp} is led by node {self.leader}")

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Check that the client knows the present leader epoch, whoever the leader is. -1 matches any epoch.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: the client knows an older or a newer epoch.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self.tp} is in leader epoch {self.leader_epoch}")
            raise UnknownLeaderEpochError(f"{self.tp} is in leader epoch {self.leader_epoch}")

    # --- as the leader

    @property
    def min_isr(self) -> int:
        """Return how many replicas must be in sync.

        It is ``min.insync.replicas``, or the number of replicas if that is less.
        """
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def append(
        self,
        records: Buffer,
        *,
        acks: int = -1,
        from_client: bool = True,
        guard: VerificationGuard | None = None,
        verify: bool = False,
    ) -> AppendResult:
        """Append batches as the leader.

        Args:
            acks: with -1, ``min.insync.replicas`` replicas must be in sync.
            from_client, guard, verify: see :meth:`PartitionLog.append`.

        Raises:
            NotEnoughReplicasError: too few replicas are in sync.
            KafkaError, OSError: see :meth:`PartitionLog.append`. If only the flush fails (``flush.messages``), the
                records stay in the log.
        """
        if acks == -1:
            self._check_isr()
        result = self.log.append(records, self.leader_epoch, from_client=from_client, guard=guard, verify=verify)
        if result.size_bytes:
            self._after_append(result)
        return result

    def append_marker(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, transaction_version: int
    ) -> AppendResult:
        """Append the marker that ends a transaction.

        Arguments and errors are those of :meth:`PartitionLog.append_marker`.

        Raises:
            NotEnoughReplicasError: too few replicas are in sync.
        """
        self._check_isr()
        result = self.log.append_marker(
            producer_id,
            producer_epoch,
            self.leader_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        self._after_append(result)
        return result

    def _check_isr(self) -> None:
        wanted = self.log.config.min_insync_replicas
        if len(self.isr) < wanted and len(self.isr) < len(self.replicas):
            raise NotEnoughReplicasError(
                f"{self.tp} has {len(self.isr)} replicas in sync, and min.insync.replicas is {wanted}"
            )

    def _after_append(self, result: AppendResult) -> None:
        if len(self.replicas) == 1:
            self.high_watermark = result.last_offset + 1
            self.log.producers.on_high_watermark(self.high_watermark)
            self._notify(result.size_bytes)
        else:
            self._waiting.append((result.last_offset + 1, result.size_bytes))
            self._advance()
            if self.on_progress is not None:
                self.on_progress(self, -1)
        self.log.flush_if_many()

    def replicated(self, end_offset: int, leader_epoch: int) -> int | None:
        """Return whether an append is acknowledged (rule 3).

        The append was made in epoch ``leader_epoch`` and ends at ``end_offset``.

        Returns:
            None: not yet. 0: it is acknowledged. Otherwise an error code: NOT_LEADER_OR_FOLLOWER if that epoch has
                ended, NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas are still in sync.
        """
        if self.leader != self.node_id or self.leader_epoch != leader_epoch:
            return NotLeaderOrFollowerError.errno
        if self.high_watermark < end_offset:
            return None
        return 0 if len(self.isr) >= self.min_isr else NotEnoughReplicasAfterAppendError.errno

    def _advance(self) -> bool:
        """Raise the leader's high watermark as far as rule 2 allows. Return whether it has moved."""
        end = self.log.log_end_offset
        if len(self.replicas) > 1:
            if len(self.isr) < self.min_isr:
                return False
            for progress in self._in_sync:
                if progress.log_end_offset < end:
                    end = progress.log_end_offset
        return self._raise_high_watermark(end)

    def _raise_high_watermark(self, offset: int) -> bool:
        before, size, waiting = self.high_watermark, 0, self._waiting
        if offset <= before:
            return False
        self.high_watermark = offset
        self.log.producers.on_high_watermark(offset)
        if before < self._noted_from:
            size = -1  # part of it was appended before this broker began to count
        while waiting and waiting[0][0] <= offset:
            added = waiting.popleft()[1]
            size = size + added if size >= 0 else -1
        self._notify(size)
        return True

    def read_for_follower(
        self,
        node_id: int,
        offset: int,
        *,
        leader_epoch: int,
        last_epoch: int,
        log_start_offset: int,
        max_bytes: int,
        now: float,
    ) -> ReplicaRead:
        """Return batches for a follower, and record its progress. ``offset`` is the follower's log end offset.

        Args:
            leader_epoch: the leader epoch that the follower knows.
            last_epoch: the epoch of the follower's last batch. -1 if its log is empty.
            log_start_offset: the start offset of the follower's log.

        Raises:
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError: see :meth:`check_leader`. Also
                raised if the node has no replica of the partition.
            OffsetOutOfRangeError: ``offset`` is not in this log.
            OSError: the disk could not be read.
        """
        self.check_leader(leader_epoch)
        progress = self.followers.get(node_id)
        if progress is None:
            raise NotLeaderOrFollowerError(f"node {node_id} has no replica of {self.tp}")
        if last_epoch >= 0:
            diverging = self.diverging(last_epoch, offset)
            if diverging is not None:
                return ReplicaRead(diverging=diverging)
        end = self.log.log_end_offset
        records = self.log.read(offset, max_bytes, end, at_least_one=True)
        moved_start = log_start_offset != progress.log_start_offset
        progress.update(offset, log_start_offset, end, now)
        if moved_start:
            self._notify(0)
        if node_id in self.isr:
            if self._advance() and self.on_progress is not None:
                self.on_progress(self, node_id)  # this node gets the high watermark with the response
        elif offset >= self.high_watermark and offset >= self.epoch_start and self.on_isr is not None:
            self.on_isr(self, (*self.isr, node_id))
        return ReplicaRead(records, self.high_watermark, self.log.log_start_offset)

    def diverging(self, last_epoch: int, end_offset: int) -> tuple[int, int] | None:
        """Find where another log diverges from this one.

        Its last batch before ``end_offset`` has the epoch ``last_epoch``.

        Returns:
            The greatest epoch that both logs may have, and its end offset in this log. None if the logs do not diverge.

        Raises:
            OffsetOutOfRangeError: this log does not know the epoch.
        """
        epoch, end = self.log.epochs.end_offset(last_epoch, self.log.log_end_offset)
        if end < 0:
            raise OffsetOutOfRangeError(f"leader epoch {last_epoch} is not known")
        if epoch < last_epoch or end < end_offset:
            return epoch, end
        return None

    def lagging(self, now: float, lag_s: float) -> tuple[int, ...]:
        """Return the in-sync followers that have not caught up for more than ``lag_s`` seconds (rule 4)."""
        end = self.log.log_end_offset
        return tuple(
            node
            for node, progress in self.followers.items()
            if node in self.isr and not progress.is_caught_up(end, now, lag_s)
        )

    def start_at(self, offset: int) -> None:
        """Raise the log start offset, as the leader. ``offset`` must not be above the high watermark."""
        self.log.advance_log_start_offset(offset)
        if self.on_progress is not None:
            self.on_progress(self, -1)

    def starts_everywhere_at(self, offset: int) -> bool:
        """Return whether all in-sync replicas have raised their log start offset at least to ``offset``."""
        return self.log.log_start_offset >= offset and all(
            progress.log_start_offset >= offset for progress in self._in_sync
        )

    # --- as a follower

    def append_from_leader(self, records: Buffer) -> int:
        """Append batches of the leader, and return their size.

        Errors are those of :meth:`PartitionLog.append_as_follower`.
        """
        size = self.log.append_as_follower(records)
        if size:
            self._waiting.append((self.log.log_end_offset, size))
            self.log.flush_if_many()
        return size

    def follow(self, high_watermark: int, log_start_offset: int) -> None:
        """Adopt the leader's high watermark and log start offset. Neither can be above the end of this log."""
        end = self.log.log_end_offset
        self._raise_high_watermark(min(high_watermark, end))
        if log_start_offset > self.log.log_start_offset:
            self.log.advance_log_start_offset(min(log_start_offset, end))
            self._raise_high_watermark(self.log.log_start_offset)

    def truncate_to_divergence(self, epoch: int, end_offset: int) -> None:
        """Truncate the log where it diverges from the leader's log (rule 5).

        ``end_offset`` is the end offset of ``epoch`` in the leader's log.
        """
        end = self.log.log_end_offset
        _, own_end = self.log.epochs.end_offset(epoch, end)
        self.truncate_to(min(end_offset, end if own_end < 0 else own_end))

    def truncate_to(self, offset: int) -> None:
        """Truncate the log, so that it ends at ``offset`` or earlier."""
        self.log.truncate_to(offset)
        self._after_cut()

    def restart_at(self, offset: int) -> None:
        """Remove all records, because the leader's log starts at ``offset``."""
        self.log.restart_at(offset)
        self._after_cut()

    def _after_cut(self) -> None:
        self._waiting.clear()
        self._noted_from = self.log.log_end_offset
        self.begin_at(self.high_watermark)

    def begin_at(self, high_watermark: int) -> None:
        """Set the high watermark at the start, or after a truncation, if no other is known yet.

        It stays within the log.
        """
        self.high_watermark = min(max(high_watermark, self.log.log_start_offset), self.log.log_end_offset)
        self.log.producers.on_high_watermark(self.high_watermark)

    # --- waiting requests

    def close(self) -> None:
        """Let waiting requests check again, because the partition no longer exists."""
        self.leader = NO_LEADER
        self._notify(-1)

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` whenever the high watermark moves.

        Watchers are called in the order in which they were added.
        """
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def _notify(self, size_bytes: int) -> None:
        if self._watchers:
            for watcher in tuple(self._watchers):
                watcher(size_bytes)
