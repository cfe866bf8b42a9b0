"""Two ways to write a rebalance listener, for assignors that move all partitions and for those that move few.

An old-style listener cleans up and sets up with every call. A new-style one compares the new assignment with the last
one, and touches only the state of partitions that were added or removed.
"""

from __future__ import annotations

from collections.abc import Collection

from pyconsumer.assignors import Assignment, StickyAssignor, Subscription
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.protocol.consumer_protocol import encode_assignment
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.unit.assignors.cluster import FakeCluster, parse, show
from tests.unit.consumer.coordinator.script import NODE
from tests.unit.consumer.coordinator.support import Bench

TOPICS = ("t0", "t1", "t2", "t3")


class Style(ConsumerRebalanceListener):
    """Records the calls for partitions, such as ``("commit", partitions)``. Calls without partitions are left out."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[TopicPartition]]] = []

    def note(self, what: str, partitions: Collection[TopicPartition]) -> None:
        assert all(type(partition) is TopicPartition for partition in partitions)
        if partitions:
            self.done.append((what, sorted(partitions)))


class OldStyle(Style):
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.note("commit", revoked)
        self.note("clean", revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.note("state", assigned)
        self.note("offset", assigned)


class NewStyle(Style):
    def __init__(self) -> None:
        super().__init__()
        self.last: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.note("commit", revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        new = set(assigned)
        self.note("clean", self.last - new)
        self.note("state", new - self.last)
        self.note("offset", new)
        self.last = new


def plans() -> tuple[dict[str, str], dict[str, str]]:
    """Return the assignments of ``sticky`` to C0, C1 and C2, and those to C0 and C2 after C1 has left."""
    cluster = FakeCluster(dict.fromkeys(TOPICS, 2))
    members = {name: StickyAssignor() for name in ("C0", "C1", "C2")}
    first = members["C0"].assign(cluster, {name: Subscription(TOPICS) for name in members})
    for name, assignor in members.items():
        assignor.on_assignment(first[name], ConsumerGroupMetadata("g", 1, name, None))
    retained = {
        name: Subscription(TOPICS, members[name].subscription_user_data(frozenset(TOPICS))) for name in ("C0", "C2")
    }
    return show(first), show(members["C0"].assign(cluster, retained))


def rebalance(bench: Bench, generation: int, share: str) -> None:
    """One rebalance that gives the member these partitions."""
    if generation > 1:
        bench.coordinator.enforce_rebalance("C1 left")
    bench.poll()
    bench.answer_join(generation, protocol_name="sticky")
    assignment = Assignment(tuple(parse(share)))
    bench.network.take(SyncGroupRequest).answer(
        SyncGroupResponse(assignment=encode_assignment(assignment.partitions, assignment.user_data))
    )
    assert bench.poll().result is True


def last_calls(style: Style, *shares: str) -> list[tuple[str, list[TopicPartition]]]:
    """Return the calls of the listener in the last of these rebalances of one member."""
    bench = Bench(partition_assignment_strategy=["sticky"])
    bench.listener = style  # type: ignore[assignment]
    bench.learn(**dict.fromkeys(TOPICS, 2))
    bench.subscribe(*TOPICS)
    bench.poll()
    bench.network.find(NODE)
    for generation, share in enumerate(shares, 1):
        style.done.clear()
        rebalance(bench, generation, share)
    return style.done


def sizes(done: list[tuple[str, list[TopicPartition]]]) -> dict[str, int]:
    return {what: len(partitions) for what, partitions in done}


def test_a_new_style_listener_step_by_step() -> None:
    first = last_calls(NewStyle(), "t0p0 t1p1 t3p0")
    assert first == [("state", parse("t0p0 t1p1 t3p0")), ("offset", parse("t0p0 t1p1 t3p0"))]
    second = last_calls(NewStyle(), "t0p0 t1p1 t3p0", "t0p0 t2p0")
    assert second == [
        ("commit", parse("t0p0 t1p1 t3p0")),
        ("clean", parse("t1p1 t3p0")),
        ("state", parse("t2p0")),
        ("offset", parse("t0p0 t2p0")),
    ]


def test_stickiness_saves_work_of_a_new_style_listener() -> None:
    before, after = plans()
    assert (before["C0"], after["C0"]) == ("t0p0 t1p1 t3p0", "t0p0 t1p1 t3p0 t2p0")
    assert last_calls(NewStyle(), before["C0"], after["C0"]) == [
        ("commit", parse("t0p0 t1p1 t3p0")),
        ("state", parse("t2p0")),
        ("offset", sorted(parse("t0p0 t1p1 t3p0 t2p0"))),
    ]
    assert last_calls(NewStyle(), before["C2"], after["C2"]) == [
        ("commit", parse("t1p0 t2p1")),
        ("state", parse("t0p1 t3p1")),
        ("offset", sorted(parse("t1p0 t2p1 t0p1 t3p1"))),
    ]
    old = {name: sizes(last_calls(OldStyle(), before[name], after[name])) for name in ("C0", "C2")}
    assert old == {
        "C0": {"commit": 3, "clean": 3, "state": 4, "offset": 4},
        "C2": {"commit": 2, "clean": 2, "state": 4, "offset": 4},
    }
