"""The network client on real brokers: plain, TLS, SASL, and the errors of a wrong choice."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyconsumer import KafkaConsumer
from pyconsumer.errors import AuthenticationError, KafkaConnectionError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls
from pyconsumer.network.client import NetworkClient, RequestTimeoutError
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages import fetch, find_coordinator, list_offsets
from pyconsumer.settings.config import CLIENT_SETTINGS, ClientConfig, Settings
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

CLIENT = Settings("client", CLIENT_SETTINGS, ClientConfig)
MakeClient = Callable[..., NetworkClient]


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """``make_client(address, settings...)``."""
    with ExitStack() as stack:

        def make(address: str, **options: Any) -> NetworkClient:
            config = CLIENT.build({"bootstrap_servers": address, "client_id": "network-test", **options})
            client = NetworkClient(config, metadata=Metadata.from_config(config, allow_auto_topic_creation=False))
            stack.callback(client.close)
            return client

        yield make


def poll_until(client: NetworkClient, condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Poll until something holds. It may come to hold at the broker, without any event at the client."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {client.failures()}"
        client.poll(min(deadline, time.monotonic() + 0.1))


def metadata_of(client: NetworkClient) -> Metadata:
    assert client.metadata is not None
    return client.metadata


def security(cluster: Cluster, certificates: Certificates, listener: str) -> dict[str, Any]:
    """Settings for a listener of a cluster."""
    options: dict[str, Any] = {"security_protocol": listener}
    if listener.endswith("SSL"):
        options["ssl_cafile"] = certificates.ca_pem
    if listener.startswith("SASL"):
        user = cluster.server.credentials
        options |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user.username,
            "sasl_plain_password": user.password,
        }
    return options


@pytest.mark.smoke
def test_leaders_of_a_topic_are_found_and_answer(
    cluster: Cluster, make_topic: Callable[..., str], make_client: MakeClient
) -> None:
    topic = make_topic(partitions=3)
    client = make_client(cluster.bootstrap_servers)
    metadata = metadata_of(client)
    metadata.set_topics({topic})
    poll_until(client, lambda: metadata.partition_count(topic) == 3)
    leader = metadata.leader(TopicPartition(topic, 2))
    assert leader is not None
    wanted = list_offsets.ListOffsetsPartition(partition_index=2, timestamp=-1)
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[wanted])]
    )

    def ask() -> Any:
        future = client.send(leader.leader, list_offsets.ListOffsetsRequest, request)
        poll_until(client, lambda: future.done)
        return future.value.message.topics[0].partitions[0]

    found: list[Any] = []
    # A broker may say NOT_LEADER_OR_FOLLOWER for a moment after the metadata names it.
    poll_until(client, lambda: found.append(ask()) or found[-1].error_code == 0)
    assert found[-1].offset == 0


@pytest.mark.smoke
def test_a_coordinator_is_reached_on_a_connection_of_its_own(
    cluster: Cluster, group_id: str, make_client: MakeClient
) -> None:
    client = make_client(cluster.bootstrap_servers)

    def build(version: int) -> find_coordinator.FindCoordinatorRequest:
        if version >= 4:
            return find_coordinator.FindCoordinatorRequest(coordinator_keys=[group_id])
        return find_coordinator.FindCoordinatorRequest(key=group_id)

    found: list[BrokerMetadata] = []

    def look() -> bool:
        future = client.send_any(find_coordinator.FindCoordinatorRequest, build)
        poll_until(client, lambda: future.done)
        response = future.value
        answer = response.message.coordinators[0] if response.api_version >= 4 else response.message
        if answer.error_code == 0:
            found.append(BrokerMetadata(answer.node_id, answer.host, answer.port))
        return bool(found)

    poll_until(client, look)
    node = found[0]
    future = client.send(node, find_coordinator.FindCoordinatorRequest, build, connection="coordinator")
    poll_until(client, lambda: future.done)
    assert future.succeeded
    assert client.connection_state(node.node_id, "coordinator") == "ready"


@pytest.mark.kafka
@pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_each_security_protocol(
    listener: str, apache: Cluster, certificates: Certificates, make_client: MakeClient
) -> None:
    client = make_client(apache.server.address(listener), **security(apache, certificates, listener))
    metadata = metadata_of(client)
    poll_until(client, lambda: metadata.update_count)
    assert not metadata.is_bootstrap
    assert client.stats.connections_created == 1


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("listener", "spoken", "stage", "why"),
    [
        ("SSL", "PLAINTEXT", "ApiVersions", "TLS"),
        ("PLAINTEXT", "SSL", "TLS", "does not speak TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "established", "wants SASL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "SASL", "does not use SASL"),
    ],
)
def test_the_wrong_security_protocol_for_a_port_is_named(
    listener: str,
    spoken: str,
    stage: str,
    why: str,
    apache: Cluster,
    certificates: Certificates,
    make_client: MakeClient,
) -> None:
    client = make_client(apache.server.address(listener), **security(apache, certificates, spoken))
    poll_until(client, lambda: client.last_error)
    error = client.last_error
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == stage
    assert why in str(error)
    assert "security_protocol" in str(error)
    assert apache.server.address(listener) in error.address


@pytest.mark.kafka
def test_a_wrong_password_is_named(apache: Cluster, certificates: Certificates, make_client: MakeClient) -> None:
    options = security(apache, certificates, "SASL_SSL") | {"sasl_plain_password": "wrong"}
    client = make_client(apache.server.address("SASL_SSL"), **options)
    metadata = metadata_of(client)
    poll_until(client, lambda: metadata.fatal_error)
    assert isinstance(metadata.fatal_error, AuthenticationError)
    assert "Invalid username or password" in str(metadata.fatal_error)


@pytest.mark.kafka
def test_a_mechanism_that_the_broker_does_not_offer_is_named(
    apache: Cluster, certificates: Certificates, make_client: MakeClient
) -> None:
    options = security(apache, certificates, "SASL_PLAINTEXT") | {"sasl_mechanism": "SCRAM-SHA-512"}
    client = make_client(apache.server.address("SASL_PLAINTEXT"), **options)
    poll_until(client, lambda: client.last_error)
    assert "but offers PLAIN" in str(client.last_error)


@pytest.mark.kafka
def test_an_authority_that_we_do_not_trust(
    apache: Cluster, certificates: Certificates, make_client: MakeClient
) -> None:
    client = make_client(apache.server.address("SSL"), security_protocol="SSL", ssl_cafile=certificates.stranger_ca_pem)
    poll_until(client, lambda: client.last_error)
    assert "ssl_cafile" in str(client.last_error)


def test_an_answer_cut_in_the_middle_is_a_lost_connection_and_the_next_request_works(
    cluster: Cluster, proxy: KafkaProxy, topic: str, make_client: MakeClient
) -> None:
    client = make_client(proxy.bootstrap_servers)
    metadata = metadata_of(client)
    metadata.set_topics({topic})
    poll_until(client, lambda: metadata.leader(TopicPartition(topic, 0)))
    leader = metadata.leader(TopicPartition(topic, 0))
    assert leader is not None
    proxy.cut(ApiKey.FETCH, keep_bytes=6, count=1)

    def ask() -> Any:
        future = client.send(
            leader.leader, fetch.FetchRequest, fetch.FetchRequest(max_wait_ms=0, min_bytes=0), max_version=12
        )
        poll_until(client, lambda: future.done)
        return future

    assert isinstance(ask().exception, KafkaConnectionError)
    assert ask().succeeded


def test_a_delayed_request_times_out_and_other_connections_continue(
    cluster: Cluster, proxy: KafkaProxy, topic: str, make_client: MakeClient
) -> None:
    client = make_client(proxy.bootstrap_servers)
    metadata = metadata_of(client)
    poll_until(client, lambda: metadata.update_count)
    node = metadata.brokers()[0].node_id
    rule = proxy.hold(ApiKey.FETCH)
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0)
    held = client.send(node, fetch.FetchRequest, request, max_version=12, timeout=0.5)
    other = client.send(
        node, find_coordinator.FindCoordinatorRequest, _any_coordinator, connection="coordinator", timeout=60.0
    )
    poll_until(client, lambda: other.done)
    poll_until(client, lambda: held.done)
    rule.release()
    assert other.succeeded
    assert isinstance(held.exception, RequestTimeoutError)


def _any_coordinator(version: int) -> find_coordinator.FindCoordinatorRequest:
    if version >= 4:
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=["any"])
    return find_coordinator.FindCoordinatorRequest(key="any")


def test_a_refused_connection_costs_no_more_than_its_backoff_once_the_broker_is_back(
    cluster: Cluster, proxy: KafkaProxy, make_client: MakeClient
) -> None:
    client = make_client(proxy.bootstrap_servers)
    metadata = metadata_of(client)
    poll_until(client, lambda: metadata.update_count)
    proxy.refuse()
    proxy.cut_all()
    metadata.request_update()
    poll_until(client, lambda: client.last_error)
    proxy.accept()
    wish = metadata.request_update()
    poll_until(client, lambda: metadata.is_settled(wish))
    client.poll(-math.inf)


@pytest.mark.slow
def test_a_consumers_requests_are_counted_over_all_its_connections(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str
) -> None:
    """A broker's log names a request by client id and number, so no two of a client may have the same."""
    with KafkaConsumer(topic, bootstrap_servers=proxy.bootstrap_servers, group_id=group_id, client_id="me") as consumer:
        deadline = time.monotonic() + 60
        while not proxy.events(ApiKey.FETCH, "response") or not proxy.events(ApiKey.HEARTBEAT, "response"):
            consumer.poll(100)
            assert time.monotonic() < deadline
    events = proxy.events(direction="request")
    assert {event.client_id for event in events} == {"me"}
    assert len({event.connection for event in events}) >= 3, "to the leader, to the coordinator, for heartbeats"
    assert sorted(event.correlation_id for event in events) == list(range(len(events)))
    for connection in {event.connection for event in events}:
        numbers = [event.correlation_id for event in events if event.connection == connection]
        assert numbers == sorted(numbers)


def test_the_response_to_an_older_request_ends_no_wait_for_the_leader_of_a_new_topic(
    cluster: Cluster, topic: str, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a lost connection: a request is in flight that lacks the topic, and its response comes first."""
    client = make_client(cluster.bootstrap_servers)
    metadata, clock = metadata_of(client), client.clock
    calls = Calls(client, metadata, clock, request_timeout=30.0, backoff=Backoff(0.1, 1.0))
    poll_until(client, lambda: metadata.update_count)
    made: list[MetadataQuery] = []
    query = metadata.query

    def noted(now: float) -> MetadataQuery:
        made.append(query(now))
        return made[-1]

    monkeypatch.setattr(metadata, "query", noted)
    metadata.request_update()
    while not made:
        client.poll(clock.now())
    deadline = clock.now() + 60
    client.run(calls.find_leaders({TopicPartition(topic, 0)}, deadline), deadline)
    assert metadata.partition_count(topic) == 1
    assert [[one.name for one in each.request.topics or ()] for each in made] == [[], [topic]]
