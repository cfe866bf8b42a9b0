"""Replication: followers fetch from leaders and append the batches.

Followers do not poll: a leader wakes them when it has news, and they fetch until they have everything. All partitions
of a broker take turns, a piece at a time, so that a broker that is far behind after a restart does not delay the
others' clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import KafkaError, NotLeaderOrFollowerError, OffsetOutOfRangeError
from pyconsumer.structs import TopicPartition

__all__ = ["ReplicaFetcher"]

_log = Log(__name__)

#: Bytes that are copied in one turn, before other work runs.
_BYTES_AT_A_TIME: Final = 4 << 20
#: The pause of a partition after an error.
_BACKOFF_S: Final = 1.0


class Leader(Protocol):
    """A broker from which followers fetch."""

    @property
    def node_id(self) -> int: ...
    def partition(self, topic: str, partition: int) -> Partition: ...
    def propose_isrs(self) -> None: ...


class ReplicaFetcher:
    """Copies records from leaders to the followers on one broker.

    Args:
        peer: returns the broker with a node id, or None if it is not alive.
        call_soon: runs a function after the current call.
        max_bytes: the most bytes of one partition in a fetch (``replica.fetch.max.bytes``).
        write_log_starts: called after log start offsets were set to those of the leaders. It stores them, so that
            deleted records cannot become readable again after a crash.
    """

    def __init__(
        self,
        node_id: int,
        partitions: Mapping[TopicPartition, Partition],
        peer: Callable[[int], Leader | None],
        *,
        clock: Clock,
        timer: Timer,
        call_soon: Callable[[Callable[[], None]], None],
        max_bytes: int,
        write_log_starts: Callable[[], None],
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._peer = peer
        self._clock = clock
        self._timer = timer
        self._call_soon = call_soon
        self._max_bytes = max_bytes
        self._write_log_starts = write_log_starts
        self._starts_moved = False
        self._wanted: dict[TopicPartition, None] = {}
        self._scheduled = False
        self._paused = False
        self._stopped = False

    @property
    def paused(self) -> bool:
        """Return whether replication is paused."""
        return self._paused

    def pause(self) -> None:
        """Stop copying until :meth:`resume`. This is like a slow broker, or a broken network."""
        self._paused = True

    def resume(self) -> None:
        """Continue copying for all partitions."""
        self._paused = False
        self._look_again()

    def stop(self) -> None:
        """Stop copying."""
        self._stopped = True
        self._wanted.clear()

    def wake(self, tp: TopicPartition) -> None:
        """Fetch for this replica soon, because its leader may have news."""
        if not self._stopped:
            self._wanted[tp] = None
            if not self._scheduled:
                self._schedule()

    def _schedule(self) -> None:
        if self._wanted and not (self._paused or self._scheduled or self._stopped):
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._paused:
            return
        room = _BYTES_AT_A_TIME
        leaders: dict[int, Leader] = {}
        for tp in list(self._wanted):
            if room <= 0:
                break
            del self._wanted[tp]
            partition = self._partitions.get(tp)
            leader = None if partition is None or partition.is_leader else self._peer(partition.leader)
            if partition is None or leader is None:
                continue  # it is woken when there is a leader
            leaders[leader.node_id] = leader
            try:
                copied, complete = self._copy(partition, leader, min(room, self._max_bytes))
            except (KafkaError, OSError) as error:
                # A new topic may be open here before it is on its leader.
                level = logging.DEBUG if isinstance(error, NotLeaderOrFollowerError) else logging.WARNING
                _log.log(level, "node %d cannot follow %s: %s", self._node_id, tp, error)
                self._timer.schedule(self._clock.now() + _BACKOFF_S, lambda tp=tp: self.wake(tp))  # type: ignore[misc]
                continue
            room -= copied
            if not complete:
                self._wanted[tp] = None
        try:
            for leader in leaders.values():
                leader.propose_isrs()
            if self._starts_moved:
                self._write_log_starts()
                self._starts_moved = False
        except OSError as error:
            _log.warning("node %d: log start offsets cannot be written: %s", self._node_id, error)
            self._timer.schedule(self._clock.now() + _BACKOFF_S, self._look_again)
        self._schedule()

    def _look_again(self) -> None:
        for tp in self._partitions:
            self.wake(tp)

    def _copy(self, partition: Partition, leader: Leader, max_bytes: int) -> tuple[int, bool]:
        """Copy one piece. Return its size in bytes, and whether the replica has everything now."""
        source = leader.partition(partition.tp.topic, partition.tp.partition)
        copied = 0
        while True:
            log = partition.log
            try:
                read = source.read_for_follower(
                    self._node_id,
                    log.log_end_offset,
                    leader_epoch=partition.leader_epoch,
                    last_epoch=log.epochs.latest,
                    log_start_offset=log.log_start_offset,
                    max_bytes=max_bytes,
                    now=self._clock.now(),
                )
            except OffsetOutOfRangeError:
                self._move_into_range(partition, source)
                continue
            if read.diverging is not None:
                before, last_epoch = log.log_end_offset, log.epochs.latest
                partition.truncate_to_divergence(*read.diverging)
                if (log.log_end_offset, log.epochs.latest) == (before, last_epoch):
                    raise KafkaError(
                        f"its log diverges from the leader's at {read.diverging}, but cannot be truncated there"
                    )
                if log.log_end_offset < before:
                    _log.info(
                        "node %d: %s diverges from its leader's log: truncated from offset %d to %d",
                        self._node_id,
                        partition.tp,
                        before,
                        log.log_end_offset,
                    )
                continue
            size = partition.append_from_leader(read.records) if read.records else 0
            start = log.log_start_offset
            partition.follow(read.high_watermark, read.log_start_offset)
            if log.log_start_offset != start:
                self._starts_moved = True
            elif not size:
                return copied, True
            copied += size
            if copied >= max_bytes:
                return copied, False

    def _move_into_range(self, partition: Partition, source: Partition) -> None:
        """Continue within the leader's log, which begins after the end of this one, or is shorter."""
        start, end = source.log.log_start_offset, source.log.log_end_offset
        before = partition.log.log_end_offset
        if before < start:
            partition.restart_at(start)
        elif before > end:
            partition.truncate_to(end)
        else:
            raise KafkaError(f"offset {before} is out of range, but the leader's log goes from {start} to {end}")
        _log.info(
            "node %d: %s ended at offset %d, outside of its leader's log (%d to %d)",
            self._node_id,
            partition.tp,
            before,
            start,
            end,
        )
