"""Subscription, assignment and positions on their own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from pyconsumer.consumer.auto_offset_reset import EARLIEST, LATEST, NONE, ResetPolicy
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.partition_state import NO_LEADER, FetchPosition, FetchState, LeaderAndEpoch
from pyconsumer.consumer.subscription_state import SubscriptionState, SubscriptionType
from pyconsumer.errors import IllegalStateError, LogTruncationError, NoOffsetForPartitionError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADER = LeaderAndEpoch(1, 5)

CHOICES: dict[SubscriptionType, Callable[[SubscriptionState], object]] = {
    SubscriptionType.AUTO_TOPICS: lambda s: s.subscribe({"a"}),
    SubscriptionType.AUTO_PATTERN: lambda s: s.subscribe_pattern(re.compile("a.*")),
    SubscriptionType.USER_ASSIGNED: lambda s: s.assign_from_user([A0]),
}


def assigned(*partitions: TopicPartition, reset: ResetPolicy = LATEST) -> SubscriptionState:
    subscriptions = SubscriptionState(reset)
    subscriptions.assign_from_user(partitions)
    return subscriptions


def fetching(*partitions: TopicPartition, at: int = 0, leader: LeaderAndEpoch = LEADER) -> SubscriptionState:
    subscriptions = assigned(*partitions)
    for tp in partitions:
        subscriptions.seek(tp, FetchPosition(at, -1, leader))
    subscriptions.take_changed()
    return subscriptions


def test_a_new_subscription_state_is_empty() -> None:
    subscriptions = SubscriptionState()

    assert subscriptions.type is SubscriptionType.NONE
    assert subscriptions.has_none
    kinds = {"NONE", "AUTO_TOPICS", "AUTO_PATTERN", "AUTO_PATTERN_RE2J", "USER_ASSIGNED"}
    assert {t.name for t in SubscriptionType} == kinds


@pytest.mark.parametrize(("first", "second"), list(itertools.product(CHOICES, CHOICES)))
def test_kinds_of_subscription_exclude_one_another_until_unsubscribe(
    first: SubscriptionType, second: SubscriptionType
) -> None:
    subscriptions = SubscriptionState()
    CHOICES[first](subscriptions)

    if first is second:
        CHOICES[second](subscriptions)
        assert subscriptions.type is first
    else:
        with pytest.raises(IllegalStateError, match="exclude one another"):
            CHOICES[second](subscriptions)
        assert subscriptions.type is first
        subscriptions.unsubscribe()
        CHOICES[second](subscriptions)
        assert subscriptions.type is second


def test_subscribe_returns_whether_the_topics_changed() -> None:
    subscriptions = SubscriptionState()

    assert subscriptions.subscribe(["a", "b", "a"])
    assert not subscriptions.subscribe(["b", "a"])
    assert subscriptions.subscribe(["a"])
    assert subscriptions.subscription() == {"a"}


def test_assign_returns_whether_the_topics_changed() -> None:
    subscriptions = SubscriptionState()

    assert subscriptions.assign_from_user([A0])
    assert not subscriptions.assign_from_user([A0, A1])
    assert subscriptions.assign_from_user([B0])
    assert subscriptions.subscription() == set()
    assert subscriptions.metadata_topics() == {"b"}


def test_a_pattern_matches_whole_topic_names() -> None:
    subscriptions = SubscriptionState()
    pattern = re.compile("a.?")
    subscriptions.subscribe_pattern(pattern)

    assert subscriptions.matches_pattern("ab")
    assert not subscriptions.matches_pattern("abc")
    assert subscriptions.subscribe_from_pattern(["ab"])
    assert not subscriptions.subscribe_from_pattern(["ab"])
    assert subscriptions.subscription() == {"ab"}


def test_a_leader_watches_the_topics_of_all_members() -> None:
    subscriptions = SubscriptionState()
    subscriptions.subscribe(["a"])

    assert subscriptions.group_subscribe(["a", "b"])
    assert not subscriptions.group_subscribe(["a", "b"])
    assert subscriptions.metadata_topics() == {"a", "b"}
    assert subscriptions.subscription() == {"a"}
    subscriptions.reset_group_subscription()
    assert subscriptions.metadata_topics() == {"a"}


def test_partitions_keep_an_order_that_can_be_rotated() -> None:
    subscriptions = assigned(A0, B0, A1)
    assert subscriptions.assigned_list() == [A0, A1, B0]

    subscriptions.move_to_end(A0)
    subscriptions.move_to_end(TopicPartition("nobody", 0))

    assert subscriptions.assigned_list() == [A1, B0, A0]


def test_each_change_of_the_assignment_has_an_id() -> None:
    subscriptions = SubscriptionState()
    assert subscriptions.assignment_id == 0

    subscriptions.assign_from_user([A0])
    subscriptions.assign_from_user([A0])
    subscriptions.assign_from_user([A0, A1])

    assert subscriptions.assignment_id == 2


def test_the_listener_is_kept_and_forgotten() -> None:
    subscriptions = SubscriptionState()
    listener = ConsumerRebalanceListener()
    subscriptions.subscribe(["a"], listener)
    assert subscriptions.listener is listener

    subscriptions.unsubscribe()

    assert subscriptions.listener is None


def test_unsubscribe_clears_all_state() -> None:
    subscriptions = SubscriptionState()
    subscriptions.subscribe_pattern(re.compile(".*"))
    subscriptions.subscribe_from_pattern(["a"])
    subscriptions.group_subscribe(["a", "b"])
    subscriptions.assign_from_subscribed([A0])
    before = subscriptions.assignment_id

    subscriptions.unsubscribe()

    assert subscriptions.has_none
    assert subscriptions.subscription() == subscriptions.metadata_topics() == set()
    assert subscriptions.assignment() == set()
    assert subscriptions.assignment_id == before + 1


def test_partitions_that_stay_assigned_keep_their_state_and_new_ones_start_fresh() -> None:
    subscriptions = SubscriptionState()
    subscriptions.subscribe(["a"])
    subscriptions.assign_from_subscribed([A0])
    assert subscriptions.state(A0).state is FetchState.INITIALIZING
    subscriptions.seek(A0, FetchPosition(7))

    subscriptions.assign_from_subscribed([A0, A1])

    assert subscriptions.state(A0).fetch_position == FetchPosition(7)
    assert subscriptions.initializing() == [A1]


def test_partitions_that_are_assigned_by_hand_start_initializing() -> None:
    subscriptions = SubscriptionState()
    subscriptions.assign_from_user([A0, A1])
    assert subscriptions.initializing() == [A0, A1]
    assert subscriptions.state(A0).state is FetchState.INITIALIZING


def test_a_partition_that_comes_back_is_in_an_epoch_never_used_before() -> None:
    subscriptions = fetching(A0)
    epochs = {subscriptions.state(A0).fetch_epoch}
    for _ in range(3):
        subscriptions.assign_from_user([A1])
        subscriptions.assign_from_user([A0])
        subscriptions.seek(A0, FetchPosition(0))
        epoch = subscriptions.state(A0).fetch_epoch
        assert epoch not in epochs
        epochs.add(epoch)


def test_group_assignments_are_rejected_under_manual_assignment() -> None:
    with pytest.raises(IllegalStateError):
        assigned(A0).assign_from_subscribed([A1])


def test_a_state_is_there_for_assigned_partitions_only() -> None:
    subscriptions = assigned(A0)

    assert subscriptions.state(A0) is subscriptions.get(A0)
    assert subscriptions.get(A1) is None
    with pytest.raises(IllegalStateError, match="a-1 is not assigned"):
        subscriptions.state(A1)


def test_fetchable_is_assigned_not_paused_and_with_a_valid_position() -> None:
    subscriptions = assigned(A0)
    assert not subscriptions.state(A0).is_fetchable

    subscriptions.seek(A0, FetchPosition(0))
    assert subscriptions.state(A0).is_fetchable

    subscriptions.pause(A0)
    assert subscriptions.paused() == {A0}
    assert not subscriptions.state(A0).is_fetchable

    subscriptions.resume(A0)
    assert subscriptions.state(A0).is_fetchable


def test_partitions_pending_revocation_are_not_fetchable_until_assigned_again() -> None:
    subscriptions = SubscriptionState()
    subscriptions.subscribe(["a"])
    subscriptions.assign_from_subscribed([A0, A1])
    for tp in (A0, A1):
        subscriptions.seek(tp, FetchPosition(0))

    subscriptions.mark_pending_revocation([A1])
    assert subscriptions.state(A0).is_fetchable
    assert not subscriptions.state(A1).is_fetchable

    subscriptions.assign_from_subscribed([A0, A1])
    assert subscriptions.state(A1).is_fetchable


def test_a_pause_keeps_the_fetch_epoch_and_a_seek_does_not() -> None:
    subscriptions = fetching(A0)
    state = subscriptions.state(A0)
    epoch = state.fetch_epoch

    subscriptions.pause(A0)
    subscriptions.resume(A0)
    assert state.fetch_epoch == epoch

    subscriptions.seek(A0, FetchPosition(0))
    assert state.fetch_epoch > epoch


def test_advancing_needs_a_valid_position() -> None:
    subscriptions = fetching(A0, at=3)

    subscriptions.state(A0).advance(5, 2)
    assert subscriptions.state(A0).fetch_position == FetchPosition(5, 2, LEADER)

    subscriptions.request_reset(A0)
    with pytest.raises(IllegalStateError, match="no valid position"):
        subscriptions.state(A0).advance(6, 2)


def test_a_plain_seek_is_fetched_from_at_once() -> None:
    subscriptions = assigned(A0)

    subscriptions.seek(A0, FetchPosition(9, -1, LEADER))

    assert subscriptions.state(A0).state is FetchState.FETCHING
    assert subscriptions.state(A0).fetch_offset == 9


def test_a_seek_with_epochs_is_validated_first() -> None:
    subscriptions = assigned(A0)

    subscriptions.seek(A0, FetchPosition(9, 4, LEADER))
    assert subscriptions.state(A0).state is FetchState.AWAIT_VALIDATION
    assert [s.topic_partition for s in subscriptions.needing_validation(0.0)] == [A0]

    subscriptions.complete_validation(A0)
    assert subscriptions.state(A0).state is FetchState.FETCHING


@pytest.mark.parametrize(
    ("committed", "leader", "expected"),
    [
        (OffsetAndMetadata(8, "", 4), LEADER, FetchState.AWAIT_VALIDATION),
        (OffsetAndMetadata(8, "", -1), LEADER, FetchState.FETCHING),
        (OffsetAndMetadata(8, "", 4), NO_LEADER, FetchState.FETCHING),
    ],
)
def test_a_committed_offset_becomes_the_position(
    committed: OffsetAndMetadata, leader: LeaderAndEpoch, expected: FetchState
) -> None:
    subscriptions = assigned(A0)

    assert subscriptions.initialise(A0, committed, leader)

    assert subscriptions.state(A0).state is expected
    assert subscriptions.state(A0).position == 8
    assert not subscriptions.initialise(A0, OffsetAndMetadata(99))
    assert subscriptions.state(A0).position == 8


def test_without_a_committed_offset_the_default_policy_decides() -> None:
    subscriptions = assigned(A0, reset=EARLIEST)

    subscriptions.reset_initializing([A0])

    state = subscriptions.state(A0)
    assert (state.state, state.reset_policy) == (FetchState.AWAIT_RESET, EARLIEST)


def test_a_partition_without_a_committed_offset_and_a_policy_raises() -> None:
    subscriptions = assigned(A0, A1, reset=NONE)

    with pytest.raises(NoOffsetForPartitionError) as caught:
        subscriptions.reset_initializing([A0, A1])

    assert caught.value.partitions == {A0: None, A1: None}
    assert subscriptions.state(A0).state is FetchState.INITIALIZING


def test_a_requested_reset_keeps_its_own_policy() -> None:
    subscriptions = fetching(A0)

    subscriptions.request_reset(A0, EARLIEST)
    assert subscriptions.state(A0).reset_policy is EARLIEST
    assert not subscriptions.complete_reset(A0, LATEST, FetchPosition(50))

    assert subscriptions.complete_reset(A0, EARLIEST, FetchPosition(2))
    assert subscriptions.state(A0).fetch_position == FetchPosition(2)
    assert not subscriptions.complete_reset(A0, EARLIEST, FetchPosition(3))


def test_retries_wait_for_their_time() -> None:
    subscriptions = fetching(A0, A1)
    subscriptions.request_reset(A0)
    assert subscriptions.next_retry_at() == 0.0

    subscriptions.retry_later([A0, B0], 12.5)

    assert subscriptions.next_retry_at() == 12.5
    assert not subscriptions.needing_reset(12.0)
    assert [s.topic_partition for s in subscriptions.needing_reset(12.5)] == [A0]


def test_the_pause_after_one_question_is_not_one_before_the_next() -> None:
    subscriptions = fetching(A0)
    subscriptions.request_reset(A0, EARLIEST)
    subscriptions.retry_later([A0], 130.0)
    subscriptions.complete_reset(A0, EARLIEST, FetchPosition(2))

    subscriptions.seek(A0, FetchPosition(9, 4, LEADER))

    assert [s.topic_partition for s in subscriptions.needing_validation(100.0)] == [A0]


@pytest.mark.parametrize(
    ("epoch", "named", "expected", "dropped"),
    [
        (4, LeaderAndEpoch(-1, -1), FetchState.FETCHING, False),
        (4, LEADER, FetchState.FETCHING, False),
        (4, LeaderAndEpoch(2, 6), FetchState.AWAIT_VALIDATION, True),
        (-1, LeaderAndEpoch(2, 6), FetchState.FETCHING, True),
        (4, LeaderAndEpoch(2, -1), FetchState.FETCHING, True),
    ],
    ids=["leader unknown", "same leader", "another leader", "position without epoch", "leader without epoch"],
)
def test_a_new_leader_from_metadata(epoch: int, named: LeaderAndEpoch, expected: FetchState, dropped: bool) -> None:
    subscriptions = assigned(A0)
    subscriptions.seek_validated(A0, FetchPosition(10, epoch, LEADER))
    before = subscriptions.state(A0).fetch_epoch

    subscriptions.on_leader(A0, named)

    state = subscriptions.state(A0)
    assert state.state is expected
    assert state.position == 10
    assert (state.fetch_epoch != before) is dropped


def test_a_leader_does_not_disturb_a_reset() -> None:
    subscriptions = fetching(A0)
    subscriptions.request_reset(A0)

    subscriptions.on_leader(A0, LeaderAndEpoch(2, 9))

    assert subscriptions.state(A0).state is FetchState.AWAIT_RESET


def test_the_first_known_leader_drops_no_records() -> None:
    subscriptions = fetching(A0, leader=NO_LEADER)
    before = subscriptions.state(A0).fetch_epoch

    subscriptions.on_leader(A0, LEADER)

    assert subscriptions.state(A0).fetch_epoch == before
    assert subscriptions.state(A0).position_leader == LEADER


def validating(reset: ResetPolicy = LATEST) -> tuple[SubscriptionState, FetchPosition]:
    subscriptions = assigned(A0, reset=reset)
    position = FetchPosition(10, 4, LEADER)
    subscriptions.seek(A0, position)
    return subscriptions, position


@pytest.mark.parametrize("end", [10, 11])
def test_a_position_within_its_epoch_is_good(end: int) -> None:
    subscriptions, position = validating()

    assert subscriptions.on_end_of_epoch(A0, position, 4, end) is None

    assert subscriptions.state(A0).state is FetchState.FETCHING
    assert subscriptions.state(A0).position == 10


def test_a_truncated_log_is_read_from_the_point_of_divergence() -> None:
    subscriptions, position = validating()

    assert subscriptions.on_end_of_epoch(A0, position, 3, 6) is None

    assert subscriptions.state(A0).fetch_position == FetchPosition(6, 3, LEADER)
    assert subscriptions.state(A0).state is FetchState.FETCHING


def test_an_unknown_epoch_resets_the_position() -> None:
    subscriptions, position = validating()

    assert subscriptions.on_end_of_epoch(A0, position, -1, -1) is None

    assert subscriptions.state(A0).state is FetchState.AWAIT_RESET


@pytest.mark.parametrize("answer", [(3, 6), (-1, -1)])
def test_truncation_without_a_policy_is_an_error(answer: tuple[int, int]) -> None:
    subscriptions, position = validating(NONE)

    error = subscriptions.on_end_of_epoch(A0, position, *answer)

    assert isinstance(error, LogTruncationError)
    assert error.partitions == {A0: 10}
    assert subscriptions.state(A0).state is FetchState.AWAIT_VALIDATION


def test_a_response_for_another_position_is_ignored() -> None:
    subscriptions, position = validating()
    subscriptions.seek(A0, FetchPosition(20, 4, LEADER))

    assert subscriptions.on_end_of_epoch(A0, position, 3, 6) is None

    assert subscriptions.state(A0).position == 20


def test_lag_is_to_the_end_that_the_isolation_level_may_read() -> None:
    subscriptions = fetching(A0, at=10)
    assert subscriptions.partition_lag(A0, read_committed=False) is None

    state = subscriptions.state(A0)
    state.high_watermark, state.last_stable_offset = 15, 12

    assert subscriptions.partition_lag(A0, read_committed=False) == 5
    assert subscriptions.partition_lag(A0, read_committed=True) == 2
    assert subscriptions.partition_lag(A1, read_committed=True) is None


def test_lead_is_from_the_logs_start() -> None:
    subscriptions = fetching(A0, at=10)
    assert subscriptions.state(A0).lead() is None

    subscriptions.state(A0).log_start_offset = 4

    assert subscriptions.state(A0).lead() == 6


def test_every_position_may_be_committed() -> None:
    subscriptions = fetching(A0, A1, B0, at=3)
    subscriptions.state(A0).advance(8, 2)
    subscriptions.request_reset(B0)

    assert subscriptions.all_consumed() == {A0: OffsetAndMetadata(8, "", 2), A1: OffsetAndMetadata(3)}


def test_all_positions_known_needs_no_scan() -> None:
    subscriptions = fetching(A0, A1)
    assert subscriptions.has_all_fetch_positions

    subscriptions.request_reset(A1)
    assert not subscriptions.has_all_fetch_positions

    subscriptions.assign_from_user([A0])
    assert subscriptions.has_all_fetch_positions


def test_the_journal_names_each_change_once() -> None:
    subscriptions = fetching(A0, A1, B0)
    assert not subscriptions.changed

    subscriptions.pause(A1)
    subscriptions.seek(A0, FetchPosition(1))

    assert subscriptions.take_changed() == [A1, A0]
    assert subscriptions.take_changed() == []


def test_the_assignment_is_compared_with_the_subscription() -> None:
    subscriptions = SubscriptionState()
    subscriptions.subscribe(["a"])

    assert subscriptions.assignment_matches_subscription([A0, A1])
    assert not subscriptions.assignment_matches_subscription([A0, B0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("LATEST", LATEST),
        ("none", NONE),
        ("by_duration:PT1H", ResetPolicy("by_duration", 3_600_000)),
        ("by_duration:P2DT3H4M5.5S", ResetPolicy("by_duration", 183_845_500)),
    ],
)
def test_reset_policies_are_read(text: str, expected: ResetPolicy) -> None:
    assert ResetPolicy.parse(text) == expected


@pytest.mark.parametrize("text", ["", "smallest", "by_duration", "by_duration:", "by_duration:P", "by_duration:1h"])
def test_an_invalid_reset_policy_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="by_duration"):
        ResetPolicy.parse(text)


def test_reset_policies_request_times() -> None:
    assert EARLIEST.timestamp(1000) == -2
    assert LATEST.timestamp(1000) == -1
    assert ResetPolicy("by_duration", 400).timestamp(1000) == 600
    assert ResetPolicy("by_duration", 4000).timestamp(1000) == 0


# -- rebalances between polls ----------------------------------------------------------------------------------------


def member_at(position: int, *, keeps: bool = True) -> SubscriptionState:
    """A member of generation 5, whose partition is at this position and was just revoked."""
    subscriptions = SubscriptionState()
    subscriptions.keeps_positions = keeps
    subscriptions.subscribe({"a"})
    subscriptions.assign_from_subscribed([A0, A1], 5)
    for tp in (A0, A1):
        subscriptions.seek(tp, FetchPosition(position, -1, LEADER))
    subscriptions.pause(A0)
    subscriptions.remember_revoked(5)
    subscriptions.assign_from_subscribed(())
    return subscriptions


def test_a_partition_that_comes_back_in_the_next_generation_goes_on_at_its_position() -> None:
    subscriptions = member_at(7)
    before = subscriptions.revoked(A0)
    assert subscriptions.has_revoked
    assert before is not None
    epoch = before.fetch_epoch
    subscriptions.assign_from_subscribed([A0], 6)
    state = subscriptions.state(A0)
    assert state is before, "what is known of records in hand belongs to it"
    assert (state.position, state.fetch_offset) == (7, 7)
    assert state.fetch_epoch > epoch, "what was fetched before is stale"
    assert state.is_fetchable, "a pause ends with a rebalance"
    assert subscriptions.has_all_fetch_positions
    assert not subscriptions.has_revoked
    assert subscriptions.revoked(A1) is None


def test_a_partition_that_comes_back_later_or_after_a_loss_begins_at_the_committed_offset() -> None:
    for subscriptions, generation in ((member_at(7), 7), (member_at(7, keeps=False), 6)):
        subscriptions.assign_from_subscribed([A0], generation)
        assert subscriptions.initializing() == [A0]
    lost = member_at(7)
    lost.forget_revoked()
    lost.assign_from_subscribed([A0], 6)
    assert lost.initializing() == [A0]


def test_automatic_commits_leave_out_records_in_hand() -> None:
    subscriptions = member_at(7)
    subscriptions.assign_from_subscribed([A0, A1], 6)
    subscriptions.in_hand = {subscriptions.state(A0): 4}
    assert {tp: offset.offset for tp, offset in subscriptions.all_finished().items()} == {A0: 4, A1: 7}
    assert subscriptions.all_consumed()[A0].offset == 7
    subscriptions.seek(A0, FetchPosition(2, -1, LEADER))
    assert subscriptions.all_finished()[A0].offset == 2, "the program has gone back"


def test_records_in_hand_of_a_partition_that_had_another_owner_hold_no_commit_back() -> None:
    subscriptions = member_at(7)
    subscriptions.assign_from_subscribed([A0], 6)
    subscriptions.in_hand = {subscriptions.state(A0): 4}
    subscriptions.assign_from_subscribed((), 7)
    subscriptions.assign_from_subscribed([A0], 8)
    subscriptions.seek(A0, FetchPosition(100, -1, LEADER))
    assert subscriptions.all_finished()[A0].offset == 100


def test_stored_offsets_are_of_finished_records() -> None:
    subscriptions = SubscriptionState(store_positions=False)
    subscriptions.assign_from_user([A0])
    subscriptions.store_offsets({A0: OffsetAndMetadata(9)})
    subscriptions.in_hand = {subscriptions.state(A0): 4}
    assert subscriptions.all_finished() == {A0: OffsetAndMetadata(9)}
