"""The choice of a node, and the time of its next attempt."""

from __future__ import annotations

import pytest

from pyconsumer.errors import KafkaConnectionError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.node import Candidate, ConnectionBackoff, NodeStatus, least_loaded

READY, CONNECTING, MAY, NOT = NodeStatus.READY, NodeStatus.CONNECTING, NodeStatus.MAY_CONNECT, NodeStatus.UNAVAILABLE


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([Candidate(1, READY, 3), Candidate(2, READY, 1), Candidate(3, MAY)], 2),
        ([Candidate(1, CONNECTING), Candidate(2, READY, 50)], 2),
        ([Candidate(1, MAY, 0, 5.0), Candidate(2, MAY, 0, 3.0)], 2),
        ([Candidate(1, MAY), Candidate(2, CONNECTING)], 2),
        ([Candidate(1, NOT), Candidate(2, MAY)], 2),
        ([Candidate(1, NOT), Candidate(2, NOT)], None),
        ([], None),
    ],
)
def test_the_least_loaded_node_is_chosen(candidates: list[Candidate], expected: int | None) -> None:
    for start in range(3):
        found = least_loaded(candidates, start)
        assert (found.node_id if found else None) == expected


def test_equals_are_taken_from_the_random_start_on() -> None:
    candidates = [Candidate(number, READY) for number in range(4)]
    chosen = [least_loaded(candidates, start) for start in range(4)]
    assert [found.node_id for found in chosen if found] == [0, 1, 2, 3]


def test_consecutive_failures_raise_the_backoff_and_a_response_resets_it() -> None:
    reconnect = Backoff(0.05, 1.0, random=lambda: 0.5)
    health = ConnectionBackoff()
    assert health.may_connect(0.0)
    error = KafkaConnectionError("refused")
    pauses = []
    for _ in range(6):
        health.failed(100.0, error, reconnect)
        pauses.append(round(health.backoff_until - 100.0, 3))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert not health.may_connect(100.9)
    assert health.may_connect(101.0)
    assert health.last_error is error
    health.established()
    assert health.may_connect(100.0)
    assert health.last_error is None


def test_slow_attempts_are_given_more_time() -> None:
    setup = Backoff(10.0, 30.0, random=lambda: 0.5)
    health = ConnectionBackoff()
    times = []
    for _ in range(4):
        times.append(health.setup_timeout(setup))
        health.slow_setups += 1
    assert times == [10.0, 20.0, 30.0, 30.0]
    health.established()
    assert health.setup_timeout(setup) == 10.0
