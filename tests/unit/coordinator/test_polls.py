"""One poll of a coordinator: its order, its search for the coordinator, its clocks, its heartbeat thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.consumer.coordinator import ConsumerCoordinator
from pyconsumer.consumer.coordinator.classic_membership import ClassicMembership
from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND
from pyconsumer.consumer.coordinator.group_state import CompleteJoin, Generation, MemberState
from pyconsumer.consumer.coordinator.heartbeat import Heartbeat
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.consumer.coordinator.rebalance import RebalanceSteps
from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.protocol.consumer_protocol import encode_assignment
from pyconsumer.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.structs import OffsetAndMetadata
from tests.unit.coordinator.network import Call
from tests.unit.coordinator.script import NODE, Member
from tests.unit.coordinator.support import T0, T1, Bench, automatic

# -- what it holds -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("client:CC-07", "client:CC-08", "client:CC-18")
def test_group_id_client_and_interceptors() -> None:
    bench = automatic()
    assert bench.coordinator.group_metadata().group_id == "g"
    bench.clock.advance(5.0)
    bench.poll()
    sent = bench.answer_commit()
    assert sent.request.group_id == "g", "through the client, in the group's name"
    bench.poll()
    assert bench.told == [{T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(7)}], "the interceptors heard of it"


@pytest.mark.spec("client:CC-05")
def test_its_clocks() -> None:
    member = Member()
    member.advance(1.0)
    member.stable()
    timer = member.core.timer
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


@pytest.mark.spec("client:JC-22", "client:JR-08")
def test_one_call_leads_from_the_join_to_the_assignment() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(4)
    sent = bench.answer_sync(T0)
    assert (sent.request.generation_id, sent.request.assignments) == (4, []), "sent by the answer to the join"
    step = bench.core.next_step(bench.clock.now())
    assert isinstance(step, CompleteJoin)
    assert step.generation == Generation(4, "me", "range")
    assert step.assignment == encode_assignment([T0])


@pytest.mark.spec("client:JR-04", "client:JR-06")
def test_what_a_joined_member_knows() -> None:
    member = Member()
    step = member.send_join()
    assert member.core.state is MemberState.PREPARING_REBALANCE
    member.answer_join(step, generation_id=7, member_id="given", protocol_name="roundrobin")
    assert member.core.state is MemberState.COMPLETING_REBALANCE
    assert member.core.generation == (7, "given", "roundrobin")


# -- finding the coordinator -------------------------------------------------------------------------------------------


@pytest.mark.spec("client:GP-07")
def test_looking_for_the_coordinator_goes_on_until_it_is_there_or_makes_no_sense() -> None:
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


@pytest.mark.spec("client:FC-09")
def test_a_found_coordinator_prolongs_the_session_before_anybody_hears_of_it() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    bench.core.on_coordinator_lost(1, "gone", bench.clock.now())
    bench.clock.advance(40.0)
    timer = bench.core.timer
    seen: list[tuple[object, bool]] = []
    after = bench.clock.now() + 44.9
    bench.coordinator._coordinator.on_lookup_done = lambda error: seen.append((error, timer.session_expired(after)))
    bench.coordinator._coordinator.find()
    assert timer.session_expired(after)
    bench.network.find(NODE)
    assert seen == [(None, False)]


# -- one poll ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("client:GP-43")
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
    assert bench.core.timer.last_poll == bench.clock.now()
    assert call.result is False
    done.clear()
    bench.network.find(NODE)
    bench.poll()
    assert done == ["metadata", "poll time", "rejoin", "auto-commit"]


@pytest.mark.spec("client:GP-43")
def test_with_partitions_assigned_by_hand_a_poll_waits_for_nothing() -> None:
    bench = Bench(enable_auto_commit=True)
    bench.subscriptions.assign_from_user([T0])
    assert bench.poll(60.0).result is True
    assert bench.network.sent == []


@pytest.mark.spec("client:CC-26")
def test_with_partitions_assigned_by_hand_more_partitions_ask_for_no_rebalance() -> None:
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


@pytest.mark.spec("client:GP-42")
def test_a_heartbeat_thread_that_fails_is_told_of_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.spec("client:HT-27")
def test_the_thread_logs_when_heartbeats_begin_and_pause(lines: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    steps = iter([None, lambda: bench.core.leave("because", 0.0), bench.core.close])

    class Client:
        closed = False

        def poll(self, until: float) -> None:
            do = next(steps)
            if do is not None:
                do()

        def wakeup(self) -> None:
            pass

        def send(self, *arguments: Any, **more: Any) -> Any:
            bench.core.on_leave_done()
            raise AssertionError("not in this test")

        def close(self) -> None:
            pass

    bench.core.lookup.node = None  # nobody to tell of the leaving
    bench.core.lookup._searches["background"].in_flight = True
    thread = HeartbeatThread(
        bench.core,
        bench.coordinator._lock,
        make_client=lambda: Client(),  # type: ignore[arg-type, return-value]
        clock=bench.clock,
        changed=lambda: None,
    )
    thread.start()
    assert thread.close(10.0)
    found = told(lines, logging.DEBUG, "heartbeats")
    assert [line.rpartition("] ")[2] for line in found] == ["heartbeats begin", "heartbeats pause"]


@pytest.mark.concurrent
@pytest.mark.spec("client:HT-05")
def test_closing_wakes_the_thread() -> None:
    bench = Bench()
    waits, woken = threading.Event(), threading.Event()

    class Client:
        closed = False

        def poll(self, until: float) -> None:
            waits.set()
            woken.wait(10)

        def wakeup(self) -> None:
            woken.set()

        def close(self) -> None:
            pass

    thread = HeartbeatThread(
        bench.core,
        bench.coordinator._lock,
        make_client=lambda: Client(),  # type: ignore[arg-type, return-value]
        clock=bench.clock,
        changed=lambda: None,
    )
    thread.start()
    assert waits.wait(10)
    bench.core.close()
    assert thread.close(5.0), "it was woken and ended"


@pytest.mark.spec("client:HR-01")
@pytest.mark.parametrize("code", [0, 15, 16, 22, 25, 27, 30, -1])
def test_every_answer_to_a_heartbeat_counts_with_its_latency(code: int) -> None:
    member = Member()
    member.stable(5)
    member.advance(3.0)
    step = member.heartbeat()
    member.advance(0.25)
    member.answer_heartbeat(step, code)
    found = member.core.metrics.snapshot(member.now + 2.0, 10.0)
    assert (found["heartbeat-total"], found["heartbeat-rate"]) == (1, 0.1)
    assert found["heartbeat-response-time-max"] == 250.0
    assert found["last-heartbeat-seconds-ago"] == 2.0


@pytest.mark.spec("client:HR-12")
@pytest.mark.parametrize(
    ("code", "level", "words"),
    [
        (0, logging.DEBUG, ("heartbeat",)),
        (15, logging.INFO, ("one:9092", "COORDINATOR_NOT_AVAILABLE")),
        (16, logging.INFO, ("one:9092", "NOT_COORDINATOR")),
        (27, logging.INFO, ("rebalanc",)),
        (22, logging.INFO, ("generation 5", "ILLEGAL_GENERATION")),
        (25, logging.INFO, ("member me", "UNKNOWN_MEMBER_ID")),
    ],
)
def test_what_is_logged_of_heartbeats(
    code: int, level: int, words: tuple[str, ...], lines: pytest.LogCaptureFixture
) -> None:
    member = Member()
    member.stable(5)
    member.advance(3.0)
    step = member.heartbeat()
    lines.clear()
    member.answer_heartbeat(step, code)
    assert told(lines, level, *words), lines.text
    assert bool(told(lines, logging.INFO)) is (level == logging.INFO)


# -- joins: log and counts ---------------------------------------------------------------------------------------------


@pytest.mark.spec("client:JR-02")
def test_joins_syncs_and_rebalances_are_timed() -> None:
    bench = Bench()
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.clock.advance(0.5)
    bench.network.take(JoinGroupRequest).answer(JoinGroupResponse(error_code=79, member_id="me"))
    bench.poll()
    bench.clock.advance(2.0)
    bench.answer_join()
    bench.clock.advance(0.25)
    bench.answer_sync(T0)
    bench.listener.hook = lambda what: bench.clock.advance(1.0)
    bench.poll()
    found = bench.coordinator.metrics.snapshot(bench.clock.now() + 1.0, 60.0)
    assert (found["join-total"], found["join-time-avg"], found["join-time-max"]) == (1, 2000.0, 2000.0)
    assert (found["sync-total"], found["sync-time-avg"], found["sync-rate"]) == (1, 250.0, 1 / 60)
    assert (found["rebalance-total"], found["rebalance-latency-total"]) == (1, 2750.0)
    assert (found["rebalance-rate-per-hour"], found["last-rebalance-seconds-ago"]) == (60.0, 2.0)
    assert found["partition-assigned-latency-max"] == 1000.0
    assert found["failed-rebalance-total"] == 0, "being told a member id is no failure"


def test_rebalances_that_fail_are_counted() -> None:
    member = Member()
    member.answer_join(member.send_join(), 14)
    member.advance(1.0)
    sync = member.join()
    assert sync is not None
    member.answer_sync(sync, 27)
    assert member.core.metrics.failed_rebalances == 2
    assert member.core.metrics.joins.count == 1


def test_commits_are_counted_automatic_ones_too() -> None:
    bench = automatic()
    bench.clock.advance(5.0)
    bench.poll()
    bench.answer_commit()
    bench.coordinator.commit_async({T0: OffsetAndMetadata(9)}, lambda offsets, error: None)
    bench.answer_commit(12)
    bench.coordinator.commit_async({T0: OffsetAndMetadata(9)}, lambda offsets, error: None)
    bench.network.take(OffsetCommitRequest).fail()
    metrics = bench.coordinator.metrics
    assert (metrics.commits.count, metrics.commit_failures) == (2, 2)


@pytest.mark.spec("client:JR-12", "client:JC-37", "client:CC-41")
def test_what_is_logged_of_a_join(lines: pytest.LogCaptureFixture) -> None:
    bench = Bench(client_id="worker", group_instance_id="place")
    bench.learn(t=2)
    bench.subscribe("t")
    bench.poll()
    assert told(lines, logging.DEBUG, "looking for the coordinator")
    bench.network.find(NODE)
    assert told(lines, logging.DEBUG, "names", "one:9092", "as coordinator")
    bench.poll()
    (subscription,) = told(lines, logging.DEBUG, "subscription", "['t']")
    (sending,) = told(lines, logging.DEBUG, "sending to coordinator", "one:9092", "JoinGroupRequest(")
    text = lines.text
    assert text.index(subscription) < text.index(sending)
    bench.answer_join(14, error_code=14)
    (failed,) = told(lines, logging.INFO, "the rebalance failed")
    bench.clock.advance(1.0)
    bench.poll()
    bench.answer_join(3)
    bench.answer_sync(T0)
    bench.poll()
    (joined,) = told(lines, logging.DEBUG, "joined as generation 3")
    (finished,) = told(lines, logging.INFO, "rebalance finished", "generation 3")
    assert lines.text.index(joined) < lines.text.index(finished)
    prefix = "[group_instance_id=place, client_id=worker, group_id=g] "
    assert all(line.startswith(prefix) for line in told(lines, logging.DEBUG) + told(lines, logging.INFO))
    assert failed.startswith(prefix)


def test_one_line_tells_a_rebalance(lines: pytest.LogCaptureFixture) -> None:
    """Its reason, generation, who came and went, what moved, how long it took."""
    bench = Bench(client_id="worker")
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(1, leader="me", members={"me": "t", "ann": "t"})
    bench.poll()
    bench.answer_sync(T0)
    bench.poll()
    bench.core.request_rejoin("ann left")
    lines.clear()
    bench.poll()
    bench.clock.advance(0.5)
    bench.answer_join(2, leader="me", members={"me": "t", "zoe": "t"})
    bench.poll()
    bench.answer_sync(T1)
    bench.poll()
    (line,) = told(lines, logging.INFO, "rebalance finished")
    assert line == (
        "[client_id=worker, group_id=g] rebalance finished after 0.500 s: generation 2 of member me with range, leader"
        " of 2, joined: zoe, left: ann; reason: ann left; 1 partitions, new: t-1; gone: t-0"
    )


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("client:HB-18", "transactions:HBT-06", "transactions:CFG-R1")
def test_the_interval_of_heartbeats_against_the_session(caplog: pytest.LogCaptureFixture) -> None:
    for heartbeat in (6000, 6001):
        with pytest.raises(errors.ConfigurationError, match="Heartbeat must be set lower than the session timeout"):
            Bench(session_timeout_ms=6000, heartbeat_interval_ms=heartbeat)
    with caplog.at_level(logging.WARNING, "pyconsumer.consumer"):
        assert Bench(session_timeout_ms=9000).config.heartbeat_interval_ms == 3000
        assert caplog.text == ""
        Bench(session_timeout_ms=8999)
        assert "more than a third" in caplog.text
