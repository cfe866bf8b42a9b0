"""``health()``: from any thread, at any time, without a false alarm and without silence when a broker is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.aio.group_consumer import GroupConsumer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.clock import SystemClock
from pyconsumer.compat import aiokafka, kafka
from pyconsumer.compat.aiokafka.reading import RecordConsumer
from pyconsumer.errors import IllegalStateError, KafkaError, WakeupError
from pyconsumer.log_fields import shown_error
from pyconsumer.metrics import ConsumerHealth, ProducerHealth
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyconsumer.testing import AsyncMockConsumer, AsyncMockProducer, MockConsumer, MockProducer, RunningClock
from tests.support.health_watch import HealthWatch, parts_of
from tests.support.process import wait_until
from tests.unit.network.broker import ScriptedBroker

_NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with EmbeddedCluster(data_dir=":memory:", config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("tea", 2)
        cluster.create_topic("one", 1)
        yield cluster.bootstrap_servers


def test_a_consumer_that_has_not_called_yet_is_alive_and_not_ready() -> None:
    clock = RunningClock()
    with KafkaConsumer(bootstrap_servers=_NOWHERE, group_id="g", clock=clock, max_poll_interval_ms=60_000) as consumer:
        health = consumer.health()
        assert (health.is_alive(), health.is_ready()) == (True, False)
        assert (health.since_poll_s, health.since_fetch_s, health.since_commit_s) == (None, None, None)
        assert (health.connected_nodes, health.coordinator, health.missing, health.waits_for) == ((), None, None, None)
        clock.advance(61.0)
        assert not consumer.health().is_alive()
        consumer.subscription()
        assert consumer.health().is_alive(), "any call counts"


def test_the_health_of_a_member_has_its_group_partitions_and_ages(brokers: str) -> None:
    clock = RunningClock()
    with KafkaProducer(bootstrap_servers=brokers) as producer:
        for number in range(5):
            producer.send("tea", b"x", partition=number % 2).get(10)
        sent = producer.health()
    with KafkaConsumer(
        "tea", bootstrap_servers=brokers, group_id="told", auto_offset_reset="earliest", clock=clock, client_id="c1"
    ) as consumer:
        read = 0
        while read < 5:
            read += consumer.poll(timeout_ms=1000).count()
        consumer.commit()
        consumer.pause(TopicPartition("tea", 1))
        health = consumer.health()
        clock.advance(100.0)
        later = consumer.health()

    assert (sent.is_alive(), sent.is_ready(), sent.oldest_s, sent.connected_nodes) == (True, True, None, (0,))
    assert (health.is_alive(), health.is_ready()) == (True, True)
    assert (health.client_id, health.group_id, health.membership) == ("c1", "told", "STABLE")
    assert (health.coordinator, health.connected_nodes, health.generation_id) == (0, (0,), 1)
    assert health.member_id.startswith("c1-")
    assert health.assigned == (TopicPartition("tea", 0), TopicPartition("tea", 1))
    assert health.paused == (TopicPartition("tea", 1),)
    assert (health.lag, health.buffered_bytes, health.missing, health.last_error) == (0, 0, None, None)
    for since in (health.since_poll_s, health.since_fetch_s, health.since_commit_s):
        assert 0.0 <= (-1.0 if since is None else since) < 60.0
    assert (later.since_commit_s or 0.0) >= 100.0
    assert later.is_alive(), "max_poll_interval_ms is 5 minutes"
    assert json.loads(json.dumps(health.as_dict()))["assigned"] == ["tea-0", "tea-1"]
    assert json.loads(json.dumps(health.as_dict()))["connected_nodes"] == [0]


def test_health_and_metrics_are_read_inside_callbacks_and_show_buffered_bytes() -> None:
    """In a partitioner, a rebalance listener and a deserializer, and in another thread at the same time."""
    seen: dict[str, list[Any]] = {}

    def look(place: str, client: Any) -> None:
        found: list[Any] = []

        def read() -> None:
            found.append(client.health())
            found.append(client.metrics())
            found.append(client.metric_table())

        thread = threading.Thread(target=read)
        thread.start()
        thread.join(30)
        assert len(found) == 3, "a reader waits for the callback"
        read()
        seen.setdefault(place, []).append(found[3])

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: object) -> None:
            look("listener", consumer)

        def on_partitions_revoked(self, revoked: object) -> None:
            look("listener", consumer)

    def choose(key: object, partitions: Any, available: Any) -> int:
        look("partitioner", producer)
        return 1

    def decode(value: bytes) -> bytes:
        look("deserializer", consumer)
        return value

    with EmbeddedCluster(data_dir=":memory:", config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("tea", 2)
        servers = cluster.bootstrap_servers
        with (
            KafkaProducer(bootstrap_servers=servers, partitioner=choose) as producer,
            KafkaConsumer(
                bootstrap_servers=servers,
                group_id="g",
                auto_offset_reset="earliest",
                value_deserializer=decode,
                max_poll_records=1,
            ) as consumer,
        ):
            assert [producer.send("tea", b"x" * 100).get(30).partition for _ in range(3)] == [1, 1, 1]
            consumer.subscribe(["tea"], listener=Listener())
            wait_until(lambda: consumer.poll(timeout_ms=100).count(), 30, "a record")
            assert consumer.health().buffered_bytes > 100
            before = consumer.metrics()["consumer-metrics"]["request-total"]
            for _ in range(100):
                assert consumer.health().lag_s is not None
            assert consumer.metrics()["consumer-metrics"]["request-total"] - before <= 2, "heartbeats alone"
    assert seen.keys() == {"partitioner", "listener", "deserializer"}
    assert all(health.is_alive() for found in seen.values() for health in found)
    assert all(health.is_inside_call for place in ("listener", "deserializer") for health in seen[place][:1])


def test_a_member_without_partitions_is_ready(brokers: str) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": brokers, "group_id": "two", "heartbeat_interval_ms": 200}
    with KafkaConsumer("one", **settings) as first, KafkaConsumer("one", **settings) as second:
        found: list[ConsumerHealth] = []

        def one_has_the_partition() -> bool:
            for consumer in (first, second):
                consumer.poll(timeout_ms=100)
            found[:] = [first.health(), second.health()]
            return sorted(len(each.assigned) for each in found) == [0, 1] and all(each.has_assignment for each in found)

        wait_until(one_has_the_partition, 30, "both have joined")
        assert [each.is_ready() for each in found] == [True, True]


def test_a_call_that_waits_for_an_hour_is_alive_and_shows_its_reason() -> None:
    clock = RunningClock()
    consumer = KafkaConsumer("tea", bootstrap_servers=_NOWHERE, group_id="g", clock=clock)
    ended: list[BaseException] = []

    def poll() -> None:
        try:
            consumer.poll(timeout_ms=36_000_000)
        except WakeupError as error:
            ended.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        wait_until(lambda: consumer.health().missing is not None, 30, "the coordinator is sought")
        assert not consumer.health().is_ready(), "there is no assignment"
        wait_until(lambda: "127.0.0.1:1" in str(consumer.health().last_error), 30, "the error is told")
        clock.advance(3600.0)
        health = consumer.health()
        assert health.is_alive()
        assert health.waits_for == health.missing == "the group's coordinator"
        assert health.missing_s >= 3600.0
        assert health.waits_s >= 3600.0
    finally:
        consumer.wakeup()
        thread.join()
        consumer.close()
    assert ended
    assert not consumer.health().is_alive()
    assert consumer.health().closed


@pytest.mark.slow
def test_a_consumer_is_not_ready_once_its_leader_is_gone_for_longer_than_that() -> None:
    clock = RunningClock()
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("tea", 2)
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as consumer:
            consumer.assign([TopicPartition("tea", 0), TopicPartition("tea", 1)])
            consumer.seek_to_beginning()

            def is_ready() -> bool:
                consumer.poll(timeout_ms=100)
                return consumer.health().is_ready()

            wait_until(is_ready, 30, "both leaders are known")
            cluster.kill_broker(1)

            def missing() -> str:
                consumer.poll(timeout_ms=100)
                return str(consumer.health().missing)

            wait_until(lambda: re.fullmatch(r"the leader of tea-\d", missing()), 30, "the partition has no leader")
            assert consumer.health().is_ready(), "not for long"
            clock.advance(31.0)
            consumer.poll(timeout_ms=100)
            health = consumer.health()
            assert (health.is_alive(), health.is_ready(), health.is_ready(longest_wait_ms=3_600_000)) == (
                True,
                False,
                True,
            )
            cluster.restart_broker(1)
            wait_until(lambda: missing() == "None", 30, "the leader is back")
            assert consumer.health().is_ready()


def test_a_coordinator_that_is_found_and_cannot_be_reached_is_missing_all_the_time() -> None:
    clock = RunningClock()
    with ScriptedBroker() as broker:
        broker.on(ApiKey.FIND_COORDINATOR, _coordinator(0, port=1))
        with KafkaConsumer("tea", bootstrap_servers=broker.address, group_id="g", clock=clock) as consumer:

            def missing_now() -> str | None:
                consumer.poll(timeout_ms=20)
                return consumer.health().missing

            wait_until(missing_now, 30, "the coordinator is sought")
            clock.advance(31.0)
            missing = set()
            for _ in range(40):
                consumer.poll(timeout_ms=20)
                health = consumer.health()
                missing.add((health.missing, health.missing_s >= 31.0))
    assert missing == {("the group's coordinator", True)}


def test_nothing_is_missing_after_a_search_that_has_ended() -> None:
    clock = RunningClock()
    with ScriptedBroker() as broker:
        broker.on(ApiKey.FIND_COORDINATOR, _coordinator(15))
        with KafkaConsumer(bootstrap_servers=broker.address, group_id="g", clock=clock) as consumer:
            with pytest.raises(KafkaError):
                consumer.committed(TopicPartition("tea", 0), timeout_ms=300)
            clock.advance(31.0)
            assert consumer.health().missing is None


def _coordinator(error_code: int, port: int = -1) -> FindCoordinatorResponse:
    found = Coordinator(key="g", node_id=5, host="127.0.0.1", port=port, error_code=error_code)
    return FindCoordinatorResponse(coordinators=[found])


def test_a_producer_without_a_broker_is_alive_and_not_ready() -> None:
    clock = RunningClock()
    producer = KafkaProducer(bootstrap_servers=_NOWHERE, clock=clock, max_block_ms=3_600_000)

    def send() -> None:
        with contextlib.suppress(KafkaError):
            producer.send("tea", b"x")

    thread = threading.Thread(target=send)
    thread.start()
    try:
        wait_until(lambda: producer.health().missing is not None, 30, "no broker is reached")
        clock.advance(60.0)
        health = producer.health()
        assert (health.is_alive(), health.is_ready(), health.missing) == (True, False, "any broker")
    finally:
        clock.advance(3_600_000.0)
        thread.join()
        producer.close(timeout_ms=0)
    assert not producer.health().is_alive()


def test_a_producer_is_not_ready_once_a_batch_has_had_no_leader_for_longer_than_that() -> None:
    clock = RunningClock()
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("tea", 2)
        with KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, clock=clock, delivery_timeout_ms=3_600_000
        ) as producer:
            for partition in range(2):
                producer.send("tea", b"x", partition=partition).get(30)
            cluster.kill_broker(1)
            sent = [producer.send("tea", b"x", partition=partition) for partition in range(2)]

            def missing() -> str:
                return str(producer.health().missing)

            wait_until(lambda: re.fullmatch(r"the leader of tea-\d", missing()), 30, "the partition has no leader")
            assert producer.health().is_ready(), "not for long"
            clock.advance(31.0)
            wait_until(lambda: not producer.health().is_ready(), 30, "the time has passed")
            assert producer.health().is_ready(longest_wait_ms=3_600_000)
            cluster.restart_broker(1)
            for future in sent:
                future.get(60)
            assert producer.health().is_ready()


def test_a_producer_shows_the_batch_that_waits(brokers: str) -> None:
    with KafkaProducer(bootstrap_servers=brokers, linger_ms=600_000) as producer:
        producer.partitions_for("tea")
        future = producer.send("tea", b"x" * 100, partition=1)
        health = producer.health()
        assert health.oldest_s is not None
        assert health.buffered_bytes > 100
        assert (health.waits_for, health.missing, health.is_ready()) == ("tea-1", None, True)
        producer.flush()
        assert future.done()
        assert producer.health().oldest_s is None


def test_the_last_error_is_the_newer_one_of_a_connection_and_of_a_call() -> None:
    clock = RunningClock()
    with KafkaConsumer("tea", bootstrap_servers=_NOWHERE, clock=clock, reconnect_backoff_ms=0) as consumer:

        def last_error() -> str:
            consumer.poll(timeout_ms=20)
            return str(consumer.health().last_error)

        wait_until(lambda: "127.0.0.1:1" in last_error(), 30, "no broker is there")
        clock.advance(1.0)
        consumer.unsubscribe()
        with pytest.raises(IllegalStateError):
            consumer.poll()
        assert str(consumer.health().last_error).startswith("IllegalStateError")
        consumer.subscribe(["tea"])
        wait_until(lambda: "127.0.0.1:1" in last_error(), 30, "still no broker is there")


def test_the_error_of_a_read_is_the_last_error() -> None:
    def fails() -> None:
        raise IllegalStateError("the task failed")

    async def work() -> None:
        async with GroupConsumer(bootstrap_servers=_NOWHERE) as consumer:
            consumer.live_between_reads(fails)
            with pytest.raises(IllegalStateError):
                await consumer.read_one(10, ahead=False)
            assert consumer.health().last_error == "IllegalStateError: the task failed"

    asyncio.run(work())


def test_the_text_of_a_foreign_error_is_not_shown() -> None:
    assert shown_error(ValueError("secret")) == "ValueError"
    assert shown_error(IllegalStateError("closed")) == "IllegalStateError: closed"
    assert shown_error(None) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("make", [KafkaConsumer, KafkaProducer])
def test_a_forked_child_reads_a_state_that_is_not_alive(make: Callable[..., Any]) -> None:
    with make(bootstrap_servers=_NOWHERE) as client:
        child = os.fork()
        if not child:
            signal.alarm(10)
            status = 1
            try:
                health = client.health()
                status = 0 if health.forked and not health.is_alive() and not health.is_ready() else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.health().is_alive()


def test_health_on_an_event_loop_from_another_thread(brokers: str) -> None:
    async def work() -> None:
        clock = RunningClock()
        async with (
            AsyncKafkaProducer(bootstrap_servers=brokers) as producer,
            AsyncKafkaConsumer(
                bootstrap_servers=brokers, group_id="loop", clock=clock, max_poll_interval_ms=10_000
            ) as consumer,
        ):
            await producer.send_and_wait("tea", b"x")
            assert producer.health().is_ready()
            consumer.subscribe(["tea"])
            assert (consumer.health().is_alive(), consumer.health().is_ready()) == (True, False)
            polling = asyncio.create_task(consumer.poll(timeout_ms=3_000_000))
            await asyncio.to_thread(wait_until, lambda: consumer.health().is_ready(), 30, "the member has joined")
            health = await asyncio.to_thread(consumer.health)
            assert (health.is_inside_call, health.waits_for) == (True, "records or a response")
            clock.advance(20.0)
            assert consumer.health().is_alive()
            await asyncio.sleep(0)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await polling
            assert consumer.health().last_error is None, "a wakeup is no error"
            assert consumer.health().is_alive(), "the call has only just ended"
        assert not consumer.health().is_alive()
        assert not producer.health().is_alive()

    asyncio.run(work())


def test_the_page_has_all_attributes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text(encoding="utf-8")
    table = page.split("| attributes | of | about |")[1].split("\n\n")[0]
    shown: dict[str, list[str]] = {"consumer": [], "producer": []}
    for names, owner in re.findall(r"^\| (`.+?`) \| (both|consumer|producer) \|", table, re.M):
        for one in shown if owner == "both" else (owner,):
            shown[one] += re.findall(r"`(\w+)`", names)
    assert sorted(shown["consumer"]) == sorted(field.name for field in fields(ConsumerHealth))
    assert sorted(shown["producer"]) == sorted(field.name for field in fields(ProducerHealth))


def test_the_health_of_mocks() -> None:
    async def of_async_mocks() -> list[bool]:
        consumer, producer = AsyncMockConsumer[bytes, bytes](), AsyncMockProducer[bytes, bytes]()
        return [consumer.health().is_alive(), producer.health().is_ready()]

    consumer, producer = MockConsumer[bytes, bytes](), MockProducer[bytes, bytes]()
    assert not consumer.health().is_ready()
    assert consumer.health().group_id == "mock"
    assert MockConsumer[bytes, bytes](group_id=None).health().group_id is None
    consumer.assign([TopicPartition("tea", 0)])
    assert (consumer.health().is_ready(), producer.health().is_ready()) == (True, True)
    consumer.close()
    producer.close()
    assert (consumer.health().is_alive(), producer.health().is_alive()) == (False, False)
    assert asyncio.run(of_async_mocks()) == [True, True]


def test_the_watch_of_the_behaviour_suite_sees_a_false_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    with HealthWatch() as watch:
        with KafkaConsumer(bootstrap_servers=_NOWHERE) as consumer:
            watch.look(parts_of(consumer), [time.monotonic(), 0, time.monotonic()])
            assert watch.take_alarms() == []
            monkeypatch.setattr(type(consumer.health()), "is_alive", lambda health: False)
            watch.look(parts_of(consumer), [time.monotonic(), 0, time.monotonic()])
            assert re.search(r"was called \d", watch.take_alarms()[0])
        wait_until(lambda: watch.readings.get(KafkaConsumer, 0) > 3, 60, "the thread reads")


def test_the_watch_reads_the_consumers_of_all_faces_and_holds_none(brokers: str) -> None:
    """The share consumer is not there: it has no ``health()``."""
    kinds = {KafkaConsumer, AsyncKafkaConsumer, kafka.KafkaConsumer, RecordConsumer}

    async def on_a_loop() -> None:
        layer = aiokafka.AIOKafkaConsumer(bootstrap_servers=brokers)
        await layer.start()
        async with AsyncKafkaConsumer(bootstrap_servers=brokers):
            await asyncio.to_thread(wait_until, lambda: watch.readings.keys() >= kinds, 60, "a reading of each")
        await layer.stop()

    with HealthWatch() as watch:
        with (
            KafkaConsumer(bootstrap_servers=brokers),
            contextlib.closing(kafka.KafkaConsumer(bootstrap_servers=brokers)),
        ):
            asyncio.run(on_a_loop())
        dropped = KafkaConsumer(bootstrap_servers=brokers)
        reference = weakref.ref(dropped)
        with pytest.warns(ResourceWarning, match="unclosed"):
            del dropped
        assert reference() is None
    assert watch.take_alarms() == []


def test_the_watch_reads_the_producers_of_both_faces_and_sees_a_false_alarm(
    brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def on_a_loop() -> None:
        async with AsyncKafkaProducer(bootstrap_servers=brokers, client_id="asyncio"):
            await asyncio.to_thread(wait_until, lambda: "asyncio" in watch.readings, 60, "a reading")

    with HealthWatch() as watch:
        with KafkaProducer(bootstrap_servers=brokers, client_id="blocking") as producer:
            asyncio.run(on_a_loop())
            wait_until(lambda: "blocking" in watch.readings, 60, "a reading")
            assert watch.take_alarms() == []
            watch.look_at_producer(producer._delegate)
            assert watch.take_alarms() == []
            with monkeypatch.context() as patch, watch.paused():
                patch.setattr(type(producer.health()), "is_alive", lambda health: False)
                watch.look_at_producer(producer._delegate)
                alarm, not_ready = watch.take_alarms()
        watch.look_at_producer(producer._delegate)
        dropped = KafkaProducer(bootstrap_servers=brokers)
        reference = weakref.ref(dropped)
        with pytest.warns(ResourceWarning, match="unclosed"):
            del dropped
        assert reference() is None
    assert alarm.startswith("the thread of blocking runs")
    assert not_ready.startswith("blocking runs and reaches"), "is_ready() asks is_alive()"
    assert watch.take_alarms() == []


def test_a_poll_that_the_watch_sees_may_have_come_just_after_its_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that finds records notes its beginning alone, so a member that polls no more is dead that soon."""
    metrics = SimpleNamespace(polls=0, at=0.0)
    now = [0.0]

    def health() -> SimpleNamespace:
        alive = now[0] - metrics.at < 1.0
        return SimpleNamespace(
            client_id="c",
            is_inside_call=False,
            closed=False,
            forked=False,
            max_poll_interval_s=1.0,
            is_alive=lambda: alive,
        )

    delegate = SimpleNamespace(metrics=metrics, clock=SystemClock())
    consumer = SimpleNamespace(_delegate=delegate, _guard=None, _activity=None)
    monkeypatch.setattr("tests.support.health_watch.consumer_health", lambda *_: health())
    monkeypatch.setattr("tests.support.health_watch._settled", lambda _: None)
    monkeypatch.setattr("tests.support.health_watch.time", SimpleNamespace(monotonic=lambda: now[0]))
    watch, seen = HealthWatch(), [0.0, 0, 0.0]
    watch.look(parts_of(consumer), seen)
    metrics.polls, metrics.at = 1, 0.01
    for now[0] in (0.05, 1.02):
        watch.look(parts_of(consumer), seen)
    assert watch.take_alarms() == []
    metrics.polls, metrics.at = 2, -1.0  # a poll that is not noted
    for now[0] in (1.05, 1.10):
        watch.look(parts_of(consumer), seen)
    assert len(watch.take_alarms()) == 2
