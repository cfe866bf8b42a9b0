"""The order of steps of ``poll`` and similar calls, over stubs of network and coordinator, and the facade's rules."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyconsumer import ConsumerRecords, KafkaConsumer, OffsetAndMetadata, TopicPartition
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.guard import NO_THREAD
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.consumer.partition_state import FetchState
from pyconsumer.errors import (
    ConcurrentAccessError,
    ConfigurationError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    TopicAuthorizationFailedError,
)
from pyconsumer.network.futures import RequestFuture, Wait
from pyconsumer.protocol.messages.fetch import FetchRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsRequest
from pyconsumer.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.unit.consumer.builders import batch, data, ends, finish, listed, offsets_of, response
from tests.unit.consumer.worlds import ConsumerWorld

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


# -- poll ------------------------------------------------------------------------------------------------------------


def test_poll_needs_a_subscription() -> None:
    with pytest.raises(IllegalStateError, match="subscribe"):
        next(ConsumerWorld().poll())


def test_poll_sends_fetches_waits_once_and_returns_the_records() -> None:
    world = ConsumerWorld(T0)
    world.start(T0)
    steps = world.poll(10.0)

    wait = next(steps)
    assert (wait.future, wait.until) == (None, world.clock.now() + 10.0)
    world.answer(T0, batch(0, 3))

    records = finish(steps)
    assert isinstance(records, ConsumerRecords)
    assert offsets_of(records[T0]) == [0, 1, 2]
    assert records.next_offsets() == {T0: OffsetAndMetadata(3, "", 3)}


def test_the_first_position_is_sought_as_soon_as_metadata_is_there() -> None:
    world = ConsumerWorld(T0)
    known, world.metadata._topics = world.metadata._topics, {}
    steps = world.poll()
    next(steps)
    assert world.client.take_all() == []

    world.metadata._topics = known
    world.metadata.update_count += 1
    world.metadata.leaders_version += 1
    next(steps)  # no time has passed

    (sent,) = world.client.take_all()
    assert sent.request.API_KEY == ListOffsetsRequest.API_KEY


def test_the_next_fetch_is_transmitted_before_records_are_decoded_and_returned() -> None:
    world = ConsumerWorld(T0)
    world.start(T0)
    steps = world.poll()
    next(steps)
    world.answer(T0, batch(0, 3))
    positions: list[int | None] = []
    world.client.on_flush = lambda: positions.append(world.subscriptions.state(T0).position)

    finish(steps)

    assert positions[0] == 0  # transmitted while nothing had been returned
    (sent,) = world.client.sent
    assert [p.fetch_offset for t in sent.request.topics for p in t.partitions] == [3]


def test_an_error_in_transmitting_the_next_fetch_does_not_cost_the_records(caplog: pytest.LogCaptureFixture) -> None:
    world = ConsumerWorld(T0)
    world.start(T0)
    steps = world.poll(count=3)
    next(steps)
    world.answer(T0, batch(0, 3) + batch(3, 2))
    flushed: list[int] = []

    def fail() -> None:
        flushed.append(1)
        if len(flushed) > 1:
            raise KafkaConnectionError("no")

    world.client.on_flush = fail
    assert finish(steps).count() == 3
    world.client.take_all()[-1].answer(response({T0: data(batch(5, 2))}))
    now = world.clock.now()

    found = world.buffered(now)

    assert found is not None
    assert offsets_of(found[T0]) == [3, 4, 5, 6]
    assert "could not be sent" in caplog.text


def test_a_node_is_fetched_from_during_other_requests_but_not_during_position_lookups() -> None:
    world = ConsumerWorld(T0, T2)
    world.start(T0, T2)
    world.delegate.fetcher.offsets.request_end_offset(T2)
    next(world.poll())

    sent = [(s.node, s.request.API_KEY) for s in world.client.take_all()]

    assert sent == [(1, ListOffsetsRequest.API_KEY), (1, FetchRequest.API_KEY)], "the first has no answer yet"


def test_a_fetch_waits_for_position_lookups_at_its_node() -> None:
    """A broker answers in order, and delays a fetch of idle partitions: requests behind it wait as long."""
    world = ConsumerWorld(T0, T2)
    world.start(T0)  # T2, of the same node, has no position yet
    steps = world.poll()
    next(steps)
    (reset,) = world.client.take_all()
    assert reset.request.API_KEY == ListOffsetsRequest.API_KEY
    reset.answer(listed((T2, 7, 0)))
    next(steps)
    (fetch,) = world.client.take_all()
    assert fetch.request.API_KEY == FetchRequest.API_KEY
    assert sorted(p.partition for topic in fetch.request.topics for p in topic.partitions) == [0, 2]


def test_committed_offsets_with_an_epoch_are_validated_before_the_first_fetch() -> None:
    """The offset of an idle partition has no epoch, so it could be fetched at once, before the others are validated."""
    world = ConsumerWorld(T0, T2, group=True)
    steps = world.poll()
    next(steps)
    world.coordinator.committed.complete({T0: OffsetAndMetadata(40, leader_epoch=2), T2: OffsetAndMetadata(0)})
    next(steps)
    (validation,) = world.client.take_all()
    assert validation.request.API_KEY == OffsetForLeaderEpochRequest.API_KEY
    validation.answer(ends(T0, 2, 50))
    next(steps)
    (fetch,) = world.client.take_all()
    assert sorted(p.partition for topic in fetch.request.topics for p in topic.partitions) == [0, 2]


def test_poll_checks_once_even_without_time() -> None:
    world = ConsumerWorld(T0)
    world.start(T0)
    steps = world.poll(0.0)

    next(steps)
    records = finish(steps)

    assert records == {}
    assert isinstance(records, ConsumerRecords)


def test_poll_repeats_until_its_time_is_over_and_never_waits_for_the_join() -> None:
    world = ConsumerWorld(T0, group=True)
    world.start(T0)
    steps = world.poll(10.0)

    for _ in range(4):
        assert next(steps).until == 110.0
        world.clock.advance(2.0)
    assert len(world.coordinator.calls) >= 4
    assert set(world.coordinator.calls) == {"poll wait_for_join=False"}
    world.clock.advance(2.0)
    assert finish(steps) == {}


def test_records_changed_by_interceptors_are_returned() -> None:
    class OnlyFirst:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            return ConsumerRecords({tp: found[:1] for tp, found in records.items()})

    world = ConsumerWorld(T0, interceptors=[OnlyFirst()])
    world.start(T0)
    steps = world.poll()
    next(steps)
    world.answer(T0, batch(0, 3))

    assert finish(steps).count() == 1
    assert world.subscriptions.state(T0).position == 3


def test_the_coordinator_is_polled_without_waiting_while_owned_partitions_are_read() -> None:
    world = ConsumerWorld(group=True)
    world.subscriptions.subscribe(["t"])
    world.subscriptions.assign_from_subscribed([T0])
    world.start(T0)
    steps = world.poll()

    next(steps)
    assert world.coordinator.calls == ["poll wait_for_join=False"]  # it says False: a rebalance is under way
    world.answer(T0, batch(0, 3))

    assert finish(steps).count() == 3


def test_the_wait_ends_at_the_coordinators_next_duty() -> None:
    world = ConsumerWorld(T0, group=True)
    world.start(T0)
    world.coordinator.next_due_at = world.clock.now() + 2.5

    assert next(world.poll(10.0)).until == world.clock.now() + 2.5


def test_a_member_is_assigned_without_a_record() -> None:
    world = ConsumerWorld(group=True)
    world.subscriptions.subscribe(frozenset({"t"}), None)
    steps = world.delegate.until_assigned(world.clock.now() + 40.0, lambda: None)
    next(steps)

    world.coordinator.is_stable = True  # and it gets no partition
    assert finish(steps) is True
    assert world.delegate.metrics.records == 0


def test_an_assignment_is_complete_when_its_positions_are_known() -> None:
    world = ConsumerWorld(group=True)
    world.subscriptions.subscribe(frozenset({"t"}), None)
    world.subscriptions.assign_from_subscribed([T0])
    steps = world.delegate.until_assigned(world.clock.now() + 40.0, lambda: None)
    next(steps)

    world.start(T0)
    assert finish(steps) is True


def test_until_assigned_ends_at_its_deadline() -> None:
    world = ConsumerWorld(group=True)
    world.subscriptions.subscribe(frozenset({"t"}), None)
    steps = world.delegate.until_assigned(world.clock.now() + 40.0, lambda: None)
    assert next(steps).until <= world.clock.now() + 40.0
    world.clock.advance(40.0)
    assert finish(steps) is False


def test_between_polls_the_member_waits_without_counting_as_polled() -> None:
    world = ConsumerWorld(group=True)
    world.subscriptions.subscribe(frozenset({"t"}), None)
    world.delegate.leave_group_to_task()
    world.coordinator.calls.clear()
    steps = world.delegate.until_group_is_due()
    for _ in range(3):  # whatever arrives
        assert next(steps).until > world.clock.now(), "it would spin"
    assert world.coordinator.polls_at == []
    assert (
        world.coordinator.calls
        == ["due_between_polls something_came=False"] + ["due_between_polls something_came=True"] * 2
    )

    world.coordinator.due_at_between_polls = world.clock.now()
    assert finish(steps) is None
    finish(world.delegate.serve_group())
    assert world.coordinator.calls[-1] == "advance"
    assert world.coordinator.polls_at == []


def test_an_error_of_a_fetch_waits_for_the_next_poll() -> None:
    world = ConsumerWorld(T0, auto_offset_reset="none")
    steps = world.delegate.until_group_is_due()
    assert next(steps).until > world.clock.now()
    assert next(steps).until > world.clock.now(), "it would spin"
    with pytest.raises(NoOffsetForPartitionError):
        finish(world.poll())


# -- the short path --------------------------------------------------------------------------------------------------


def buffered(count: int = 1000, **options: Any) -> ConsumerWorld:
    world = ConsumerWorld(T0, group=True, **options)
    world.start(T0)
    steps = world.poll(count=1)
    next(steps)
    world.answer(T0, batch(0, count))
    finish(steps)
    world.coordinator.calls.clear()
    world.coordinator.polls_at.clear()
    return world


def test_buffered_records_are_returned_without_steps_and_the_poll_is_noted() -> None:
    world = buffered()
    flushes = world.client.flushes

    found = world.buffered(107.0)

    assert found is not None
    assert found.count() == 500
    assert (world.coordinator.calls, world.coordinator.polls_at) == ([], [107.0])
    assert world.client.flushes == flushes


@pytest.mark.parametrize(
    "reason", ["due", "user output", "an answer awaited", "an error", "a position to find", "nothing buffered"]
)
def test_the_short_path_is_left_for_duties(reason: str) -> None:
    world = buffered()
    if reason == "due":
        world.coordinator.next_due_at = 107.0
    elif reason == "user output":
        world.coordinator.has_user_output = True
    elif reason == "an answer awaited":
        world.coordinator.awaits_response = True
    elif reason == "an error":
        world.delegate.fetcher._error = TopicAuthorizationFailedError("t")
    elif reason == "a position to find":
        world.subscriptions.request_reset(T0)
    else:
        world.buffered(106.0, 5000)

    assert world.buffered(107.0) is None
    assert world.coordinator.polls_at[-1] == 107.0


def test_while_the_group_awaits_a_response_a_poll_with_buffered_records_reads_the_sockets_once() -> None:
    world = buffered()
    coordinator = world.coordinator
    coordinator.awaits_response = True
    steps = world.poll(10.0)
    assert next(steps) == Wait(None, world.clock.now()), "one look, without waiting"
    flushes = world.client.flushes
    assert finish(steps).count() == 500
    assert world.client.flushes > flushes, "what the answer brought about leaves before records are processed"
    assert len(coordinator.calls) == 2, "the coordinator could continue after reading the sockets"

    steps = world.poll(0.0)  # and so without time
    next(steps)
    coordinator.awaits_response = False
    assert finish(steps).count() == 499


def test_these_reads_are_some_milliseconds_apart() -> None:
    world = buffered()
    now = world.clock.now()
    world.coordinator.awaits_response = True
    assert world.buffered(now, 10) is None
    steps = world.poll(10.0)
    next(steps)
    finish(steps)

    found = world.buffered(now + 0.001, 10)
    assert found is not None
    assert found.count() == 10
    world.coordinator.has_user_output = True
    assert world.buffered(now + 0.001, 10) is None, "what the application has to hear of waits for nothing"
    world.coordinator.has_user_output = False
    assert world.buffered(now + 0.003, 10) is None


def test_iteration_has_the_same_short_path() -> None:
    world = buffered(5)
    found = [world.delegate.buffered(107.0, world.delegate.take_one, 500) for _ in range(4)]

    assert [r.offset for r in found if r] == [1, 2, 3, 4]
    assert world.delegate.buffered(107.0, world.delegate.take_one, 500) is None
    assert world.coordinator.calls == []


def test_iteration_shows_each_record_to_interceptors() -> None:
    class Odd:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            return ConsumerRecords({tp: found for tp, found in records.items() if found[0].offset % 2})

    world = buffered(6, interceptors=[Odd()])

    assert [r.offset for r in iter(lambda: world.delegate.buffered(107.0, world.delegate.take_one, 500), None)] == [
        1,
        3,
        5,
    ]


# -- positions -------------------------------------------------------------------------------------------------------


def test_without_a_group_new_partitions_are_reset() -> None:
    world = ConsumerWorld(T0)
    steps = world.poll()
    next(steps)
    (asked,) = world.client.take_all()
    asked.answer(listed((T0, 7, 0)))
    next(steps)

    assert world.subscriptions.state(T0).position == 7


def test_with_a_group_the_committed_offset_is_looked_up_in_the_background() -> None:
    world = ConsumerWorld(T0, T2, group=True)
    world.start(T2)
    steps = world.poll()
    next(steps)
    assert "fetch_committed t-0" in world.coordinator.calls
    world.answer(T2, batch(0, 2))
    assert set(finish(steps)) == {T2}  # the other partition is read during that time

    world.coordinator.committed.complete({T0: OffsetAndMetadata(40)})
    next(world.poll())

    assert world.subscriptions.state(T0).position == 40


def test_a_partition_without_a_committed_offset_is_reset_or_raises() -> None:
    world = ConsumerWorld(T0, group=True)
    world.coordinator.committed.complete({T0: None})
    next(world.poll())
    assert world.subscriptions.state(T0).state is FetchState.AWAIT_RESET

    strict = ConsumerWorld(T0, group=True, auto_offset_reset="none")
    strict.coordinator.committed.complete({T0: None})
    with pytest.raises(NoOffsetForPartitionError):
        next(strict.poll())


def test_a_failed_lookup_is_retried_after_the_backoff() -> None:
    world = ConsumerWorld(T0, group=True)
    world.coordinator.committed.fail(KafkaConnectionError("gone"))
    steps = world.poll()
    wait = next(steps)
    assert wait.until == pytest.approx(world.clock.now() + 0.1)
    assert world.coordinator.calls.count("fetch_committed t-0") == 1

    world.coordinator.committed = RequestFuture.of({T0: OffsetAndMetadata(4)})
    world.clock.advance(0.1)
    next(steps)

    assert world.subscriptions.state(T0).position == 4


def test_an_unauthorized_lookup_is_raised() -> None:
    world = ConsumerWorld(T0, group=True)
    world.coordinator.committed.fail(TopicAuthorizationFailedError("t"))

    with pytest.raises(TopicAuthorizationFailedError):
        next(world.poll())


def test_a_lookup_for_an_earlier_assignment_is_repeated() -> None:
    """Between the two the partition may have had another owner that advanced the committed offset."""
    world = ConsumerWorld(T0, group=True)
    next(world.poll())
    world.subscriptions.assign_from_user([T2])
    world.start(T2)
    next(world.poll())  # nobody waits for the answer now
    world.subscriptions.assign_from_user([T0])
    world.coordinator.committed.complete({T0: OffsetAndMetadata(3)})
    world.coordinator.committed = RequestFuture.of({T0: OffsetAndMetadata(8)})
    next(world.poll())

    assert world.subscriptions.state(T0).position == 8


def test_a_partition_assigned_again_does_not_use_its_old_lookup() -> None:
    world = ConsumerWorld(T0, T2, group=True)
    next(world.poll())
    world.subscriptions.assign_from_user([T2])
    world.subscriptions.assign_from_user([T0, T2])
    world.coordinator.committed.complete({T0: OffsetAndMetadata(3), T2: OffsetAndMetadata(4)})
    world.coordinator.committed = RequestFuture.of({T0: OffsetAndMetadata(8), T2: OffsetAndMetadata(4)})
    next(world.poll())

    assert world.subscriptions.state(T0).position == 8
    assert world.subscriptions.state(T2).position == 4


def test_an_abandoned_lookup_does_not_keep_polls_busy() -> None:
    world = ConsumerWorld(T0, group=True)
    next(world.poll())
    world.start(T0, at=5)
    world.clock.advance(61.0)  # the lookup's time is over

    steps = world.poll()
    assert next(steps).until > world.clock.now()


def test_position_waits_until_there_is_one() -> None:
    world = ConsumerWorld(T0)
    steps = world.delegate.position(T0, 200.0)
    next(steps)
    world.client.take_all()[0].answer(listed((T0, 9, 0)))

    assert finish(steps) == 9


def test_position_names_the_state_in_which_it_timed_out() -> None:
    world = ConsumerWorld(T0)
    steps = world.delegate.position(T0, 200.0)
    next(steps)

    with pytest.raises(KafkaTimeoutError, match=r"t-0 .*AWAIT_RESET"):
        steps.throw(KafkaTimeoutError("over"))


def test_an_unknown_lag_is_requested_once() -> None:
    world = ConsumerWorld(T0)
    world.start(T0, at=3)
    assert world.delegate.current_lag(T0) is None
    assert world.delegate.current_lag(T0) is None
    (asked,) = world.client.take_all()

    asked.answer(listed((T0, 10, 0)))

    assert world.delegate.current_lag(T0) == 7


# -- subscribe and assign --------------------------------------------------------------------------------------------


def consumer(**options: Any) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers="127.0.0.1:1", **options)


@pytest.fixture
def grouped() -> Any:
    made = consumer(group_id="g", enable_auto_commit=False)
    yield made
    made.close(0)


@pytest.fixture
def alone() -> Any:
    made = consumer()
    yield made
    made.close(0)


def test_a_consumer_that_fails_to_start_closes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    close = ConsumerNetworkClient.close
    monkeypatch.setattr(ConsumerNetworkClient, "close", lambda self: (closed.append(self), close(self)))

    with pytest.raises(ConfigurationError):
        consumer(group_id="g", partition_assignment_strategy=["no such assignor"])

    assert len(closed) == 1


def test_without_a_group_topics_can_be_subscribed_but_not_committed(alone: KafkaConsumer) -> None:
    alone.subscribe(["t"])
    assert alone.subscription() == {"t"}
    with pytest.raises(InvalidGroupIdError, match="a group_id is needed to commit"):
        alone.commit()
    alone.subscribe([])
    assert alone.subscription() == set()
    with pytest.raises(TypeError):
        alone.subscribe(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        {"topics": None},
        {"topics": [None]},
        {"topics": ["t", ""]},
        {"topics": ["  "]},
        {"topics": "t"},
        {"pattern": ""},
        {"topics": ["t"], "pattern": "t"},
        {"topics": ["t"], "listener": object()},
    ],
)
def test_subscribe_rejects_invalid_topics(grouped: KafkaConsumer, arguments: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        grouped.subscribe(**arguments)
    assert grouped.subscription() == set()
    assert grouped._guard.depth == 0


def test_subscribe_takes_a_set_and_a_listener_without_sending(
    grouped: KafkaConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    listener = ConsumerRebalanceListener()
    with caplog.at_level(logging.INFO, "pyconsumer.consumer"):
        grouped.subscribe(["b", "a", "b"], listener=listener)

    assert grouped.subscription() == {"a", "b"}
    assert grouped._subscriptions.listener is listener
    assert grouped.assignment() == set()
    assert (grouped._network.unsent(), grouped._network.in_flight()) == (0, 0)
    assert "subscribed to a, b" in caplog.text


def test_metadata_is_requested_only_if_the_subscription_changed(grouped: KafkaConsumer) -> None:
    grouped.subscribe(["a"])
    asked = grouped._delegate.metadata._partial_asked

    grouped.subscribe(["a", "a"])
    assert grouped._delegate.metadata._partial_asked == asked

    grouped.subscribe(["a", "b"])
    assert grouped._delegate.metadata._partial_asked == asked + 1


def test_an_empty_subscription_is_unsubscribe(grouped: KafkaConsumer) -> None:
    grouped.subscribe(["a"])

    grouped.subscribe([])

    assert grouped._subscriptions.has_none


def test_an_error_of_the_listener_leaves_no_half_of_a_subscription() -> None:
    """The member has left. If it were still subscribed, it would read no partition, and later join again."""
    world = ConsumerWorld(group=True)
    finish(world.delegate.subscribe(["t"], None))

    with pytest.raises(RuntimeError, match="the listener's"):
        finish(world.delegate.unsubscribe(200.0))

    assert world.subscriptions.has_none


def test_subscribe_needs_an_assignor() -> None:
    with (
        consumer(group_id="g", partition_assignment_strategy=[]) as made,
        pytest.raises(IllegalStateError, match="partition_assignment_strategy names no assignor"),
    ):
        made.subscribe(["t"])


def test_a_pattern_requests_metadata_of_all_topics(grouped: KafkaConsumer) -> None:
    grouped.subscribe(pattern="t-.*")

    assert grouped._subscriptions.matches_pattern("t-1")
    assert not grouped._subscriptions.matches_pattern("t")
    assert grouped._delegate.metadata.query(0.0).request.topics is None


def test_subscribe_to_other_topics_drops_buffered_records_of_the_old_ones() -> None:
    world = ConsumerWorld(group=True)
    finish(world.delegate.subscribe(["t"], None))
    world.subscriptions.assign_from_subscribed([T0])
    world.start(T0)
    steps = world.poll(count=2)
    next(steps)
    world.answer(T0, batch(0, 10))
    assert finish(steps).count() == 2

    finish(world.delegate.subscribe(["other"], None))

    assert world.buffered(world.clock.now()) is None
    state = world.subscriptions.state(T0)
    assert (state.position, state.fetch_offset) == (2, 2)
    assert world.subscriptions.assignment() == {T0}


def test_unsubscribe_drops_buffered_records() -> None:
    world = ConsumerWorld(T0)
    world.start(T0)
    steps = world.poll(count=2)
    next(steps)
    world.answer(T0, batch(0, 10))
    assert finish(steps).count() == 2
    buffer = world.delegate.fetcher.buffer
    assert buffer.partitions == {T0}

    finish(world.delegate.unsubscribe(world.clock.now()))

    assert buffer.partitions == set()
    world.subscriptions.assign_from_user([T0])
    world.start(T0, at=2)
    assert world.buffered(world.clock.now()) is None


def test_assign_keeps_buffered_records_of_partitions_that_stay() -> None:
    world = ConsumerWorld(T0, T2)
    world.start(T0, T2)
    steps = world.poll(count=1)
    next(steps)
    (sent,) = world.client.take_all()
    sent.answer(response({T0: data(batch(0, 5)), T2: data(batch(0, 5))}))
    assert finish(steps).count() == 1

    finish(world.delegate.assign([T2]))

    found = world.buffered(world.clock.now())
    assert found is not None
    assert {tp: offsets_of(records) for tp, records in found.items()} == {T2: [0, 1, 2, 3, 4]}


def test_assign_commits_before_the_assignment_is_replaced() -> None:
    world = ConsumerWorld(T0, group=True)

    finish(world.delegate.assign([T1]))

    assert world.coordinator.calls == ["auto-commit of ['t-0']"]


def test_assign_requests_metadata_of_new_topics_only(alone: KafkaConsumer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyconsumer.consumer"):
        alone.assign([T0])
    asked = alone._delegate.metadata._partial_asked
    alone.assign([T0, T1])
    assert alone._delegate.metadata._partial_asked == asked
    alone.assign([TopicPartition("u", 0)])
    assert alone._delegate.metadata._partial_asked == asked + 1
    assert "assigned t-0" in caplog.text


def test_the_wrong_kind_of_subscription_is_rejected_before_any_state_is_lost() -> None:
    world = ConsumerWorld(T0, group=True)
    world.start(T0)
    epoch = world.subscriptions.state(T0).fetch_epoch

    with pytest.raises(IllegalStateError, match="exclude one another"):
        finish(world.delegate.subscribe(["u"], None))
    assert world.subscriptions.state(T0).fetch_epoch == epoch

    other = ConsumerWorld(group=True)
    finish(other.delegate.subscribe(["t"], None))
    other.coordinator.calls.clear()
    with pytest.raises(IllegalStateError, match="exclude one another"):
        finish(other.delegate.assign([T0]))
    assert other.coordinator.calls == []
    assert other.subscriptions.subscription() == {"t"}


def test_a_consumer_has_its_settings(grouped: KafkaConsumer) -> None:
    assert grouped.config.group_id == "g"
    assert (grouped.config.retry_backoff_ms, grouped.config.request_timeout_ms) == (100, 30_000)
    assert grouped.config.default_api_timeout_ms == 60_000
    assert grouped.config.partition_assignment_strategy


def test_close_takes_at_most_30_seconds_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    made = consumer()
    deadlines: list[float] = []
    close = made._delegate.close
    monkeypatch.setattr(made._delegate, "close", lambda at, **more: (deadlines.append(at), close(at, **more))[1])
    before = made._now()

    made.close()

    assert 30 <= deadlines[0] - before < 35


def test_a_poll_acquires_the_guard_notes_its_start_and_then_checks_the_subscription(
    alone: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int]] = []

    def noting(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def note(*arguments: Any) -> Any:
            done.append((name, alone._guard.depth))
            return real(*arguments)

        monkeypatch.setattr(owner, name, note)

    noting(ConsumerMetrics, "on_poll_start")
    noting(ConsumerDelegate, "_check_subscribed")
    with pytest.raises(IllegalStateError, match="subscribe"):
        alone.poll()
    assert done == [("on_poll_start", 1), ("_check_subscribed", 1)]
    assert alone._guard.depth == 0


# -- one thread at a time --------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "subscribe": (["t"],),
    "assign": ([T0],),
    "seek": (T0, 1),
    "position": (T0,),
    "pause": (T0,),
    "resume": (T0,),
    "current_lag": (T0,),
    "highwater": (T0,),
    "last_stable_offset": (T0,),
    "known_partitions": ("t",),
    "committed": (T0,),
    "offsets_for_times": ({T0: 1},),
    "beginning_offsets": ([T0],),
    "end_offsets": ([T0],),
    "partitions_for_topic": ("t",),
    "store_offsets": ({T0: 1},),
}
ANY_THREAD = {"wakeup", "metrics", "metric_table", "processing", "health"}
PUBLIC = sorted(
    name
    for name, method in inspect.getmembers(KafkaConsumer, inspect.isfunction)
    if not name.startswith("_") and name not in ANY_THREAD
)


@pytest.mark.concurrent
@pytest.mark.parametrize("name", PUBLIC)
def test_every_operation_acquires_and_releases_the_guard(name: str) -> None:
    made = consumer(group_id="g", enable_auto_commit=False, default_api_timeout_ms=200)
    call = partial(getattr(made, name), *ARGUMENTS.get(name, ()))
    entered, leave = threading.Event(), threading.Event()

    def occupy() -> None:
        with made._guard:
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=occupy)
    thread.start()
    assert entered.wait(20)
    try:
        with pytest.raises(ConcurrentAccessError):
            call()
    finally:
        leave.set()
        thread.join(20)
    made._guard.closed = True
    try:
        if name != "close":
            with pytest.raises(IllegalStateError, match="closed"):
                call()
    finally:
        made._guard.closed = False
    assert (made._guard.owner, made._guard.depth) == (NO_THREAD, 0)
    made.close(0)


# -- callbacks -------------------------------------------------------------------------------------------------------


def test_forbidden_calls_in_a_callback_are_rejected(grouped: KafkaConsumer) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "poll": grouped.poll,
        "subscribe": lambda: grouped.subscribe(["t"]),
        "unsubscribe": grouped.unsubscribe,
        "assign": lambda: grouped.assign([T0]),
        "close": grouped.close,
        "iteration": lambda: next(grouped),
    }
    for name, call in calls.items():
        with pytest.raises(IllegalStateError, match=f"{name} must not be called from a callback"):
            _inside(grouped, call)
    assert _inside(grouped, grouped.assignment) == _inside(grouped, grouped.paused) == set()
    assert grouped._guard.depth == 0


def _inside(made: KafkaConsumer, call: Callable[[], Any]) -> Any:
    """Call from a method of the consumer, through code of the application, as a callback is."""

    def listener() -> Any:
        return call()

    def outer(self: KafkaConsumer) -> Any:
        with self._guard:
            return listener()

    return outer(made)


# -- commits ---------------------------------------------------------------------------------------------------------


def test_commit_checks_its_offsets() -> None:
    world = ConsumerWorld(T0, group=True)
    world.start(T0, at=4)

    assert world.delegate.offsets_to_commit(None) == {T0: OffsetAndMetadata(4)}
    assert world.delegate.offsets_to_commit({T0: 7, T1: OffsetAndMetadata(8, "m")}) == {
        T0: OffsetAndMetadata(7),
        T1: OffsetAndMetadata(8, "m"),
    }
    with pytest.raises(ValueError, match="negative"):
        world.delegate.offsets_to_commit({T0: -1})
    with pytest.raises(TypeError):
        world.delegate.offsets_to_commit({T0: "7"})  # type: ignore[dict-item]


def test_errors_are_kafka_errors() -> None:
    assert issubclass(InvalidGroupIdError, KafkaError)


def test_list_topics_survives_a_lost_connection_and_names_it_at_the_deadline() -> None:
    world = ConsumerWorld()
    asked: list[RequestFuture[Any]] = []
    world.client.send_any = lambda api, request: asked.append(RequestFuture()) or asked[-1]  # type: ignore[attr-defined, func-returns-value]
    steps = world.delegate.topics(world.clock.now() + 60)
    next(steps)
    asked[0].fail(KafkaConnectionError("the broker went away"))
    pause = next(steps).until - world.clock.now()
    assert 0 < pause < 1
    world.clock.advance(pause)
    next(steps)
    assert len(asked) == 2
    with pytest.raises(KafkaTimeoutError, match="the broker went away"):
        steps.throw(KafkaTimeoutError("late"))


def test_a_time_in_seconds_is_warned_about_once(alone: KafkaConsumer, caplog: pytest.LogCaptureFixture) -> None:
    alone.assign([TopicPartition("t", 0)])
    alone.poll(5)
    for _ in range(3):
        alone.poll(1.0)
    alone.poll(0.0)
    found = [record.getMessage() for record in caplog.records if "milliseconds" in record.getMessage()]
    (line,) = found
    assert line.endswith("] poll(1.0) waits for 1.0 ms, as all times here are milliseconds. poll(1000) waits for 1 s")
