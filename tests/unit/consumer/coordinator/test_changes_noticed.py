"""Tests of changes that a member finds out itself: revoked partitions, and changes of the cluster that matter."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.consumer.coordinator.group_state import SendLeave
from pyconsumer.protocol.consumer_protocol import decode_subscription, encode_assignment, owned_partitions
from pyconsumer.protocol.messages.join_group import JoinGroupRequest
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import SentRequest
from tests.unit.assignors.cooperative import Sticky
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.support import T0, T1, Bench


def cooperative_member() -> Bench:
    bench = Bench(partition_assignment_strategy=[Sticky()])
    bench.learn(t=3)
    bench.subscribe("t")
    bench.meet_coordinator()
    return bench


def answer_sync(bench: Bench, *partitions: TopicPartition) -> None:
    bench.network.take(SyncGroupRequest).answer(SyncGroupResponse(assignment=encode_assignment(partitions)))


def owned_in(join: SentRequest) -> list[Any]:
    return owned_partitions(decode_subscription(join.request.protocols[0].metadata))


def test_a_member_computes_its_revoked_partitions() -> None:
    bench = cooperative_member()
    bench.answer_join(protocol_name="test-cooperative", protocol_type=None)
    answer_sync(bench, T0, T1)
    assert bench.poll().result is True
    bench.core.request_rejoin("because")
    bench.poll()
    assert bench.listener.calls == [("assigned", [T0, T1])], "nothing is given up for a join"
    assert owned_in(bench.answer_join(2, protocol_name="test-cooperative", protocol_type=None)) == [T0, T1]
    answer_sync(bench, T0)  # a list of what it has, none of what it loses
    assert bench.poll().result is False
    assert bench.listener.calls[1:] == [("revoked", [T1]), ("assigned", [])]
    assert bench.subscriptions.assignment() == {T0}
    again = bench.network.take(JoinGroupRequest)
    assert again.request.reason == "need to revoke partitions and re-join"
    assert owned_in(again) == [T0]


@pytest.mark.parametrize("how", ["close", "unsubscribe", "poll timeout"])
@pytest.mark.parametrize("instance_id", ["place-1", None])
def test_a_static_member_never_leaves_by_itself(how: str, instance_id: str | None) -> None:
    bench = Bench(group_instance_id=instance_id, max_poll_interval_ms=10_000)
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    if how == "close":
        Call(bench.coordinator.close(bench.clock.now()), bench.clock)
    elif how == "unsubscribe":
        Call(bench.coordinator.on_unsubscribe(bench.clock.now() + 30), bench.clock)
    else:
        bench.clock.advance(10.0)
    step = bench.core.next_background(bench.clock.now())
    assert isinstance(step, SendLeave) is (instance_id is None)
    assert not bench.core.generation.joined, "it is no member any more, whether it says so or not"


def leader(**settings: Any) -> Bench:
    bench = Bench(**settings)
    learn(bench, {1: "r1", 2: "r2"}, [1])
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.answer_sync(T0)
    assert bench.poll().result is True
    return bench


def learn(bench: Bench, racks: dict[int, str], replicas: list[int]) -> None:
    """Receive metadata: brokers with their racks, and a topic of one partition with replicas on these brokers."""
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=replicas[0], leader_epoch=0, replica_nodes=replicas, isr_nodes=replicas
    )
    brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092, rack=rack) for n, rack in racks.items()]
    topic = MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=[partition])
    bench.metadata.add_topic("t")
    bench.metadata.update(MetadataResponse(brokers=brokers, topics=[topic]), 12, bench.clock.now())


@pytest.mark.parametrize(("rack", "rebalances"), [("", False), ("r1", True)])
def test_other_brokers_matter_to_a_group_only_if_racks_do(rack: str, rebalances: bool) -> None:
    bench = leader(client_rack=rack)
    learn(bench, {1: "r1", 2: "r2", 3: "r3"}, [1])
    assert bench.poll().result is True
    assert bench.network.sent == [], "a broker more concerns nobody"
    learn(bench, {2: "r2", 3: "r3"}, [2])
    assert bench.poll().result is not rebalances
    assert [type(sent.request) for sent in bench.network.sent] == [JoinGroupRequest] * rebalances
