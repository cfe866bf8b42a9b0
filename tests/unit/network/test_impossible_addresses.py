"""Responses that advertise brokers where no port can listen: only that address fails."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import KafkaConnectionError, KafkaTimeoutError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.dns import Endpoint, Lookup, address_problem, printable_address
from pyconsumer.network.node_selector import NodeSelector
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.fetch import FetchResponse
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdResponse
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from pyconsumer.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import SILENCE, ScriptedBroker

MakeClient = Callable[..., NetworkClient]

IMPOSSIBLE = {
    "port -1": ("127.0.0.1", -1, "port -1 is not between 0 and 65535"),
    "port 65536": ("127.0.0.1", 65536, "port 65536 is not between 0 and 65535"),
    "port 2^31-1": ("broker", 2**31 - 1, "port 2147483647 is not between 0 and 65535"),
    "no host": ("", 9092, "the host is empty"),
    "NUL": ("a\0b", 9092, "the host contains characters that no name has"),
    "long": ("h" * 300, 9092, "the host has 300 characters"),
}
each_impossible = pytest.mark.parametrize("name", list(IMPOSSIBLE))


@each_impossible
def test_a_request_to_such_a_node_fails_with_the_reason_and_the_node_is_left_alone(
    name: str, make_client: MakeClient
) -> None:
    host, port, reason = IMPOSSIBLE[name]
    client = make_client(
        metadata=None, config=dict.fromkeys(("reconnect_backoff_ms", "reconnect_backoff_max_ms"), 60_000)
    )
    future = client.send(BrokerMetadata(5, host, port), ApiKey.HEARTBEAT, lambda version: pytest.fail("sent"))
    client.poll(client.clock.now() + 20, future)
    assert isinstance(future.exception, KafkaConnectionError)
    assert future.exception.stage == "DNS"
    assert reason in str(future.exception)
    assert reason in client.failures()
    assert client.connection_state(5) == "backoff"


def test_hosts_that_cannot_be_printed_are_escaped_and_long_ones_cut() -> None:
    assert address_problem("a\udc80b", 9092) == "the host contains characters that no name has"
    assert printable_address("a\udc80\0b", 9092) == "a\\udc80\\x00b:9092"
    assert printable_address("h" * 300, 9092) == "h" * 40 + "...:9092"
    assert printable_address("::1", 9092) == "[::1]:9092"
    assert address_problem("::1", 65535) is None
    assert address_problem("bücher.example", 0) is None


@pytest.mark.parametrize("error", [OverflowError("port"), ValueError("null"), UnicodeError("label"), OSError("none")])
def test_a_lookup_ends_with_any_error_of_the_resolver(error: Exception) -> None:
    def resolve(host: str, port: int, canonical: bool) -> list[Endpoint]:
        raise error

    lookup = Lookup("h", 1, None)
    lookup.finish(resolve, False)
    assert lookup.done
    assert str(error) in str(lookup.error)


def test_an_address_that_the_system_does_not_take_is_followed_by_the_next_one(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    """A name service can return a port that no system has."""

    def resolve(host: str, port: int, canonical: bool) -> list[Endpoint]:
        bad = Endpoint(socket.AF_INET, ("127.0.0.1", 70000), host)
        return [bad, Endpoint(socket.AF_INET, ("127.0.0.1", broker.port), host)]

    client = make_client(metadata=None, resolver=resolve)
    broker.on(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse())
    future = client.send(BrokerMetadata(5, "name", 1), FindCoordinatorRequest, FindCoordinatorRequest())
    client.poll(client.clock.now() + 20, future)
    assert future.succeeded


# -- the clients, against a broker that lies once ----------------------------------------------------------------------


class Liar(ScriptedBroker):
    """Advertises itself under an impossible address in the first answers of Metadata or FindCoordinator."""

    def __init__(self, host: str, port: int, *, metadata_lies: int = 0, coordinator_lies: int = 0) -> None:
        super().__init__()
        self.lie = (host, port)
        self.metadata_lies, self.coordinator_lies = metadata_lies, coordinator_lies
        self.topics["t"] = 1
        self.on(ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse(producer_id=7, producer_epoch=0))
        self.on(ApiKey.PRODUCE, self._produce)
        self.on(ApiKey.FIND_COORDINATOR, self._coordinator)
        self.on(ApiKey.LIST_OFFSETS, self._offsets)
        self.on(ApiKey.FETCH, FetchResponse())

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        if self.metadata_lies:
            self.metadata_lies -= 1
            answer.brokers = [MetadataResponseBroker(node_id=self.node_id, host=self.lie[0], port=self.lie[1])]
        return answer

    def _coordinator(self, request: Any) -> FindCoordinatorResponse:
        host, port = "127.0.0.1", self.port
        if self.coordinator_lies:
            self.coordinator_lies -= 1
            host, port = self.lie
        group = request.message.coordinator_keys[0]
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=group, node_id=self.node_id, host=host, port=port)]
        )

    def _produce(self, request: Any) -> ProduceResponse:
        parts = [PartitionProduceResponse(index=0, base_offset=41)]
        topic_id = request.message.topic_data[0].topic_id
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=topic_id, partition_responses=parts)])

    def _offsets(self, request: Any) -> ListOffsetsResponse:
        parts = [ListOffsetsPartitionResponse(partition_index=0, offset=17, timestamp=-1, leader_epoch=1)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=parts)])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


FAST = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


@pytest.mark.concurrent
@each_impossible
def test_the_producer_survives_such_metadata_and_sends_after_an_update(name: str, stack: ExitStack) -> None:
    host, port, _ = IMPOSSIBLE[name]
    broker = stack.enter_context(Liar(host, port, metadata_lies=2))
    producer = KafkaProducer(bootstrap_servers=broker.address, **FAST)
    stack.callback(producer.close, timeout_ms=0)
    assert producer.send("t", b"v", partition=0).get(20).offset == 41
    assert producer.send("t", b"v", partition=0).get(20).offset == 41


@pytest.mark.concurrent
def test_while_metadata_are_wrong_the_producer_names_the_reason(stack: ExitStack) -> None:
    broker = stack.enter_context(Liar("a\0b", 9092, metadata_lies=10**9))
    settings: dict[str, Any] = {"request_timeout_ms": 300, "delivery_timeout_ms": 800, "linger_ms": 0}
    producer = KafkaProducer(bootstrap_servers=broker.address, **FAST, **settings)
    stack.callback(producer.close, timeout_ms=0)
    future = producer.send("t", b"v", partition=0)
    with pytest.raises(
        (KafkaTimeoutError, KafkaConnectionError), match="the host contains characters that no name has"
    ):
        future.get(20)


@pytest.mark.concurrent
@each_impossible
def test_a_consumer_survives_such_metadata(name: str, stack: ExitStack) -> None:
    host, port, _ = IMPOSSIBLE[name]
    broker = stack.enter_context(Liar(host, port, metadata_lies=2))
    consumer = KafkaConsumer(bootstrap_servers=broker.address, **FAST)
    stack.callback(consumer.close, 100)
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek_to_end()
    assert consumer.position(TopicPartition("t", 0), 20_000) == 17


@pytest.mark.concurrent
@each_impossible
def test_a_group_member_survives_such_a_coordinator(name: str, stack: ExitStack) -> None:
    host, port, _ = IMPOSSIBLE[name]
    broker = stack.enter_context(Liar(host, port, coordinator_lies=2))
    broker.on(ApiKey.JOIN_GROUP, SILENCE)
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id="g", **FAST)
    stack.callback(consumer.close, 100)
    consumer.subscribe(["t"])
    for _ in range(1000):
        consumer.poll(20)
        if broker.count(ApiKey.JOIN_GROUP):
            return
    pytest.fail("the coordinator was never reached")


def test_the_reason_is_named_while_a_client_that_has_started_over_connects() -> None:
    """Without it a timeout at that moment says ``ApiVersions with ... is under way`` without a reason."""
    connecting = SimpleNamespace(
        ready=False,
        health=SimpleNamespace(last_error=None),
        channel=SimpleNamespace(stage="ApiVersions", address="b1:9092"),
    )
    pool = SimpleNamespace(nodes={-1: connecting}, last_error=KafkaConnectionError("the host is impossible"))
    selector: Any = SimpleNamespace(pool=pool)
    assert NodeSelector.failures(selector) == "the host is impossible; ApiVersions with b1:9092 is under way"
    pool.last_error = None
    assert NodeSelector.failures(selector) == "ApiVersions with b1:9092 is under way"
