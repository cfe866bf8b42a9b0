"""Reconciliation: a member's next step from its present partitions to its target (KIP-848).

Pure functions on :class:`ConsumerGroupMember` values. The caller writes the record of the new one.

Rules
-----
1. A member first revokes the partitions that are not in its target. Until it has confirmed that, it stays in its epoch
   (UNREVOKED_PARTITIONS), and no other member gets those partitions.
2. Then it moves to the epoch of the target assignment, with the partitions that no member holds. While others hold some
   of its target it is UNRELEASED_PARTITIONS, and gets those in later heartbeats, as they are released.
3. A member holds a partition as long as it is assigned or pending revocation. A member confirms a revocation by a
   heartbeat whose owned partitions do not contain the partition. A heartbeat without owned partitions confirms none.
4. If a member's own subscription has changed, partitions of topics that it no longer subscribes to are revoked at once,
   even if the target assignment has not been computed again.
5. Each partition has the epoch of the target assignment in which it was assigned to the member. By that, late commits
   of a member for partitions that it had all along are distinguished from those of a zombie (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyconsumer.broker.group.consumer.member import Assignment, ConsumerGroupMember, MemberState, Target
from pyconsumer.errors import FencedMemberEpochError

__all__ = ["OwnedPartitions", "next_assignment"]

#: The owned partitions in a heartbeat, by topic id; None if it does not have them.
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
    """Return the member after its next step towards its target. If there is no step, return the same object.

    Args:
        epoch, target: the epoch of the target assignment, and the member's part of the assignment.
        subscribed: ids of the topics to which the member is subscribed.
        is_free: returns whether a partition is held by no member.
        owned: the partitions that the member reports as its own.
        subscription_changed: True if the subscription has changed since the member's last heartbeat.

    Raises:
        FencedMemberEpochError: the member's state is UNKNOWN, and the member has not confirmed that it owns no
            partition.
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
    """Return whether the member may still own one of the partitions."""
    if owned is None:
        return True
    return any(index in partitions.get(topic_id, ()) for topic_id, indexes in owned for index in indexes)


def _drop_unsubscribed(
    member: ConsumerGroupMember, subscribed: Collection[bytes], owned: OwnedPartitions
) -> ConsumerGroupMember:
    kept = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in subscribed}
    if len(kept) == len(member.assigned):
        has_nothing = not subscribed and not kept and not member.pending_revocation
        # As in Kafka, the previous epoch of a member that has nothing becomes the present one.
        return member.with_member_epoch(member.member_epoch) if has_nothing else member
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
        kept = {partition: since for partition, since in has.items() if partition in wanted}
        to_revoke = {partition: since for partition, since in has.items() if partition not in wanted}
        revoking = member.pending_revocation.get(topic_id, {})
        missing = sorted(wanted - kept.keys())
        free = [partition for partition in missing if partition in revoking or is_free(topic_id, partition)]
        unreleased = unreleased or len(free) < len(missing)
        if kept:
            assigned[topic_id] = kept
        if to_revoke:
            revoked[topic_id] = to_revoke
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
