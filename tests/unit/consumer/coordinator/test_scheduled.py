"""Rebalances that a member requests at a scheduled time, and the one that announces its leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.assignors import Assignment, CooperativeStickyDelayedAssignor, RangeAssignor
from pyconsumer.assignors.delayed_data import Memory, Share, decode, encode
from pyconsumer.clock import Clock
from pyconsumer.protocol.consumer_protocol import decode_subscription, encode_assignment, encode_subscription
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.settings.config import Config
from pyconsumer.structs import ConsumerGroupMetadata
from tests.support.fake_network import SentRequest
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.support import T0, T1, Bench

DELAYED = "cooperative-sticky-delayed"


class Scheduling(RangeAssignor):
    """Requests a rebalance some seconds after each assignment."""

    def __init__(self) -> None:
        self.seconds = 20.0
        self.configured: list[tuple[Config, Clock]] = []
        self.calls: list[str] = []

    @property
    def name(self) -> str:
        return "scheduling"

    def configure(self, config: Config, clock: Clock) -> None:
        self.configured.append((config, clock))

    def rebalance_due_in(self) -> float:
        return self.seconds

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self.calls.append("assigned")

    def on_voted_out(self) -> None:
        self.calls.append("voted out")


def start(*strategy: Any, **settings: Any) -> Bench:
    bench = Bench(partition_assignment_strategy=list(strategy), **settings)
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    return bench


def answer(
    bench: Bench, *partitions: Any, name: str, generation: int = 1, user_data: bytes | None = None
) -> SentRequest:
    """Answer JoinGroup and SyncGroup as to a follower. Return the JoinGroup."""
    joined = bench.answer_join(generation, protocol_name=name)
    sync = bench.network.take(SyncGroupRequest)
    assignment = encode_assignment(partitions, user_data)
    sync.answer(SyncGroupResponse(protocol_type="consumer", protocol_name=name, assignment=assignment))
    return joined


def user_data(sent: SentRequest, which: int = 0) -> Memory:
    data = decode_subscription(sent.request.protocols[which].metadata).user_data
    return decode(data)


def test_an_assignor_receives_the_settings_and_the_clock() -> None:
    assignor = Scheduling()
    bench = start(assignor)
    assert assignor.configured == [(bench.config, bench.clock)]


def test_a_delay_that_is_not_polled_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    start("range", rebalance_delay_ms=0)
    start(DELAYED, rebalance_delay_ms=5)
    assert "no effect" not in caplog.text
    start("range", rebalance_delay_ms=5)
    assert "rebalance_delay_ms has no effect without the assignor cooperative-sticky-delayed" in caplog.text


def test_a_member_rejoins_by_itself_when_the_delay_is_over() -> None:
    bench = start(Scheduling())
    answer(bench, T0, name="scheduling")
    assert bench.poll().result is True
    assert bench.coordinator.next_due_at == bench.clock.now() + 20.0
    bench.clock.advance(19.9)
    assert bench.poll().result is True
    assert not bench.network.sent
    bench.clock.advance(0.1)
    assert bench.poll().result is False
    joined = answer(bench, T0, name="scheduling", generation=2)
    assert joined.request.reason == "the scheduled rebalance is due"
    bench.poll()
    assert bench.coordinator.next_due_at == bench.clock.now() + 20.0, "and again"


def test_a_rebalance_before_that_time_takes_its_place() -> None:
    assignor = Scheduling()
    bench = start(assignor)
    answer(bench, T0, name="scheduling")
    bench.poll()
    bench.clock.advance(5.0)
    bench.coordinator.enforce_rebalance()
    bench.poll()
    assignor.seconds = 40.0
    answer(bench, T0, name="scheduling", generation=2)
    bench.poll()
    assert bench.coordinator.next_due_at == bench.clock.now() + 40.0


def test_a_member_without_a_generation_or_subscription_has_no_scheduled_rebalance() -> None:
    bench = start(Scheduling())
    answer(bench, T0, name="scheduling")
    bench.poll()
    bench.core._reset("test", keep_member_id=True)
    assert bench.core._rejoin_at == float("inf")
    bench = start(Scheduling())
    answer(bench, T0, name="scheduling")
    bench.poll()
    assert Call(bench.coordinator.on_unsubscribe(500.0), bench.clock).done
    assert bench.core.due_at(bench.clock.now() + 100.0) == float("inf")


def test_assignors_that_lost_the_vote_are_notified() -> None:
    assignor = Scheduling()
    bench = start(assignor, "range")
    answer(bench, T0, name="range")
    bench.poll()
    assert assignor.calls == ["voted out"]
    assert bench.coordinator.next_due_at > bench.clock.now() + 1000.0, "what it would want counts for nothing"


def test_a_mixed_group_drops_the_delayed_assignor_and_its_memory() -> None:
    bench = start(DELAYED, "cooperative-sticky")
    waiting = encode(Memory(shares=(Share("gone", None, (T1,), 9000),)))
    answer(bench, T0, name=DELAYED, user_data=waiting)
    bench.poll()
    assert bench.coordinator.next_due_at == bench.clock.now() + 9.0
    bench.coordinator.enforce_rebalance()
    bench.poll()
    bench.clock.advance(1.0)
    sent = answer(bench, T0, name="cooperative-sticky", generation=2)
    assert user_data(sent).shares[0].left_ms == 9000
    bench.poll()
    assert bench.coordinator.next_due_at > bench.clock.now() + 1000.0
    bench.coordinator.enforce_rebalance()
    bench.poll()
    assert user_data(answer(bench, T0, T1, name="cooperative-sticky", generation=3)) == Memory()


def lead(bench: Bench, after: Callable[[], object] | None = None, **owned: tuple[Any, ...]) -> SentRequest:
    """Lead a group of members that own these partitions. Return the SyncGroup, already answered.

    Args:
        after: lets the leader continue once JoinGroup was answered. The default is a poll.
    """
    sent = bench.network.take(JoinGroupRequest)
    members = [
        JoinGroupResponseMember(member_id=name, metadata=encode_subscription(["t"], None, tps, 1))
        for name, tps in owned.items()
    ]
    name = bench.config.partition_assignment_strategy[0]
    sent.answer(
        JoinGroupResponse(
            generation_id=2, protocol_type="consumer", protocol_name=name, leader="me", member_id="me", members=members
        )
    )
    (after or bench.poll)()
    sync = bench.network.take(SyncGroupRequest)
    mine = next(one.assignment for one in sync.request.assignments if one.member_id == "me")
    sync.answer(SyncGroupResponse(protocol_type="consumer", protocol_name=name, assignment=mine))
    return sync


def test_a_leader_schedules_a_rebalance_for_withheld_partitions() -> None:
    """Their owner was replaced by a process without partitions to revoke, so that no member would ever rejoin."""
    bench = start("cooperative-sticky", session_timeout_ms=10_000)
    lead(bench, me=(), other=(T0, T1))
    assert bench.poll().result is True
    assert bench.coordinator.next_due_at == bench.clock.now() + 10.0
    bench.clock.advance(10.0)
    assert bench.poll().result is False
    lead(bench, me=(), other=(T0,))
    bench.poll()
    assert bench.coordinator.next_due_at > bench.clock.now() + 1000.0, "nothing was withheld this time"
    assert bench.subscriptions.assignment() == {T1}


# -- leaving -----------------------------------------------------------------------------------------------------------


def joined(**settings: Any) -> Bench:
    bench = start(DELAYED, **settings)
    answer(bench, T0, name=DELAYED, user_data=encode(Memory(shares=(Share("me", None, (T0,)),))))
    assert bench.poll().result is True
    return bench


def test_close_revokes_partitions_and_informs_the_leader_before_leave_group() -> None:
    bench = joined()
    call = Call(bench.coordinator.close(160.0), bench.clock)
    assert bench.listener.calls == [("assigned", [T0]), ("revoked", [T0])]
    sent = answer(bench, name=DELAYED, generation=2)
    subscription = decode_subscription(sent.request.protocols[0].metadata)
    assert user_data(sent).leaves
    assert subscription.owned_partitions == []
    assert sent.request.reason == "the consumer is about to leave the group"
    call.resume()
    assert len(bench.listener.calls) == 2, "nothing more is heard"
    assert bench.core.leaving
    bench.core.next_background(bench.clock.now())
    bench.core.on_leave_done()
    assert call.resume().done
    assert call.error is None


def test_a_rebalance_that_is_under_way_is_ended_first() -> None:
    bench = joined()
    bench.coordinator.enforce_rebalance()
    bench.poll()
    call = Call(bench.coordinator.close(160.0), bench.clock)
    assert not user_data(answer(bench, T0, T1, name=DELAYED, generation=2)).leaves
    call.resume()
    sent = answer(bench, name=DELAYED, generation=3)
    assert user_data(sent).leaves
    assert call.resume() is call
    assert bench.core.leaving
    assert bench.listener.calls[-1][0] == "lost", "the rebalance might have given it away"


@pytest.mark.parametrize("deadline", [100.5, 500.0])
def test_a_member_that_is_slow_to_join_is_not_waited_for(deadline: float) -> None:
    bench = joined(session_timeout_ms=20_000)
    call = Call(bench.coordinator.close(deadline), bench.clock)
    bench.network.take(JoinGroupRequest)
    assert call.waiting is not None
    assert call.waiting.until == min(deadline, bench.clock.now() + 20.0)
    call.sleep()
    assert bench.core.leaving or bench.clock.now() >= deadline
    assert bench.core._leaving.request is not None


def test_unsubscribing_announces_the_leave_and_a_new_subscription_does_not() -> None:
    bench = joined()
    call = Call(bench.coordinator.on_unsubscribe(500.0), bench.clock)
    assert user_data(answer(bench, name=DELAYED, generation=2)).leaves
    assert call.resume().done
    bench.core.next_background(bench.clock.now())
    bench.core.on_leave_done()
    bench.subscriptions.unsubscribe()
    bench.subscribe("t")
    bench.poll()
    assert not user_data(bench.network.take(JoinGroupRequest)).leaves


@pytest.mark.parametrize(
    ("settings", "leave_group"), [({}, False), ({"group_instance_id": "i"}, None), ({"rebalance_delay_ms": 0}, None)]
)
def test_a_static_member_that_may_come_back_sends_no_request(
    settings: dict[str, Any], leave_group: bool | None
) -> None:
    bench = joined(**settings)
    Call(bench.coordinator.close(160.0, leave_group=leave_group), bench.clock)
    assert not bench.network.sent


def test_a_coordinator_error_does_not_keep_the_member_from_leaving() -> None:
    bench = joined()
    call = Call(bench.coordinator.close(160.0), bench.clock)
    bench.answer_join(error_code=30)
    call.resume()
    assert bench.core.leaving, "it leaves all the same"
    assert call.error is None


def test_an_assignor_object_has_its_own_delay() -> None:
    bench = start(CooperativeStickyDelayedAssignor(5000), rebalance_delay_ms=7000)
    sent = bench.network.take(JoinGroupRequest)
    gone = encode(Memory(0, (Share("gone", None, (T1,)),)))
    metadata = encode_subscription(["t"], gone, (), -1)
    sent.answer(
        JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name=DELAYED,
            leader="me",
            member_id="me",
            members=[JoinGroupResponseMember(member_id="me", metadata=metadata)],
        )
    )
    bench.poll()
    sync = bench.network.take(SyncGroupRequest)
    [mine] = sync.request.assignments
    sync.answer(SyncGroupResponse(protocol_type="consumer", protocol_name=DELAYED, assignment=mine.assignment))
    bench.poll()
    assert bench.subscriptions.assignment() == {T0}
    assert bench.coordinator.next_due_at == bench.clock.now() + 5.0


def test_a_leader_that_leaves_first_lets_others_receive_their_assignments() -> None:
    """Its LeaveGroup would make the coordinator reject the others' SyncGroup. A group of one has no such wait."""
    for others, pause in ((["other"], 3.0), ([], 0.0)):
        bench = joined()
        call = Call(bench.coordinator.close(160.0), bench.clock)
        lead(bench, after=call.resume, me=(), **dict.fromkeys(others, ()))
        call.resume()
        if pause:
            assert call.waiting is not None
            assert call.waiting.until == bench.clock.now() + pause
            call.sleep()
        assert bench.core.leaving
