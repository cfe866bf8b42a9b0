"""Commits and committed offsets against a scripted coordinator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState
from pyconsumer.consumer.coordinator.coordinator_client import CoordinatorClient
from pyconsumer.consumer.coordinator.offset_commits import AutoCommit, CommittedOffsets, OffsetCommitter
from pyconsumer.errors import KafkaError
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.support.fake_network import SentRequest
from tests.unit.consumer.coordinator.network import Call, GroupNetwork
from tests.unit.consumer.coordinator.script import BACKOFF, NODE, OTHER, Member

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Bench:
    """A committer of a stable member, or with ``manual`` of a consumer with manually assigned partitions."""

    def __init__(
        self, *, manual: bool = False, ids: bool = True, instance: str | None = None, find: bool = True
    ) -> None:
        self.clock = ManualClock()
        self.network = GroupNetwork(self.clock)
        self.member = Member(group_instance_id=instance)
        self.core = self.member.core
        self.ids = {"t": b"T" * 16, "u": b"U" * 16} if ids else {}
        self.refreshes = 0
        self.reported: list[dict[TopicPartition, OffsetAndMetadata]] = []
        self.coordinator_client = CoordinatorClient(
            self.network,  # type: ignore[arg-type]
            self.core,
            threading.RLock(),
            self.clock,
            changed=lambda: None,
            disconnect=lambda node_id: self.network.disconnect(node_id, "coordinator"),
        )
        self.auto = AutoCommit(5.0, 0.0)
        shared: dict[str, Any] = {
            "topic_id": lambda topic: self.ids.get(topic, ZERO_UUID),
            "refresh_metadata": self._refresh,
            "backoff": BACKOFF,
        }
        self.committer = OffsetCommitter(
            self.coordinator_client,
            is_member=lambda: not manual,
            auto_commit=self.auto,
            on_commit=self.reported.append,
            **shared,
        )
        self.committed = CommittedOffsets(
            self.coordinator_client, **shared, commits=lambda: self.committer.acknowledged
        )
        if not manual:
            self.member.stable(3)
        elif find:
            self.core.on_coordinator_found("user", NODE, 0.0)

    def _refresh(self) -> None:
        self.refreshes += 1

    def commit(self, offsets: dict[TopicPartition, int], deadline: float = 60.0) -> Call:
        return Call(
            self.committer.commit({tp: OffsetAndMetadata(o) for tp, o in offsets.items()}, deadline), self.clock
        )

    def fetch(self, *partitions: TopicPartition, deadline: float = 60.0) -> Call:
        return Call(self.committed.fetch(partitions, deadline), self.clock)

    def answer_commit(self, *codes: int, sent: SentRequest | None = None) -> None:
        """Answer the commit in flight: one code for each of its partitions, or a single one for all."""
        sent = sent or self.network.take(OffsetCommitRequest)
        left = list(codes)
        topics = []
        for topic in sent.request.topics:
            partitions = []
            for partition in topic.partitions:
                code = left[0] if len(left) == 1 else left.pop(0)
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        sent.answer(OffsetCommitResponse(topics=topics))

    def answer_fetch(
        self, offsets: Sequence[tuple[TopicPartition, int, int]], group_error: int = 0, sent: SentRequest | None = None
    ) -> None:
        """Answer the OffsetFetch in flight: partition, offset, error code."""
        sent = sent or self.network.take(OffsetFetchRequest)
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for tp, offset, code in offsets:
            topic = topics.setdefault(
                tp.topic, OffsetFetchResponseTopics(name=tp.topic, topic_id=self.ids.get(tp.topic, ZERO_UUID))
            )
            topic.partitions.append(
                OffsetFetchResponsePartitions(
                    partition_index=tp.partition, committed_offset=offset, metadata="", error_code=code
                )
            )
        group = OffsetFetchResponseGroup(group_id="g", topics=list(topics.values()), error_code=group_error)
        sent.answer(OffsetFetchResponse(groups=[group]))


# -- commit and wait --------------------------------------------------------------------------------------------------


def test_a_commit_names_the_generation_and_reports_success() -> None:
    bench = Bench()
    call = bench.commit({T0: 5, U0: 7})
    sent = bench.network.take(OffsetCommitRequest)
    assert (sent.node, sent.connection, sent.version) == (1, "coordinator", 10)
    assert (sent.request.generation_id_or_member_epoch, sent.request.member_id) == (3, "me")
    bench.answer_commit(0, sent=sent)
    assert call.resume().done
    assert call.error is None
    assert bench.reported == [{T0: OffsetAndMetadata(5), U0: OffsetAndMetadata(7)}]


def test_without_topic_ids_names_are_used() -> None:
    bench = Bench(ids=False)
    call = bench.commit({T0: 5})
    sent = bench.network.take(OffsetCommitRequest)
    assert sent.version == 9
    assert [topic.name for topic in sent.request.topics] == ["t"]
    bench.answer_commit(0, sent=sent)
    assert call.resume().done


def test_a_static_member_commits_as_such() -> None:
    bench = Bench(instance="i")
    bench.commit({T0: 5})
    assert bench.network.take(OffsetCommitRequest).request.group_instance_id == "i"


PASSING = [(14, False, 0), (15, True, 0), (16, True, 0), (7, True, 0), (3, False, 1), (100, False, 1)]


@pytest.mark.parametrize(("code", "lost", "refreshes"), PASSING)
def test_a_commit_is_retried_after_retriable_errors(code: int, lost: bool, refreshes: int) -> None:
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.answer_commit(code)
    call.resume()
    assert bench.network.sent == []
    assert bench.refreshes == refreshes
    assert call.waiting is not None
    assert call.waiting.until == pytest.approx(0.1)
    call.sleep()
    if lost:
        bench.network.find(OTHER)
        call.resume()
    sent = bench.network.take(OffsetCommitRequest)
    assert sent.node == (2 if lost else 1)
    assert sent.request.generation_id_or_member_epoch == 3
    bench.answer_commit(0, sent=sent)
    assert call.resume().error is None


RAISED = [
    (12, errors.OffsetMetadataTooLargeError),
    (28, errors.InvalidCommitOffsetSizeError),
    (29, errors.TopicAuthorizationFailedError),
    (30, errors.GroupAuthorizationFailedError),
    (22, errors.CommitFailedError),
    (25, errors.CommitFailedError),
    (27, errors.RebalanceInProgressError),
    (82, errors.FencedInstanceIdError),
    (-1, errors.UnknownServerError),
    (9999, errors.UnknownServerError),
]


@pytest.mark.parametrize(("code", "error"), RAISED)
def test_other_errors_of_a_commit_are_raised(code: int, error: type[Exception]) -> None:
    bench = Bench(instance="i")
    call = bench.commit({T0: 5})
    bench.answer_commit(code)
    assert isinstance(call.resume().error, error)
    assert bench.reported == []


@pytest.mark.parametrize(
    ("code", "state", "member_id", "error"),
    [
        (22, ClassicMemberState.UNJOINED, "me", errors.CommitFailedError),
        (25, ClassicMemberState.UNJOINED, "", errors.CommitFailedError),
        (27, ClassicMemberState.STABLE, "me", errors.RebalanceInProgressError),
    ],
)
def test_a_rejected_commit_makes_the_member_rejoin(
    code: int, state: ClassicMemberState, member_id: str, error: type[Exception]
) -> None:
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.answer_commit(code)
    assert type(call.resume().error) is error
    assert bench.core.state is state
    assert bench.core.generation.member_id == member_id
    assert bench.core.rejoin_needed


def test_an_error_for_an_older_generation_does_not_affect_the_current_one() -> None:
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.core.request_rejoin("because")
    bench.member.stable(4)
    bench.answer_commit(25)
    assert isinstance(call.resume().error, errors.CommitFailedError)
    assert bench.core.generation.generation_id == 4
    assert not bench.core.rejoin_needed


def test_a_commit_of_an_older_generation_during_a_rebalance_raises_rebalance_in_progress() -> None:
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.core.request_rejoin("because")
    bench.member.join(4)
    bench.answer_commit(22)
    assert isinstance(call.resume().error, errors.RebalanceInProgressError)
    assert bench.core.generation.generation_id == 4


def test_topics_that_may_not_be_committed_are_all_named() -> None:
    bench = Bench()
    call = bench.commit({T0: 1, T1: 2, U0: 3})
    bench.answer_commit(29, 0, 29)
    assert isinstance(call.resume().error, errors.TopicAuthorizationFailedError)
    assert "t, u" in str(call.error)


def test_a_repeated_commit_never_names_another_generation() -> None:
    """The new owner may have committed more: a repeated commit of ours in a new generation would undo it."""
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.answer_commit(14)
    call.resume()
    bench.core.request_rejoin("because")
    bench.member.stable(4)
    call.sleep()
    assert isinstance(call.error, errors.CommitFailedError)
    assert bench.network.sent == []


def test_commit_failed_names_generations_time_and_setting() -> None:
    bench = Bench()
    bench.core.heartbeat_timers.poll(0.0)
    call = bench.commit({T0: 5})
    bench.clock.advance(400.0)
    bench.answer_commit(25)
    text = str(call.resume().error)
    assert "generation 3 of member me" in text
    assert "and now this consumer is no member any more" in text
    assert "-1" not in text
    assert "400.0 s ago" in text
    assert "max_poll_interval_ms allows 300 s" in text
    assert "max_poll_records" in text
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.answer_commit(25)
    assert "session_timeout_ms" in str(call.resume().error)


@pytest.mark.parametrize("phase", ["preparing", "completing", "completed"])
def test_no_commit_while_the_group_rebalances(phase: str) -> None:
    bench = Bench()
    bench.core.request_rejoin("because")
    step = bench.member.send_join()
    if phase != "preparing":
        sync = bench.member.answer_join(step, generation_id=4)
        assert sync is not None
        if phase == "completed":
            bench.member.answer_sync(sync)
    call = bench.commit({T0: 5})
    assert isinstance(call.error, errors.RebalanceInProgressError)
    assert "poll()" in str(call.error)
    assert bench.network.sent == []


def test_no_commit_without_membership() -> None:
    bench = Bench()
    bench.core.leave("poll timeout", 0.0)
    call = bench.commit({T0: 5})
    assert isinstance(call.error, errors.CommitFailedError)


def test_partitions_assigned_by_hand_are_committed_without_generation() -> None:
    bench = Bench(manual=True)
    call = bench.commit({T0: 5})
    sent = bench.network.take(OffsetCommitRequest)
    assert (sent.request.generation_id_or_member_epoch, sent.request.member_id) == (-1, "")
    bench.answer_commit(25, sent=sent)
    assert isinstance(call.resume().error, errors.CommitFailedError)
    assert "group_id of its own" in str(call.error)


def test_a_broken_connection_causes_a_lookup_and_another_commit() -> None:
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.network.take(OffsetCommitRequest).fail()
    call.resume()
    assert bench.core.coordinator is None
    call.sleep()
    bench.network.find(NODE)
    call.resume()
    assert bench.network.disconnected == [(1, "coordinator")] or bench.network.disconnected == []
    bench.answer_commit(0)
    assert call.resume().error is None


def test_the_deadline_holds_and_the_error_names_the_cause() -> None:
    bench = Bench()
    call = bench.commit({T0: 5}, deadline=1.0)
    bench.answer_commit(14)
    call.resume()
    while not call.done:
        call.sleep()
        if bench.network.sent:
            bench.answer_commit(14)
            call.resume()
    assert bench.clock.now() < 1.0
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(call.error)
    assert isinstance(call.error.__cause__, errors.CoordinatorLoadInProgressError)
    call = bench.commit({T0: 5}, deadline=2.0)
    call.sleep()
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "OffsetCommit" in str(call.error)


def test_without_a_coordinator_the_deadline_holds() -> None:
    bench = Bench(manual=True, find=False)
    call = bench.commit({T0: 5}, deadline=1.0)
    bench.network.take(FindCoordinatorRequest)
    call.sleep()
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "the group's coordinator (connections: TCP connection to h:1 failed: Connection refused)" in str(call.error)


@pytest.mark.parametrize(
    "ask", [lambda bench: bench.commit({T0: 5}, 0.05), lambda bench: bench.fetch(T0, deadline=0.05)]
)
def test_without_a_coordinator_the_failure_of_the_last_search_is_named(ask: Callable[[Bench], Call]) -> None:
    bench = Bench(manual=True, find=False)
    call = ask(bench)
    bench.network.take(FindCoordinatorRequest).fail(errors.CoordinatorNotAvailableError("still loading"))
    call.resume()
    call.sleep()
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "still loading" in str(call.error)
    assert isinstance(call.error.__cause__, errors.CoordinatorNotAvailableError)


def test_an_unauthorized_coordinator_lookup_fails_at_once() -> None:
    bench = Bench(manual=True, find=False)
    call = bench.commit({T0: 5})
    bench.network.take(FindCoordinatorRequest).fail(errors.GroupAuthorizationFailedError("g"))
    assert isinstance(call.resume().error, errors.GroupAuthorizationFailedError)


def test_negative_offsets_are_rejected() -> None:
    bench = Bench()
    assert isinstance(bench.commit({T0: -1}).error, ValueError)
    with pytest.raises(ValueError, match="t-0"):
        bench.committer.commit_async({T0: OffsetAndMetadata(-5)}, None)


def test_an_empty_commit_completes_after_the_asynchronous_commits() -> None:
    bench = Bench()
    seen: list[int] = []
    bench.committer.commit_async({T0: OffsetAndMetadata(1)}, lambda offsets, error: seen.append(1))
    call = bench.commit({})
    assert not call.done
    bench.answer_commit(0)
    assert call.resume().done
    assert seen == [1]


# -- asynchronous -----------------------------------------------------------------------------------------------------


def asynchronous(bench: Bench, offset: int, log: list[tuple[int, KafkaError | None]]) -> RequestFuture[None]:
    return bench.committer.commit_async(
        {T0: OffsetAndMetadata(offset)}, lambda offsets, error: log.append((offsets[T0].offset, error))
    )


def test_callbacks_run_in_order_and_only_on_request() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    asynchronous(bench, 2, log)
    first, second = bench.network.sent
    bench.network.sent.clear()
    bench.answer_commit(0, sent=first)
    bench.answer_commit(0, sent=second)
    assert log == []
    assert bench.committer.has_callbacks
    assert bench.reported == []
    list(bench.committer.run_callbacks())
    assert log == [(1, None), (2, None)]
    assert [offsets[T0].offset for offsets in bench.reported] == [1, 2]
    assert not bench.committer.has_callbacks


def test_callbacks_of_earlier_commits_run_before_a_later_commit_returns() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    call = bench.commit({T0: 2})
    first, second = bench.network.sent
    bench.network.sent.clear()
    bench.answer_commit(0, sent=first)
    bench.answer_commit(0, sent=second)
    assert call.resume().done
    assert log == [(1, None)]


def test_an_asynchronous_commit_is_never_repeated() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []
    future = asynchronous(bench, 1, log)
    bench.answer_commit(14)
    assert future.failed
    list(bench.committer.run_callbacks())
    assert isinstance(log[0][1], errors.RetriableCommitFailedError)
    assert isinstance(log[0][1].__cause__, errors.CoordinatorLoadInProgressError)
    assert bench.network.sent == []


@pytest.mark.parametrize(("code", "error"), RAISED)
def test_errors_of_an_asynchronous_commit(code: int, error: type[Exception]) -> None:
    bench = Bench(instance="i")
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    bench.answer_commit(code)
    list(bench.committer.run_callbacks())
    assert isinstance(log[0][1], error)


def test_a_callback_that_raises_leaves_the_others_for_the_next_time() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []

    def wrong(offsets: object, error: object) -> None:
        raise RuntimeError("mine")

    bench.committer.commit_async({}, wrong)
    bench.committer._callbacks.append(lambda: log.append((0, None)))
    with pytest.raises(RuntimeError, match="mine"):
        list(bench.committer.run_callbacks())
    list(bench.committer.run_callbacks())
    assert log == [(0, None)]


def test_without_a_coordinator_asynchronous_commits_wait_in_order() -> None:
    bench = Bench(manual=True, find=False)
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    asynchronous(bench, 2, log)
    bench.network.find(NODE)
    asynchronous(bench, 3, log)
    assert [s.request.topics[0].partitions[0].committed_offset for s in bench.network.sent] == [1, 2, 3]
    assert bench.committer.pending_async == 3


def test_an_asynchronous_commit_that_waited_until_the_next_generation_fails() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []
    bench.core.on_coordinator_lost(NODE.node_id, "gone", 0.0)
    asynchronous(bench, 1, log)
    bench.core.on_coordinator_found("background", NODE, 0.0)  # nothing has sent the commit yet
    bench.core.request_rejoin("because")
    bench.member.stable(4)
    bench.committer.send_queued()
    list(bench.committer.run_callbacks())
    assert [type(error) for _, error in log] == [errors.CommitFailedError]
    assert not [sent for sent in bench.network.sent if isinstance(sent.request, OffsetCommitRequest)]


def test_commits_fail_without_a_coordinator() -> None:
    bench = Bench(manual=True, find=False)
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    bench.network.take(FindCoordinatorRequest).fail()
    list(bench.committer.run_callbacks())
    assert isinstance(log[0][1], errors.RetriableCommitFailedError)
    assert bench.committer.pending_async == 0


def test_flush_waits_for_commits_in_flight() -> None:
    bench = Bench()
    log: list[tuple[int, KafkaError | None]] = []
    asynchronous(bench, 1, log)
    call = Call(bench.committer.flush(60.0), bench.clock)
    assert not call.done
    bench.answer_commit(0)
    assert call.resume().done
    assert log == [(1, None)]
    asynchronous(bench, 2, log)
    call = Call(bench.committer.flush(1.0), bench.clock)
    assert call.sleep().done
    assert call.error is None


# -- automatic --------------------------------------------------------------------------------------------------------


def test_automatic_commits_come_once_an_interval() -> None:
    bench = Bench()
    bench.clock.advance(5.0)
    bench.committer.commit_automatically({T0: OffsetAndMetadata(1)}, 5.0)
    assert bench.auto.next_at == 10.0
    bench.answer_commit(0)
    list(bench.committer.run_callbacks())
    assert bench.auto.next_at == 10.0
    bench.committer.commit_automatically({}, 10.0)
    assert bench.auto.next_at == 15.0
    assert bench.network.sent == []


def test_an_automatic_commit_that_failed_is_repeated_soon() -> None:
    bench = Bench()
    bench.clock.advance(5.0)
    bench.committer.commit_automatically({T0: OffsetAndMetadata(1)}, 5.0)
    bench.answer_commit(14)
    list(bench.committer.run_callbacks())
    assert bench.auto.next_at == pytest.approx(5.1)
    bench.committer.commit_automatically({T0: OffsetAndMetadata(1)}, 6.0)
    bench.answer_commit(27)
    list(bench.committer.run_callbacks())
    assert bench.auto.next_at == 11.0


def test_no_automatic_commit_when_it_is_disabled() -> None:
    auto = AutoCommit(None, 0.0)
    auto.restart(5.0)
    auto.retry(5.0, 0.1)
    assert not auto.enabled
    assert auto.next_at == float("inf")


# -- reading ----------------------------------------------------------------------------------------------------------


def test_committed_offsets_are_read() -> None:
    bench = Bench()
    call = bench.fetch(T0, T1)
    sent = bench.network.take(OffsetFetchRequest)
    assert (sent.node, sent.connection, sent.version) == (1, "coordinator", 10)
    assert sent.request.require_stable
    bench.answer_fetch([(T0, 5, 0), (T1, -1, 0)], sent=sent)
    assert call.resume().result == {T0: OffsetAndMetadata(5), T1: None}


def test_no_partitions_need_no_request() -> None:
    bench = Bench()
    assert bench.fetch().result == {}
    assert bench.network.sent == []


def test_an_equal_request_shares_the_one_in_flight() -> None:
    bench = Bench()
    first, second = bench.fetch(T0, T1), bench.fetch(T1, T0)
    other = bench.fetch(T0)
    assert len(bench.network.sent) == 2
    bench.answer_fetch([(T0, 5, 0), (T1, 6, 0)], sent=bench.network.sent[0])
    bench.answer_fetch([(T0, 5, 0)], sent=bench.network.sent[1])
    assert first.resume().result == second.resume().result == {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)}
    assert other.resume().result == {T0: OffsetAndMetadata(5)}


def test_a_response_from_before_a_commit_is_not_used_after_it() -> None:
    bench = Bench()
    early = bench.fetch(T0)
    asked = bench.network.take(OffsetFetchRequest)
    commit = bench.commit({T0: 40})
    bench.answer_commit(0)
    assert commit.resume().result is None
    late = bench.fetch(T0)
    bench.answer_fetch([(T0, -1, 0)], sent=asked)
    bench.answer_fetch([(T0, 40, 0)])
    assert early.resume().result == {T0: None}
    assert late.resume().result == {T0: OffsetAndMetadata(40)}


def test_a_response_without_a_reader_is_not_given_to_a_later_call() -> None:
    bench = Bench()
    abandoned = bench.fetch(T0)
    bench.answer_fetch([(T0, -1, 0)])
    late = bench.fetch(T0)
    bench.answer_fetch([(T0, 40, 0)])
    assert late.resume().result == {T0: OffsetAndMetadata(40)}
    assert abandoned.resume().result == {T0: None}


@pytest.mark.parametrize(("code", "lost", "refreshes"), [(14, False, 0), (15, True, 0), (16, True, 0)])
def test_group_errors_that_pass(code: int, lost: bool, refreshes: int) -> None:
    bench = Bench()
    call = bench.fetch(T0)
    bench.answer_fetch([], group_error=code)
    call.resume()
    call.sleep()
    if lost:
        bench.network.find(OTHER)
        call.resume()
    bench.answer_fetch([(T0, 9, 0)])
    assert call.resume().result == {T0: OffsetAndMetadata(9)}


@pytest.mark.parametrize("code", [88, 100])
def test_partition_errors_that_pass(code: int) -> None:
    """88: a transaction holds an offset that is still pending (KIP-447)."""
    bench = Bench()
    call = bench.fetch(T0, T1)
    bench.answer_fetch([(T0, 9, 0), (T1, -1, code)])
    call.resume()
    assert bench.refreshes == (code == 100)
    call.sleep()
    bench.answer_fetch([(T0, 9, 0), (T1, 4, 0)])
    assert call.resume().result == {T0: OffsetAndMetadata(9), T1: OffsetAndMetadata(4)}


@pytest.mark.parametrize(
    ("group_error", "code", "error"),
    [
        (30, 0, errors.GroupAuthorizationFailedError),
        (-1, 0, errors.UnknownServerError),
        (0, 29, errors.TopicAuthorizationFailedError),
        (0, 3, KafkaError),
        (0, -1, errors.UnknownServerError),
    ],
)
def test_errors_that_do_not_pass_are_raised(group_error: int, code: int, error: type[Exception]) -> None:
    bench = Bench()
    call = bench.fetch(T0)
    bench.answer_fetch([(T0, -1, code)] if code else [], group_error=group_error)
    assert isinstance(call.resume().error, error)


def test_reading_holds_its_deadline() -> None:
    bench = Bench()
    call = bench.fetch(T0, deadline=1.0)
    call.sleep()
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "OffsetFetch" in str(call.error)
    bench = Bench(manual=True, find=False)
    call = bench.fetch(T0, deadline=1.0)
    call.sleep()
    assert isinstance(call.error, errors.KafkaTimeoutError)
    assert "the group's coordinator (connections: TCP connection to h:1 failed: Connection refused)" in str(call.error)


def test_a_lost_coordinators_connection_is_dropped_before_the_next_is_used() -> None:
    """A JoinGroup may wait on that connection, and later requests would wait until it completes."""
    bench = Bench()
    call = bench.commit({T0: 5})
    bench.answer_commit(0)
    call.resume()
    bench.core.on_coordinator_lost(1, "moved", 0.0)
    call = bench.commit({T0: 6})
    assert bench.network.disconnected == [(1, "coordinator")]
    bench.network.find(NODE)
    call.resume()
    bench.answer_commit(0)
    assert call.resume().error is None


def test_commits_that_wait_are_sent_when_the_heartbeat_thread_finds_the_coordinator() -> None:
    bench = Bench()
    bench.core.on_coordinator_lost(NODE.node_id, "gone", 0.0)
    future = bench.committer.commit_async({T0: OffsetAndMetadata(5)}, None)
    bench.network.take(FindCoordinatorRequest).fail()  # ours pauses now; the other thread's search brings it
    assert future.failed
    future = bench.committer.commit_async({T0: OffsetAndMetadata(5)}, None)
    assert not bench.network.sent
    bench.core.on_coordinator_found("background", NODE, bench.clock.now())
    assert bench.committer.has_callbacks, "the user's thread has something to do"
    flush = Call(bench.committer.flush(60.0), bench.clock)
    assert not flush.done
    bench.answer_commit(0)
    assert future.succeeded
    assert flush.resume().done


def test_a_later_commit_does_not_overtake_a_waiting_one() -> None:
    bench = Bench()
    bench.core.on_coordinator_lost(NODE.node_id, "gone", 0.0)
    bench.committer.commit_async({T0: OffsetAndMetadata(1)}, None)
    bench.network.take(FindCoordinatorRequest).fail()
    bench.committer.commit_async({T0: OffsetAndMetadata(5)}, None)
    bench.core.on_coordinator_found("background", NODE, bench.clock.now())
    bench.committer.commit_async({T0: OffsetAndMetadata(6)}, None)
    offsets = [sent.request.topics[0].partitions[0].committed_offset for sent in bench.network.sent]
    assert offsets == [5, 6]


def test_a_commit_that_is_waited_for_does_not_overtake_one_either() -> None:
    for send in (
        lambda bench: next(bench.committer.commit({T0: OffsetAndMetadata(6)}, 100.0)),
        lambda bench: bench.committer.commit_once({T0: OffsetAndMetadata(6)}),
    ):
        bench = Bench()
        bench.core.on_coordinator_lost(NODE.node_id, "gone", 0.0)
        bench.committer.commit_async({T0: OffsetAndMetadata(5)}, None)
        bench.network.take(FindCoordinatorRequest)  # our own search is still under way
        bench.core.on_coordinator_found("background", NODE, bench.clock.now())
        send(bench)
        offsets = [sent.request.topics[0].partitions[0].committed_offset for sent in bench.network.sent]
        assert offsets == [5, 6]
