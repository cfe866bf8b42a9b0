"""Assignors of one's own in groups of real members: those of ``examples/custom_assignors.py``, on both brokers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pyconsumer import TopicPartition
from tests.behaviour.group_members import Member, eventually, fill, join_all, make_consumer, running
from tests.support.cluster import Cluster
from tests.unit.assignors.examples import BroadcastAssignor, OwnPositions, RackAwareAssignor, RandomAssignor

pytestmark = pytest.mark.faces

MakeTopic = Callable[..., str]


def share_all(*members: Member, partitions: int) -> None:
    """Wait until each member has all partitions, in one generation."""

    def settled() -> bool:
        for member in members:
            if member.error is not None:
                raise member.error
        same = len({member.generation for member in members}) == 1
        return same and all(len(member.assignment) == partitions for member in members)

    eventually(settled, f"having {partitions} partitions each")


@pytest.mark.concurrent
def test_partitions_at_random(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(8)
    with running() as start:
        members = [
            start(
                cluster,
                group_id,
                [topic],
                client_id=f"c{number}",
                partition_assignment_strategy=[RandomAssignor(random.Random(3)), "range"],
            )
            for number in range(3)
        ]
        owners = join_all(members, 8, all_have_some=False)
        assert set(owners) == {TopicPartition(topic, number) for number in range(8)}


@pytest.mark.slow
def test_partitions_by_the_rack_of_their_leader(
    new_cluster: Callable[..., Cluster], cluster_kind: str, group_id: str, topic_name: str
) -> None:
    cluster = new_cluster(cluster_kind, config={"broker.rack": "rack1"})
    cluster.create_topic(topic_name, 4)
    with running() as start:
        far = start(cluster, group_id, [topic_name], partition_assignment_strategy=RackAwareAssignor("rack2"))
        assert set(join_all([far], 4).values()) == {far}, "better far than nowhere"
        near = start(cluster, group_id, [topic_name], partition_assignment_strategy=RackAwareAssignor("rack1"))
        owners = join_all([far, near], 4, all_have_some=False)
        assert set(owners.values()) == {near}
        twin = start(cluster, group_id, [topic_name], partition_assignment_strategy=RackAwareAssignor("rack1"))
        owners = join_all([far, near, twin], 4, all_have_some=False)
        assert sorted(list(owners.values()).count(member) for member in (far, near, twin)) == [0, 2, 2]
        assert far not in owners.values()


@pytest.mark.concurrent
def test_every_member_of_a_broadcast_reads_everything(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 8, 2)
    everything = [(TopicPartition(topic, partition), offset) for partition in range(2) for offset in range(4)]
    with running() as start:
        members = [
            start(
                cluster,
                group_id,
                [topic],
                partition_assignment_strategy=BroadcastAssignor(),
                enable_auto_commit=False,
            )
            for _ in range(2)
        ]
        share_all(*members, partitions=2)
        for member in members:
            eventually(lambda member=member: set(member.read) == set(everything), "reading 8 records")  # type: ignore[misc]


@pytest.mark.concurrent
def test_two_members_share_one_partition_only_where_the_application_seeks(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 8)
    tp = TopicPartition(topic, 0)
    options = {"partition_assignment_strategy": BroadcastAssignor, "enable_auto_commit": False}
    with (
        make_consumer(cluster, group_id, **options) as c3,
        make_consumer(cluster, group_id, **options) as c4,
    ):

        def both_have_it() -> bool:
            for consumer in (c3, c4):
                consumer.poll(0)
            generations = {consumer.group_metadata().generation_id for consumer in (c3, c4)}
            return c3.assignment() == c4.assignment() == {tp} and len(generations) == 1

        for consumer in (c3, c4):
            consumer.subscribe([topic])
        eventually(both_have_it, "having the partition twice")
        read = []
        for consumer, first, count in ((c3, 0, 3), (c4, 3, 2), (c3, 5, 3)):
            consumer.seek(tp, first)
            part: list[int] = []
            eventually(
                lambda consumer=consumer, part=part, count=count: (  # type: ignore[misc]
                    part.extend(record.offset for record in consumer.poll(200, max_records=count - len(part)).records())
                    or len(part) == count
                ),
                "reading its part",
            )
            read.append((consumer is c3, part))
        assert read == [(True, [0, 1, 2]), (False, [3, 4]), (True, [5, 6, 7])]


@pytest.mark.concurrent
@pytest.mark.parametrize(
    ("commits", "begins_at"),
    [
        pytest.param([(0, 10), (1, 12)], 12, id="loses-some"),
        pytest.param([(0, 10), (1, 8)], 8, id="repeats-some"),
        pytest.param([(0, 100_000), (1, 100_000), (2, 9)], 9, id="repeats-many"),
    ],
)
def test_members_of_a_broadcast_overwrite_each_others_commits(
    cluster: Cluster, topic: str, group_id: str, commits: list[tuple[int, int]], begins_at: int
) -> None:
    fill(cluster, topic, 20)
    tp = TopicPartition(topic, 0)
    options = {"partition_assignment_strategy": BroadcastAssignor, "enable_auto_commit": False}
    with running() as start:
        members = [start(cluster, group_id, [topic], **options) for _ in range(1 + max(who for who, _ in commits))]
        share_all(*members, partitions=1)
        for who, offset in commits:
            members[who].do(lambda consumer, offset=offset: consumer.commit({tp: offset}))  # type: ignore[misc]
        members[0].stop()
        again = start(cluster, group_id, [topic], **options)
        eventually(lambda: again.read, "reading")
        assert again.read[0] == (tp, begins_at)


@pytest.mark.concurrent
def test_own_positions_ignore_the_commits_of_the_group(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 10)
    options = {"partition_assignment_strategy": BroadcastAssignor, "enable_auto_commit": False}

    def read_on() -> list[int]:
        read: list[int] = []
        with make_consumer(cluster, group_id, **options) as consumer:
            positions = OwnPositions(consumer, tmp_path / "positions.json")
            consumer.subscribe([topic], listener=positions)
            positions.save()  # nothing is assigned yet, and nothing may be forgotten
            tp = TopicPartition(topic, 0)

            def at_the_end() -> bool:
                read.extend(record.offset for record in consumer.poll(200).records())
                positions.save()
                return consumer.current_lag(tp) == 0 if consumer.assignment() else False

            eventually(at_the_end, "reading to the end")
            consumer.commit({tp: 3})
        return read

    assert read_on() == list(range(10))
    fill(cluster, topic, 4)
    assert read_on() == [10, 11, 12, 13], "although 3 is committed"
    assert read_on() == []
    with running() as start:
        other = start(cluster, group_id, [topic], **options)
        eventually(lambda: other.read, "reading")
        assert other.read[0][1] == 3, "who goes by the group's commits begins there"
