"""One member: its protocols, its vote and its pending requests."""

from __future__ import annotations

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.group_metadata import MemberSummary, plain_protocol_set
from tests.unit.broker.group.support import member

PROTOCOLS = (("range", b"r"), ("roundrobin", b"rr"))


def test_names_alone() -> None:
    three = [("range", b"1"), ("range", b"2"), ("roundrobin", b"3")]
    assert plain_protocol_set(three) == {"range", "roundrobin"}


@pytest.mark.parametrize(
    ("offered", "same"),
    [
        (PROTOCOLS, True),
        (list(PROTOCOLS), True),
        (PROTOCOLS[:1], False),
        (PROTOCOLS[::-1], False),
        ((("range", b"r"), ("roundrobin", b"other")), False),
        ((("range", b"r"), ("sticky", b"rr")), False),
    ],
)
def test_strategies_match_only_if_names_order_and_bytes_do(offered: list[tuple[str, bytes]], same: bool) -> None:
    assert member(protocols=PROTOCOLS).matches(offered) is same


def test_a_vote_is_the_first_candidate_in_its_own_order() -> None:
    one = member(protocols=PROTOCOLS)
    assert one.vote({"roundrobin", "range"}) == "range"
    assert one.vote({"roundrobin", "sticky"}) == "roundrobin"
    with pytest.raises(ValueError, match="does not support any"):
        one.vote({"sticky"})


def test_metadata_of_a_strategy() -> None:
    one = member(protocols=PROTOCOLS)
    assert one.metadata("roundrobin") == b"rr"
    with pytest.raises(ValueError, match="sticky"):
        one.metadata("sticky")


def test_pending_requests_of_a_member_satisfy_its_heartbeat() -> None:
    one = member(instance="i")
    assert (one.assignment, one.is_static, one.is_awaiting_join, one.is_awaiting_sync) == (b"", True, False, False)
    assert not one.has_satisfied_heartbeat
    one.join_waiter = Deferred()
    assert one.is_awaiting_join
    assert one.has_satisfied_heartbeat
    one.is_new = True
    assert not one.has_satisfied_heartbeat
    one.is_new, one.join_waiter, one.sync_waiter = False, None, Deferred()
    assert one.is_awaiting_sync
    assert one.has_satisfied_heartbeat


def test_a_summary_has_the_fields_of_tools() -> None:
    one = member("m1", instance="i", protocols=PROTOCOLS)
    one.assignment = b"mine"
    assert one.summary("range") == MemberSummary("m1", "i", "c", "/h", b"r", b"mine")
    assert one.summary(None) == MemberSummary("m1", "i", "c", "/h", b"", b"mine")


def test_fields_of_a_member() -> None:
    one = member("m1", protocol_type="connect", rebalance_ms=7, session_ms=8)
    assert (one.rebalance_timeout_ms, one.session_timeout_ms, one.protocol_type, one.group_id) == (
        7,
        8,
        "connect",
        "g1",
    )
    assert not one.is_static
    one.member_id = "m2"
    assert "m2" in repr(one)
