"""The sender and each kind of response: a scripted client, a clock that the test advances, no socket."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    TopicAuthorizationFailedError,
)
from pyconsumer.network.metadata import Metadata
from pyconsumer.producer.accumulator import RecordAccumulator
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.producer.implementation import BatchResult
from pyconsumer.producer.sender import Sender
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyconsumer.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pyconsumer.protocol.records import scan
from pyconsumer.protocol.records.batch import BatchInfo
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest, metadata_response

pytestmark = pytest.mark.usefixtures("implementation")
TOPIC_ID = b"t" * 16
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)

OUT_OF_ORDER = 45
NOT_LEADER = 6
TOO_LARGE = 10
NOT_AUTHORIZED = 29
DUPLICATE = 46


class Produced(SentRequest):
    """One request of the sender."""

    @property
    def batches(self) -> dict[TopicPartition, BatchInfo]:
        """Header of the batch of each partition."""
        return {
            TopicPartition("t", part.index): scan(memoryview(part.records))[0]
            for topic in self.request.topic_data
            for part in topic.partition_data
        }

    def succeed(self, **codes: int) -> None:
        """Answer a Produce request: error codes by partition, such as ``p0=6``. Others succeed at offset 100."""
        parts = [
            PartitionProduceResponse(index=tp.partition, error_code=codes.get(f"p{tp.partition}", 0), base_offset=100)
            for tp in self.batches
        ]
        self.answer(ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=parts)]))


class Network(FakeNetwork):
    """The sender's network: records the times until which the sender sleeps, and may have faults."""

    kind = Produced

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.slept_until: list[float] = []
        self.faults: list[Exception] = []

    def poll(self, until: float) -> None:
        self.slept_until.append(until)
        if self.faults:
            raise self.faults.pop()


