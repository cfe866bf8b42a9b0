"""Offsets from leaders: lookups, resets, validation."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pyconsumer.consumer.auto_offset_reset import EARLIEST, LATEST, ResetPolicy
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.offset_fetcher import OffsetFetcher
from pyconsumer.consumer.partition_state import FetchPosition, FetchState, current_leader
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    LogTruncationError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from pyconsumer.network.futures import Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsRequest,
)
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest
from tests.unit.consumer.builders import ends, leaders_of_t, listed

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


class World:
    """Topic t: partitions 0 and 2 led by node 1, partition 1 by node 2."""

    def __init__(self, *partitions: TopicPartition, **options: Any) -> None:
        config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h1", "auto_offset_reset": "earliest", **options})
        self.client = FakeNetwork()
        self.clock = self.client.clock
        self.metadata = Metadata()
        self.metadata.set_topics({"t"})
        self.lead({0: (1, 3), 1: (2, 3), 2: (1, 3)})
        self.subscriptions = SubscriptionState(config.auto_offset_reset)
        self.subscriptions.assign_from_user(partitions)
        self.offsets = OffsetFetcher(
            ConsumerContext(
                config,
                self.client,  # type: ignore[arg-type]
                self.metadata,
                self.subscriptions,
                self.clock,
            ),
        )

    def lead(self, leaders: dict[int, tuple[int, int]]) -> None:
        self.metadata.update(leaders_of_t(leaders), 12, self.clock.now())

    def notice_leaders(self) -> None:
        self.offsets.apply_leaders()

    def reset(self, *partitions: TopicPartition, policy: ResetPolicy = EARLIEST) -> dict[int, SentRequest]:
        for tp in partitions:
            self.subscriptions.request_reset(tp, policy)
        return self.again()

    def again(self) -> dict[int, SentRequest]:
        self.offsets.reset_positions(self.clock.now())
        return {sent.node: sent for sent in self.client.take_all()}

    def validate(self, tp: TopicPartition, offset: int = 10) -> SentRequest:
        position = FetchPosition(offset, 2, current_leader(self.metadata, tp))
        self.subscriptions.seek(tp, position)
        self.offsets.validate_positions(self.clock.now())
        (sent,) = self.client.take_all()
        return sent

    def state(self, tp: TopicPartition) -> FetchState:
        return self.subscriptions.state(tp).state


def asked(sent: SentRequest) -> dict[int, int]:
    request: ListOffsetsRequest = sent.request
    return {p.partition_index: p.timestamp for topic in request.topics for p in topic.partitions}


def run(steps: Generator[Wait, None, Any]) -> Any:
    """Run a call to its end if it needs no further wait."""
    try:
        for _ in range(5):
            steps.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it still waits")


def test_resets_are_sent_to_each_leader() -> None:
    world = World(T0, T1, T2)

    sent = world.reset(T0, T1, T2)

    assert {node: asked(s) for node, s in sent.items()} == {1: {0: -2, 2: -2}, 2: {1: -2}}


@pytest.mark.parametrize(
    ("policy", "timestamp"),
    [(EARLIEST, -2), (LATEST, -1), (ResetPolicy("by_duration", 60_000), 1_700_000_040_000 - 100_000)],
)
def test_a_policy_is_a_timestamp(policy: ResetPolicy, timestamp: int) -> None:
    world = World(T0)
    world.clock.advance(0)
    expected = world.clock.wall_ms() - 60_000 if policy.duration_ms else timestamp

    assert asked(world.reset(T0, policy=policy)[1]) == {0: expected}


def test_the_response_becomes_the_position() -> None:
    world = World(T0)
    world.reset(T0)[1].answer(listed((T0, 17, 0)))

    assert world.state(T0) is FetchState.FETCHING
    assert world.subscriptions.state(T0).fetch_position == FetchPosition(17, -1, current_leader(world.metadata, T0))


def test_a_reset_is_not_sent_twice_before_the_request_timeout() -> None:
    world = World(T0)
    world.reset(T0)
    assert world.again() == {}

    world.clock.advance(30.0)

    assert list(world.again()) == [1]


@pytest.mark.parametrize("change", ["unassigned", "sought", "other policy"])
def test_an_outdated_response_is_ignored(change: str) -> None:
    world = World(T0, T1)
    sent = world.reset(T0)[1]
    if change == "unassigned":
        world.subscriptions.assign_from_user([T1])
    elif change == "sought":
        world.subscriptions.seek(T0, FetchPosition(3))
    else:
        world.subscriptions.request_reset(T0, LATEST)

    sent.answer(listed((T0, 17, 0)))

    state = world.subscriptions.get(T0)
    assert state is None or state.position in (3, None)


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 78, -1])
def test_a_failed_partition_is_retried_after_the_backoff(code: int) -> None:
    world = World(T0)
    world.metadata._full_settled = world.metadata._full_asked
    world.reset(T0)[1].answer(listed((T0, -1, code)))
    assert world.metadata.update_requested
    assert world.again() == {}

    world.clock.advance(0.1)

    assert list(world.again()) == [1]


def test_a_lost_connection_is_retried_and_a_failed_authentication_raised() -> None:
    world = World(T0)
    world.reset(T0)[1].fail(KafkaConnectionError("gone"))
    world.offsets.raise_error()
    world.clock.advance(0.1)

    world.again()[1].fail(AuthenticationError("no"))

    with pytest.raises(AuthenticationError):
        world.offsets.raise_error()
    world.offsets.raise_error()


def test_of_several_errors_the_first_is_kept() -> None:
    world = World(T0, T1)
    sent = world.reset(T0, T1)
    sent[2].answer(listed((T1, -1, 29)))
    sent[1].fail(AuthenticationError("no"))

    with pytest.raises(TopicAuthorizationFailedError, match="t"):
        world.offsets.raise_error()
    assert not world.offsets.has_error


def test_a_call_for_some_partitions_raises_their_errors_alone() -> None:
    world = World(T0, T1)
    sent = world.reset(T0, T1)
    sent[2].answer(listed((T1, -1, 29)))
    world.offsets.raise_error((T0,))
    sent[1].fail(AuthenticationError("no"))

    with pytest.raises(AuthenticationError):
        world.offsets.raise_error((T0,))
    world.offsets.raise_error((T0,))
    with pytest.raises(TopicAuthorizationFailedError, match="t"):
        world.offsets.raise_error((T1, T0))
    assert not world.offsets.has_error


def test_an_error_ends_with_the_assignment_of_its_partition() -> None:
    world = World(T0, T1)
    world.reset(T1)[2].answer(listed((T1, -1, 29)))
    assert world.offsets.has_error

    world.subscriptions.assign_from_user([T0])

    world.offsets.raise_error()
    assert not world.offsets.has_error


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    world = World(T0)
    world.lead({0: (-1, 4)})
    assert world.reset(T0) == {}
    assert world.subscriptions.next_retry_at() > world.clock.now()

    world.lead({0: (2, 5)})
    world.notice_leaders()

    assert list(world.again()) == [2]


def test_leaders_are_looked_up_once_for_each_metadata_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitions = [TopicPartition("t", number) for number in range(50)]
    world = World(*partitions)
    looked_up: list[TopicPartition] = []
    leader = world.metadata.leader

    def counted(tp: TopicPartition) -> Any:
        looked_up.append(tp)
        return leader(tp)

    def update_positions(times: int) -> dict[int, SentRequest]:
        sent: dict[int, SentRequest] = {}
        for _ in range(times):
            world.notice_leaders()
            sent |= world.again()
            world.clock.advance(0.1)
        return sent

    world.lead({})
    world.notice_leaders()
    monkeypatch.setattr(world.metadata, "leader", counted)
    assert world.reset(*partitions) == {}
    assert len(looked_up) == 50

    assert update_positions(100) == {}
    assert len(looked_up) == 50
    assert world.metadata.update_requested

    # An update that names no leader: one look, and one more request.
    world.lead({})
    assert update_positions(100) == {}
    assert len(looked_up) == 100
    assert world.metadata.update_requested

    world.lead(dict.fromkeys(range(50), (1, 3)))
    (sent,) = update_positions(1).values()
    assert asked(sent).keys() == set(range(50))
    assert len(looked_up) <= 250  # to find them due, to group them, and for each one's leader epoch


def test_a_leader_named_by_a_fetch_response_is_noticed_without_a_metadata_update() -> None:
    world = World(T0)
    world.lead({0: (-1, 4)})
    assert world.reset(T0) == {}

    world.metadata.update_leaders({T0: (2, 5)}, ())
    world.notice_leaders()

    assert list(world.again()) == [2]


def test_partitions_without_a_leader_are_requested_as_soon_as_metadata_names_one() -> None:
    world = World(T0, T1)
    world.lead({0: (-1, 4), 1: (-1, 4)})
    assert world.reset(T0, T1) == {}

    world.lead({0: (2, 5), 1: (-1, 4)})
    world.notice_leaders()

    assert {node_id: asked(sent) for node_id, sent in world.again().items()} == {2: {0: -2}}
    assert world.again() == {}
    # It is under way now: news of leaders do not ask it twice.
    world.lead({0: (1, 6), 1: (-1, 4)})
    world.notice_leaders()
    assert world.again() == {}


def test_a_pause_for_another_reason_outlasts_new_metadata() -> None:
    world = World(T0)
    world.lead({0: (-1, 4)})
    world.reset(T0)
    world.lead({0: (2, 5)})
    world.notice_leaders()
    world.again()[2].answer(listed((T0, -1, 6)))

    world.lead({0: (1, 6)})
    world.notice_leaders()

    assert world.again() == {}
    world.clock.advance(0.1)
    assert list(world.again()) == [1]


def test_by_duration_without_a_record_that_young_is_the_end() -> None:
    world = World(T0)
    world.reset(T0, policy=ResetPolicy("by_duration", 1000))[1].answer(listed((T0, -1, 0)))

    assert asked(world.again()[1]) == {0: -1}


# -- validation ------------------------------------------------------------------------------------------------------


def test_a_position_is_validated_with_its_epochs() -> None:
    world = World(T0)
    sent = world.validate(T0)

    request: OffsetForLeaderEpochRequest = sent.request
    (partition,) = request.topics[0].partitions
    assert (partition.leader_epoch, partition.current_leader_epoch) == (2, 3)
    assert (sent.node, sent.min_version) == (1, 3)

    sent.answer(ends(T0, 2, 10))
    assert world.state(T0) is FetchState.FETCHING


def test_a_broker_without_offset_for_leader_epoch_leaves_the_position_valid() -> None:
    world = World(T0)

    world.validate(T0).fail(UnsupportedVersionError("old"))

    assert world.state(T0) is FetchState.FETCHING
    assert world.subscriptions.state(T0).position == 10


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 75, 78, -1])
def test_a_validation_that_failed_is_retried(code: int) -> None:
    world = World(T0)
    world.validate(T0).answer(ends(T0, -1, -1, code))
    assert world.state(T0) is FetchState.AWAIT_VALIDATION

    world.offsets.validate_positions(world.clock.now())
    assert world.client.take_all() == []
    world.clock.advance(0.1)
    world.offsets.validate_positions(world.clock.now())
    assert len(world.client.take_all()) == 1


def test_a_validation_that_is_not_allowed_is_raised() -> None:
    world = World(T0)
    world.validate(T0).answer(ends(T0, -1, -1, 29))

    with pytest.raises(TopicAuthorizationFailedError):
        world.offsets.raise_error()


def test_truncation_without_a_policy_is_raised() -> None:
    world = World(T0, auto_offset_reset="none")

    world.validate(T0).answer(ends(T0, 1, 4))

    with pytest.raises(LogTruncationError) as caught:
        world.offsets.raise_error()
    assert caught.value.partitions == {T0: 10}


def test_truncation_with_a_reset_policy_continues_at_the_point_of_divergence() -> None:
    world = World(T0)

    world.validate(T0).answer(ends(T0, 1, 4))

    assert world.subscriptions.state(T0).position == 4
    assert not world.offsets.has_error


# -- lookups ---------------------------------------------------------------------------------------------------------


def test_a_lookup_requests_every_leader_and_merges_the_responses() -> None:
    world = World()
    steps = world.offsets.fetch_offsets({T0: 100, T1: 200, T2: 300}, 160.0)
    next(steps)
    sent = {s.node: s for s in world.client.take_all()}
    assert {node: asked(s) for node, s in sent.items()} == {1: {0: 100, 2: 300}, 2: {1: 200}}

    sent[2].answer(listed((T1, 7, 0)))
    sent[1].answer(listed((T0, 5, 0), (T2, -1, 0)))

    found = run(steps)
    assert found == {T0: OffsetAndTimestamp(5, 50, 3), T1: OffsetAndTimestamp(7, 70, 3), T2: None}


def test_a_partition_in_a_format_without_timestamps_has_no_offset_for_a_time() -> None:
    world = World()
    steps = world.offsets.fetch_offsets({T0: 100}, 160.0)
    next(steps)
    world.client.take_all()[0].answer(listed((T0, -1, 43)))

    assert run(steps) == {T0: None}


def test_a_lookup_that_is_not_allowed_raises() -> None:
    world = World()
    steps = world.offsets.fetch_offsets({T0: 100}, 160.0)
    next(steps)
    world.client.take_all()[0].answer(listed((T0, -1, 29)))

    with pytest.raises(TopicAuthorizationFailedError):
        next(steps)


def test_a_lookup_retries_with_new_metadata() -> None:
    world = World()
    steps = world.offsets.fetch_offsets({T0: 100}, 160.0)
    next(steps)
    world.client.take_all()[0].answer(listed((T0, -1, 6)))
    wait = next(steps)
    assert wait.until == pytest.approx(100.1)

    world.clock.advance(0.1)
    next(steps)
    world.lead({0: (2, 4)})
    next(steps)

    (sent,) = world.client.take_all()
    assert sent.node == 2
    sent.answer(listed((T0, 9, 0)))
    assert run(steps) == {T0: OffsetAndTimestamp(9, 90, 3)}


def test_a_lookup_that_waits_for_a_leader_continues_with_new_metadata() -> None:
    world = World()
    world.lead({0: (-1, 4)})
    steps = world.offsets.fetch_offsets({T0: 100}, 160.0)
    assert next(steps).until == 160.0

    world.lead({0: (2, 5)})
    next(steps)

    (sent,) = world.client.take_all()
    assert sent.node == 2


def test_a_lookup_that_times_out_names_the_missing_partitions() -> None:
    world = World()
    steps = world.offsets.fetch_offsets({T0: 100}, 160.0)
    next(steps)
    world.client.take_all()[0].fail(KafkaConnectionError("node 1 is gone"))
    next(steps)

    with pytest.raises(KafkaTimeoutError, match=r"no offsets for t-0 .*node 1 is gone"):
        steps.throw(KafkaTimeoutError("time is over"))


def test_a_lookup_of_other_topics_requests_their_metadata() -> None:
    world = World()
    other = TopicPartition("other", 0)
    steps = world.offsets.fetch_offsets({other: -1}, 160.0)
    next(steps)

    assert "other" in {t.name for t in (world.metadata.query(200.0).request.topics or ())}
    steps.close()
    assert world.metadata._transient == set()


def test_read_committed_requests_the_last_stable_offset() -> None:
    world = World(isolation_level="read_committed")
    next(world.offsets.fetch_offsets({T0: -1}, 160.0))

    assert world.client.take_all()[0].request.isolation_level == 1


def test_an_end_offset_requested_in_the_background_makes_the_lag_known() -> None:
    world = World(T0)
    world.subscriptions.seek(T0, FetchPosition(4))

    world.offsets.request_end_offset(T0)
    world.client.take_all()[0].answer(listed((T0, 10, 0)))

    assert world.subscriptions.partition_lag(T0, read_committed=False) == 6
