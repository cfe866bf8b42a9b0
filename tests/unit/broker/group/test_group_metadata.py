"""A group's members, votes and generations, without a coordinator."""

from __future__ import annotations

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, Protocols
from pyconsumer.broker.group.common.results import JoinResult
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import IllegalStateError
from tests.unit.broker.group.support import member, subscription


def names(*preferred: str) -> Protocols:
    return tuple((name, b"") for name in preferred)


def group_of(*lists: Protocols, state: GroupState = GroupState.EMPTY) -> GroupMetadata:
    group = GroupMetadata("g1", state, ManualClock())
    for index, protocols in enumerate(lists):
        group.add(member(f"m{index}", protocols=protocols))
    return group


# Members


def test_the_first_member_sets_the_type_and_leads() -> None:
    group = group_of(names("range", "sticky"), names("range"))
    assert (group.protocol_type, group.leader_id, list(group.members)) == ("consumer", "m0", ["m0", "m1"])
    assert group.supported_protocols == {"range": 2, "sticky": 1}
    assert group.is_leader("m0")
    assert not group.is_leader("m1")


def test_a_pending_join_is_counted_until_it_is_taken() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    waiter: Deferred[JoinResult] = Deferred()
    one, two = member("m0"), member("m1")
    group.add(one, waiter)
    group.add(two)
    assert group.num_members_awaiting_join == 1
    assert group.take_join_waiter(one) is waiter
    assert group.take_join_waiter(one) is None
    assert group.num_members_awaiting_join == 0


def test_adding_an_inconsistent_member_is_an_error_of_the_caller() -> None:
    group = group_of(names("range"))
    for wrong in (
        member("m0"),
        member("x", group="other"),
        member("x", protocol_type="connect"),
        member("x", protocols=names("a", "a")),
    ):
        with pytest.raises(IllegalStateError):
            group.add(wrong)
    group.transition_to(GroupState.PREPARING_REBALANCE)
    with pytest.raises(IllegalStateError):
        group.add(member("x", protocols=names("sticky")))
    assert list(group.members) == ["m0"]
    with pytest.raises(IllegalStateError):
        group.update_member(group.get("m0"), names("a", "a"), 1, 1, None)


def test_removing_members() -> None:
    group = group_of(names("range"), names("range", "sticky"), names("range"))
    group.update_member(group.get("m1"), names("range", "sticky"), 1, 1, Deferred())
    group.remove("nobody")
    group.remove("")
    group.remove("m0")
    assert group.leader_id == "m1"
    group.remove("m1")
    assert (group.leader_id, group.num_members_awaiting_join) == ("m2", 0)
    assert group.supported_protocols == {"range": 1, "sticky": 0}
    group.remove("m2")
    assert group.leader_id is None
    group.add(member("m3", protocols=names("range")))
    group.leader_id = "gone"  # a record may name a leader that is not among its members
    assert group.remove("gone") is None
    assert group.leader_id == "m3"


def test_looking_members_up() -> None:
    group = group_of(names("range"), names("range"))
    assert group.has("m1")
    assert not group.has("m2")
    assert group.get("m1").member_id == "m1"
    assert (group.size, list(group.members)) == (2, ["m0", "m1"])
    with pytest.raises(KeyError):
        group.get("m2")


def test_the_rebalance_timeout_is_the_longest() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    assert group.rebalance_timeout_ms == 0
    for index, timeout in enumerate((5, 9, 7)):
        group.add(member(f"m{index}", rebalance_ms=timeout))
    assert group.rebalance_timeout_ms == 9


def test_updating_a_member_moves_its_votes_and_its_request() -> None:
    group = group_of(names("range", "sticky"))
    one = group.get("m0")
    group.update_member(one, names("sticky", "x"), 3, 4, Deferred())
    assert +group.supported_protocols == {"sticky": 1, "x": 1}
    assert (one.rebalance_timeout_ms, one.session_timeout_ms, group.num_members_awaiting_join) == (3, 4, 1)
    group.update_member(one, names("sticky"), 3, 4, Deferred())
    assert group.num_members_awaiting_join == 1
    group.update_member(one, names("sticky"), 3, 4, None)
    assert group.num_members_awaiting_join == 0


