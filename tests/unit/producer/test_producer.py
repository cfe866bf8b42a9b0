"""Tests of a producer before a record is sent: topic lookups and waits. A scripted client, no socket."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from pyconsumer import KafkaProducer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import (
    ConfigurationError,
    Errors,
    IllegalStateError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
)
from pyconsumer.generic import PendingError
from pyconsumer.network.metadata import Metadata
from pyconsumer.network.stats import ChannelStats
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.settings.config import ClientConfig
from tests.support.fake_network import FakeNetwork, SentRequest

pytestmark = pytest.mark.usefixtures("implementation")
JAVAS_LONGEST_MS = 2**63 - 1
TEN_MINUTES_MS = 600_000


class Network(FakeNetwork):
    """A stub of the network client: every topic exists, every batch is taken, and only a wakeup ends a wait."""

    unasked: tuple[str, ...] = ()
    """Topics that each answer contains in addition to those that were asked for."""

    def __init__(self, config: ClientConfig, *, metadata: Metadata, clock: ManualClock) -> None:
        super().__init__(clock, respond=self._produce)
        self.stats = ChannelStats()
        self.asked: list[list[str]] = []
        self.leaderless: set[str] = set()
        self.waits: queue.Queue[float] = queue.Queue()
        self._refused = False
        self.produced: queue.Queue[int | None] = queue.Queue()
        self._metadata = metadata
        self._started_at = clock.now()
        self._woken = threading.Event()

    def poll(self, until: float) -> None:
        if self._refused:  # the answer before this poll was published by now: time for its users runs out
            self.clock.advance(60.0)
            self._refused = False
        now = self.clock.now()
        if self._metadata.next_update_at(now) <= now:
            query = self._metadata.query(now)
            names = [topic.name or "" for topic in query.request.topics or ()]
            self.asked.append(names)
            partitions = [MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)]
            response = MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)],
                topics=[
                    MetadataResponseTopic(name=name, error_code=Errors.LEADER_NOT_AVAILABLE)
                    if name in self.leaderless
                    else MetadataResponseTopic(name=name, partitions=partitions)
                    for name in dict.fromkeys([*names, *self.unasked])
                ],
            )
            self._metadata.update(response, 12, now, query)
            self._refused = now == self._started_at and bool(self.leaderless.intersection(names))
        elif until > now:
            self.waits.put(until)
            self._woken.wait()
            self._woken.clear()

    def _produce(self, sent: SentRequest) -> None:
        self.produced.put(sent.node)
        sent.give(None)

    def wakeup(self) -> None:
        self._woken.set()


class Bench:
    """A producer with its collaborators."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.producer = KafkaProducer(
            {"bootstrap_servers": "h:1", "acks": 0, "linger_ms": 0} | settings, clock=self.clock
        )
        self.client = cast(Network, self.producer._delegate.client)

    def asked_for(self, call: Callable[[], object]) -> set[str]:
        """The topics whose metadata is requested during a call."""
        before = len(self.client.asked)
        call()
        return set(itertools.chain.from_iterable(self.client.asked[before:]))


@pytest.fixture
def make_bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    monkeypatch.setattr("pyconsumer.producer.delegate.NetworkClient", Network)
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(**settings))
        return made[-1]

    yield make
    for bench in made:
        bench.producer.close(timeout_ms=0)


def send_after(bench: Bench, seconds: float, topic: str) -> Callable[[], object]:
    def call() -> object:
        bench.clock.advance(seconds)
        return bench.producer.send(topic)

    return call


