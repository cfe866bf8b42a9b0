"""The sticky assignor of eager rebalancing: shares as even as subscriptions allow, with as few moves as possible.

Members give up all partitions when a rebalance begins. So each sends its last share as user data, and the leader starts
from those. It is the algorithm of Kafka 2.0 for all groups, with sorted order where that one follows a
hash map, and a partition that two members claim stays with one of them. (Since 2.6 Java uses another algorithm if
subscriptions are equal: its shares are just as even, but other partitions may move.)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyconsumer.assignors.balance import Balancer
from pyconsumer.assignors.base import Assignment, Assignor, ClusterView, Subscription, member_order, subscribed_topics
from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.schema import INT32, STRING, Message, Struct, array, field, message, structure
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition

__all__ = ["StickyAssignor"]

_NONE = -1  # "no generation"


@structure
class _TopicAssignment(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(-1, "data", versions="0-1", flexible="none")
class _UserData(Message):
    previous_assignment: list[_TopicAssignment] = array(_TopicAssignment, "0+", factory=list)
    generation: int = field(INT32, "1+", default=_NONE)


class _Previous(NamedTuple):
    """Partitions that a member had, and the generation of that assignment."""

    partitions: Sequence[TopicPartition]
    generation: int


class StickyAssignor(Assignor):
    """Java's ``StickyAssignor``. Its results are those of Kafka 2.0. Its user data is that of Kafka 2.3 and later."""

    def __init__(self) -> None:
        self._previous: _Previous | None = None

    @property
    def name(self) -> str:
        return "sticky"

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the member's last share, by topic, and its generation. Return None before the first assignment."""
        return None if self._previous is None else _encode(self._previous)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._previous = _Previous(assignment.partitions, metadata.generation_id)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        known = subscribed_topics(cluster, subscriptions)
        counts = {topic: len(partitions) for topic, partitions in known.items()}
        if not subscriptions:
            return {}
        topics = {
            member: {topic for topic in subscriptions[member].topics if topic in counts}
            for member in sorted(subscriptions, key=member_order)
        }
        previous = {member: _decode(subscriptions[member].user_data) for member in topics}
        claimed = _one_owner_each(previous, counts)
        fresh = all(before is None for before in previous.values())
        shares = {member: [p for p in share if p.topic in topics[member]] for member, share in claimed.items()}
        balancer = Balancer(shares, topics, counts, tolerance=0)
        if not fresh and all(mine == counts.keys() for mine in topics.values()):
            order = _largest_first(claimed, counts)
        else:
            order = sorted(_all(counts), key=lambda tp: (balancer.subscribers(tp.topic), *tp))
        initial = balancer.nothing_dealt
        balancer.deal([partition for partition in order if partition not in balancer.owner])
        balancer.balance(order, initial=initial)
        return {member: Assignment(tuple(shares[member])) for member in subscriptions}


def _encode(previous: _Previous) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in previous.partitions:
        by_topic.setdefault(topic, []).append(partition)
    data = _UserData(
        previous_assignment=[_TopicAssignment(topic=topic, partitions=by_topic[topic]) for topic in sorted(by_topic)],
        generation=previous.generation,
    )
    return data.encode(1)


def _decode(data: bytes | None) -> _Previous | None:
    """Decode user data of either version. Unreadable bytes count as an empty share."""
    if not data:
        return None
    for version in (1, 0):
        try:
            read = _UserData.decode(data, version, allow_trailing=True)
        except ProtocolError:
            continue
        return _Previous(
            [TopicPartition(part.topic, number) for part in read.previous_assignment for number in part.partitions],
            read.generation,
        )
    return _Previous((), _NONE)


def _one_owner_each(
    previous: Mapping[str, _Previous | None], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Return each member's existing partitions. Of several owners, the first of the latest generation keeps one."""
    owner: dict[TopicPartition, tuple[int, str]] = {}
    for member, before in previous.items():
        for partition in before.partitions if before is not None else ():
            known = 0 <= partition.partition < counts.get(partition.topic, 0)
            if known and before is not None and (partition not in owner or before.generation > owner[partition][0]):
                owner[partition] = (before.generation, member)
    shares: dict[str, list[TopicPartition]] = {}
    for member, before in previous.items():
        mine = dict.fromkeys(before.partitions) if before is not None else ()
        shares[member] = [p for p in mine if p in owner and owner[p][1] == member]
    return shares


def _all(counts: Mapping[str, int]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic]))


def _largest_first(shares: Mapping[str, Sequence[TopicPartition]], counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return all partitions: each taken from the member with the most left (the last of these), then new ones."""
    members = list(shares)
    heap = [(-len(shares[member]), -place) for place, member in enumerate(members) if shares[member]]
    heapq.heapify(heap)
    order: dict[TopicPartition, None] = {}
    while heap:
        left, place = heap[0]
        share = shares[members[-place]]
        order[share[len(share) + left]] = None
        if left < -1:
            heapq.heapreplace(heap, (left + 1, place))
        else:
            heapq.heappop(heap)
    order.update(dict.fromkeys(_all(counts)))
    return list(order)
