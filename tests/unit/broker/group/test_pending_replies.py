"""Replies are given one after the other, with any number of requests that they cause, and even if one fails."""

from __future__ import annotations

import sys

import pytest

from pyconsumer.broker.deferred import Deferred, PendingReplies
from tests.unit.broker.group.support import World, value_of

MANY = 2 * sys.getrecursionlimit()


def test_replies_that_cause_requests_are_given_by_one_loop() -> None:
    answers = PendingReplies()
    given: list[int] = []

    def ask(number: int) -> None:
        waiter = Deferred[int]()
        waiter.on_done(lambda value: ask(value + 1) if value < MANY else None)
        waiter.on_done(given.append)
        with answers:
            answers.put(waiter, number)

    ask(0)
    assert given == list(range(MANY + 1))


def test_replies_caused_by_a_callback_come_after_those_that_were_ready() -> None:
    answers = PendingReplies()
    given: list[str] = []
    first, second, third = Deferred[str](), Deferred[str](), Deferred[str]()
    for waiter in (first, second, third):
        waiter.on_done(given.append)

    def ask_again(_: str) -> None:
        with answers:
            answers.put(third, "third")
        assert not third.done

    first.on_done(ask_again)
    with answers:
        answers.put(first, "first")
        answers.put(second, "second")
    assert given == ["first", "second", "third"]


def test_a_failing_callback_does_not_affect_other_replies(caplog: pytest.LogCaptureFixture) -> None:
    answers = PendingReplies()
    broken, other = Deferred[int](), Deferred[int]()
    broken.on_done(lambda _: 1 // 0)
    with answers:
        answers.put(broken, 1)
        answers.put(other, 2)
    assert value_of(other) == 2
    assert "ZeroDivisionError" in caplog.text


def test_a_request_that_failed_is_not_answered_again() -> None:
    answers = PendingReplies()
    waiter = Deferred[int]()
    with answers:
        answers.put(waiter, 1)
        waiter.set(-1)
    assert waiter.value == -1


def test_all_members_of_a_large_group_may_have_sent_the_next_request_already() -> None:
    world = World()
    fetched: list[int] = []

    def fetch(_: object) -> None:
        world.coordinator.fetch_offsets("g1", []).on_done(lambda found: fetched.append(found[0]))

    joining = [world.join() for _ in range(300)]
    for answer in joining:
        answer.on_done(fetch)
    world.advance(60)
    assert all(value_of(answer).error_code == 0 for answer in joining)
    assert fetched == [0] * 300