def test_an_unused_topic_is_forgotten_until_the_next_send(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.producer.send("old").get(60)

    assert bench.asked_for(send_after(bench, 300.0, "new")) == {"new"}
    assert bench.asked_for(send_after(bench, 0.0, "new")) == set()
    assert bench.asked_for(send_after(bench, 0.0, "old")) == {"old"}


@pytest.mark.parametrize("use", [KafkaProducer.send, KafkaProducer.partitions_for])
def test_a_topic_in_use_is_kept(make_bench: Callable[..., Bench], use: Callable[[KafkaProducer, str], object]) -> None:
    bench = make_bench()
    bench.producer.send("old").get(60)
    bench.clock.advance(200.0)
    use(bench.producer, "old")

    assert bench.asked_for(send_after(bench, 299.0, "new")) == {"new", "old"}


def test_a_topic_with_waiting_records_is_kept(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(linger_ms=TEN_MINUTES_MS, delivery_timeout_ms=2 * TEN_MINUTES_MS)
    bench.producer.send("old")

    assert bench.asked_for(send_after(bench, 300.0, "new")) == {"new", "old"}


def test_how_long_topics_are_kept_is_a_setting(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(metadata_max_idle_ms=TEN_MINUTES_MS)
    bench.producer.send("old").get(60)

    assert bench.asked_for(send_after(bench, 599.0, "new")) == {"new", "old"}
    with pytest.raises(ConfigurationError, match="metadata_max_idle_ms"):
        PRODUCER_SETTINGS.build({"bootstrap_servers": "h:1", "metadata_max_idle_ms": 4_999})


def test_javas_longest_time_can_be_waited_for(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(
        max_block_ms=JAVAS_LONGEST_MS,
        linger_ms=TEN_MINUTES_MS,
        delivery_timeout_ms=JAVAS_LONGEST_MS,
        buffer_memory=100,
    )
    producer = bench.producer
    first = producer.send("t", bytes(60))  # waits for metadata
    second = producer.send("t", bytes(60))  # waits for room
    first.get(60)
    producer.flush(timeout_ms=JAVAS_LONGEST_MS)
    second.get(JAVAS_LONGEST_MS / 1000)
    producer.close(timeout_ms=JAVAS_LONGEST_MS)
    assert not producer._delegate.thread.is_alive()


def test_a_record_that_ctrl_c_leaves_in_its_batch_is_sent_at_once(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    append = bench.producer._delegate.accumulator.append

    def interrupted(*arguments: Any) -> None:
        append(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.producer._delegate.accumulator, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.producer.send("t", b"v")
    assert bench.client.produced.get(timeout=10) == 1


@pytest.mark.concurrent
def test_a_send_to_a_new_topic_names_the_last_error_of_its_metadata(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(max_block_ms=60_000)
    bench.client.leaderless = {"new"}
    with pytest.raises(
        KafkaTimeoutError, match=r"'new' within max_block_ms \(60000 ms\): LEADER_NOT_AVAILABLE"
    ) as caught:
        bench.producer.send("new")
    assert isinstance(caught.value.__cause__, LeaderNotAvailableError)


@pytest.mark.concurrent
def test_a_topic_that_an_early_response_contained_is_requested(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a topic once counted as known, so that it was not requested and ``send`` waited until ``max_block_ms``."""
    monkeypatch.setattr(Network, "unasked", ("t",))
    bench = make_bench()
    bench.client.waits.get(timeout=60)  # the first answer, with a topic that nobody wants, has been taken
    found: list[set[int]] = []
    user = threading.Thread(target=lambda: found.append(bench.producer.partitions_for("t")), daemon=True)
    user.start()
    bench.client.waits.get(timeout=60)
    assert bench.client.asked == [[], ["t"]]
    user.join(60)
    assert found == [{0}]


class Pending:
    """A serializer whose schema for the topic "new" does not arrive."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.arrival: Future[None] = Future()

    def bind(self, field: str) -> Pending:
        return self

    def serialize(self, topic: str, headers: Any, data: bytes) -> bytes:
        if topic == "new" and not self.arrival.done():
            self.asked.set()
            raise PendingError(self.arrival, "the schema of new")
        return data


def test_send_in_a_callback_does_not_wait_for_a_schema(make_bench: Callable[..., Bench]) -> None:
    producer = make_bench(value_serializer=Pending()).producer
    found: queue.Queue[object] = queue.Queue()

    def again(_: object) -> None:
        try:
            found.put(producer.send("new", b"x"))
        except KafkaTimeoutError as error:
            found.put(error)

    producer.send("old", b"x").add_callback(again)
    assert "a callback cannot wait for it" in str(found.get(timeout=20))


@pytest.mark.parametrize("closes", [True, False])
def test_send_waits_for_a_schema_until_it_arrives_or_the_producer_is_closed(
    make_bench: Callable[..., Bench], closes: bool
) -> None:
    serializer = Pending()
    producer = make_bench(value_serializer=serializer).producer
    found: queue.Queue[object] = queue.Queue()

    def send() -> None:
        try:
            found.put(producer.send("new", b"x"))
        except IllegalStateError as error:
            found.put(str(error))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert serializer.asked.wait(20)
    if closes:
        producer.close(timeout_ms=0)
        assert found.get(timeout=20) == "the producer was closed while send waited for a serializer"
    else:
        serializer.arrival.set_result(None)
        assert not isinstance(found.get(timeout=20), str)
    thread.join(20)
