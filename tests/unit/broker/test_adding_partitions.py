"""Requests that add partitions wait for the end of the transaction before, on brokers without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.transaction.metadata import TransactionRecord
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.transactions import ADDING_WAITS_S, SINK, Producer, leader_of, read, states_of

ALL = [TopicPartition("sink", index) for index in range(3)]
_ADDS = 12  # the version of Produce that adds its partitions

Make = Callable[..., Brokers]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make a cluster of three brokers, each of which leads a partition of ``sink``."""
    made: list[Brokers] = []

    def start(version: int = 2, **config: object) -> Brokers:
        settings = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1} | config
        brokers = Brokers(None, 3, forgetful=True, **settings)
        made.append(brokers)
        brokers.controller.update_features({"transaction.version": version})
        brokers.controller.create_topic("sink", 3, 3, {})
        for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            brokers.controller.ensure_internal(name)
        brokers.advance(0.1)
        assert len({leader_of(brokers, tp) for tp in ALL}) == 3
        return brokers

    yield start
    for brokers in made:
        brokers.stop()


class Markers:
    """The markers of all transactions, held back as if they were in flight."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._clusters = [broker.cluster for broker in brokers.alive.values()]
        for cluster in self._clusters:
            cluster.leader_of = self._no_leader  # type: ignore[method-assign]

    def _no_leader(self, tp: TopicPartition) -> int:
        if tp.topic == TRANSACTION_TOPIC:
            return leader_of(self._brokers, tp)
        return -1

    def arrive(self) -> None:
        """Let the markers through: the coordinator sends them again after 50 ms."""
        for cluster in self._clusters:
            del cluster.leader_of  # type: ignore[method-assign]
        self._brokers.advance(0.06)


def ending(brokers: Brokers, version: int = 2) -> tuple[Producer, Markers]:
    """A producer with a decided transaction whose markers are in flight."""
    producer = Producer(brokers)
    assert producer.init()[0] == Errors.NONE
    if version < 2:
        assert producer.add(*ALL) == [Errors.NONE] * 3
    for tp in ALL:
        assert producer.send(b"first", to=tp, version=_ADDS if version == 2 else 11) == Errors.NONE
    markers = Markers(brokers)
    assert producer.end(commit=True, version=5 if version == 2 else 4) == Errors.NONE
    assert producer.state == "PrepareCommit"
    return producer, markers


def produce(producer: Producer, tp: TopicPartition) -> list[Any]:
    brokers = producer.brokers
    answers = brokers.request(leader_of(brokers, tp), producer.batch(b"second", to=tp), _ADDS)
    brokers.run()
    return answers


def add(producer: Producer, *partitions: TopicPartition) -> list[Any]:
    topics = [AddPartitionsToTxnTopic("sink", [tp.partition for tp in partitions])]
    request = AddPartitionsToTxnRequest([], producer.transactional_id, *producer.producer, topics)
    answers = producer.brokers.request(producer.coordinator, request, 3)
    producer.brokers.run()
    return answers


def records_of(producer: Producer) -> list[TransactionRecord]:
    """The records of the id in ``__transaction_state``, oldest first."""
    return [record for record in states_of(producer.brokers)[producer.transactional_id] if record is not None]


def codes_of(answers: list[Any]) -> list[int]:
    (answer,) = answers
    return [one.error_code for topic in answer.responses for one in topic.partition_responses]


def added_codes(answers: list[Any]) -> list[int]:
    (answer,) = answers
    return [one.partition_error_code for one in answer.results_by_topic_v3_and_below[0].results_by_partition]


def test_a_batch_waits_for_the_markers_of_the_transaction_before(make: Make) -> None:
    brokers = make()
    producer, markers = ending(brokers)
    waiting = [produce(producer, tp) for tp in ALL]
    assert waiting == [[], [], []], "the client does not have to ask again"
    before = len(records_of(producer))
    markers.arrive()
    assert [codes_of(answers) for answers in waiting] == [[Errors.NONE]] * 3
    assert producer.state == "Ongoing"
    assert producer.record.partitions == frozenset(ALL)
    written = records_of(producer)[before:]
    assert [record.state.label for record in written] == ["CompleteCommit", "Ongoing"], "one record for three brokers"
    assert producer.end(commit=True, version=5) == Errors.NONE
    brokers.run()
    for tp in ALL:
        assert read(brokers, tp).values == [b"first", b"second"]


def test_a_client_that_adds_partitions_waits_too(make: Make) -> None:
    brokers = make(version=1)
    producer, markers = ending(brokers, version=1)
    first, second = add(producer, ALL[0]), add(producer, ALL[1])
    offsets = brokers.request(producer.coordinator, producer.offsets_request(), 4)
    brokers.run()
    assert first == second == offsets == []
    markers.arrive()
    assert added_codes(first) == added_codes(second) == [Errors.NONE]
    assert offsets[0].error_code == Errors.NONE
    assert producer.record.partitions == {ALL[0], ALL[1], TopicPartition(OFFSETS_TOPIC, 0)}


@pytest.mark.parametrize(("longest_ms", "request_timeout_ms"), [(100, 30_000), (0, 30_000), (500, 40)])
def test_the_wait_is_bounded(make: Make, longest_ms: int, request_timeout_ms: int) -> None:
    """``add.partitions.to.txn.retry.backoff.max.ms``, at most ``request.timeout.ms``."""
    brokers = make(add_partitions_to_txn_retry_backoff_max_ms=longest_ms, request_timeout_ms=request_timeout_ms)
    producer, markers = ending(brokers)
    limit_s = min(longest_ms, request_timeout_ms) / 1000
    waiting = produce(producer, SINK)
    if limit_s:
        assert waiting == []
        brokers.advance(limit_s - 0.001)
        assert waiting == []
        brokers.advance(0.001)
    assert codes_of(waiting) == [Errors.CONCURRENT_TRANSACTIONS]
    markers.arrive()
    brokers.advance(0.1)
    assert len(waiting) == 1
    assert producer.state == "CompleteCommit", "a request that was answered adds nothing"


def test_those_that_gave_up_are_forgotten(make: Make) -> None:
    brokers = make()
    producer, _ = ending(brokers)
    for _ in range(20):
        produce(producer, SINK)
        brokers.advance(ADDING_WAITS_S)
    _, known = brokers.alive[producer.coordinator].transaction_coordinator._manager.all()
    assert [len(metadata.waiters) for metadata in known] == [0]


def test_while_a_partition_is_being_added_another_broker_waits(make: Make) -> None:
    brokers = make()
    producer = Producer(brokers)
    producer.init()
    for broker in brokers.alive.values():
        broker.fetcher.pause()
    waiting = [produce(producer, tp) for tp in ALL]
    assert waiting == [[], [], []]
    for broker in brokers.alive.values():
        broker.fetcher.resume()
    brokers.run()
    assert [codes_of(answers) for answers in waiting] == [[Errors.NONE]] * 3
    assert producer.record.partitions == frozenset(ALL)
    ongoing = [one for one in records_of(producer) if one.state.label == "Ongoing"]
    assert [len(one.partitions) for one in ongoing] == [1, 3], "the second record has what waited behind the first"


def test_a_producer_fenced_while_it_waits_adds_no_partition(make: Make) -> None:
    brokers = make(version=1)
    producer = Producer(brokers)
    producer.init()
    for broker in brokers.alive.values():
        broker.fetcher.pause()
    brokers.request(producer.coordinator, InitProducerIdRequest(producer.transactional_id, 60_000), 4)
    waiting = [add(producer, tp) for tp in ALL[:2]]
    assert waiting == [[], []]
    for broker in brokers.alive.values():
        broker.fetcher.resume()
    brokers.run()
    assert [added_codes(answers) for answers in waiting] == [[Errors.PRODUCER_FENCED]] * 2
    assert producer.record.partitions == frozenset()
    fresh = Producer(brokers)
    fresh.producer = (producer.producer[0], producer.producer[1] + 1)
    assert fresh.add(ALL[2]) == [Errors.NONE]
    assert fresh.record.partitions == {ALL[2]}


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_that_resigns_answers_pending_requests(make: Make, version: int) -> None:
    brokers = make(version=version)
    producer, _ = ending(brokers, version=version)
    waiting = produce(producer, SINK) if version == 2 else add(producer, SINK)
    assert waiting == []
    brokers.controller.move_leader(TRANSACTION_TOPIC, 0, (producer.coordinator + 1) % 3)
    brokers.run()
    assert len(waiting) == 1
    if version == 1:
        assert added_codes(waiting) == [Errors.NOT_COORDINATOR]
    else:
        assert codes_of(waiting) == [Errors.NOT_ENOUGH_REPLICAS], "the client sends the batch again"


def test_only_looking_up_does_not_wait(make: Make) -> None:
    """The setting is for adding partitions alone, as in Kafka."""
    brokers = make(version=1)
    producer, _ = ending(brokers, version=1)
    assert producer.verify(SINK) == Errors.CONCURRENT_TRANSACTIONS