def test_a_pending_id_holds_the_join_phase_up() -> None:
    timer = Timer()
    group = group_of(names("range"))
    group.update_member(group.get("m0"), names("range"), 1, 1, Deferred())
    assert group.has_all_members_joined
    group.add_pending_member("p", timer.schedule(1, lambda: None))
    assert group.is_pending_member("p")
    assert not group.has_all_members_joined
    assert group.remove_pending_member("p")
    assert not group.remove_pending_member("p")
    assert group.has_all_members_joined
    group.add_pending_member("p", timer.schedule(1, lambda: None))
    group.add(member("p", protocols=names("range")))
    assert not group.is_pending_member("p")
    assert len(timer) == 0


def test_the_leader_must_have_rejoined() -> None:
    group = group_of(names("range"), names("range"), names("range"))
    assert not group.maybe_elect_joined_leader()
    assert group.leader_id == "m0"
    group.update_member(group.get("m2"), names("range"), 1, 1, Deferred())
    assert group.maybe_elect_joined_leader()
    assert group.leader_id == "m2"
    group.update_member(group.get("m0"), names("range"), 1, 1, Deferred())
    assert group.maybe_elect_joined_leader()
    assert group.leader_id == "m2"


def test_static_members_are_found_by_their_instance_id() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    group.add(member("m0", instance="i"))
    assert group.static_members == {"i": "m0"}
    assert group.has_static_member("i")
    assert not group.has_static_member(None)
    assert group.is_static_member_fenced("other", "i")
    assert not group.is_static_member_fenced("m0", "i")
    assert not group.is_static_member_fenced("m0", None)
    assert not group.is_static_member_fenced("m0", "unknown")
    group.remove("m0")
    assert group.static_members == {}


def test_a_static_member_keeps_its_place_under_a_new_id() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    group.add(member("m0", instance="i"))
    group.add(member("m1"))
    group.get("m0").assignment = b"kept"
    group.pending_sync_members.add("m0")
    group.replace_static_member("i", "m0", "m9")
    assert (list(group.members), group.leader_id, group.static_members) == (["m9", "m1"], "m9", {"i": "m9"})
    assert (group.get("m9").assignment, group.get("m9").member_id) == (b"kept", "m9")
    assert group.pending_sync_members == {"m9"}


# Strategies


def test_the_worked_example() -> None:
    group = group_of(names("B", "A"), names("A", "B", "C"), names("D", "B", "A"))
    assert group.candidate_protocols() == {"A", "B"}
    assert group.select_protocol() == "B"
    group.remove("m0")
    group.remove("m2")
    assert group.select_protocol() == "A"
    group = group_of(names("A", "B"), names("B", "A"), names("B", "A"))
    assert group.select_protocol() == "B", "each member votes, not the first alone"


def test_how_many_support_each_strategy() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    for index, preferred in enumerate((("range", "roundrobin"), ("range",), ("roundrobin", "sticky"))):
        group.add(member(f"m{index}", protocols=names(*preferred)))
    assert group.supported_protocols == {"range": 2, "roundrobin": 2, "sticky": 1}
    assert group.candidate_protocols() == set()


@pytest.mark.parametrize(
    ("spec_id", "lists", "elected"),
    [
        ("client:PS-04", [("roundrobin", "range"), ("range",)], "range"),
        ("client:PS-05", [("roundrobin", "range", "sticky"), ("range", "sticky")], "range"),
        ("transactions:VOT-EX1", [("range", "rr"), ("rr", "range"), ("rr", "sticky", "range")], "rr"),
        ("transactions:VOT-EX2", [("sticky", "range"), ("sticky", "range"), ("range",)], "range"),
        ("transactions:VOT-EX3", [("range", "rr"), ("rr", "range")], "range"),
        ("broker:PV-05", [("rr", "range"), ("range", "rr"), ("rr", "range")], "rr"),
    ],
)
def test_elections(spec_id: str, lists: list[tuple[str, ...]], elected: str) -> None:
    assert group_of(*(names(*one) for one in lists)).select_protocol() == elected


def test_a_rolling_change_of_the_strategy() -> None:
    group = group_of(names("sticky", "range"), names("range"), names("sticky", "range"))
    assert group.select_protocol() == "range"
    group.remove("m1")
    assert group.select_protocol() == "sticky"


def test_a_tie_goes_to_the_preference_of_the_oldest_member() -> None:
    lists = (names("x", "b", "a"), names("b", "a"), names("a", "b"))
    assert group_of(*lists[:1], *lists[1:]).select_protocol() == "b"
    assert group_of(lists[2], lists[1]).select_protocol() == "a"
    assert group_of(lists[1], lists[2]).select_protocol() == "b"


