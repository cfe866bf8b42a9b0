"""The assignor ``simple`` of share groups (KIP-932). Functions without state.

1. Each partition has as many members as it takes to give each member something: the number of members by the number of
   partitions, rounded up.
2. The numbers of partitions of any two members differ by one at most.
3. Members keep what they have, as far as that allows. If members have different subscriptions, each topic is divided
   among its own subscribers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyconsumer.broker.group.consumer.member import Target

__all__ = ["assign"]

_Partition = tuple[bytes, int]


def assign(
    subscriptions: Mapping[str, Sequence[bytes]],
    assignable: Mapping[bytes, Iterable[int]],
    before: Mapping[str, Target],
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the partitions of each member.

    Args:
        subscriptions: the ids of the topics to which each member subscribes.
        assignable: the partitions of each topic that can be assigned.
        before: the last targets.
    """
    found: dict[str, set[_Partition]] = {member: set() for member in subscriptions}
    kinds = {frozenset(topics) for topics in subscriptions.values()}
    if len(kinds) == 1:
        everything = [
            (topic, index) for topic in sorted(next(iter(kinds))) for index in sorted(assignable.get(topic, ()))
        ]
        _divide(everything, list(subscriptions), before, found)
    else:
        for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
            members = [member for member, topics in subscriptions.items() if topic in topics]
            _divide([(topic, index) for index in sorted(assignable.get(topic, ()))], members, before, found)
    targets: dict[str, dict[bytes, frozenset[int]]] = {}
    for member, partitions in found.items():
        by_topic: dict[bytes, set[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, set()).add(index)
        targets[member] = {topic: frozenset(indexes) for topic, indexes in sorted(by_topic.items())}
    return targets


def _divide(
    partitions: Sequence[_Partition],
    members: Sequence[str],
    before: Mapping[str, Target],
    found: Mapping[str, set[_Partition]],
) -> None:
    """Divide partitions among members, and add them to what was found."""
    if not partitions or not members:
        return
    sharing = -(-len(members) // len(partitions))
    total = sharing * len(partitions)
    room = {
        member: -(-total * (number + 1) // len(members)) + (-total * number // len(members))
        for number, member in enumerate(members)
    }
    holders: dict[_Partition, set[str]] = {partition: set() for partition in partitions}
    for member in members:
        for topic, indexes in before.get(member, {}).items():
            for index in sorted(indexes):
                held = holders.get((topic, index))
                if held is not None and len(held) < sharing and room[member] > 0:
                    held.add(member)
                    found[member].add((topic, index))
                    room[member] -= 1
    for partition in sorted(partitions, key=lambda one: len(holders[one])):
        held = holders[partition]
        while len(held) < sharing:
            free = [member for member in members if room[member] > 0 and member not in held]
            if not free:
                break
            member = max(free, key=lambda one: room[one])
            held.add(member)
            found[member].add(partition)
            room[member] -= 1
