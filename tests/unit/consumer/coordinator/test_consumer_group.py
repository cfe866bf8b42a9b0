"""The consumer protocol's driver on a scripted network: commit, revoke, assign, acknowledge, and their failures."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.coordinator.consumer_group_membership import ConsumerMembership
from pyconsumer.consumer.coordinator.consumer_group_state import ConsumerMemberState as S
from pyconsumer.consumer.coordinator.group_state import SendHeartbeat, SendLeave, Sleep
from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.errors import (
    CommitFailedError,
    ConfigurationError,
    Errors,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    StaleMemberEpochError,
)
from pyconsumer.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.unit.consumer.coordinator.network import Call
from tests.unit.consumer.coordinator.script import NODE
from tests.unit.consumer.coordinator.support import T0, T1, U0, Bench

_REGEX = TopicPartition("r", 0)


class Group(Bench):
    """A bench whose heartbeats the test answers. Topic ids are the topic's name sixteen times."""

    core: ConsumerMembership
    _patient = False

    def __init__(self, **changes: Any) -> None:
        super().__init__(**({"group_protocol": "consumer"} | changes))

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        step = self.core.next_background(self.clock.now())
        if isinstance(step, Sleep) and self._patient:
            self.clock.advance(5.0)
            step = self.core.next_background(self.clock.now())
        self._step = step
        assert isinstance(self._step, SendHeartbeat), self._step
        assert isinstance(self._step.request, ConsumerGroupHeartbeatRequest)
        return self._step.request

    def answer(self, epoch: int = 1, *partitions: TopicPartition, code: int = 0, assign: bool = True) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=t.encode() * 16, partitions=ns) for t, ns in topics.items()]
        )
        message = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id=self.core.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=5000,
            assignment=assignment if assign and not code else None,
        )
        step = self._step
        assert isinstance(step, SendHeartbeat)
        self.core.on_heartbeat_completed(step, message, self.clock.now())
        self.coordinator._changed()

    def heartbeat(self, epoch: int = 1, *partitions: TopicPartition, **options: Any) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat, whose response brings these partitions."""
        self._patient = True
        request = self.beat()
        self._patient = False
        self.answer(epoch, *partitions, **options)
        return request

    def acknowledge(self, epoch: int = 1) -> ConsumerGroupHeartbeatRequest:
        request = self.beat()
        self.answer(epoch, assign=False)
        return request

    def enter(self, *partitions: TopicPartition, epoch: int = 1) -> None:
        """Make a new coordinator a stable member with these partitions."""
        self.learn(t=2, u=1)
        self.subscribe("t")
        self.meet_coordinator()
        self.heartbeat(epoch, *partitions)
        assert self.poll().done
        self.acknowledge(epoch)
        assert self.core.state is S.STABLE
        self.listener.calls.clear()


def automatic(*partitions: TopicPartition) -> Group:
    """A member with automatic commits that has read records."""
    group = Group(enable_auto_commit=True)
    group.enter(*partitions)
    group.read(**{f"p{tp.partition}": 5 + tp.partition for tp in partitions})
    return group


# -- joining and following ---------------------------------------------------------------------------------------------


def test_a_member_finds_the_coordinator_then_its_heartbeat_thread_starts() -> None:
    group = Group()
    group.learn(t=2)
    group.subscribe("t")
    assert group.poll().result is False
    assert group.coordinator.started == 0  # type: ignore[attr-defined]
    group.network.find(NODE)
    assert group.coordinator.next_due_at <= group.clock.now(), "the thread has to be started"
    assert group.poll().result is False
    assert group.coordinator.started == 1  # type: ignore[attr-defined]
    assert group.coordinator.next_due_at == math.inf, "only an answer helps"
    assert not group.coordinator.awaits_response, "and the heartbeat thread hears it"


def test_an_assignment_is_adopted_inside_a_poll_and_acknowledged_after_the_listener() -> None:
    group = Group()
    group.learn(t=2)
    group.subscribe("t")
    group.meet_coordinator()
    group.listener.hook = lambda what: seen.append(group.core.state)
    seen: list[S] = []
    group.heartbeat(3, T0, T1)
    assert group.subscriptions.assignment() == set()
    assert group.coordinator.next_due_at <= group.clock.now()
    group.poll()
    assert group.listener.calls == [("assigned", [T0, T1])]
    assert seen == [S.RECONCILING]
    assert group.subscriptions.assignment() == {T0, T1}
    request = group.acknowledge(3)
    assert request.topic_partitions == [TopicPartitions(topic_id=b"t" * 16, partitions=[0, 1])]
    assert group.poll().result is True
    identity = group.coordinator.group_metadata()
    assert (identity.generation_id, identity.member_id) == (3, group.core.member_id)


def test_the_order_is_commit_revoke_assign_acknowledge() -> None:
    group = automatic(T0, T1)
    group.heartbeat(2, T0)
    group.poll()
    assert group.listener.calls == [], "the commit comes first"
    assert not group.subscriptions.state(T1).is_fetchable, "nothing more is returned of what goes"
    assert group.subscriptions.state(T0).is_fetchable
    assert isinstance(group.core.next_background(group.clock.now()), Sleep)
    sent = group.answer_commit()
    assert sent.request.generation_id_or_member_epoch == 2
    assert {p.partition_index: p.committed_offset for t in sent.request.topics for p in t.partitions} == {0: 5, 1: 6}
    group.poll()
    assert group.listener.calls == [("revoked", [T1]), ("assigned", [])]
    assert group.subscriptions.assignment() == {T0}
    assert group.beat().topic_partitions == [TopicPartitions(topic_id=b"t" * 16, partitions=[0])]


def test_a_commit_before_a_rebalance_is_repeated_under_the_new_epoch_if_the_old_one_was_stale() -> None:
    group = automatic(T0, T1)
    group.heartbeat(2, T0)
    group.poll()
    group.answer_commit(Errors.STALE_MEMBER_EPOCH)
    group.poll()
    assert group.listener.calls == []
    group.heartbeat(3, assign=False)
    group.clock.advance(1.0)
    group.poll()
    assert group.answer_commit().request.generation_id_or_member_epoch == 3
    group.poll()
    assert group.listener.calls == [("revoked", [T1]), ("assigned", [])]


def test_a_commit_with_a_fatal_error_does_not_delay_the_rebalance() -> None:
    group = automatic(T0, T1)
    group.heartbeat(2, T0)
    group.poll()
    group.answer_commit(Errors.GROUP_AUTHORIZATION_FAILED)
    group.poll()
    assert group.listener.calls == [("revoked", [T1]), ("assigned", [])]


def test_a_member_fenced_during_the_commit_calls_on_partitions_lost() -> None:
    group = automatic(T0, T1)
    group.heartbeat(2, T0)
    group.poll()
    group.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    assert group.coordinator.has_user_output
    group.poll()
    assert group.listener.calls == [("lost", [T0, T1])]
    assert group.subscriptions.assignment() == set()
    assert group.beat().member_epoch == 0


@pytest.mark.parametrize("code", [Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_comes_back_under_the_same_id(code: int) -> None:
    group = Group()
    group.enter(T0)
    member_id = group.core.member_id
    group.heartbeat(code=code)
    group.poll()
    assert group.listener.calls == [("lost", [T0])]
    request = group.heartbeat(9, T0)
    assert (request.member_id, request.member_epoch) == (member_id, 0)
    group.poll()
    assert group.listener.calls[1:] == [("assigned", [T0])]


def test_a_member_fenced_during_on_partitions_revoked_loses_all_partitions() -> None:
    group = Group()
    group.enter(T0, T1)
    group.heartbeat(2, T0)
    group.listener.hook = lambda what: what == "revoked" and group.heartbeat(code=Errors.UNKNOWN_MEMBER_ID)
    group.poll()
    assert group.listener.calls == [("revoked", [T1]), ("lost", [T0])], "each callback runs once"
    assert group.core.state is S.JOINING


# -- callbacks that raise ----------------------------------------------------------------------------------------------


class Boom(Exception):
    pass


def _raise(when: str) -> Any:
    def hook(what: str) -> None:
        if what == when:
            raise Boom(what)

    return hook


def test_a_listener_that_raises_on_revocation_is_called_again_before_the_acknowledgement() -> None:
    group = Group()
    group.enter(T0, T1)
    group.read(p0=1, p1=1)
    group.heartbeat(2, T0)
    group.listener.hook = _raise("revoked")
    assert isinstance(group.poll().error, Boom)
    assert group.core.state is S.RECONCILING
    assert group.poll().error is None, "after a pause, so that the others are read"
    assert not group.subscriptions.state(T1).is_fetchable
    assert group.subscriptions.state(T0).is_fetchable
    assert group.heartbeat(2, assign=False).topic_partitions is None
    assert isinstance(group.poll().error, Boom)
    group.listener.hook = lambda what: None
    group.clock.advance(2.0)
    group.poll()
    assert group.listener.calls == [("revoked", [T1])] * 3 + [("assigned", [])]
    assert group.beat().topic_partitions is not None


def test_a_listener_that_raises_on_assignment_is_called_again_with_the_same_partitions() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(2, T0, T1)
    group.listener.hook = _raise("assigned")
    assert isinstance(group.poll().error, Boom)
    group.read(p0=1, p1=1)
    assert not group.subscriptions.state(T1).is_fetchable, "not before the listener has taken it"
    assert group.subscriptions.state(T0).is_fetchable
    assert group.heartbeat(2, assign=False).topic_partitions is None
    group.listener.hook = lambda what: None
    group.poll()
    assert group.listener.calls == [("assigned", [T1])] * 2
    assert group.subscriptions.state(T1).is_fetchable
    assert group.beat().topic_partitions is not None


def test_partitions_that_the_listener_never_received_are_not_revoked() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(2, T0, T1)
    group.listener.hook = _raise("assigned")
    assert isinstance(group.poll().error, Boom)
    group.listener.hook = lambda what: None
    group.heartbeat(3, T0)
    group.poll()
    assert group.listener.calls == [("assigned", [T1]), ("assigned", [])]
    assert group.subscriptions.assignment() == {T0}


def test_a_listener_that_raises_on_a_loss_is_not_called_again() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    group.listener.hook = _raise("lost")
    assert isinstance(group.poll().error, Boom)
    assert group.core.state is S.JOINING
    assert group.subscriptions.assignment() == set()


# -- names of topics ---------------------------------------------------------------------------------------------------


def test_a_partition_is_assigned_once_its_topic_has_a_name() -> None:
    group = Group()
    group.learn(t=2)
    group.subscribe("t", "u")
    group.meet_coordinator()
    before = group.metadata.update_count
    group.heartbeat(1, U0)
    group.poll()
    assert group.listener.calls == []
    assert group.metadata.update_requested
    assert group.coordinator.next_due_at == math.inf
    group.learn(t=2, u=1)
    assert group.metadata.update_count > before
    group.poll()
    assert group.listener.calls == [("assigned", [U0])]


def test_partitions_with_known_topics_are_assigned_first_and_the_rest_follows() -> None:
    group = Group()
    group.learn(t=2)
    group.subscribe("t", "u")
    group.meet_coordinator()
    group.heartbeat(1, T0, U0)
    group.poll()
    assert group.listener.calls == [("assigned", [T0])]
    assert group.acknowledge().topic_partitions == [TopicPartitions(topic_id=b"t" * 16, partitions=[0])]
    group.poll()
    assert isinstance(group.core.next_background(group.clock.now()), Sleep), "it is not sent repeatedly"
    group.learn(t=2, u=1)
    group.poll()
    assert group.listener.calls[1:] == [("assigned", [U0])]
    assert group.beat().topic_partitions is not None


def test_a_topic_created_again_is_another_topic() -> None:
    group = Group()
    group.enter(T0)
    group.read(p0=7)
    group.core._on_assignment(Assignment(topic_partitions=[TopicPartitions(topic_id=b"x" * 16, partitions=[0])]), 0.0)
    group.metadata._names[b"x" * 16] = "t"
    group.coordinator._changed()
    group.poll()
    assert group.listener.calls == [("revoked", [T0]), ("assigned", [T0])]
    assert group.subscriptions.state(T0).position is None, "it is a new topic"


def test_topics_of_a_broker_side_pattern_are_requested_by_id() -> None:
    group = Group()
    group.learn(t=1)
    group.subscriptions.subscribe_remote_pattern("r.*", group.listener)
    group.coordinator.on_subscription_change()
    group.meet_coordinator()
    request = group.heartbeat(1, _REGEX)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "r.*")
    group.poll()
    assert group.listener.calls == []
    query = group.metadata.query(group.clock.now()).request
    assert isinstance(query, MetadataRequest)
    assert [(t.name, t.topic_id) for t in query.topics or ()] == [(None, b"r" * 16), (None, b"t" * 16)]
    group.learn(r=1)
    group.poll()
    assert group.listener.calls == [("assigned", [_REGEX])]
    assert group.subscriptions.subscription() == {"r"}
    assert group.metadata.wanted_topics() == {"r"}


def test_a_client_side_pattern_joins_when_the_topics_are_known() -> None:
    import re

    group = Group()
    group.learn(t=1)
    group.subscriptions.subscribe_pattern(re.compile("[tu]"), group.listener)
    group.metadata.set_all_topics()
    group.coordinator.on_subscription_change()
    group.poll()
    assert group.core.state is S.UNSUBSCRIBED
    group.learn(t=1, u=1)
    group.meet_coordinator()
    assert group.beat().subscribed_topic_names == ["t", "u"]
    group.answer(1, T0)
    group.poll()
    group.acknowledge()
    group.learn(t=1)
    group.metadata.set_all_topics()
    group.poll()


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_has_the_member_epoch_at_its_encoding() -> None:
    """The heartbeat thread gets another epoch between the call and the encoding of the request."""
    group = Group()
    group.enter(T0)
    encode = group.network.send

    def bump(*args: Any, **kwargs: Any) -> Any:
        group.heartbeat(2, assign=False)
        return encode(*args, **kwargs)

    group.network.send = bump  # type: ignore[method-assign]
    call = Call(group.coordinator.commit({T0: OffsetAndMetadata(5)}, group.clock.now() + 10.0), group.clock)
    assert group.answer_commit().request.generation_id_or_member_epoch == 2
    assert call.resume().done
    assert call.error is None


def test_a_commit_with_a_stale_epoch_is_repeated_with_the_new_one() -> None:
    group = Group()
    group.enter(T0)
    call = Call(group.coordinator.commit({T0: OffsetAndMetadata(5)}, group.clock.now() + 10.0), group.clock)
    group.answer_commit(Errors.STALE_MEMBER_EPOCH)
    assert not call.resume().done
    assert isinstance(group.core.next_background(group.clock.now()), SendHeartbeat), "it asks at once"
    group.clock.advance(0.2)
    group.core.heartbeat_timers.received(group.clock.now())
    group.heartbeat(2, assign=False)
    call.resume()
    assert group.answer_commit().request.generation_id_or_member_epoch == 2
    assert call.resume().done
    assert call.error is None


def test_a_commit_with_a_stale_epoch_ends_at_its_deadline() -> None:
    group = Group()
    group.enter(T0)
    call = Call(group.coordinator.commit({T0: OffsetAndMetadata(5)}, group.clock.now() + 1.0), group.clock)
    while not call.done:
        if group.network.sent:
            group.answer_commit(Errors.STALE_MEMBER_EPOCH)
        call.sleep() if call.waiting is not None and call.waiting.future is None else call.resume()
    assert isinstance(call.error, KafkaTimeoutError)
    assert isinstance(call.error.__cause__, StaleMemberEpochError)


def test_a_commit_does_not_outlive_the_membership() -> None:
    group = Group()
    group.enter(T0)
    call = Call(group.coordinator.commit({T0: OffsetAndMetadata(5)}, group.clock.now() + 10.0), group.clock)
    group.answer_commit(Errors.STALE_MEMBER_EPOCH)
    call.resume()
    group.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    group.poll()
    group.heartbeat(9, T0)
    group.clock.advance(1.0)
    assert isinstance(call.resume().error, CommitFailedError)
    assert not group.network.sent


def test_commits_without_an_epoch_are_rejected_locally() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    offsets = {T0: OffsetAndMetadata(5)}
    assert isinstance(Call(group.coordinator.commit(offsets, 200.0), group.clock).error, CommitFailedError)
    group.poll()
    assert group.core.state is S.JOINING
    assert isinstance(Call(group.coordinator.commit(offsets, 200.0), group.clock).error, RebalanceInProgressError)


def test_an_asynchronous_commit_with_a_stale_epoch_fails_as_retriable() -> None:
    group = Group()
    group.enter(T0)
    reported: list[Any] = []
    group.coordinator.commit_async({T0: OffsetAndMetadata(5)}, lambda offsets, error: reported.append(error))
    group.answer_commit(Errors.STALE_MEMBER_EPOCH)
    group.poll()
    assert [type(error) for error in reported] == [RetriableCommitFailedError]


@pytest.mark.parametrize("code", [Errors.UNKNOWN_MEMBER_ID, Errors.GROUP_ID_NOT_FOUND, Errors.FENCED_MEMBER_EPOCH])
def test_a_rejected_commit_leaves_the_membership_to_the_heartbeat(code: int) -> None:
    group = Group()
    group.enter(T0)
    call = Call(group.coordinator.commit({T0: OffsetAndMetadata(5)}, group.clock.now() + 10.0), group.clock)
    group.answer_commit(code)
    assert isinstance(call.resume().error, CommitFailedError | FencedMemberEpochError)
    assert group.core.state is S.STABLE


def test_offset_fetch_has_member_id_and_epoch() -> None:
    group = Group()
    group.enter(T0)
    call = Call(group.coordinator.fetch_committed([T0], group.clock.now() + 10.0), group.clock)
    sent = group.network.take(OffsetFetchRequest)
    assert (sent.request.groups[0].member_id, sent.request.groups[0].member_epoch) == (group.core.member_id, 1)
    assert sent.request.groups[0].topics[0].topic_id == b"t" * 16
    sent.answer(
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=Errors.STALE_MEMBER_EPOCH)])
    )
    call.resume()
    group.heartbeat(2, assign=False)
    group.clock.advance(1.0)
    call.resume()
    sent = group.network.take(OffsetFetchRequest)
    assert sent.request.groups[0].member_epoch == 2


def test_an_automatic_commit_waits_for_no_rebalance() -> None:
    group = automatic(T0)
    group.clock.advance(5.0)
    group.poll()
    group.answer_commit()
    assert group.coordinator.next_due_at == group.clock.now() + 5.0


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_closing_revokes_then_leaves_and_waits_for_the_response() -> None:
    group = automatic(T0)
    call = Call(group.coordinator.close(group.clock.now() + 30.0), group.clock)
    group.answer_commit()
    group.listener.hook = lambda what: seen.append(group.core.state)
    seen: list[S] = []
    call.resume()
    assert group.listener.calls == [("revoked", [T0])]
    assert seen == [S.PREPARE_LEAVING]
    assert not call.done
    assert isinstance(group.core.next_background(group.clock.now()), SendLeave)
    group.core.on_leave_done()
    assert call.resume().done


def test_unsubscribing_and_subscribing_again_starts_a_new_incarnation() -> None:
    group = Group()
    group.enter(T0)
    Call(group.coordinator.on_unsubscribe(group.clock.now() + 30.0), group.clock)
    group.subscriptions.unsubscribe()
    assert group.listener.calls == [("revoked", [T0])]
    leave = group.core.next_background(group.clock.now())
    assert isinstance(leave, SendLeave)
    group.subscribe("u")
    group.poll()
    request = group.beat()
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["u"])


def test_a_member_fenced_before_close_calls_on_partitions_lost() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(code=Errors.FENCED_MEMBER_EPOCH)
    Call(group.coordinator.close(group.clock.now() + 30.0), group.clock)
    assert group.listener.calls == [("lost", [T0])]


def test_a_rejected_member_raises_at_every_poll_and_can_be_closed() -> None:
    group = Group()
    group.enter(T0)
    group.heartbeat(code=Errors.GROUP_MAX_SIZE_REACHED)
    for _ in range(3):
        assert isinstance(group.poll().error, GroupMaxSizeReachedError)
        assert group.coordinator.has_user_output
    assert group.listener.calls == [("lost", [T0])]
    assert Call(group.coordinator.close(group.clock.now() + 1.0), group.clock).error is None


def test_after_a_long_pause_the_next_poll_calls_on_partitions_lost_and_joins_again() -> None:
    group = Group(max_poll_interval_ms=10_000)
    group.enter(T0)
    group.clock.advance(10.0)
    assert isinstance(group.core.next_background(group.clock.now()), SendLeave)
    group.coordinator._changed()
    group.core.on_leave_done()
    group.poll()
    assert group.listener.calls == [("lost", [T0])]
    assert group.beat().member_epoch == 0


def test_enforce_rebalance_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    group.enter(T0)
    group.coordinator.enforce_rebalance("please")
    assert group.poll().result is True
    assert "has no effect under group_protocol='consumer'" in caplog.text


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partition_assignment_strategy": "range"}, "group_remote_assignor"),
        ({"session_timeout_ms": 45_000}, "group.consumer.session.timeout.ms"),
        ({"heartbeat_interval_ms": 3000}, "group.consumer.heartbeat.interval.ms"),
        ({"rebalance_delay_ms": 1}, "cooperative-sticky-delayed"),
    ],
)
def test_settings_of_the_classic_protocol_are_rejected_with_advice(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match="leave it out") as raised:
        CONSUMER_SETTINGS.build(settings | {"bootstrap_servers": "h:1", "group_id": "g", "group_protocol": "consumer"})
    assert words in str(raised.value)


def test_a_remote_assignor_needs_the_consumer_protocol() -> None:
    with pytest.raises(ConfigurationError, match="group_protocol='consumer'"):
        CONSUMER_SETTINGS.build({"bootstrap_servers": "h:1", "group_id": "g", "group_remote_assignor": "uniform"})


def test_a_partition_without_a_position_is_not_committed_before_a_rebalance() -> None:
    group = Group(enable_auto_commit=True)
    group.enter(T0)
    group.heartbeat(2, T0, T1)
    group.poll()
    assert group.listener.calls == [("assigned", [T1])], "nothing was read: nothing is committed, nothing waits"
    group.subscriptions.seek(T1, FetchPosition(1))
