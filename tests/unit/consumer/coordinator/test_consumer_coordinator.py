"""The coordinator's driver on a scripted network and a fake clock: the order of steps, waits, work of each poll."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.assignors import Assignment, RangeAssignor
from pyconsumer.consumer.coordinator.classic_group_rebalance import metadata_snapshot
from pyconsumer.network.metadata import MetadataQuery
from pyconsumer.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyconsumer.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.support.fake_network import SentRequest, metadata_response
from tests.unit.assignors.cluster import FakeCluster
from tests.unit.assignors.cooperative import Sticky
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.script import NODE
from tests.unit.consumer.coordinator.support import T0, T1, U0, Bench, Quiet, automatic


def topics_of(sent: SentRequest) -> list[str]:
    return decode_subscription(sent.request.protocols[0].metadata).topics


# -- joining -----------------------------------------------------------------------------------------------------------


def test_a_join_uses_the_coordinators_own_connection() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.poll()
    bench.network.find(NODE)
    bench.poll()
    assert bench.network.take(JoinGroupRequest).connection == "coordinator"


def test_polls_that_do_not_wait_join_step_by_step() -> None:
    bench = Bench()
    bench.learn(t=2)
    bench.subscribe("t")
    assert bench.coordinator.next_due_at <= bench.clock.now()
    assert bench.poll().result is False
    assert bench.coordinator.next_due_at == math.inf, "only an answer can help"
    bench.network.find(NODE)
    assert bench.coordinator.next_due_at <= bench.clock.now()
    assert bench.poll().result is False
    sent = bench.network.sent[0]  # its connection is made for this request
    assert (sent.node, sent.connection, sent.timeout) == (1, "coordinator", 305.0)
    assert bench.coordinator.next_due_at == math.inf
    bench.answer_join(4)
    assert bench.coordinator.next_due_at == math.inf, "the follower's SyncGroup has left by itself"
    bench.answer_sync(T0)
    assert bench.coordinator.next_due_at <= bench.clock.now()
    assert bench.subscriptions.assignment() == set(), "callbacks and assignment wait for a poll"
    assert bench.poll().result is True
    assert bench.listener.calls == [("assigned", [T0])]
    assert bench.subscriptions.assignment() == {T0}
    assert bench.coordinator.next_due_at == math.inf
    identity = bench.coordinator.group_metadata()
    assert (identity.group_id, identity.generation_id, identity.member_id) == ("g", 4, "me")
    assert isinstance(bench.coordinator, Quiet)
    assert bench.coordinator.started == 1


def test_polls_await_a_response_during_a_rebalance_or_a_commit() -> None:
    bench = Bench()
    coordinator = bench.coordinator
    assert not coordinator.awaits_response
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    assert coordinator.awaits_response
    bench.answer_join()
    bench.poll()
    assert coordinator.awaits_response
    bench.answer_sync(T0)
    assert bench.poll().result is True
    assert not coordinator.awaits_response
    commit = coordinator.commit_async({T0: OffsetAndMetadata(1)})
    assert coordinator.awaits_response
    bench.network.take(OffsetCommitRequest).fail()
    assert commit.done
    assert not coordinator.awaits_response


def test_a_poll_that_waits_joins_in_one_go() -> None:
    bench = Bench()
    bench.learn(t=2)
    bench.subscribe("t")
    call = bench.poll(60.0)
    bench.network.find(NODE)
    call.resume()
    bench.answer_join()
    call.resume()
    bench.answer_sync(T0, T1)
    assert call.resume().result is True
    assert bench.listener.calls == [("assigned", [T0, T1])]


def test_a_poll_ends_at_its_deadline_while_the_join_continues() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    call = bench.poll(5.0)
    bench.network.find(NODE)
    call.resume()
    assert call.sleep().result is False
    call = bench.poll(5.0)
    assert len(bench.network.sent) == 1, "the JoinGroup under way is not repeated"
    bench.answer_join()
    call.resume()
    bench.answer_sync(T0)
    assert call.resume().result is True


def test_a_join_carries_the_metadata_of_each_assignor() -> None:
    class Mine(RangeAssignor):
        name = "mine"  # type: ignore[assignment]

        def subscription_user_data(self, topics: frozenset[str]) -> bytes:
            return ",".join(sorted(topics)).encode()

    bench = Bench(partition_assignment_strategy=[Mine(), "range"], client_rack="r1")
    bench.learn(t=1, u=1)
    bench.subscribe("u", "t")
    bench.meet_coordinator()
    protocols = bench.network.take(JoinGroupRequest).request.protocols
    assert [p.name for p in protocols] == ["mine", "range"]
    mine, plain = (decode_subscription(p.metadata) for p in protocols)
    assert (mine.topics, mine.user_data, mine.rack_id) == (["t", "u"], b"t,u", "r1")
    assert (plain.topics, plain.user_data, plain.owned_partitions, plain.generation_id) == (["t", "u"], None, [], -1)


def test_a_leader_assigns_the_topics_of_all_members() -> None:
    bench = Bench()
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t", "zoe": "t u"})
    assert bench.poll().result is False
    assert bench.network.sent == [], "metadata of u has to come first"
    assert bench.subscriptions.metadata_topics() == {"t", "u"}
    assert bench.coordinator.next_due_at == math.inf
    bench.learn(t=2, u=1)
    assert bench.coordinator.next_due_at == -math.inf
    bench.poll()
    sent = bench.answer_sync(T0)
    shares = {a.member_id: decode_assignment(a.assignment)[0] for a in sent.request.assignments}
    assert shares == {"me": [T0], "zoe": [T1, U0]}
    assert bench.poll().result is True


@pytest.mark.parametrize("code", [3, 17, 29], ids=["unknown", "impossible", "forbidden"])
def test_a_topic_that_does_not_exist_or_may_not_be_read_holds_no_leader_up(code: int) -> None:
    bench = Bench()
    bench.subscribe("t")
    bench.metadata.update(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)],
            topics=[MetadataResponseTopic(name="t", error_code=code)],
        ),
        12,
        bench.clock.now(),
    )
    assert (bench.metadata.take_topic_error() is None) == (code == 3), "the error has been raised"
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.answer_sync()
    assert bench.poll().result is True
    assert bench.listener.calls == [("assigned", [])]


class Generous(RangeAssignor):
    """Also assigns topic u to the first member, although the group is not subscribed to it."""

    name = "generous"  # type: ignore[assignment]

    def subscription_user_data(self, topics: frozenset[str]) -> bytes:
        return b"from me"

    def assign(self, cluster: Any, subscriptions: Any) -> Any:
        self.heard = {member: each.user_data for member, each in subscriptions.items()}
        first = min(subscriptions)
        found = super().assign(cluster, subscriptions)
        return found | {first: Assignment((*found[first].partitions, U0), b"to you")}

    def on_assignment(self, assignment: Assignment, metadata: Any) -> None:
        self.reported = (assignment, metadata.generation_id)


def test_an_assignor_of_ones_own_from_the_vote_to_the_assignment() -> None:
    mine = Generous()
    bench = Bench(partition_assignment_strategy=[mine])
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    (voted,) = bench.network.sent[0].request.protocols
    assert voted.name == "generous"
    # Version 3 of the blob: topics, user data, no owned partitions, no generation, no rack.
    assert voted.metadata == bytes.fromhex("0003 00000001 0001 74 00000007") + b"from me" + bytes(4) + b"\xff" * 6
    bench.answer_join(leader="me", members={"me": "t", "zoe": "t"}, protocol_name="generous")
    bench.poll()
    sent = bench.network.take(SyncGroupRequest)
    assert mine.heard == {"me": None, "zoe": None}
    shares = {a.member_id: a.assignment for a in sent.request.assignments}
    assert decode_assignment(shares["me"]) == ([T0, U0], b"to you")
    assert shares["zoe"] == bytes.fromhex("0003 00000001 0001 74 00000001 00000001 ffffffff")
    sent.answer(SyncGroupResponse(assignment=encode_assignment([T0], b"to you")))
    assert bench.poll().result is True
    assert mine.reported == (Assignment((T0,), b"to you"), 1)


def test_on_assignment_of_an_assignor_is_called_before_the_subscription_changes() -> None:
    seen: list[tuple[str, set[TopicPartition]]] = []

    class Watching(Generous):
        def on_assignment(self, assignment: Assignment, metadata: Any) -> None:
            seen.append(("assignor", bench.subscriptions.assignment()))

    bench = Bench(partition_assignment_strategy=[Watching()])
    bench.learn(t=1)
    bench.subscribe("t")
    bench.listener.hook = lambda what: seen.append((what, bench.subscriptions.assignment()))
    bench.meet_coordinator()
    bench.answer_join(protocol_name="generous")
    bench.poll()
    bench.network.take(SyncGroupRequest).answer(SyncGroupResponse(assignment=encode_assignment([T0])))
    assert bench.poll().result is True
    assert seen == [("assignor", set()), ("assigned", {T0})]


def test_a_leader_watches_topics_that_its_assignor_added() -> None:
    bench = Bench(partition_assignment_strategy=[Generous()])
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t", "abe": "t"}, protocol_name="generous")
    bench.poll()
    sent = bench.network.take(SyncGroupRequest)
    shares = {a.member_id: decode_assignment(a.assignment)[0] for a in sent.request.assignments}
    assert shares == {"abe": [T0, U0], "me": [T1]}
    assert bench.subscriptions.metadata_topics() == {"t", "u"}


def test_a_leader_divides_by_the_strategy_that_was_chosen_not_by_its_first() -> None:
    mine = Generous()
    bench = Bench(partition_assignment_strategy=[RangeAssignor(), mine])
    bench.learn(t=3)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t", "zoe": "t"}, protocol_name="generous")
    bench.poll()
    sent = bench.network.take(SyncGroupRequest)
    assert mine.heard == {"me": None, "zoe": None}
    shares = {a.member_id: decode_assignment(a.assignment)[0] for a in sent.request.assignments}
    assert shares == {"me": [T0, T1, U0], "zoe": [TopicPartition("t", 2)]}


def test_an_assignor_that_we_do_not_have() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"}, protocol_name="other")
    error = bench.poll().error
    assert isinstance(error, errors.IllegalStateError)
    assert str(error) == "Coordinator selected invalid assignment protocol: other"


def test_an_assignment_that_does_not_match_the_subscription_is_not_taken_over() -> None:
    bench = Bench()
    bench.learn(t=1, u=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join()
    bench.answer_sync(U0)
    assert bench.poll().result is False
    assert bench.listener.calls == [("revoked", [])]
    assert "does not match" in (bench.network.take(JoinGroupRequest).request.reason or "")


def test_an_assignment_that_cannot_be_read_is_an_error_and_a_rejoin() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join()
    bench.network.take(SyncGroupRequest).answer(SyncGroupResponse(assignment=b"\x00"))
    assert isinstance(bench.poll().error, errors.ProtocolError)
    bench.poll()
    assert len(bench.network.sent) == 1


# -- rebalances --------------------------------------------------------------------------------------------------------


def test_everything_is_revoked_before_the_join() -> None:
    bench = Bench()
    bench.learn(t=2)
    bench.subscribe("t")
    bench.join(T0, T1)
    bench.core.request_rejoin("because")
    bench.listener.hook = lambda what: bench.reported.append(
        (what, bench.subscriptions.assignment(), bench.network.sent[:])
    )
    bench.poll()
    assert bench.reported == [("revoked", {T0, T1}, [])]
    assert bench.subscriptions.assignment() == set()
    assert len(bench.network.sent) == 1


def test_a_lost_generation_calls_on_partitions_lost() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    bench.core.leave("poll timeout", bench.clock.now())
    bench.poll()
    assert bench.listener.calls == [("assigned", [T0]), ("lost", [T0])]


@pytest.mark.parametrize("what", ["assigned", "revoked", "lost"])
def test_an_error_of_a_listener_is_raised_once_and_the_step_is_done(what: str) -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")

    def hook(kind: str) -> None:
        if kind == what:
            bench.listener.hook = lambda kind: None
            raise RuntimeError(what)

    if what == "assigned":
        bench.listener.hook = hook
        bench.poll()
        bench.network.find(NODE)
        bench.poll()
        bench.answer_join()
        bench.answer_sync(T0)
        assert str(bench.poll().error) == what
        assert bench.subscriptions.assignment() == {T0}
        assert bench.core.may_commit
        assert bench.poll().result is True
        return
    bench.join(T0)
    bench.listener.hook = hook
    if what == "lost":
        bench.core.leave("poll timeout", bench.clock.now())
    else:
        bench.core.request_rejoin("because")
    assert str(bench.poll().error) == what
    assert bench.subscriptions.assignment() == set()
    assert bench.poll().result is False
    assert len(bench.network.sent) == 1, "the join follows in the next poll"
    assert bench.network.quiet == 0, "wakeups are let through again"


def test_group_errors_are_raised_by_poll_and_the_next_poll_continues() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.network.take(JoinGroupRequest).answer(JoinGroupResponse(error_code=81))
    assert bench.coordinator.has_user_output
    assert isinstance(bench.poll().error, errors.GroupMaxSizeReachedError)
    assert not bench.coordinator.has_user_output
    assert bench.coordinator.next_due_at > bench.clock.now()
    bench.clock.advance(1.0)
    assert bench.poll().result is False
    assert len(bench.network.sent) == 1


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    bench = Bench()
    bench.learn(t=1, other=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(leader="me", members={"me": "t"})
    bench.poll()
    bench.answer_sync(T0)
    assert bench.poll().result is True
    bench.learn(t=1, other=5)
    assert bench.poll().result is True
    assert bench.network.sent == []
    bench.learn(t=2, other=5)
    assert bench.coordinator.next_due_at == -math.inf
    assert bench.poll().result is False
    assert "metadata" in (bench.network.take(JoinGroupRequest).request.reason or "")


def test_a_pattern_waits_for_metadata_then_follows_it() -> None:
    import re

    bench = Bench()
    bench.subscriptions.subscribe_pattern(re.compile("[tu]"), bench.listener)
    bench.metadata.set_all_topics()
    bench.coordinator.on_subscription_change()
    bench.meet_coordinator()
    assert bench.network.sent == [], "the topics that match are not known yet"
    assert bench.coordinator.next_due_at == math.inf
    older = MetadataQuery(MetadataRequest(topics=[]), False, 0, 0)  # it was in flight when the pattern came
    bench.metadata.update(metadata_response({}), 12, bench.clock.now(), older)
    bench.poll()
    assert bench.network.sent == []
    bench.learn(t=1, v=1)
    bench.poll()
    assert topics_of(bench.answer_join()) == ["t"]
    bench.answer_sync(T0)
    assert bench.poll().result is True
    bench.learn(t=1, v=1, u=1)
    assert bench.poll().result is False
    assert topics_of(bench.network.take(JoinGroupRequest)) == ["t", "u"]


def test_a_pattern_includes_topics_that_only_the_leader_knows() -> None:
    import re

    bench = Bench()
    bench.subscriptions.subscribe_pattern(re.compile("[tu]"), bench.listener)
    bench.metadata.set_all_topics()
    bench.coordinator.on_subscription_change()
    bench.learn(t=1)
    bench.join(T0, U0)
    assert bench.subscriptions.assignment() == {T0, U0}
    assert bench.subscriptions.subscription() == {"t", "u"}
    assert bench.poll().result is True
    assert bench.network.sent == []


def test_enforcing_a_rebalance_names_the_reason() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    bench.coordinator.enforce_rebalance()
    assert bench.coordinator.next_due_at <= bench.clock.now()
    bench.poll()
    assert bench.network.take(JoinGroupRequest).request.reason == "rebalance enforced by user"


# -- automatic commits -------------------------------------------------------------------------------------------------


def test_positions_are_committed_when_the_interval_is_over() -> None:
    bench = automatic()
    assert bench.coordinator.next_due_at == 105.0
    bench.clock.advance(5.0)
    bench.poll()
    bench.answer_commit()
    assert bench.coordinator.has_user_output
    bench.poll()
    assert bench.reported == [{T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(7)}]
    assert bench.coordinator.next_due_at == 110.0


def test_before_a_join_the_commit_comes_first_then_the_listener() -> None:
    bench = automatic()
    bench.core.request_rejoin("because")
    assert bench.poll().result is False
    assert bench.listener.calls == [("assigned", [T0, T1])]
    assert not bench.subscriptions.state(T0).is_fetchable, "no more records are returned"
    assert bench.coordinator.next_due_at > bench.clock.now(), "no busy waiting for the answer"
    bench.poll()
    bench.answer_commit()
    assert bench.coordinator.next_due_at <= bench.clock.now()
    bench.poll()
    assert bench.listener.calls[1:] == [("revoked", [T0, T1])]
    bench.network.take(JoinGroupRequest)


def test_a_commit_before_a_join_is_repeated_for_as_long_as_the_rebalance_lasts() -> None:
    bench = automatic(max_poll_interval_ms=10_000)
    bench.core.request_rejoin("because")
    bench.poll()
    attempts = 0
    while bench.network.sent and isinstance(bench.network.sent[0].request, OffsetCommitRequest):
        bench.answer_commit(14)
        attempts += 1
        bench.poll()
        due = bench.coordinator.next_due_at
        assert due > bench.clock.now() or bench.network.sent
        if not bench.network.sent:
            bench.clock.advance_to(due)
            bench.poll()
    assert attempts > 5
    assert bench.clock.now() >= 110.0
    bench.network.take(JoinGroupRequest)


def test_a_rejected_commit_before_a_join_does_not_stop_the_join() -> None:
    bench = automatic()
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit(29)
    bench.poll()
    assert bench.listener.calls[1:] == [("revoked", [T0, T1])]
    bench.network.take(JoinGroupRequest)


def test_a_commit_before_a_join_that_finds_us_expelled_makes_revoked_lost() -> None:
    bench = automatic()
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit(25)
    bench.poll()
    assert bench.listener.calls[1:] == [("lost", [T0, T1])]


def test_a_coordinator_lost_during_that_commit_is_looked_up_first() -> None:
    bench = automatic()
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit(16)
    bench.meet_coordinator()
    bench.clock.advance_to(bench.coordinator.next_due_at)
    bench.poll()
    bench.answer_commit()
    bench.poll()
    bench.network.take(JoinGroupRequest)


def test_no_automatic_commit_while_rebalancing() -> None:
    bench = automatic()
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit()
    bench.poll()
    bench.clock.advance(20.0)
    bench.poll()
    bench.network.take(JoinGroupRequest)


def test_manually_assigned_partitions_are_committed_too() -> None:
    bench = Bench(enable_auto_commit=True)
    bench.learn(t=1)
    bench.subscriptions.assign_from_user([T0])
    bench.read(p0=3)
    bench.clock.advance(5.0)
    assert bench.coordinator.next_due_at <= bench.clock.now()
    assert bench.poll().result is True
    bench.network.find(NODE)
    sent = bench.answer_commit()
    assert sent.request.generation_id_or_member_epoch == -1


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_close_commits_calls_the_listener_and_leaves() -> None:
    bench = automatic()
    call = Call(bench.coordinator.close(160.0), bench.clock)
    assert bench.listener.calls == [("assigned", [T0, T1])]
    bench.answer_commit()
    call.resume()
    assert bench.listener.calls[1:] == [("revoked", [T0, T1])]
    assert not call.done
    assert bench.core.leaving
    bench.core.next_background(bench.clock.now())
    bench.core.on_leave_done()
    assert call.resume().done
    assert call.error is None
    assert bench.network.quiet == 0


def test_closing_does_not_outlast_its_deadline() -> None:
    bench = automatic()
    call = Call(bench.coordinator.close(101.0), bench.clock)
    call.sleep()
    assert bench.listener.calls == [("assigned", [T0, T1])], "no callback after the deadline"
    assert call.done
    assert call.error is None


def test_closing_can_stay_in_the_group() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    call = Call(bench.coordinator.close(160.0, leave_group=False), bench.clock)
    assert call.done
    assert not bench.core.leaving
    assert bench.listener.calls == [("assigned", [T0]), ("revoked", [T0])]


def test_an_error_of_the_listener_in_close_is_raised_after_leaving() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)

    def hook(what: str) -> None:
        raise RuntimeError("mine")

    bench.listener.hook = hook
    call = Call(bench.coordinator.close(160.0), bench.clock)
    assert str(call.error) == "mine"
    assert bench.core.leaving
    assert bench.core._closed


def test_unsubscribe_leaves_and_subscribe_joins_again() -> None:
    bench = Bench()
    bench.learn(t=1)
    bench.subscribe("t")
    bench.join(T0)
    assert Call(bench.coordinator.on_unsubscribe(160.0), bench.clock).done
    bench.subscriptions.unsubscribe()
    assert bench.listener.calls == [("assigned", [T0]), ("revoked", [T0])]
    assert bench.core.leaving
    assert bench.coordinator.next_due_at == math.inf
    bench.subscribe("t")
    bench.poll()
    assert bench.network.take(JoinGroupRequest).request.member_id == ""


def test_partitions_revoked_from_a_cooperative_member_can_be_committed_in_the_new_generation() -> None:
    """As in Java: other members get them only in the next round, and begin at this commit."""
    bench = Bench(partition_assignment_strategy=[Sticky()])
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    for generation, share in ((1, [T0, T1]), (2, [T0])):
        bench.answer_join(generation, protocol_name="test-cooperative")
        bench.network.take(SyncGroupRequest).answer(SyncGroupResponse(assignment=encode_assignment(share)))
        if generation == 1:
            bench.poll()
            bench.core.request_rejoin("because")
            bench.poll()
    outcome: list[object] = []

    def hook(what: str) -> None:
        if what == "revoked":
            call = Call(bench.coordinator.commit({T1: OffsetAndMetadata(7)}, 160.0), bench.clock)
            request = bench.answer_commit().request
            outcome.extend([call.resume().done, request.generation_id_or_member_epoch])

    bench.listener.hook = hook
    bench.poll()
    assert bench.listener.calls[-2:] == [("revoked", [T1]), ("assigned", [])]
    assert outcome == [True, 2]


def test_partitions_revoked_from_a_cooperative_member_are_committed_automatically() -> None:
    """Records may be returned after the join began. Their commit is sent before the next JoinGroup."""
    bench = Bench(partition_assignment_strategy=[Sticky()], enable_auto_commit=True)
    bench.learn(t=2)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(1, protocol_name="test-cooperative")
    sync = bench.network.take(SyncGroupRequest)
    sync.answer(SyncGroupResponse(assignment=encode_assignment([T0, T1])))
    bench.poll()
    bench.read(p0=5, p1=5)
    bench.core.request_rejoin("because")
    bench.poll()
    bench.answer_commit()
    bench.poll()
    bench.read(p1=9)
    bench.answer_join(2, protocol_name="test-cooperative")
    sync = bench.network.take(SyncGroupRequest)
    sync.answer(SyncGroupResponse(assignment=encode_assignment([T0])))
    bench.poll()
    of_revoked, before_join = (sent.request for sent in bench.network.sent)
    assert bench.listener.calls[-2:] == [("revoked", [T1]), ("assigned", [])]
    assert committed(of_revoked) == {1: 9}
    assert committed(before_join) == {0: 5}
    assert {of_revoked.generation_id_or_member_epoch, before_join.generation_id_or_member_epoch} == {2}


def committed(request: OffsetCommitRequest) -> dict[int, int]:
    """Offsets by partition of a commit of one topic."""
    (topic,) = request.topics
    return {p.partition_index: p.committed_offset for p in topic.partitions}


def test_unsubscribe_during_a_rebalance_calls_on_partitions_lost() -> None:
    """Between JoinGroup and SyncGroup the owner of a partition is unknown."""
    bench = Bench(partition_assignment_strategy=[Sticky()])
    bench.learn(t=1)
    bench.subscribe("t")
    bench.meet_coordinator()
    bench.answer_join(protocol_name="test-cooperative")
    sync = bench.network.take(SyncGroupRequest)
    sync.answer(SyncGroupResponse(assignment=encode_assignment([T0])))
    bench.poll()
    bench.core.request_rejoin("because")
    bench.poll()
    assert bench.core.rebalancing
    assert Call(bench.coordinator.on_unsubscribe(160.0), bench.clock).done
    assert bench.listener.calls[-1] == ("lost", [T0])


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_wrong_assignors_are_refused_at_construction() -> None:
    with pytest.raises(errors.ConfigurationError, match="no assignor is called 'nope'"):
        Bench(partition_assignment_strategy="nope")


def test_a_snapshot_has_partition_counts_and_with_racks_the_replica_racks() -> None:
    cluster = FakeCluster({"t": [["a", "b"], ["a"]], "u": 3, "empty": 0})
    assert metadata_snapshot(cluster, ["t", "u", "empty", "gone"], racks=False) == {"t": 2, "u": 3}
    assert metadata_snapshot(cluster, ["t"], racks=True) == {"t": (frozenset("ab"), frozenset("a"))}


def test_noting_a_poll_is_all_that_the_short_path_needs() -> None:
    bench = Bench()
    bench.coordinator.note_poll(150.0)
    assert bench.core.heartbeat_timers.last_poll == 150.0
