"""The fetcher over a stub of the network: its requests, and the effect of each response."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.consumer.partition_state import FetchPosition, FetchState, current_leader
from pyconsumer.errors import (
    CorruptRecordError,
    KafkaConnectionError,
    KafkaError,
    OffsetsOutOfRangeError,
    RecordTooLargeError,
)
from pyconsumer.protocol.messages.fetch import (
    AbortedTransaction,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from pyconsumer.protocol.records import BatchBuilder, ControlRecordType, build_end_transaction_marker
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import SentRequest
from tests.unit.consumer.builders import TOPIC_ID, batch, batches, data, response
from tests.unit.consumer.worlds import FetcherWorld

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def asked(sent: SentRequest) -> dict[int, int]:
    """The fetch offsets of a request by partition."""
    request: FetchRequest = sent.request
    return {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}


def test_one_request_per_node_is_queued_before_any_is_transmitted() -> None:
    world = FetcherWorld(T0, T1, T2)

    assert world.fetcher.send_fetches() == 2

    assert {s.node: asked(s) for s in world.client.sent} == {1: {0: 0, 2: 0}, 2: {1: 0}}
    assert world.client.flushes == 0
    assert world.fetcher.send_fetches() == 0


def test_a_request_carries_the_settings() -> None:
    world = FetcherWorld(
        T0,
        fetch_min_bytes=7,
        fetch_max_wait_ms=250,
        fetch_max_bytes=9_000,
        max_partition_fetch_bytes=4_000,
        isolation_level="read_committed",
        client_rack="r1",
    )

    request: FetchRequest = world.send()[1].request

    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (7, 250, 9_000)
    assert (request.isolation_level, request.rack_id, request.session_id, request.session_epoch) == (1, "r1", 0, 0)
    (topic,) = request.topics
    assert topic.topic_id == TOPIC_ID
    assert (topic.partitions[0].partition_max_bytes, topic.partitions[0].current_leader_epoch) == (4_000, 3)
    assert topic.partitions[0].log_start_offset == -1


def test_later_requests_are_incremental() -> None:
    world = FetcherWorld(T0, T2)
    world.send()[1].answer(response({T0: data(batch(0, 5)), T2: data()}))

    request: FetchRequest = world.send()[1].request

    assert (request.session_id, request.session_epoch) == (5, 1)
    assert {p.partition: p.fetch_offset for t in request.topics for p in t.partitions} == {0: 5}


def test_the_next_fetch_is_sent_before_any_record_is_decoded() -> None:
    world = FetcherWorld(T0)
    world.send()[1].answer(response({T0: data(batch(0, 5))}))

    assert asked(world.send()[1]) == {0: 5}
    assert world.subscriptions.state(T0).position == 0
    assert world.collect() == {T0: [0, 1, 2, 3, 4]}


def test_an_empty_response_updates_the_watermarks() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(high_watermark=9, last_stable_offset=8, log_start_offset=2))
    state = world.subscriptions.state(T0)
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (9, 8, 2)

    world.exchange(T0, data(high_watermark=-1, last_stable_offset=-1, log_start_offset=-1))

    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (9, 8, 2)
    assert world.collect() == {}


def test_bytes_without_a_whole_batch_are_an_error() -> None:
    cut = batch(4, 5)[:-1]
    world = FetcherWorld(T0, at=4, max_partition_fetch_bytes=len(cut))
    world.exchange(T0, data(cut, high_watermark=100))

    with pytest.raises(RecordTooLargeError, match=r"t-0 at offset 4.*max_partition_fetch_bytes"):
        world.collect()


@pytest.mark.parametrize("limit", [1 << 20, 100], ids=["the log ends there", "another batch follows"])
def test_a_corrupt_length_is_an_error_with_the_end_of_the_batch(limit: int) -> None:
    """The length is not covered by the checksum, and no larger fetch would help."""
    broken = bytearray(batch(4, 5) + batch(9, 5))
    broken[8:12] = (1 << 30).to_bytes(4, "big")
    world = FetcherWorld(T0, at=4, max_partition_fetch_bytes=limit)
    world.exchange(T0, data(bytes(broken), high_watermark=100))

    with pytest.raises(
        CorruptRecordError, match=r"t-0 at offset 4: the length .* is damaged: .* 1073741824 bytes"
    ) as e:
        world.collect()
    assert (e.value.topic_partition, e.value.offset, e.value.next_offset) == (T0, 4, 9)


def test_a_corrupt_batch_names_its_end() -> None:
    broken = bytearray(batch(4, 5))
    broken[-1] ^= 1
    world = FetcherWorld(T0, at=4)
    world.exchange(T0, data(bytes(broken), high_watermark=100))

    with pytest.raises(CorruptRecordError, match="checksum") as e:
        world.collect()
    copy = pickle.loads(pickle.dumps(e.value))
    assert (copy.topic_partition, copy.offset, copy.next_offset) == (T0, 4, 9)


def test_a_truncated_batch_is_fetched_again() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(batch(0, 5) + batch(5, 5)[:-1]))

    assert asked(world.send()[1]) == {0: 5}


def test_records_below_the_fetch_offset_are_skipped_and_the_next_offset_is_past_the_batch() -> None:
    world = FetcherWorld(T0, at=3)
    world.exchange(T0, data(batch(0, 5)))

    assert world.collect() == {T0: [3, 4]}
    assert world.subscriptions.state(T0).position == 5


def test_a_response_of_an_older_fetch_epoch_is_ignored() -> None:
    world = FetcherWorld(T0)
    sent = world.send()[1]
    world.seek(T0, 0)

    sent.answer(response({T0: data(batch(0, 5))}))

    assert world.collect() == {}
    assert world.subscriptions.state(T0).fetch_offset == 0
    world.exchange(T0, data(batch(0, 5)))
    assert world.collect() == {T0: [0, 1, 2, 3, 4]}


def test_an_error_of_an_unassigned_partition_is_not_raised() -> None:
    world = FetcherWorld(T0, T2)
    sent = world.send()[1]
    world.subscriptions.assign_from_user([T2])

    sent.answer(response({T0: data(error_code=29), T2: data(batch(0, 1))}))

    assert world.collect() == {T2: [0]}


def test_data_that_arrives_for_a_paused_partition_is_kept() -> None:
    world = FetcherWorld(T0)
    sent = world.send()[1]
    world.subscriptions.pause(T0)
    sent.answer(response({T0: data(batch(0, 2))}))
    assert world.collect() == {}

    world.subscriptions.resume(T0)

    assert world.collect() == {T0: [0, 1]}


def test_a_rejected_response_buffers_no_records() -> None:
    world = FetcherWorld(T0)
    world.send()[1].answer(response({T0: data(batch(0, 2))}, error_code=71))

    assert world.collect() == {}
    assert asked(world.send()[1]) == {0: 0}


def test_repeatedly_rejected_responses_do_not_make_a_busy_loop() -> None:
    world = FetcherWorld(T0)
    world.send()[1].answer(response({}, error_code=-1))

    assert world.send() == {}
    world.clock.advance(0.13)
    assert asked(world.send()[1]) == {0: 0}


def test_a_lost_connection_keeps_positions_and_fetches_again() -> None:
    world = FetcherWorld(T0)
    world.send()[1].fail(KafkaConnectionError("gone"))
    assert world.subscriptions.state(T0).position == 0
    assert not world.fetcher.has_error

    world.clock.advance(0.13)
    assert asked(world.send()[1]) == {0: 0}


def test_a_failed_authentication_is_raised_once() -> None:
    world = FetcherWorld(T0)
    world.send()[1].fail(errors.AuthenticationError("no"))

    with pytest.raises(errors.AuthenticationError):
        world.fetcher.raise_error()
    world.fetcher.raise_error()


def test_ctrl_c_before_a_fetch_was_sent_does_not_end_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FetcherWorld(T0, T2)

    def interrupted(*arguments: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world.client, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.fetcher.send_fetches()
    assert world.send() == {}, "it counts as under way"
    world.fetcher.recover()
    (sent,) = world.send().values()
    assert asked(sent) == {0: 0, 2: 0}
    world.fetcher.recover()
    assert world.send() == {}, "what is under way stays so"
    sent.answer(response({T0: data(batch(0, 3)), T2: data(batch(0, 1))}))
    assert world.collect() == {}, "but its answer is of an older epoch"
    (sent,) = world.send().values()
    sent.answer(response({T0: data(batch(0, 3)), T2: data(batch(0, 1))}))
    assert world.collect() == {T0: [0, 1, 2], T2: [0]}
    assert world.fetcher.planner.budget.held == 0


def test_the_fetcher_owns_all_parts_of_fetching() -> None:
    world = FetcherWorld(T0, key_deserializer=bytes.decode)
    fetcher = world.fetcher
    held = (fetcher._client, fetcher._metadata, fetcher._subscriptions, fetcher._metrics)
    assert held == (world.client, world.metadata, world.subscriptions, world.metrics)
    world.exchange(T0, data(batch(0, 2)))
    assert [session.session_id for session in fetcher.planner.sessions()] == [5]
    (records,) = fetcher.buffer.collect(10).values()
    assert [type(record.key) for record in records] == [str, str], "the deserializers are its own"
    assert world.metrics.fetches == 1


def test_latency_and_bytes_are_counted_once_per_response() -> None:
    world = FetcherWorld(T0, T2)
    first, second = batch(0, 1), batch(0, 3)
    world.send()[1].answer(response({T0: data(first), T2: data(second)}, throttle_time_ms=4))

    assert world.metrics.fetches == 1
    assert world.metrics.fetch_latency == pytest.approx(0.002)
    assert world.metrics.fetch_bytes == len(first) + len(second)
    assert world.metrics.throttled == 0.004


RECOVERABLE = [
    ("client:FE-50", 6),
    ("client:ER-05", 6),
    ("client:FE-50", 9),
    ("client:ER-06", 9),
    ("client:FE-50", 56),
    ("client:ER-17", 56),
    ("client:FE-51", 3),
    ("client:ER-04", 3),
    ("client:FE-57", 74),
    ("client:FE-57", 78),
    ("client:GP-34", 6),
    ("transactions:ERR-02", 6),
    ("", 100),
    ("", 103),
]


@pytest.mark.parametrize(("item", "code"), RECOVERABLE)
def test_stale_metadata_is_refreshed_and_the_fetch_retried(item: str, code: int) -> None:
    world = FetcherWorld(T0)
    world.subscriptions.state(T0).preferred_replica = 1
    world.subscriptions.state(T0).preferred_until = 1e9
    world.metadata._full_settled = world.metadata._full_asked

    world.exchange(T0, data(error_code=code))

    assert world.metadata.update_requested
    assert world.subscriptions.state(T0).preferred_replica == -1
    assert world.collect() == {}
    assert world.send() == {}
    world.clock.advance(0.1)
    assert asked(world.send()[1]) in ({0: 0}, {})


@pytest.mark.parametrize(
    ("item", "code", "level"),
    [
        ("client:FE-50", 6, logging.DEBUG),
        ("client:FE-51", 3, logging.WARNING),
        ("client:FE-56", -1, logging.WARNING),
        ("client:ER-02", -1, logging.WARNING),
        ("client:FE-57", 75, logging.DEBUG),
    ],
)
def test_errors_that_pass_are_logged(item: str, code: int, level: int, caplog: pytest.LogCaptureFixture) -> None:
    world = FetcherWorld(T0)
    with caplog.at_level(logging.DEBUG, "pyconsumer.consumer"):
        world.exchange(T0, data(error_code=code))

    assert [r.levelno for r in caplog.records if "fetch of t-0" in r.message] == [level]
    assert world.collect() == {}


@pytest.mark.parametrize(
    ("item", "code", "error"),
    [
        ("client:FE-55", 29, errors.TopicAuthorizationFailedError),
        ("client:ER-14", 29, errors.TopicAuthorizationFailedError),
        ("client:FE-57", 2, KafkaError),
        ("client:FE-58", 44, KafkaError),
        ("client:FE-58", 87, errors.for_code(87).__class__),
        ("client:FE-58", 999, errors.for_code(999).__class__),
    ],
)
def test_other_errors_are_raised_with_the_partition(item: str, code: int, error: type[Exception]) -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(error_code=code))
    assert world.send() == {}  # until it was raised, asking again would only bring it again

    with pytest.raises(error, match="t-0"):
        world.collect()

    assert world.collect() == {}
    assert list(world.send()) == [1]


@pytest.mark.parametrize("code", [6, 29])
def test_a_partition_with_an_error_goes_to_the_end_of_the_order(code: int) -> None:
    world = FetcherWorld(T0, T2)
    world.send()[1].answer(response({T0: data(error_code=code), T2: data()}))

    assert world.subscriptions.assigned_list() == [T2, T0]


@pytest.mark.parametrize("item", ["client:FE-53", "client:ER-03", "client:SQ-15"])
def test_out_of_range_with_a_policy_resets(item: str, caplog: pytest.LogCaptureFixture) -> None:
    world = FetcherWorld(T0, at=40)
    world.exchange(T0, data(error_code=1))
    caplog.set_level(logging.INFO, "pyconsumer")

    assert world.collect() == {}

    (line,) = [one for one in caplog.records if one.levelno == logging.INFO]
    assert "offset 40 is out of range" in line.getMessage()

    state = world.subscriptions.state(T0)
    assert (state.state, state.reset_policy) == (FetchState.AWAIT_RESET, world.config.auto_offset_reset)


@pytest.mark.parametrize("item", ["client:FE-54", "client:SQ-15"])
def test_out_of_range_without_a_policy_raises(item: str) -> None:
    world = FetcherWorld(T0, at=40, auto_offset_reset="none")
    world.exchange(T0, data(error_code=1))

    with pytest.raises(OffsetsOutOfRangeError) as caught:
        world.collect()

    assert caught.value.partitions == {T0: 40}
    assert world.subscriptions.state(T0).position == 40


def test_out_of_range_ahead_of_the_position_waits_for_its_turn() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(batch(0, 5)))
    world.exchange(T0, data(error_code=1))
    assert world.subscriptions.state(T0).state is FetchState.FETCHING

    assert world.collect(3) == {T0: [0, 1, 2]}
    assert world.collect() == {T0: [3, 4]}
    assert world.collect() == {}
    assert world.subscriptions.state(T0).state is FetchState.AWAIT_RESET


def test_out_of_range_of_a_position_that_was_left_is_ignored() -> None:
    world = FetcherWorld(T0, at=40)
    world.exchange(T0, data(error_code=1))
    world.seek(T0, 2)

    assert world.collect() == {}
    assert world.subscriptions.state(T0).position == 2


def test_out_of_range_at_a_follower_falls_back_to_the_leader() -> None:
    world = FetcherWorld(T0, at=40)
    world.exchange(T0, data(preferred_read_replica=2))
    sent = world.send()
    assert list(sent) == [2]

    sent[2].answer(response({T0: data(error_code=1)}))

    assert world.collect() == {}
    assert world.subscriptions.state(T0).position == 40
    assert list(world.send()) == [1]


def test_a_preferred_replica_is_used_for_the_metadatas_age() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(preferred_read_replica=2))
    sent = world.send()
    assert asked(sent[2]) == {0: 0}
    sent[2].answer(response({T0: data(batch(0, 2))}, session_id=6))
    assert asked(world.send()[2]) == {0: 2}

    world.clock.advance(300.0)
    world.collect()

    assert 1 in world.send()


def test_a_new_leader_drops_buffered_records_and_validates_the_position() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(batch(0, 5, leader_epoch=3)))
    assert world.collect(2) == {T0: [0, 1]}

    world.lead({0: (2, 4), 1: (2, 3), 2: (1, 3)})

    assert world.collect() == {}
    state = world.subscriptions.state(T0)
    assert state.state is FetchState.AWAIT_VALIDATION
    assert state.fetch_position == FetchPosition(2, 3, current_leader(world.metadata, T0))


def test_a_leader_named_with_an_error_is_used_at_once() -> None:
    world = FetcherWorld(T0)
    hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
    world.exchange(
        T0, data(error_code=6, current_leader=hint), node_endpoints=[NodeEndpoint(node_id=2, host="h2", port=9093)]
    )

    assert asked(world.send()[2]) == {0: 0}


def test_a_recreated_topic_is_fetched_by_its_new_id() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(error_code=100))
    world.clock.advance(0.1)
    new_id = bytes([8] * 16)
    world.lead({0: (1, 0)}, topic_id=new_id)
    assert world.send() == {}, "its position was in the old one"
    assert world.subscriptions.state(T0).state is FetchState.AWAIT_RESET
    world.subscriptions.seek(T0, FetchPosition(0))

    request: FetchRequest = world.send()[1].request

    assert [t.topic_id for t in request.topics] == [new_id]
    assert [t.topic_id for t in request.forgotten_topics_data] == [TOPIC_ID]


def test_without_topic_ids_names_are_used() -> None:
    world = FetcherWorld(T0)
    world.lead({0: (1, 3)}, topic_id=bytes(16))
    sent = world.send()[1]

    assert sent.max_version == 12
    assert sent.request.topics[0].topic == "t"


@pytest.mark.parametrize(("level", "expected"), [("read_uncommitted", [0, 1, 3]), ("read_committed", [3])])
def test_aborted_records_are_hidden_from_read_committed(level: str, expected: list[int]) -> None:
    builder = BatchBuilder()
    for n in range(2):
        builder.try_append(1, None, b"%d" % n, [])
    aborted = builder.build(base_offset=0, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_end_transaction_marker(
        ControlRecordType.ABORT,
        producer_id=9,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=2,
    )
    world = FetcherWorld(T0, isolation_level=level)
    found = [AbortedTransaction(producer_id=9, first_offset=0)] if level == "read_committed" else None

    world.exchange(T0, data(aborted + marker + batch(3, 1), aborted_transactions=found))

    assert world.collect() == {T0: expected}
    assert world.subscriptions.state(T0).position == 4


def test_memory_is_reserved_on_sending_and_replaced_by_the_response_size() -> None:
    world = FetcherWorld(T0)
    sent = world.send()[1]
    budget = world.fetcher.planner.budget
    assert (budget.reserved, budget.held) == (world.config.max_partition_fetch_bytes, 0)

    records = batches(0, 100)
    sent.give(response({T0: data(records)}))  # not a slice of a larger response
    assert (budget.reserved, budget.held) == (0, len(records))

    world.collect()
    assert budget.held == 0


def test_sessions_are_closed_on_nodes_without_a_fetch_in_flight() -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data())
    world.fetcher.close_sessions()
    (sent,) = world.client.take_all()

    assert (sent.request.session_id, sent.request.session_epoch) == (5, -1)
    assert sent.request.topics == []


def test_a_response_without_a_session_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    world = FetcherWorld(T0)
    sent = world.send()[1]
    world.fetcher.planner._nodes.clear()

    sent.answer(response({T0: data(batch(0, 2))}))

    assert "without a session" in caplog.text
    assert world.collect() == {}


def test_the_session_with_a_node_is_made_once_and_stays() -> None:
    world = FetcherWorld(T0)
    assert world.fetcher.planner.session(1) is None
    world.exchange(T0, data())
    session = world.fetcher.planner.session(1)
    world.exchange(T0, data(batch(0, 2)))
    assert world.collect() == {T0: [0, 1]}
    world.exchange(T0, data())

    assert session is not None
    assert world.fetcher.planner.session(1) is session


def test_batches_are_opened_one_by_one_when_they_are_reached() -> None:
    world = FetcherWorld(T0)
    late = bytearray(batch(5, 5))
    late[-1] ^= 0xFF
    world.exchange(T0, data(batch(0, 5) + bytes(late), error_code=0))

    assert world.collect(5) == {T0: [0, 1, 2, 3, 4]}
    with pytest.raises(errors.CorruptRecordError):
        world.collect()


# -- a broker that answers at once, and with nothing -------------------------------------------------------------------


def fetches_in(
    seconds: float, world: FetcherWorld, answer: Callable[[], FetchResponse], *, latency: float = 0.001
) -> int:
    """Answer each fetch of node 1 after a millisecond. Return the number of fetches."""
    count = 0
    end = world.clock.now() + seconds
    while world.clock.now() < end:
        world.clock.advance(latency)
        for sent in world.send().values():
            count += 1
            sent.answer(answer(), latency=latency)
    return count


@pytest.mark.parametrize("code", [70, 71, 106])
def test_a_session_error_is_followed_at_once_by_one_more_request_and_then_by_pauses(code: int) -> None:
    world = FetcherWorld(T0)
    assert fetches_in(0.003, world, lambda: response({}, error_code=code)) == 2
    assert fetches_in(10.0, world, lambda: response({}, error_code=code)) <= 15


def test_early_empty_responses_are_followed_by_growing_pauses() -> None:
    world = FetcherWorld(T0)
    assert fetches_in(0.004, world, lambda: response({T0: data()})) == 3
    assert fetches_in(10.0, world, lambda: response({})) <= 15


def test_a_preferred_replica_that_is_the_node_itself_makes_no_busy_loop() -> None:
    world = FetcherWorld(T0)
    assert fetches_in(10.0, world, lambda: response({T0: data(preferred_read_replica=1)})) <= 18


def test_an_offset_that_is_out_of_range_after_each_reset_makes_no_busy_loop() -> None:
    world = FetcherWorld(T0)

    asked_for = 0
    for _ in range(10_000):
        world.clock.advance(0.001)
        for sent in world.send().values():
            asked_for += 1
            sent.answer(response({T0: data(error_code=1)}))
        world.collect()
        if world.subscriptions.needing_reset(world.clock.now()):
            world.seek(T0, 0)  # as the reset does
    assert 3 <= asked_for <= 18


def test_batches_that_bring_the_fetch_no_further_make_no_busy_loop() -> None:
    world = FetcherWorld(T0, at=50)

    def old() -> FetchResponse:
        world.collect()
        return response({T0: data(batch(0, 2))})

    assert fetches_in(10.0, world, old) <= 18


def test_records_end_the_pauses() -> None:
    world = FetcherWorld(T0)
    fetches_in(3.0, world, lambda: response({T0: data()}))
    world.clock.advance(1.0)
    world.send()[1].answer(response({T0: data(batch(0, 2))}))
    assert fetches_in(0.004, world, lambda: response({})) == 3


def test_a_response_after_the_full_wait_is_followed_by_the_next_fetch_at_once() -> None:
    world = FetcherWorld(T0, fetch_max_wait_ms=500)
    assert fetches_in(50.0, world, lambda: response({T0: data()}), latency=0.5) == 100


def test_without_a_wait_every_response_comes_at_its_time() -> None:
    world = FetcherWorld(T0, fetch_max_wait_ms=0)
    assert fetches_in(0.1, world, lambda: response({T0: data()})) >= 99


def test_a_partition_in_backoff_does_not_block_its_neighbours() -> None:
    world = FetcherWorld(T0, T2)
    for _ in range(5):  # leaders move one after the other, and nothing else comes
        world.send()[1].answer(response({T0: data(error_code=6), T2: data()}))
        (sent,) = world.send().values()  # at once, for the other partition
        world.clock.advance(0.1)
        sent.answer(response({}), latency=0.5)


@pytest.mark.parametrize("code", [7, 13, 14, 15, 19])
def test_an_unforeseen_error_that_may_pass_is_retried_with_new_metadata(code: int) -> None:
    world = FetcherWorld(T0)
    world.exchange(T0, data(error_code=code))
    assert world.collect() == {}
    assert world.metadata.update_requested
    assert world.send() == {}
    world.clock.advance(0.1)
    assert list(world.send()) == [1]


def test_an_unforeseen_error_that_stays_is_raised_as_itself_with_its_place() -> None:
    world = FetcherWorld(T0, at=50)
    world.exchange(T0, data(error_code=44))
    with pytest.raises(errors.for_code(44).__class__, match="fetch of t-0 at offset 50 from node 1"):
        world.collect()
