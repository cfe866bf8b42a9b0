"""The next step of one member from the partitions that it has to those of the target assignment (KIP-848).

Rules
-----
1. What it has and is not meant to have any more it must give up first. Until it has said so it stays in its epoch
   (UNREVOKED_PARTITIONS), and nobody else gets those partitions.
2. Only then does it move to the epoch of the target assignment, with the partitions that nobody holds. If others still
   hold some of its target it is UNRELEASED_PARTITIONS, and gets them in later heartbeats as they are released.
3. A partition is held as long as some member has it assigned or pending revocation. A member confirms a revocation by
   a heartbeat whose owned partitions do not contain it; one that does not say what it owns confirms nothing.
4. If its own subscription has changed, partitions of topics that it does not subscribe to any more are taken away at
   once, also where the target assignment is not computed again yet.
5. A partition is stamped with the epoch of the target assignment in which it came, so that commits of a member that is
   behind in epochs, for partitions that it had all along, can be distinguished from those of a zombie (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyconsumer.broker.group.consumer.member import Assignment, ConsumerGroupMember, MemberState, Target
from pyconsumer.errors import FencedMemberEpochError

__all__ = ["OwnedPartitions", "next_assignment"]

#: What a heartbeat says that the member owns; None if it does not say.
OwnedPartitions = Sequence[tuple[bytes, Sequence[int]]] | None


def next_assignment(
    member: ConsumerGroupMember,
    *,
    epoch: int,
    target: Target,
    subscribed: Collection[bytes],
    is_free: Callable[[bytes, int], bool],
    owned: OwnedPartitions,
    subscription_changed: bool = False,
) -> ConsumerGroupMember:
    """Return the member after its next step; the same one if there is none.

    Args:
        epoch, target: the target assignment.
        subscribed: ids of the topics that it subscribes to.
        is_free: says whether no member holds a partition.
        owned: partitions that it says it has.
        subscription_changed: since its last heartbeat.

    Raises:
        FencedMemberEpochError: its state is not known, and it has not abandoned its partitions.
    """
    if member.state is MemberState.STABLE and member.member_epoch == epoch:
        return _drop_unsubscribed(member, subscribed, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _drop_unsubscribed(member, subscribed, owned) if subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise FencedMemberEpochError(
                "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                "rejoin."
            )
        return _reconcile(member, epoch, epoch, target, subscribed, is_free, owned)
    return _reconcile(member, member.member_epoch, epoch, target, subscribed, is_free, owned)


def _owns_any(owned: OwnedPartitions, partitions: Assignment) -> bool:
    """Return whether the member still has one of the partitions, or does not say."""
    if owned is None:
        return True
    return any(index in partitions.get(topic_id, ()) for topic_id, indexes in owned for index in indexes)


def _drop_unsubscribed(
    member: ConsumerGroupMember, subscribed: Collection[bytes], owned: OwnedPartitions
) -> ConsumerGroupMember:
    kept = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in subscribed}
    if len(kept) == len(member.assigned):
        nothing = not subscribed and not kept and not member.pending_revocation
        return member.with_member_epoch(member.member_epoch) if nothing else member  # as Kafka, which looks no further
    pending: dict[bytes, Mapping[int, int]] = dict(member.pending_revocation)
    for topic_id, partitions in member.assigned.items():
        if topic_id not in kept:
            pending[topic_id] = {**pending.get(topic_id, {}), **partitions}
    if _owns_any(owned, pending):
        return member.with_member_epoch(
            member.member_epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=pending
        )
    return member.with_member_epoch(member.member_epoch, assigned=kept)


def _reconcile(
    member: ConsumerGroupMember,
    member_epoch: int,
    epoch: int,
    target: Target,
    subscribed: Collection[bytes],
    is_free: Callable[[bytes, int], bool],
    owned: OwnedPartitions,
) -> ConsumerGroupMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, list[int]] = {}
    unreleased = False
    for topic_id in dict.fromkeys([*target, *member.assigned]):
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        keeps = {partition: since for partition, since in has.items() if partition in wanted}
        gives_up = {partition: since for partition, since in has.items() if partition not in wanted}
        releasing = member.pending_revocation.get(topic_id, {})
        missing = sorted(wanted - keeps.keys())
        free = [partition for partition in missing if partition in releasing or is_free(topic_id, partition)]
        unreleased = unreleased or len(free) < len(missing)
        if keeps:
            assigned[topic_id] = keeps
        if gives_up:
            revoked[topic_id] = gives_up
        if free:
            added[topic_id] = free
    if revoked and _owns_any(owned, revoked):
        return member.with_member_epoch(
            member_epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, pending_revocation=revoked
        )
    for topic_id, partitions in added.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.with_member_epoch(epoch, state=state, assigned=assigned, pending_revocation={})