class Bench:
    """A sender with its collaborators."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        config = PRODUCER_SETTINGS.build(
            {"bootstrap_servers": "h:1", "linger_ms": 0, "retry_backoff_ms": 100, "retry_backoff_max_ms": 100}
            | settings
        )
        self.metadata = Metadata.from_config(config)
        self.metadata.set_topics(["t"])
        self.metadata.update(
            metadata_response({"t": {0: (1, 0), 1: (1, 0)}}, topic_id=lambda name: TOPIC_ID),
            13,
            0.0,
        )
        self.client = Network(self.clock)
        self.accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            buffer_memory=1 << 20,
            codec="none",
        )
        self.sender = Sender(
            config,
            self.client,  # type: ignore[arg-type]
            self.metadata,
            self.accumulator,
            threading.Condition(),
            self.clock,
            on_metadata=lambda: None,
        )
        self.ids = 0

    def append(self, tp: TopicPartition = P0, value: bytes = b"v") -> BatchResult:
        return self.accumulator.append(tp, 1, None, value, (), 100, self.clock.now()).batch.result

    def turn(self, seconds: float = 0.0) -> list[Produced]:
        """Advance the clock, run the sender, and answer requests for a producer id. Return new Produce requests."""
        self.clock.advance(seconds)
        known = len(self.client.sent)
        self.sender._run_once()
        for sent in self.client.sent[known:]:
            if isinstance(sent.request, InitProducerIdRequest):
                self.ids += 1
                sent.answer(InitProducerIdResponse(producer_id=self.ids, producer_epoch=0))
                self.sender._run_once()
        return [sent for sent in self.client.sent[known:] if isinstance(sent.request, ProduceRequest)]

    def one(self, seconds: float = 0.0) -> Produced:
        (sent,) = self.turn(seconds)
        return sent


def test_success_finishes_the_batch() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().succeed()

    assert (result.base_offset, result.error) == (100, None)
    assert bench.accumulator.is_empty


def test_one_request_carries_a_batch_of_each_partition() -> None:
    bench = Bench()
    bench.append(P0)
    bench.append(P1)

    assert set(bench.one().batches) == {P0, P1}


def test_a_retriable_error_repeats_the_same_batch_after_the_backoff() -> None:
    bench = Bench()
    result = bench.append()
    first = bench.one()
    first.succeed(p0=NOT_LEADER)
    assert bench.turn() == []
    assert bench.metadata.update_requested
    again = bench.one(0.2)

    assert (
        again.request.topic_data[0].partition_data[0].records == first.request.topic_data[0].partition_data[0].records
    )
    again.succeed()
    assert result.error is None


def test_a_duplicate_counts_as_success() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().succeed(p0=DUPLICATE)

    assert result.done
    assert result.error is None


def test_a_fatal_error_fails_the_batch_and_its_sequence_is_reused() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().succeed(p0=NOT_AUTHORIZED)
    bench.append()
    next_one = bench.one()

    assert isinstance(result.error, TopicAuthorizationFailedError)
    assert (next_one.batches[P0].producer_id, next_one.batches[P0].base_sequence) == (1, 0)


def test_a_lost_sequence_causes_a_new_producer_id_and_the_batch_is_resent_with_it() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().succeed(p0=OUT_OF_ORDER)
    again = bench.one(0.2)

    assert (again.batches[P0].producer_id, again.batches[P0].base_sequence) == (2, 0)
    again.succeed()
    assert result.error is None


def test_a_new_producer_id_does_not_renumber_uncertain_batches_of_another_partition() -> None:
    bench = Bench()
    bench.append(P1)
    lost = bench.one()
    bench.append(P0)
    refused = bench.one()
    lost.future.fail(KafkaConnectionError("gone"))  # written or not, nobody knows
    refused.succeed(p0=OUT_OF_ORDER)
    again = bench.one(0.2)

    assert {tp: batch.producer_id for tp, batch in again.batches.items()} == {P0: 2, P1: 1}
    again.succeed()
    bench.append(P1)
    assert bench.one().batches[P1].producer_id == 2


def test_a_batch_that_expires_after_a_lost_response_costs_the_producer_id() -> None:
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    result = bench.append()
    bench.one().future.fail(KafkaConnectionError("gone"))
    bench.turn(1.1)
    bench.append()
    later = bench.one(0.2)

    assert isinstance(result.error, KafkaTimeoutError)
    assert "sent 1 time;" in str(result.error)
    assert later.batches[P0].producer_id == 2


def test_a_batch_that_expires_in_flight_is_waited_for_without_spinning() -> None:
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    result = bench.append()
    in_flight = bench.one()
    bench.turn(1.1)
    assert isinstance(result.error, KafkaTimeoutError)
    behind = bench.append()
    assert bench.turn() == []  # one at a time, or the order would be lost
    assert bench.client.slept_until[-1] > bench.clock.now() + 0.5
    in_flight.succeed()
    bench.one().succeed()

    assert behind.error is None
    assert bench.ids == 1  # the late answer said that it was written


def test_a_too_large_batch_is_split_and_keeps_its_order() -> None:
    bench = Bench(batch_size=100_000, linger_ms=1000)
    results = [bench.append(value=b"%d" % n * 100) for n in range(4)]
    bench.accumulator.flushing = 1
    bench.one().succeed(p0=TOO_LARGE)
    sizes, sequences = [], []
    while requests := bench.turn():
        batch = requests[0].batches[P0]
        sizes.append(batch.record_count)
        sequences.append(batch.base_sequence)
        requests[0].succeed()

    assert sum(sizes) == 4
    assert len(sizes) >= 2
    assert sequences == [sum(sizes[:n]) for n in range(len(sizes))]
    assert results[0].done
    assert results[0].error is None
    assert bench.ids == 1


def test_one_too_large_record_fails() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().succeed(p0=TOO_LARGE)

    assert isinstance(result.error, MessageTooLargeError)


def test_retries_are_counted() -> None:
    bench = Bench(retries=1)
    result = bench.append()
    bench.one().succeed(p0=NOT_LEADER)
    bench.one(0.2).succeed(p0=NOT_LEADER)

    assert result.error is not None
    assert result.error.errno == NOT_LEADER


def test_a_response_without_the_partition_fails_the_batch() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().answer(ProduceResponse())

    assert "leaves out t-0" in str(result.error)


@pytest.mark.parametrize(
    "error", [AuthenticationError("no"), TopicAuthorizationFailedError()], ids=lambda error: type(error).__name__
)
def test_a_failed_init_producer_id_fails_queued_batches_at_once(error: KafkaError) -> None:
    bench = Bench()
    result = bench.append()
    bench.sender._run_once()
    bench.client.sent[0].future.fail(error)

    assert result.error is error
    assert bench.accumulator.is_empty


def test_without_a_producer_id_no_batch_is_sent_and_init_producer_id_is_retried() -> None:
    bench = Bench()
    bench.append()
    bench.sender._run_once()
    bench.client.sent[0].future.fail(KafkaConnectionError("gone"))
    bench.sender._run_once()
    assert len(bench.client.sent) == 1
    assert 0 < bench.client.slept_until[-1] - bench.clock.now() < 0.2

    assert len(bench.turn(0.2)) == 1


def test_the_number_of_requests_in_flight_is_bounded() -> None:
    bench = Bench(max_in_flight_requests_per_connection=1)
    bench.append(P0)
    first = bench.one()
    bench.append(P1)
    assert bench.turn() == []
    first.succeed()

    assert set(bench.one().batches) == {P1}


def test_a_request_stays_within_max_request_size() -> None:
    bench = Bench(max_request_size=1500, batch_size=1000)
    bench.append(P0, bytes(900))
    bench.append(P1, bytes(900))
    requests: list[Produced] = []
    for _ in range(3):
        requests += bench.turn()

    # Which partition of a node comes first is not promised.
    assert sorted(list(sent.batches) for sent in requests) == [[P0], [P1]]


def test_without_a_leader_metadata_is_requested_and_the_sender_sleeps() -> None:
    bench = Bench()
    bench.append(TopicPartition("unknown", 0))

    assert bench.turn() == []
    assert "unknown" in bench.metadata.wanted_topics()
    assert bench.client.slept_until[-1] > bench.clock.now()


# -- causes, and faults ------------------------------------------------------------------------------------------------


def expire(bench: Bench, result: BatchResult) -> str:
    bench.turn(2.0)
    assert isinstance(result.error, KafkaTimeoutError)
    return str(result.error)


def test_a_delivery_timeout_names_the_error_of_the_last_attempt() -> None:
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    result = bench.append()
    bench.one().succeed(p0=NOT_LEADER)
    text = expire(bench, result)
    assert "sent 1 time; the last error was: NOT_LEADER_OR_FOLLOWER" in text
    assert isinstance(result.error.__cause__ if result.error else None, KafkaError)


def test_a_delivery_timeout_names_the_refused_connection() -> None:
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    bench.append()
    bench.one().succeed()
    result = bench.append()
    bench.client.backoffs[1] = 10.0
    bench.client.errors[1] = KafkaConnectionError("connection refused by h:1")
    bench.turn()
    assert "sent 0 times; the last error was: connection refused by h:1" in expire(bench, result)


def test_a_delivery_timeout_names_the_missing_leader_and_producer_id() -> None:
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    unknown = bench.append(TopicPartition("t", 7))
    bench.turn()
    assert "no leader is known of it; connections: " in expire(bench, unknown)

    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=500)
    result = bench.append()
    bench.sender._run_once()
    bench.client.sent[0].answer(InitProducerIdResponse(error_code=14))
    bench.sender._run_once()
    bench.clock.advance(2.0)
    bench.sender._run_once()
    assert "the last error was: COORDINATOR_LOAD_IN_PROGRESS" in str(result.error)


def test_a_producer_id_that_is_none_is_an_error() -> None:
    bench = Bench()
    result = bench.append()
    bench.sender._run_once()
    bench.client.sent[0].answer(InitProducerIdResponse(producer_id=-1, producer_epoch=0))
    assert "names producer id -1" in str(result.error)


def test_an_invalid_response_only_fails_its_own_batches() -> None:
    bench = Bench()
    result = bench.append()
    bench.one().give(ProduceResponse(responses=[None]))  # type: ignore[list-item]
    assert "cannot be handled" in str(result.error)
    assert bench.accumulator.is_empty
    later = bench.append()
    bench.one().succeed()
    assert (later.base_offset, later.error) == (100, None)


def test_a_batch_that_cannot_be_built_fails_alone_and_its_partition_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(self: RecordAccumulator, *args: Any, **options: Any) -> bytes:
        raise MemoryError("no room to compress")

    bench = Bench()
    broken = bench.append(P0)
    with monkeypatch.context() as patch:
        patch.setattr(RecordAccumulator, "build", build)
        bench.turn()
    assert "the batch of 1 record for t-0 cannot be built and was not sent" in str(broken.error)
    assert isinstance(broken.error.__cause__ if broken.error else None, MemoryError)
    assert bench.accumulator.memory_used == 0
    later = bench.append(P0)
    sent = bench.one()
    assert sent.batches[P0].base_sequence == 0  # the broken batch was certainly not written: its number is used again
    sent.succeed()
    assert (later.base_offset, later.error) == (100, None)


@pytest.mark.concurrent
def test_the_thread_survives_an_error_in_a_turn() -> None:
    bench = Bench(retry_backoff_ms=1, retry_backoff_max_ms=1, linger_ms=0)
    result = bench.append()
    bench.client.faults = [OverflowError("port"), ValueError("host")]
    bench.sender._guarded_turn()
    bench.sender._guarded_turn()
    assert not result.done
    bench.turn()
    bench.client.sent[0].answer(InitProducerIdResponse(producer_id=1, producer_epoch=0))
    bench.one().succeed()
    assert result.base_offset == 100


def test_splitting_is_logged_once_a_minute_for_each_topic(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(batch_size=100_000, delivery_timeout_ms=600_000)

    def split_one() -> None:
        for _ in range(200):
            bench.append(value=b"v" * 100)
        requests = bench.turn(1.0)
        requests[0].succeed(p0=TOO_LARGE)
        while requests := bench.turn():
            requests[0].succeed()

    def lines() -> list[str]:
        return [
            record.getMessage() for record in caplog.records if "is too large for the broker" in record.getMessage()
        ]

    for _ in range(5):
        split_one()
    (first,) = lines()
    assert first.startswith("t-0: a batch of 200 records and ")
    assert "It is split, and batches of this topic have at most about" in first
    bench.clock.advance(60.0)
    split_one()
    assert lines()[1:] == [lines()[1]]
    assert lines()[1].endswith(". 4 more batches split since the last such line")


def test_a_batch_that_waits_for_more_records_makes_no_node_slow() -> None:
    bench = Bench(linger_ms=5000, partitioner_availability_timeout_ms=1000)
    bench.append()
    bench.turn()
    bench.turn(2.0)
    assert bench.sender.idle_nodes(bench.clock.now() - 1.0) == []

    sent = bench.one(4.0)  # the batch has lingered
    bench.append()
    bench.turn()  # the next one lingers while the first is in flight
    bench.turn(4.0)
    assert bench.sender.idle_nodes(bench.clock.now() - 1.0) == []
    bench.turn(2.0)  # from here on it waits for its node, which has not answered
    bench.turn(1.5)
    assert bench.sender.idle_nodes(bench.clock.now() - 1.0) == [1]
    sent.succeed()
    assert bench.sender.idle_nodes(bench.clock.now() - 1.0) == []


def test_a_batch_that_waits_for_the_end_of_a_pause_makes_no_node_slow() -> None:
    bench = Bench(retry_backoff_ms=5000, retry_backoff_max_ms=5000, partitioner_availability_timeout_ms=1000)
    bench.append()
    bench.one().succeed(p0=NOT_LEADER)
    bench.turn()
    bench.turn(2.0)
    assert bench.sender.idle_nodes(bench.clock.now() - 1.0) == []
