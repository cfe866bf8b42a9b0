"""Tests of each error code of a group, on the coordinator that returns it and in the member that gets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyconsumer import errors
from pyconsumer.broker.group.classic.group_metadata import GroupState
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState, PrepareJoin
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, FindCoordinator, Generation, Raise
from pyconsumer.errors import BY_CODE, KafkaError, for_code
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.requests.find_coordinator import read_coordinator
from pyconsumer.structs import OffsetAndMetadata
from tests.unit.broker.group.support import GROUP, FakeBroker, World, ask, value_of
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.script import NODE, Member
from tests.unit.consumer.coordinator.support import T0, automatic


def heartbeat(code: int) -> Member:
    """A stable member of generation 5 whose heartbeat gets this error."""
    member = Member()
    member.stable(5)
    member.advance(3.0)
    member.answer_heartbeat(member.heartbeat(), code)
    return member


def raised(member: Member) -> KafkaError:
    step = member.core.next_action(member.now)
    assert isinstance(step, Raise)
    return step.error


def the_coordinator_is_looked_up_again(code: int) -> None:
    member = heartbeat(code)
    assert member.core.coordinator is None
    assert isinstance(member.core.next_background(member.now), FindCoordinator)
    assert member.core.generation == Generation(5, "me", "range")


def no_coordinator(code: int) -> None:
    the_coordinator_is_looked_up_again(code)
    member = Member()
    member.find()
    member.prepare()
    member.core.on_coordinator_lost(NODE.node_id, "gone", 0.0)
    assert member.core.begin_join([], ["t"], 0.0) is None
    assert member.core.state is ClassicMemberState.UNJOINED
    broker = FakeBroker(World())
    broker.has_leader = False
    assert ask(broker, FindCoordinatorRequest(key=GROUP), 3).error_code == code
    world = World()
    world.stable()
    world.group().transition_to(GroupState.DEAD)
    assert value_of(world.join()).error_code == code


def the_generation_is_reset_and_the_id_kept(code: int) -> None:
    core = heartbeat(code).core
    assert core.generation == Generation(-1, "me")
    step = core.next_action(3.0)
    assert isinstance(step, PrepareJoin)
    assert step.lost


def no_assignor_in_common(code: int) -> None:
    world = World()
    (client,) = world.stable()
    refused = value_of(world.join(protocols=(("other", b""),)))
    assert (refused.error_code, refused.member_id) == (code, "")
    assert world.heartbeat(client) == 0
    assert world.state is GroupState.STABLE
    member = Member()
    member.answer_join(member.send_join(), code)
    assert isinstance(raised(member), errors.InconsistentGroupProtocolError)
    member = Member()
    member.answer_join(member.send_join(), protocol_type="connect")
    assert raised(member).errno == code  # type: ignore[attr-defined]


def the_member_is_not_known(code: int) -> None:
    core = heartbeat(code).core
    assert core.generation == NO_GENERATION
    world = World()
    pending = value_of(world.join(require_id=True, session_ms=8_000)).member_id
    world.advance(8.1)
    assert value_of(world.join(pending)).error_code == code


def the_session_timeout_is_out_of_bounds(code: int) -> None:
    world = World(group_min_session_timeout_ms=6_000, group_max_session_timeout_ms=60_000)
    assert [value_of(world.join(session_ms=ms)).error_code for ms in (5_999, 60_001)] == [code, code]
    member = Member()
    member.answer_join(member.send_join(), code)
    assert isinstance(raised(member), errors.InvalidSessionTimeoutError)


def a_rebalance_is_announced(code: int) -> None:
    member = heartbeat(code)
    assert member.core.rejoin_needed
    assert member.core.generation == Generation(5, "me", "range")
    assert member.core.heartbeat_timers.last_received == member.now
    assert not member.core.heartbeat_timers.session_expired(member.now + 9.9)


def the_group_is_forbidden(code: int) -> None:
    error = raised(heartbeat(code))
    assert isinstance(error, errors.GroupAuthorizationFailedError)
    assert "group g" in str(error)
    answer = FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=code)])
    with pytest.raises(errors.GroupAuthorizationFailedError, match="group g"):
        read_coordinator("g", 4, answer)


def joining_is_not_supported(code: int) -> None:
    member = Member(group_instance_id="i")
    member.answer_join(member.send_join(), code)
    assert isinstance(raised(member), errors.UnsupportedVersionError)


def an_id_is_given_out(code: int) -> None:
    world = World()
    refused = value_of(world.join(require_id=True, client_id="me"))
    assert (refused.error_code, refused.member_id) == (code, "me-uuid1")
    assert set(world.group().pending_members) == {"me-uuid1"}
    world.advance(9.9)
    assert not world.join(refused.member_id).done, "welcome, while the session timeout lasts"
    member = Member()
    member.answer_join(member.send_join(), code, member_id="me-uuid1")
    assert member.build().request.member_id == "me-uuid1"


def the_group_is_full(code: int) -> None:
    world = World(group_max_size=2)
    clients = world.stable(2)
    assert value_of(world.join()).error_code == code
    assert [world.heartbeat(client) for client in clients] == [0, 0]
    member = Member()
    member.answer_join(member.send_join(), code)
    assert isinstance(raised(member), errors.GroupMaxSizeReachedError)


def it_is_raised_and_never_repeated(code: int) -> None:
    member = Member()
    member.answer_join(member.send_join(), code)
    error = raised(member)
    assert not error.retriable
    bench = automatic()
    call = Call(bench.coordinator.commit({T0: OffsetAndMetadata(1)}, 160.0), bench.clock)
    bench.answer_commit(code)
    call.resume()
    assert type(call.error) is type(error)
    assert bench.network.sent == []


EFFECTS: list[tuple[str, int, str, Callable[[int], None]]] = [
    ("client:ER-07", 15, "COORDINATOR_NOT_AVAILABLE", no_coordinator),
    ("client:ER-08", 16, "NOT_COORDINATOR", the_coordinator_is_looked_up_again),
    ("client:ER-09", 22, "ILLEGAL_GENERATION", the_generation_is_reset_and_the_id_kept),
    ("client:ER-10", 23, "INCONSISTENT_GROUP_PROTOCOL", no_assignor_in_common),
    ("client:ER-11", 25, "UNKNOWN_MEMBER_ID", the_member_is_not_known),
    ("client:ER-12", 26, "INVALID_SESSION_TIMEOUT", the_session_timeout_is_out_of_bounds),
    ("client:ER-13", 27, "REBALANCE_IN_PROGRESS", a_rebalance_is_announced),
    ("client:ER-15", 30, "GROUP_AUTHORIZATION_FAILED", the_group_is_forbidden),
    ("client:ER-16", 35, "UNSUPPORTED_VERSION", joining_is_not_supported),
    ("client:ER-18", 79, "MEMBER_ID_REQUIRED", an_id_is_given_out),
    ("transactions:ERR-10", 24, "INVALID_GROUP_ID", it_is_raised_and_never_repeated),
    ("transactions:ERR-16", 42, "INVALID_REQUEST", it_is_raised_and_never_repeated),
    ("client:ER-19", 81, "GROUP_MAX_SIZE_REACHED", the_group_is_full),
]


@pytest.mark.parametrize(("item", "code", "name", "effect"), EFFECTS, ids=[name for _, _, name, _ in EFFECTS])
def test_the_code_and_its_effect(item: str, code: int, name: str, effect: Callable[[int], None]) -> None:
    error = for_code(code, "because")
    assert (BY_CODE[code].code_name, error.errno) == (name, code)
    effect(code)


NUMBERS = [
    (2, "CORRUPT_MESSAGE"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS"),
    (24, "INVALID_GROUP_ID"),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    (70, "FETCH_SESSION_ID_NOT_FOUND"),
    (71, "INVALID_FETCH_SESSION_EPOCH"),
    (74, "FENCED_LEADER_EPOCH"),
    (75, "UNKNOWN_LEADER_EPOCH"),
    (78, "OFFSET_NOT_AVAILABLE"),
    (82, "FENCED_INSTANCE_ID"),
]


def test_numbers_of_further_codes() -> None:
    assert [(code, BY_CODE[code].code_name, for_code(code, "").errno) for code, _ in NUMBERS] == [
        (code, name, code) for code, name in NUMBERS
    ]
