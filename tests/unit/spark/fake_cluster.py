"""A fake cluster for planning, with logs that grow, shrink, come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyconsumer.errors import UnknownTopicOrPartitionError
from pyconsumer.spark.subscription import Subscription
from pyconsumer.structs import TopicPartition

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))


class FakeCluster:
    """Responses of a cluster.

    Attributes:
        logs: first offset and end of each partition. At offset n the timestamp is 100 n.
        asked: the timestamps of each call of ``offsets``.
        groups: committed offsets of groups.
        bytes_each: bytes per offset.
        listed: how often partitions were listed.
        missing_ok: whether topics might be missing the last time.
        stale: ends that the next calls return in place of the true ones.
    """

    def __init__(self, **ends: int) -> None:
        self.logs = {TopicPartition("a", int(name[1:])): (0, end) for name, end in ends.items()}
        self.asked: list[dict[TopicPartition, int]] = []
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.bytes_each: dict[TopicPartition, float] = {}
        self.listed = 0
        self.missing_ok: bool | None = None
        self.stale: list[dict[TopicPartition, int]] = []

    def partitions(self, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
        self.listed += 1
        self.missing_ok = missing_ok
        return sorted(self.logs)

    def offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.asked.append(dict(timestamps))
        for tp in timestamps.keys() - self.logs.keys():
            raise UnknownTopicOrPartitionError(str(tp))
        stale = self.stale.pop(0) if self.stale and -1 in timestamps.values() else {}
        return {tp: stale.get(tp, self._offset(tp, timestamp)) for tp, timestamp in timestamps.items()}

    def _offset(self, tp: TopicPartition, timestamp: int) -> int | None:
        start, end = self.logs[tp]
        if timestamp < 0:
            return end if timestamp == -1 else start
        return next((offset for offset in range(start, end) if offset * 100 >= timestamp), None)

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = self.groups.get(group_id, {})
        return {tp: known[tp] for tp in partitions if tp in known}

    def bytes_per_offset(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        return {tp: self.bytes_each[tp] for tp in positions if tp in self.bytes_each}
