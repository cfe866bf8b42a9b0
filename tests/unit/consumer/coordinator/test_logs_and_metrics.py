"""Log lines and counters of a member: heartbeats, joins, rebalances, commits, and warnings about its settings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyconsumer.protocol.messages.offset_commit import OffsetCommitRequest
from pyconsumer.structs import OffsetAndMetadata
from tests.support.metrics import group_values
from tests.unit.consumer.coordinator.script import NODE, Member
from tests.unit.consumer.coordinator.support import T0, T1, Bench, automatic

LOG = "pyconsumer.consumer.coordinator"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, LOG):
        yield caplog


def logged(lines: pytest.LogCaptureFixture, level: int, *words: str) -> list[str]:
    """Return the lines of a level that hold all the words."""
    found = [r.getMessage() for r in lines.records if r.levelno == level and r.name == LOG]
    return [line for line in found if all(word in line for word in words)]


# -- the heartbeat thread ----------------------------------------------------------------------------------------------


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

    bench.core.discovery.node = None  # no coordinator to leave
    bench.core.discovery._searches["background"].in_flight = True
    thread = HeartbeatThread(
        bench.core,
        bench.coordinator._lock,
        make_client=lambda: Client(),  # type: ignore[arg-type, return-value]
        clock=bench.clock,
        changed=lambda: None,
    )
    thread.start()
    assert thread.close(10.0)
    found = logged(lines, logging.DEBUG, "heartbeats")
    assert [line.rpartition("] ")[2] for line in found] == ["heartbeats begin", "heartbeats pause"]


@pytest.mark.parametrize("code", [0, 15, 16, 22, 25, 27, 30, -1])
def test_every_heartbeat_response_is_counted_with_its_latency(code: int) -> None:
    member = Member()
    member.stable(5)
    member.advance(3.0)
    step = member.heartbeat()
    member.advance(0.25)
    member.answer_heartbeat(step, code)
    found = group_values(member.core.metrics, member.now + 2.0)
    assert (found["heartbeat-total"], found["heartbeat-rate"]) == (1, pytest.approx(1 / 35, rel=0.1))
    assert found["heartbeat-response-time-max"] == 250.0
    assert found["last-heartbeat-seconds-ago"] == 2.0


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
def test_log_lines_of_heartbeats(
    code: int, level: int, words: tuple[str, ...], lines: pytest.LogCaptureFixture
) -> None:
    member = Member()
    member.stable(5)
    member.advance(3.0)
    step = member.heartbeat()
    lines.clear()
    member.answer_heartbeat(step, code)
    assert logged(lines, level, *words), lines.text
    assert bool(logged(lines, logging.INFO)) is (level == logging.INFO)


# -- joins: log and counts ---------------------------------------------------------------------------------------------


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
    found = group_values(bench.coordinator.metrics, bench.clock.now() + 1.0)
    assert (found["join-total"], found["join-time-avg"], found["join-time-max"]) == (1, 2000.0, 2000.0)
    assert (found["sync-total"], found["sync-time-avg"], found["sync-rate"]) == (
        1,
        250.0,
        pytest.approx(1 / 35, rel=0.1),
    )
    assert (found["rebalance-total"], found["rebalance-latency-total"]) == (1, 2750.0)
    assert found["rebalance-rate-per-hour"] == pytest.approx(3600 / 35, rel=0.1)
    assert found["last-rebalance-seconds-ago"] == 2.0
    assert found["partition-assigned-latency-max"] == 1000.0
    assert found["failed-rebalance-total"] == 0, "receiving a member id is no failure"


def test_rebalances_that_fail_are_counted() -> None:
    member = Member()
    member.answer_join(member.send_join(), 14)
    member.advance(1.0)
    sync = member.join()
    assert sync is not None
    member.answer_sync(sync, 27)
    assert member.core.metrics.failures.count == 2
    assert member.core.metrics.joins.count == 1


def test_automatic_commits_are_counted_too() -> None:
    bench = automatic()
    bench.clock.advance(5.0)
    bench.poll()
    bench.answer_commit()
    succeeded_at = bench.coordinator.metrics.last_commit_at
    assert succeeded_at >= 5.0
    bench.clock.advance(1.0)
    bench.coordinator.commit_async({T0: OffsetAndMetadata(9)}, lambda offsets, error: None)
    bench.answer_commit(12)
    bench.coordinator.commit_async({T0: OffsetAndMetadata(9)}, lambda offsets, error: None)
    bench.network.take(OffsetCommitRequest).fail()
    metrics = bench.coordinator.metrics
    assert (metrics.commits.count, metrics.commit_failures) == (2, 2)
    assert metrics.last_commit_at == succeeded_at, "a refused commit is none"


def test_log_lines_of_a_join(lines: pytest.LogCaptureFixture) -> None:
    bench = Bench(client_id="worker", group_instance_id="place")
    bench.learn(t=2)
    bench.subscribe("t")
    bench.poll()
    assert logged(lines, logging.DEBUG, "looking for the coordinator")
    bench.network.find(NODE)
    assert logged(lines, logging.DEBUG, "names", "one:9092", "as coordinator")
    bench.poll()
    (subscription,) = logged(lines, logging.DEBUG, "subscription", "['t']")
    (sending,) = logged(lines, logging.DEBUG, "sending to coordinator", "one:9092", "JoinGroupRequest(")
    messages = [record.getMessage() for record in lines.records]
    assert messages.index(subscription) < messages.index(sending)
    bench.answer_join(14, error_code=14)
    (failed,) = logged(lines, logging.INFO, "the rebalance failed")
    bench.clock.advance(1.0)
    bench.poll()
    bench.answer_join(3)
    bench.answer_sync(T0)
    bench.poll()
    (joined,) = logged(lines, logging.DEBUG, "joined as generation 3")
    (finished,) = logged(lines, logging.INFO, "rebalance finished", "generation 3")
    messages = [record.getMessage() for record in lines.records]
    assert messages.index(joined) < messages.index(finished)
    prefix = "[group_instance_id=place, client_id=worker, group_id=g] "
    assert all(line.startswith(prefix) for line in logged(lines, logging.DEBUG) + logged(lines, logging.INFO))
    assert failed.startswith(prefix)


def test_one_line_reports_a_rebalance(lines: pytest.LogCaptureFixture) -> None:
    """The line has the reason, the generation, joined and left members, moved partitions and the duration."""
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
    (line,) = logged(lines, logging.INFO, "rebalance finished")
    assert line == (
        "[client_id=worker, group_id=g] rebalance finished after 0.500 s: generation 2 of member me with range, leader"
        " of 2, joined: zoe, left: ann. Reason: ann left. 1 partitions, new: t-1, gone: t-0"
    )


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_interval_of_heartbeats_against_the_session(caplog: pytest.LogCaptureFixture) -> None:
    for heartbeat in (6000, 6001):
        with pytest.raises(errors.ConfigurationError, match="Heartbeat must be set lower than the session timeout"):
            Bench(session_timeout_ms=6000, heartbeat_interval_ms=heartbeat)
    with caplog.at_level(logging.WARNING, "pyconsumer.consumer"):
        assert Bench(session_timeout_ms=9000).config.heartbeat_interval_ms == 3000
        assert caplog.text == ""
        Bench(session_timeout_ms=8999)
        assert "more than a third" in caplog.text


@pytest.mark.concurrent
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
