"""Bounds of logins: the time, the number, and the log of failed ones."""

from __future__ import annotations

import logging

import pytest

from pyconsumer.broker.login_bounds import FailedLogins, PendingLogins


def test_a_login_has_a_time() -> None:
    closed: list[str] = []
    pending: PendingLogins[str] = PendingLogins(10.0, 5, closed.append)
    pending.add("a", "h", 0.0)
    pending.add("b", "h", 1.0)
    pending.add("c", "g", 2.0)
    pending.remove("b")
    pending.remove("never added")
    assert (pending.close_late(9.9), closed) == (10.0, [])
    assert (pending.close_late(10.0), closed) == (12.0, ["a"])
    assert (pending.close_late(20.0), closed, len(pending)) == (None, ["a", "c"], 0)


def test_the_oldest_is_closed_for_a_new_one() -> None:
    closed: list[str] = []
    pending: PendingLogins[str] = PendingLogins(10.0, 2, closed.append)
    for number, name in enumerate("abcd"):
        pending.add(name, "h", number)
    assert (closed, len(pending)) == (["a", "b"], 2)


def test_an_address_gives_way_to_others_and_not_they_to_it() -> None:
    closed: list[str] = []
    pending: PendingLogins[str] = PendingLogins(10.0, 4, closed.append)
    pending.add("victim", "10.0.0.1", 0)
    for number in range(6):
        pending.add(f"attack {number}", "10.0.0.66", 1 + number)
    assert closed == ["attack 0", "attack 1", "attack 2"]
    pending.add("other", "10.0.0.2", 8)
    assert (closed[3:], len(pending)) == (["attack 3"], 4)
    assert pending.close_late(10.0) == 15.0
    assert closed[4:] == ["victim"]


def test_the_addresses_of_a_network_of_ipv6_count_as_one() -> None:
    closed: list[str] = []
    pending: PendingLogins[str] = PendingLogins(10.0, 2, closed.append)
    pending.add("victim", "2001:db8:1::1", 0)
    for number in range(3):
        pending.add(f"attack {number}", f"2001:db8:2::{number}", 1)
    assert closed == ["attack 0", "attack 1"]
    pending.add("mapped", "::ffff:10.0.0.1", 2)
    pending.add("plain", "10.0.0.1", 3)
    pending.add("odd", "fe80::1%eth0", 4)
    assert len(pending) == 2


def test_failed_logins_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    failed = FailedLogins()
    with caplog.at_level(logging.WARNING):
        for second in (0, 1, 59):
            failed.add("/10.0.0.1", second)
        failed.add("/10.0.0.2", 5)
        failed.add("/10.0.0.1", 60)
        failed.add("/10.0.0.1", 61)
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "a login from /10.0.0.1 has failed",
        "a login from /10.0.0.2 has failed",
        "a login from /10.0.0.1 has failed, and 2 before it",
    ]
