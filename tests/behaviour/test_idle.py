"""Idle threads and brokers wake up rarely: waits that ended are counted, by events, not by the speed of a machine."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.network import client as network_client
from pyconsumer.network.selector import Selector, new_selector
from tests.behaviour.consumer_support import poll_until
from tests.support.cluster import Cluster
from tests.support.process import wait_until

#: Waits of a thread for one request: to send it, for the response, for what follows; and one to spare.
WAITS_FOR_A_REQUEST = 4


class CountingSelector:
    """A client's selector that counts the waits of each thread."""

    def __init__(self, inner: Selector, waits: dict[str, int]) -> None:
        self._inner = inner
        self._waits = waits

    def select(self, timeout: float | None = None) -> Iterable[tuple[Any, int]]:
        name = threading.current_thread().name
        self._waits[name] = self._waits.get(name, 0) + 1
        return self._inner.select(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Waits of the clients that the test makes, by the name of the thread."""
    found: dict[str, int] = {}
    monkeypatch.setattr(network_client, "new_selector", lambda: CountingSelector(new_selector(), found))
    return found


def heartbeats(consumer: KafkaConsumer) -> float:
    return consumer.metrics()["consumer-coordinator-metrics"]["heartbeat-total"] or 0.0


@pytest.mark.concurrent
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_an_idle_member_waits_between_heartbeats(
    cluster: Cluster, topic: str, group_id: str, waits: dict[str, int], group_protocol: str
) -> None:
    settings: dict[str, Any] = {"group_protocol": group_protocol}
    if group_protocol == "classic":
        settings["heartbeat_interval_ms"] = 100
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        **settings,
    ) as consumer:
        poll_until(consumer, consumer.assignment)
        name = f"pyconsumer-heartbeat | {group_id}"
        count = 10 if group_protocol == "classic" else 1  # under the consumer protocol the broker sets the interval
        began, before = heartbeats(consumer), waits[name]
        wait_until(lambda: heartbeats(consumer) >= began + count, 60, "heartbeats")
        assert waits[name] - before <= WAITS_FOR_A_REQUEST * (count + 1)


@pytest.mark.concurrent
def test_an_idle_producer_waits_between_its_requests(cluster: Cluster, topic: str, waits: dict[str, int]) -> None:
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, client_id=f"idle-{topic}", metadata_max_age_ms=100
    ) as producer:
        producer.send(topic, b"1").get(60)
        name = f"pyconsumer-sender-idle-{topic}"
        metadata = producer._delegate.metadata
        began, before = metadata.update_count, waits[name]
        wait_until(lambda: metadata.update_count >= began + 10, 60, "updates of metadata")
        assert waits[name] - before <= WAITS_FOR_A_REQUEST * 11


@pytest.mark.concurrent
def test_a_poll_of_an_empty_topic_waits(cluster: Cluster, topic: str, waits: dict[str, int]) -> None:
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, fetch_max_wait_ms=200) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(500)
        name = threading.current_thread().name
        before = waits[name]
        assert not consumer.poll(2000)
        assert waits[name] - before <= WAITS_FOR_A_REQUEST * 11


@pytest.mark.concurrent
@pytest.mark.embedded_only(reason="counts the waits of our own broker's loop")
def test_an_idle_broker_with_100_connections_waits(
    cluster: Cluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [0]

    class Counting(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            waits[0] += 1
            return super().select(timeout)

    monkeypatch.setattr(asyncio, "new_event_loop", lambda: asyncio.SelectorEventLoop(Counting()))
    with EmbeddedCluster(in_thread=True, data_dir=":memory:") as broker:
        broker.create_topic(topic_name)
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        connections = [socket.create_connection((host, int(port))) for _ in range(100)]
        try:
            with KafkaConsumer(topic_name, bootstrap_servers=broker.bootstrap_servers, group_id="g") as member:
                poll_until(member, member.assignment)
                before = waits[0]
                threading.Event().wait(2.0)  # the time in which it is to do nothing
                # A second has 10 of the coordinators' timers at most; one that spins has thousands.
                assert waits[0] - before <= 60
        finally:
            for connection in connections:
                connection.close()