def test_a_group_without_members_selects_no_protocol() -> None:
    with pytest.raises(IllegalStateError):
        group_of().select_protocol()


def test_protocols_that_allow_a_join() -> None:
    empty = group_of()
    assert empty.supports_protocols("anything", names("x"))
    assert not empty.supports_protocols("", names("x"))
    assert not empty.supports_protocols("consumer", ())
    group = group_of(names("range", "sticky"), names("sticky", "range", "x"))
    group.transition_to(GroupState.PREPARING_REBALANCE)
    assert group.supports_protocols("consumer", names("x", "range"))
    assert not group.supports_protocols("consumer", names("x"))
    assert not group.supports_protocols("connect", names("range"))
    assert not group.supports_protocols("consumer", ())


def test_a_group_that_lost_all_members_takes_any_strategy_of_its_type() -> None:
    group = group_of(names("range"))
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.remove("m0")
    assert group.supports_protocols("consumer", names("whatever"))
    assert not group.supports_protocols("connect", names("range"))


# Generations


def test_the_next_generation() -> None:
    group = group_of((("range", subscription("t", "u")),), (("range", subscription("v")),))
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.received_consumer_commits = True
    group.init_next_generation()
    assert (group.generation_id, group.protocol_name, group.state) == (1, "range", GroupState.COMPLETING_REBALANCE)
    assert group.subscribed_topics == {"t", "u", "v"}
    assert not group.received_consumer_commits
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.remove("m0")
    group.remove("m1")
    group.init_next_generation()
    assert (group.generation_id, group.protocol_name, group.state) == (2, None, GroupState.EMPTY)
    assert group.subscribed_topics == frozenset()


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "topics"),
    [
        ("consumer", subscription("a"), frozenset({"a"})),
        ("consumer", b"\x00\x03" + subscription("a")[2:] + b"later", frozenset({"a"})),
        ("consumer", b"\x00", None),
        ("consumer", b"garbage", None),
        ("connect", subscription("a"), None),
    ],
)
def test_the_subscribed_topics_of_a_group(protocol_type: str, metadata: bytes, topics: frozenset[str] | None) -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock())
    assert group.subscribed_topics is None
    group.add(member(protocol_type=protocol_type, protocols=(("range", metadata),)))
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == topics
    group.protocol_name = None
    assert group.compute_subscribed_topics() is None


def test_the_leader_gets_every_subscription_for_the_selected_protocol() -> None:
    group = group_of((("a", b"a0"), ("b", b"b0")), (("b", b"b1"),))
    with pytest.raises(IllegalStateError):
        group.current_member_metadata()
    group.transition_to(GroupState.PREPARING_REBALANCE)
    with pytest.raises(IllegalStateError):
        group.current_member_metadata()
    group.init_next_generation()
    assert [(one.member_id, one.metadata) for one in group.current_member_metadata()] == [("m0", b"b0"), ("m1", b"b1")]


# What tools see


def test_overview_and_summary() -> None:
    empty = group_of()
    assert empty.overview() == ("g1", "", "Empty", "classic")
    assert empty.summary() == ("Empty", "", "", ())
    group = group_of(names("range"))
    group.get("m0").assignment = b"a"
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.init_next_generation()
    assert group.summary().protocol == ""
    assert (group.summary().members[0].metadata, group.summary().members[0].assignment) == (b"", b"a")
    group.transition_to(GroupState.STABLE)
    assert group.summary().protocol == "range"
    assert group.summary().members[0].assignment == b"a"
    group.protocol_name = None
    with pytest.raises(IllegalStateError):
        group.summary()


def test_a_loaded_group() -> None:
    group = GroupMetadata.loaded(
        "g1",
        ManualClock(),
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m1",
        state_timestamp=None,
        members=[member("m0", instance="i"), member("m1")],
    )
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.STABLE, 4, "m1")
    assert (group.static_members, group.num_members_awaiting_join) == ({"i": "m0"}, 0)
    assert group.current_state_timestamp is None
    assert group.subscribed_topics == {"t"}
    empty = GroupMetadata.loaded(
        "g1",
        ManualClock(),
        generation_id=2,
        protocol_type="",
        protocol_name=None,
        leader_id=None,
        state_timestamp=5,
        members=[],
    )
    assert (empty.state, empty.protocol_type, empty.current_state_timestamp) == (GroupState.EMPTY, None, 5)
