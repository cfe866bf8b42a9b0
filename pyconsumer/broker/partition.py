"""One replica of a partition on one broker: its log, who leads it, and what of it may be read.

The leader's high watermark is the least log end offset of the in-sync replicas. Consumers read up to it, and whoever
waits for data is told when it moves.
"""

from __future__ import annotations

from collections.abc import Callable

from pyconsumer.broker.log.partition_log import AppendResult, PartitionLog
from pyconsumer.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from pyconsumer.structs import TopicPartition

__all__ = ["Partition", "Watcher"]

#: Called when the high watermark has moved, with the number of bytes by which; -1 if leadership was lost.
Watcher = Callable[[int], None]


class Partition:
    """A replica. ``log`` outlives changes of leadership.

    Attributes:
        leader: node id, -1 without a leader; ``leader_epoch``: raised by every election.
        replicas, isr: node ids; the in-sync ones among them.
        high_watermark: offset up to which consumers may read.
    """

    def __init__(self, node_id: int, tp: TopicPartition, topic_id: bytes, log: PartitionLog) -> None:
        self.node_id = node_id
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.leader = -1
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.high_watermark = log.log_start_offset
        self._end_offsets: dict[int, int] = {}
        self._watchers: set[Watcher] = set()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or the high watermark."""
        return self.high_watermark

    def lead(self, leader: int, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """Take in who leads; if it is this broker, its epoch begins at the log end offset."""
        self.leader, self.leader_epoch, self.replicas, self.isr = leader, leader_epoch, replicas, isr
        self._end_offsets = {node: -1 for node in isr if node != self.node_id}
        if self.is_leader:
            self.log.epochs.assign(leader_epoch, self.log.log_end_offset)
            self.advance_high_watermark(0)
        else:
            self._tell(-1)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads, in the epoch that a client believes in (-1: it does not say; KIP-320).

        Raises:
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError: it does not.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self.tp} is in leader epoch {self.leader_epoch}")
            raise UnknownLeaderEpochError(f"{self.tp} is in leader epoch {self.leader_epoch}")
        if self.leader != self.node_id:
            raise NotLeaderOrFollowerError(f"{self.tp} is led by node {self.leader}")

    def append(
        self, records: bytes | bytearray | memoryview, *, acks: int = -1, from_client: bool = True
    ) -> AppendResult:
        """Append as the leader.

        Args:
            acks: -1 demands ``min.insync.replicas``.

        Raises:
            NotEnoughReplicasError: too few replicas are in sync.
            KafkaError, OSError: see :meth:`PartitionLog.append`.
        """
        if acks == -1 and len(self.isr) < self.log.config.min_insync_replicas:
            raise NotEnoughReplicasError(
                f"{self.tp} has {len(self.isr)} replicas in sync, and min.insync.replicas is"
                f" {self.log.config.min_insync_replicas}"
            )
        result = self.log.append(records, self.leader_epoch, from_client=from_client)
        if result.size_bytes:
            self.advance_high_watermark(result.size_bytes)
        return result

    def advance_high_watermark(self, size_bytes: int) -> None:
        """Move the high watermark to where all in-sync replicas are, and tell whoever waits."""
        end = self.log.log_end_offset
        if self._end_offsets:
            end = min(end, *self._end_offsets.values())
        if end > self.high_watermark:
            self.high_watermark = end
            self._tell(size_bytes)

    def close(self) -> None:
        """Let whoever waits look again: the partition is gone."""
        self.leader = -1
        self._tell(-1)

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` whenever the high watermark moves."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def _tell(self, size_bytes: int) -> None:
        if self._watchers:
            for watcher in tuple(self._watchers):
                watcher(size_bytes)
