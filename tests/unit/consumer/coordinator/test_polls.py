"""One poll of a coordinator: its order, its coordinator lookup, its timers, its heartbeat thread."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.consumer.coordinator import ConsumerCoordinator
from pyconsumer.consumer.coordinator.classic_group_membership import ClassicMembership
from pyconsumer.consumer.coordinator.classic_group_rebalance import RebalanceSteps
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState, CompleteJoin
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND
from pyconsumer.consumer.coordinator.group_state import Generation
from pyconsumer.consumer.coordinator.heartbeat import Heartbeat
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.protocol.consumer_protocol import encode_assignment
from pyconsumer.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.structs import OffsetAndMetadata
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.script import NODE, Member
from tests.unit.consumer.coordinator.support import T0, T1, Bench, automatic

# -- what it holds -----------------------------------------------------------------------------------------------------


def test_group_id_client_and_interceptors() -> None:
    bench = automatic()
    assert bench.coordinator.group_metadata().group_id == "g"
    bench.clock.advance(5.0)
    bench.poll()
    sent = bench.answer_commit()
    assert sent.request.group_id == "g", "through the client, in the group's name"
    bench.poll()
    assert bench.reported == [{T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(7)}], "the interceptors heard of it"


def test_its_clocks() -> None:
    member = Member()
    member.advance(1.0)
    member.stable()
    timer = member.core.heartbeat_timers
    assert isinstance(timer, Heartbeat)
    assert (timer.interval, timer.session_timeout) == (3.0, 10.0)
    assert not timer.is_due(3.999)
    assert timer.is_due(4.0)
    assert not timer.session_expired(10.9)
    assert timer.session_expired(11.0), "the session began with the join"
    member.now = 4.0
    member.heartbeat()
    member.advance(0.5)
    timer.received(member.now)
    assert (timer.last_sent, timer.last_received) == (4.0, 4.5)
    assert timer.next_deadline() == 7.0
    assert timer.session_expired(14.5)
    assert not timer.session_expired(14.4)


def test_one_call_leads_from_the_join_to_the_assignment() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(4)
    sent = bench.answer_sync(T0)
    assert (sent.request.generation_id, sent.request.assignments) == (4, []), "sent by the answer to the join"
    step = bench.core.next_action(bench.clock.now())
    assert isinstance(step, CompleteJoin)
    assert step.generation == Generation(4, "me", "range")
    assert step.assignment == encode_assignment([T0])


def test_state_of_a_joined_member() -> None:
    member = Member()
    step = member.send_join()
    assert member.core.state is ClassicMemberState.PREPARING_REBALANCE
    member.answer_join(step, generation_id=7, member_id="given", protocol_name="roundrobin")
    assert member.core.state is ClassicMemberState.COMPLETING_REBALANCE
    assert member.core.generation == (7, "given", "roundrobin")


# -- finding the coordinator -------------------------------------------------------------------------------------------


def test_the_coordinator_lookup_continues_until_found_or_fatal() -> None:
    bench = Bench()
    coordinator_client = bench.coordinator._coordinator

    def answer(code: int) -> None:
        entry = Coordinator(key="g", node_id=1, host="one", port=9092, error_code=code)
        bench.network.take(FindCoordinatorRequest).answer(FindCoordinatorResponse(coordinators=[entry]))

    call = Call(coordinator_client.ensure(200.0), bench.clock)
    answer(15)
    call.resume()
    assert bench.network.sent == [], "a pause first"
    assert call.waiting is not None
    assert 0.07 < call.waiting.until - bench.clock.now() < 0.13
    call.sleep()
    answer(0)
    assert call.resume().result is True
    for pause in (0.0, 0.1):  # found, but it cannot be reached
        coordinator_client.failed(1, KafkaConnectionError("refused"), bench.core.discovery.term)
        call = Call(coordinator_client.ensure(200.0), bench.clock)
        if pause:
            assert bench.network.sent == []
            call.sleep()
        answer(0)
        assert call.resume().result is True
    coordinator_client.failed(1, KafkaConnectionError("refused"), bench.core.discovery.term)
    call = Call(coordinator_client.ensure(200.0), bench.clock).sleep()
    answer(30)
    assert isinstance(call.resume().error, errors.GroupAuthorizationFailedError)


@pytest.mark.parametrize("what", ["commit", "committed"])
def test_a_request_of_before_a_loss_takes_no_coordinator_away_that_was_found_since(what: str) -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    if what == "commit":
        bench.coordinator.commit_async({T0: OffsetAndMetadata(1)})
    else:
        Call(bench.coordinator.fetch_committed([T0], 200.0), bench.clock)
    (old,) = bench.network.sent
    bench.core.on_coordinator_lost(NODE.node_id, "no answer to heartbeats", bench.clock.now())
    bench.core.on_coordinator_found(BACKGROUND, NODE, bench.clock.now())
    old.fail()
    assert bench.core.coordinator == NODE


def test_a_found_coordinator_prolongs_the_session_before_it_is_published() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    bench.core.on_coordinator_lost(1, "gone", bench.clock.now())
    bench.clock.advance(40.0)
    timer = bench.core.heartbeat_timers
    seen: list[tuple[object, bool]] = []
    after = bench.clock.now() + 44.9
    bench.coordinator._coordinator.on_search_end = lambda error: seen.append((error, timer.session_expired(after)))
    bench.coordinator._coordinator.find()
    assert timer.session_expired(after)
    bench.network.find(NODE)
    assert seen == [(None, False)]


# -- one poll ----------------------------------------------------------------------------------------------------------


def test_the_order_of_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def note(owner: type, name: str, what: str) -> None:
        real = getattr(owner, name)

        def noting(self: Any, *arguments: Any, **more: Any) -> Any:
            done.append(what)
            return real(self, *arguments, **more)

        monkeypatch.setattr(owner, name, noting)

    bench = automatic()
    bench.coordinator.commit_async({T0: OffsetAndMetadata(1)}, lambda offsets, error: done.append("commit callback"))
    bench.answer_commit()
    bench.core.on_coordinator_lost(1, "gone", bench.clock.now())
    bench.core.request_rejoin("because")
    bench.clock.advance(5.0)
    note(ConsumerCoordinator, "_look_at_metadata", "metadata")
    note(ClassicMembership, "on_poll", "poll time")
    note(RebalanceSteps, "prepare", "rejoin")
    note(ConsumerCoordinator, "maybe_auto_commit_async", "auto-commit")
    call = bench.poll()
    assert done == ["metadata", "commit callback", "poll time", "auto-commit"], "no rejoin without the coordinator"
    assert bench.core.heartbeat_timers.last_poll == bench.clock.now()
    assert call.result is False
    done.clear()
    bench.network.find(NODE)
    bench.poll()
    assert done == ["metadata", "poll time", "rejoin", "auto-commit"]


def test_with_manual_assignment_a_poll_does_not_wait() -> None:
    bench = Bench(enable_auto_commit=True)
    bench.subscriptions.assign_from_user([T0])
    assert bench.poll(60.0).result is True
    assert bench.network.sent == []


def test_more_manually_assigned_partitions_cause_no_rebalance() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.answer_sync(T0)
    assert bench.poll().result is True
    assert not bench.core.rejoin_needed
    bench.subscriptions.unsubscribe()
    bench.subscriptions.assign_from_user([T0])
    bench.learn(t=2)
    bench.poll()
    assert not bench.core.rejoin_needed
    assert bench.network.sent == []


# -- the heartbeat thread ----------------------------------------------------------------------------------------------


class WithThread(Bench):
    driver = ConsumerCoordinator


def test_an_error_in_the_heartbeat_thread_is_raised_and_the_thread_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = WithThread()
    bench.learn(t=1)
    bench.subscribe("t")
    try:
        with monkeypatch.context() as patch:

            def broken(self: ClassicMembership, now: float) -> None:
                raise RuntimeError("a fault")

            patch.setattr(ClassicMembership, "next_background", broken)
            bench.poll()
            bench.network.find(NODE)
            began = bench.poll()
            first = bench.coordinator._heartbeat
            assert isinstance(first, HeartbeatThread)
            assert first.close(10.0), "it ends by its fault"
        error = began.error or bench.poll().error  # it may fail before the poll that started it is over
        assert isinstance(error, KafkaError)
        assert "a fault" in str(error)
        assert isinstance(error.__cause__, RuntimeError)
        bench.answer_join()
        bench.answer_sync(T0)
        assert bench.poll().result is True
        second = bench.coordinator._heartbeat
        assert second is not first
        assert second is not None
        assert second.alive
    finally:
        Call(bench.coordinator.close(0.0), bench.clock)
        if bench.coordinator._heartbeat is not None:
            assert bench.coordinator._heartbeat.close(10.0)
