"""Groups whose members wait for one that vanished (``cooperative-sticky-delayed``): real members on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import pytest

from pyconsumer.structs import TopicPartition
from tests.behaviour.group_members import Member, chosen, eventually, fill, join_all, running
from tests.support.cluster import Cluster

MakeTopic = Callable[..., str]
Start = Callable[..., Member]

DELAYED = "cooperative-sticky-delayed"
SESSION_S = 4.0


class Group:
    """Members of one group that read six partitions."""

    def __init__(self, start: Start, cluster: Cluster, topic: str, group_id: str, delay_s: float) -> None:
        self.cluster = cluster
        self.topic = topic
        self.written = 0
        self._start = start
        self._group_id = group_id
        self._delay_ms = round(delay_s * 1000)

    def add(self, instance_id: str | None = None, strategy: Collection[str] | None = (DELAYED,)) -> Member:
        chosen = {} if strategy is None else {"partition_assignment_strategy": list(strategy)}
        return self._start(
            self.cluster,
            self._group_id,
            [self.topic],
            **chosen,
            rebalance_delay_ms=self._delay_ms,
            group_instance_id=instance_id,
            session_timeout_ms=round(SESSION_S * 1000),
        )

    def three(self, *instance_ids: str) -> list[Member]:
        members: list[Member] = []
        for number in range(3):
            members.append(self.add(instance_ids[number] if instance_ids else None))
            join_all(members, 6)
        return members

    def fill(self) -> None:
        fill(self.cluster, self.topic, 60, 6)
        self.written += 60

    def leader(self, members: Collection[Member]) -> Member:
        return next(m for m in members if m.consumer._delegate.coordinator._core.is_leader)  # type: ignore[union-attr]


def same_generation(members: Collection[Member], at_least: int) -> bool:
    generations = {member.generation for member in members}
    return len(generations) == 1 and generations.pop() >= at_least


def unmoved(member: Member, calls: int) -> bool:
    """Return whether no partition was taken from a member since this number of calls of its listener."""
    return all(what == "assigned" for what, _ in member.listener.calls[calls:])


@pytest.mark.slow
def test_a_vanished_member_gets_its_partitions_back(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=10.0)
        a, b, c = group.three()
        shares = [member.assignment for member in (a, b, c)]
        generation, calls = a.generation, [len(member.listener.calls) for member in (a, c)]
        group.fill()
        b.vanish()
        eventually(lambda: same_generation((a, c), generation + 1), "a rebalance without the vanished member")
        missed_at = time.monotonic()
        assert [a.assignment, c.assignment] == [shares[0], shares[2]]
        back = group.add()
        group.fill()
        eventually(lambda: same_generation((a, back, c), generation + 2), "the return of the member")
        read = len(a.read) + len(c.read)
        group.fill()
        eventually(lambda: len(a.read) + len(c.read) >= read + 40, "reading on meanwhile")
        assert back.assignment == frozenset()
        owners = join_all([a, back, c], 6)
        assert time.monotonic() - missed_at > 8.0, "not before the delay is over"
        assert [member.assignment for member in (a, back, c)] == shares
        assert {owners[tp] for tp in shares[1]} == {back}
        assert unmoved(a, calls[0])
        assert unmoved(c, calls[1])
        assert a.generation == generation + 3

        def everything() -> bool:
            return len({*a.read, *b.read, *c.read, *back.read}) == group.written

        eventually(everything, "reading every record")


@pytest.mark.slow
def test_the_leader_is_lost_too_and_the_next_one_knows_who_waits(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=SESSION_S + 10.0)
        members = group.three()
        leader = group.leader(members)
        first, last = [member for member in members if member is not leader]
        share, generation = last.assignment, last.generation
        first.vanish()
        eventually(lambda: same_generation((leader, last), generation + 1), "a rebalance without the vanished member")
        missed_at = time.monotonic()
        leader.vanish()
        eventually(lambda: last.generation >= generation + 2, "a rebalance without the leader")
        assert last.assignment == share
        eventually(lambda: len(last.assignment) == 4, "taking over what the first one had, but not what the leader had")
        assert time.monotonic() - missed_at > SESSION_S + 8.0


@pytest.mark.concurrent
def test_a_closing_member_is_not_waited_for(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=300.0)
        members = group.three()
        leader = group.leader(members)
        others = [member for member in members if member is not leader]
        others[0].stop()
        join_all([leader, others[1]], 6)
        leader.stop()
        join_all([others[1]], 6)
        assert others[1].error is None


@pytest.mark.slow
def test_a_static_member_is_known_when_its_session_is_over(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=300.0)
        a, b, c = group.three("one", "two", "three")
        shares = [member.assignment for member in (a, b, c)]
        generation = a.generation
        b.stop()
        eventually(lambda: same_generation((a, c), generation + 1), "a rebalance without the vanished member")
        assert [a.assignment, c.assignment] == [shares[0], shares[2]]
        back = group.add("two")
        join_all([a, back, c], 6)
        assert [member.assignment for member in (a, back, c)] == shares


@pytest.mark.concurrent
def test_a_member_without_it_votes_it_out(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    both = (DELAYED, "cooperative-sticky")

    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=300.0)
        members = [group.add(strategy=both)]
        join_all(members, 6)
        assert chosen(members) == {DELAYED}
        members.append(group.add(strategy=both))
        join_all(members, 6)
        assert chosen(members) == {DELAYED}
        stranger = group.add(strategy=("cooperative-sticky",))
        join_all([*members, stranger], 6)
        assert chosen([*members, stranger]) == {"cooperative-sticky"}
        stranger.stop()
        join_all(members, 6)
        assert chosen(members) == {DELAYED}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["from range in two rounds of restarts", "from the default in one"])
def test_a_running_group_takes_it_up(cluster: Cluster, make_topic: MakeTopic, group_id: str, way: str) -> None:
    """As KIP-429 says of cooperative assignors. The default has one that is outvoted by range."""
    if way.startswith("from range"):
        before, last = ["range"], DELAYED
        rounds = [([DELAYED, "range"], "range"), ([DELAYED], DELAYED)]
    else:
        before, last = None, "cooperative-sticky"
        rounds = [([last], last)]  # the first that comes back without range decides the vote
    with running() as start:
        group = Group(start, cluster, make_topic(6), group_id, delay_s=300.0)
        members = [group.add(strategy=before) for _ in range(2)]
        join_all(members, 6)
        assert chosen(members) == {"range"}
        read: set[tuple[TopicPartition, int]] = set()
        for strategy, until_the_last in rounds:
            for number in range(2):
                group.fill()
                members[number].stop()
                read |= set(members[number].read)
                members[number] = group.add(strategy=strategy)
                join_all(members, 6)
                assert chosen(members) == {last if number else until_the_last}
        eventually(lambda: len(read.union(*(m.read for m in members))) == group.written, "reading every record")
        kept, calls = [member.assignment for member in members], [len(member.listener.calls) for member in members]
        third = group.add(strategy=[last])
        join_all([*members, third], 6)
        for member, had, count in zip(members, kept, calls, strict=True):
            revoked = [partitions for what, partitions in member.listener.calls[count:] if what == "revoked"]
            assert [len(partitions) for partitions in revoked] == [1], "what moves, and nothing else"
            assert member.assignment == had - set(revoked[0])
