"""The three timers of a member, with the numbers of the requirement lists (ms there, seconds here)."""

from __future__ import annotations

import math

import pytest

from pyconsumer.consumer.coordinator.heartbeat import Heartbeat
from tests.unit.consumer.coordinator.script import BACKOFF


def timer(**changes: float) -> Heartbeat:
    values = {"interval": 3.0, "session_timeout": 10.0, "max_poll_interval": 300.0} | changes
    return Heartbeat(backoff=BACKOFF, **values)  # type: ignore[arg-type]


def test_pace_is_counted_from_the_last_send() -> None:
    heartbeat = timer()
    heartbeat.sent(1.0)
    heartbeat.received(1.2)
    assert heartbeat.next_deadline() == 4.0
    assert not heartbeat.is_due(3.999)
    assert heartbeat.is_due(4.0)
    assert heartbeat.is_due(9.0)


def test_a_failure_is_repeated_after_the_backoff() -> None:
    heartbeat = timer()
    heartbeat.sent(1.0)
    heartbeat.failed(1.0)
    assert heartbeat.next_deadline() == pytest.approx(1.1)
    assert not heartbeat.is_due(1.05)
    assert not heartbeat.in_flight
    heartbeat.sent(1.1)
    assert not heartbeat.is_due(1.1), "sending it ends the pause"
    heartbeat.failed(1.1)
    assert heartbeat.next_deadline() == pytest.approx(1.3)
    heartbeat.sent(1.3)
    heartbeat.received(1.3)
    heartbeat.sent(4.3)
    heartbeat.failed(4.3)
    assert heartbeat.next_deadline() == pytest.approx(4.4)


def test_a_reset_after_the_last_send_counts() -> None:
    heartbeat = timer()
    heartbeat.sent(1.0)
    heartbeat.reset_timeouts(2.0)
    assert heartbeat.next_deadline() == 5.0
    assert not heartbeat.session_expired(11.9), "the session began again, too"
    assert heartbeat.session_expired(12.0)
    heartbeat.reset_session(7.0)
    assert not heartbeat.session_expired(16.9)


def test_the_session_ends_when_its_time_is_reached() -> None:
    heartbeat = timer()
    heartbeat.received(5.0)
    assert heartbeat.last_received == 5.0
    assert not heartbeat.session_expired(14.999)
    assert heartbeat.session_expired(15.0)


def test_resetting_timeouts_clears_a_failure() -> None:
    heartbeat = timer()
    heartbeat.sent(4.9)
    heartbeat.failed(4.9)
    heartbeat.reset_timeouts(5.0)
    assert heartbeat.next_deadline() == 8.0
    assert heartbeat.last_poll == 5.0
    assert not heartbeat.session_expired(14.9)


def test_the_poll_timeout_expires_when_the_interval_is_reached() -> None:
    heartbeat = timer()
    assert not heartbeat.poll_expired(299.999)
    assert heartbeat.poll_expired(300.0)
    heartbeat.poll(300.0)
    assert not heartbeat.poll_expired(599.0)


def test_a_member_that_rebalances_between_polls_is_measured_only_with_partitions() -> None:
    heartbeat = timer()
    heartbeat.count_with_partitions()
    assert not heartbeat.poll_expired(10_000.0)
    assert heartbeat.next_deadline() < 300.0, "the session and heartbeats go on"
    heartbeat.on_assigned(0, 5_000.0)
    assert not heartbeat.poll_expired(10_000.0), "a standby waits without end"
    heartbeat.on_assigned(2, 10_000.0)
    assert not heartbeat.poll_expired(10_299.0), "the clock starts with the first partition"
    heartbeat.reset_timeouts(10_200.0)
    heartbeat.on_assigned(1, 10_200.0)
    assert heartbeat.poll_expired(10_300.0), "a rebalance that leaves it some, without the application, is no poll"
    heartbeat.poll(10_400.0)
    assert not heartbeat.poll_expired(10_400.0)
    heartbeat.on_assigned(0, 10_500.0)
    assert not heartbeat.poll_expired(20_000.0)
    heartbeat.on_assigned(1, 20_000.0)
    assert not heartbeat.poll_expired(20_299.0)


def test_every_other_member_is_measured_whenever_it_is_in_its_group() -> None:
    heartbeat = timer()
    heartbeat.on_assigned(0, 0.0)
    assert heartbeat.poll_expired(300.0)
    heartbeat.on_assigned(1, 300.0)
    assert heartbeat.poll_expired(300.0)


def test_a_response_does_not_move_the_next_heartbeat() -> None:
    heartbeat = timer()
    heartbeat.sent(0.0)
    heartbeat.received(2.9)
    assert heartbeat.is_due(3.0)


def test_finding_the_coordinator_restarts_the_session_alone() -> None:
    heartbeat = timer()
    heartbeat.reset_session(9.0)
    assert not heartbeat.session_expired(18.9)
    assert heartbeat.poll_expired(300.0)
    assert heartbeat.is_due(3.0)


def test_one_heartbeat_is_under_way_at_a_time() -> None:
    heartbeat = timer()
    heartbeat.sent(3.0)
    assert not heartbeat.is_due(6.0)
    assert heartbeat.next_deadline() == 10.0


def test_the_next_deadline_is_the_earliest_clock() -> None:
    heartbeat = timer()
    assert heartbeat.next_deadline() == 3.0
    heartbeat.sent(3.0)
    heartbeat.received(3.0)
    assert heartbeat.next_deadline() == 6.0
    heartbeat = timer(max_poll_interval=1.0)
    assert heartbeat.next_deadline() == 1.0
    heartbeat = timer(max_poll_interval=math.inf, interval=20.0)
    assert heartbeat.next_deadline() == 10.0
