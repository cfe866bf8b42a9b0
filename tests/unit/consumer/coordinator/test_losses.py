"""Losses are reported first: they wait for no step of a rebalance, and no step loses them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.protocol.consumer_protocol import decode_subscription, encode_assignment, owned_partitions
from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.structs import TopicPartition
from tests.unit.assignors.cooperative import Sticky
from tests.unit.consumer.coordinator.script import NODE
from tests.unit.consumer.coordinator.support import T0, T1, U0, Bench

UNKNOWN_MEMBER, FENCED_INSTANCE = 25, 82


def cooperative(*partitions: TopicPartition, topics: str = "t", **settings: Any) -> Bench:
    """A member with these partitions under the cooperative protocol."""
    bench = Bench(partition_assignment_strategy=[Sticky()], **settings)
    bench.learn(t=2, u=1)
    bench.subscribe(*topics.split())
    bench.meet_coordinator()
    join(bench, 1, *partitions)
    return bench


def join(bench: Bench, generation: int, *partitions: TopicPartition, **fields: Any) -> None:
    bench.answer_join(generation, protocol_name="test-cooperative", **fields)
    bench.network.take(SyncGroupRequest).answer(SyncGroupResponse(assignment=encode_assignment(partitions)))
    bench.poll()


def hear(bench: Bench, code: int) -> None:
    """The heartbeat thread gets this answer."""
    core = bench.core
    core.on_heartbeat_response(core.generation, NODE.node_id, HeartbeatResponse(error_code=code), bench.clock.now())


def committing(bench: Bench) -> None:
    """A rebalance waits for the response to the commit before it."""
    bench.core.request_rejoin("because")
    bench.poll()


def dividing(bench: Bench) -> None:
    """As leader it waits for metadata of a topic that another member has subscribed to."""
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit()
    bench.poll()
    bench.answer_join(2, leader="me", members={"me": "t", "zoe": "t x"}, protocol_name="test-cooperative")
    bench.poll()


def matching(bench: Bench) -> None:
    """It has another pattern, and waits for the list of topics."""
    bench.subscriptions.unsubscribe()
    bench.subscriptions.subscribe_pattern(re.compile("t|v"), bench.listener)
    bench.subscriptions.assign_from_subscribed([T0])
    bench.read(p0=5)
    bench.metadata.set_all_topics()
    bench.coordinator.on_subscription_change()
    bench.poll()
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit()
    bench.poll()


@pytest.mark.parametrize("loss_code", [UNKNOWN_MEMBER, FENCED_INSTANCE])
@pytest.mark.parametrize("waiting", [committing, dividing, matching])
def test_a_loss_is_due_at_once_during_any_wait_of_the_rebalance(
    waiting: Callable[[Bench], None], loss_code: int
) -> None:
    bench = cooperative(T0, enable_auto_commit=True, group_instance_id="i" if loss_code == FENCED_INSTANCE else None)
    bench.read(p0=5)
    waiting(bench)
    assert bench.subscriptions.state(T0).is_fetchable, "it is still read"
    assert bench.coordinator.next_due_at > bench.clock.now()
    hear(bench, loss_code)
    assert bench.coordinator.has_user_output, "before the heartbeat thread comes round to saying so"
    bench.coordinator._changed_in_background()
    assert bench.coordinator.next_due_at <= bench.clock.now()
    call = bench.poll()
    if loss_code == FENCED_INSTANCE:
        assert isinstance(call.error, errors.FencedInstanceIdError)
        assert bench.coordinator.has_user_output, "and so does every poll"
    else:
        assert bench.listener.calls[-1] == ("lost", [T0])
        assert bench.subscriptions.assignment() == set()
        assert not bench.coordinator.has_user_output


@pytest.mark.parametrize(("instance", "generation", "lost"), [("i", 3, True), ("i", 2, False), (None, 3, False)])
def test_a_static_member_that_missed_a_generation_may_have_lost_all_partitions(
    instance: str | None, generation: int, lost: bool
) -> None:
    """The member was in generation 2 with the subscription of its first join, and owned no partition (KIP-345)."""
    bench = cooperative(T0, group_instance_id=instance)
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_join(generation, protocol_name="test-cooperative")
    assert bench.coordinator.has_user_output is lost
    bench.poll()
    assert bench.listener.calls[1:] == ([("lost", [T0])] if lost else [])
    if lost:
        again = bench.network.take(JoinGroupRequest).request
        assert again.member_id == "me"
        assert not owned_partitions(decode_subscription(again.protocols[0].metadata))
    else:
        assert bench.network.take(SyncGroupRequest).request.generation_id == generation


def test_a_generation_lost_during_revocation_calls_on_partitions_lost() -> None:
    """Without this the remaining partitions would be kept and read, although another member owns them."""
    bench = cooperative(T0, U0, topics="t u")
    bench.listener.hook = lambda what: hear(bench, UNKNOWN_MEMBER) if what == "revoked" else None
    bench.subscribe("t")
    bench.poll()
    assert bench.listener.calls[-2:] == [("revoked", [U0]), ("lost", [T0])]
    sent = bench.network.take(JoinGroupRequest)
    assert sent.request.member_id == ""
    assert owned_partitions(decode_subscription(sent.request.protocols[0].metadata)) == []


def test_a_generation_lost_after_all_partitions_are_revoked_has_no_further_callback() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    bench.listener.hook = lambda what: hear(bench, UNKNOWN_MEMBER) if what == "revoked" else None
    bench.core.request_rejoin("because")
    bench.poll()
    assert bench.listener.calls[1:] == [("revoked", [T0])]
    assert bench.network.take(JoinGroupRequest).request.member_id == ""
    assert bench.coordinator.next_due_at == math.inf


# -- what changes during a rebalance -----------------------------------------------------------------------------------


def test_a_subscription_that_changes_during_the_join_is_joined_with_afterwards() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.subscribe("t", "u")
    bench.learn(t=1, u=1)
    bench.poll()
    bench.answer_join()
    bench.answer_sync(T0)
    assert bench.poll().result is False
    sent = bench.network.take(JoinGroupRequest)
    assert decode_subscription(sent.request.protocols[0].metadata).topics == ["t", "u"]
    assert sent.request.reason == "the subscription has changed"


def test_a_topic_that_grows_during_the_sync_is_assigned_again() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.learn(t=2)
    bench.poll()
    bench.answer_sync(T0)
    assert bench.poll().result is False
    assert bench.network.take(JoinGroupRequest).request.reason == "metadata has changed"


def test_metadata_older_than_the_assignment_is_no_change() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.learn(t=2)
    bench.poll()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.answer_sync(T0, T1)
    assert bench.poll().result is True
    assert bench.network.sent == []
