"""Reaching a cluster: names, dead addresses, several candidates, rebootstrap."""

from __future__ import annotations

import itertools
import logging
import math
import re
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import (
    AuthenticationError,
    BootstrapResolutionError,
    Errors,
    KafkaConnectionError,
    NoBrokersAvailableError,
)
from pyconsumer.network.client import NetworkClient, RequestTimeoutError
from pyconsumer.network.dns import Endpoint
from pyconsumer.protocol.api import ApiKey, encode_response
from pyconsumer.protocol.messages.api_versions import ApiVersionsResponse
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.metadata import MetadataResponse
from pyconsumer.structs import BrokerMetadata
from tests.support.ports import unused_address
from tests.unit.network.broker import (
    SILENCE,
    AutoSelector,
    Received,
    ScriptedBroker,
    api_versions_response,
    silent_port,
)

MakeClient = Callable[..., NetworkClient]
HEARTBEAT = HeartbeatRequest(group_id="g")


def wait_metadata(client: NetworkClient, seconds: float = 60.0) -> None:
    assert client.metadata is not None
    deadline = client.clock.now() + seconds
    while not client.metadata.update_count and client.clock.now() < deadline:
        client.poll(deadline)
    assert client.metadata.update_count


def at(address: str, host: str = "name") -> Endpoint:
    ip, _, port = address.rpartition(":")
    return Endpoint(socket.AF_INET, (ip, int(port)), host)


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_name_is_resolved_while_the_client_waits(broker: ScriptedBroker, make_client: MakeClient) -> None:
    asked: list[tuple[str, int, bool, bool]] = []
    ours = threading.get_ident()

    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        asked.append((host, port, canonical, threading.get_ident() == ours))
        return [at(broker.address)]

    client = make_client("kafka.example:9092", resolver=resolver)
    wait_metadata(client)
    assert asked == [("kafka.example", 9092, False, False)], "in another thread"


def test_canonical_names_of_bootstrap_addresses_are_resolved_if_configured(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    asked: list[tuple[str, bool]] = []

    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        asked.append((host, canonical))
        return [at(broker.address)]

    client = make_client(
        "kafka.example:9092",
        resolver=resolver,
        config={"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"},
    )
    wait_metadata(client)
    assert asked == [("kafka.example", True)]


def test_all_addresses_of_a_name_are_tried(broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack) -> None:
    dead = cleanup.enter_context(unused_address())
    client = make_client("kafka.example:1", resolver=lambda *_: [at(dead), at(dead), at(broker.address)])
    wait_metadata(client)
    assert client.stats.connections_failed == 0


def test_a_silent_address_of_a_name_costs_its_timeout_then_the_next_is_tried(
    broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack
) -> None:
    silent = cleanup.enter_context(silent_port())
    clock = ManualClock(100.0)
    client = make_client(
        "kafka.example:1",
        resolver=lambda *_: [at(silent), at(broker.address)],
        clock=clock,
        selector=AutoSelector(clock, patient_from=109.0),
        random=lambda: 0.5,
    )
    wait_metadata(client)
    assert clock.now() == pytest.approx(110.0, abs=1.0)


def test_when_every_address_fails_each_cause_is_reported(make_client: MakeClient, cleanup: ExitStack) -> None:
    dead = cleanup.enter_context(unused_address())
    client = make_client(metadata=None, resolver=lambda *_: [at(dead), at("127.0.0.1:1")])
    future = client.send(BrokerMetadata(1, "kafka.example", 9092), HeartbeatRequest, HEARTBEAT)
    client.poll(client.clock.now() + 20, future)
    error = future.exception
    assert isinstance(error, KafkaConnectionError)
    assert (error.stage, error.address) == ("TCP", "kafka.example:9092")
    assert str(error).startswith("TCP connection to kafka.example:9092 failed: ")
    assert f"{dead}: Connection refused; 127.0.0.1:1: Connection refused" in str(error)


def test_an_unknown_name(make_client: MakeClient) -> None:
    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        raise socket.gaierror(-2, "Name or service not known")

    client = make_client(metadata=None, resolver=resolver)
    future = client.send(BrokerMetadata(1, "nowhere.example", 9092), HeartbeatRequest, HEARTBEAT)
    client.poll(client.clock.now() + 20, future)
    error = future.exception
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "DNS"
    assert "nowhere.example:9092" in str(error)
    assert "Name or service not known" in str(error)


def test_a_name_server_that_hangs_does_not_block_other_nodes(make_client: MakeClient, broker: ScriptedBroker) -> None:
    hang = threading.Event()
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())

    def resolver(host: str, port: int, canonical: bool) -> list[Endpoint]:
        hang.wait(20)
        return []

    clock = ManualClock(100.0)
    client = make_client(metadata=None, resolver=resolver, clock=clock, random=lambda: 0.5)
    try:
        stuck = client.send(BrokerMetadata(1, "slow.example", 9092), HeartbeatRequest, HEARTBEAT)
        fine = client.send(BrokerMetadata(2, "127.0.0.1", broker.port), HeartbeatRequest, HEARTBEAT)
        client.poll(math.inf, fine)
        assert fine.succeeded
        assert not stuck.done
        clock.advance(10.1)
        client.poll(-math.inf)
        assert isinstance(stuck.exception, KafkaConnectionError)
        assert stuck.exception.stage == "DNS"
        assert "10 s" in str(stuck.exception)
        client.close()
    finally:
        hang.set()


# -- dead addresses ----------------------------------------------------------------------------------------------------


def test_a_first_address_that_refuses_costs_no_backoff(
    broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack
) -> None:
    dead = cleanup.enter_context(unused_address())
    clock = ManualClock(100.0)
    client = make_client(dead, broker.address, clock=clock, selector=AutoSelector(clock), random=lambda: 0.0)
    wait_metadata(client)
    assert clock.now() - 100.0 < 0.5


def test_a_first_address_that_is_silent_costs_a_quarter_of_a_second(
    broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack
) -> None:
    silent = cleanup.enter_context(silent_port())
    clock = ManualClock(100.0)
    # The second address has 5 s of real time to answer. A shorter wait would pass as seconds of the clock.
    selector = AutoSelector(clock, real_wait_s=5.0)
    client = make_client(silent, broker.address, clock=clock, selector=selector, random=lambda: 0.0)
    wait_metadata(client)
    assert clock.now() - 100.0 == pytest.approx(0.25, abs=0.2)


@pytest.mark.parametrize(("at_once", "node_id"), [(True, -2), (False, 0)])
def test_a_request_for_any_node_waits_until_one_is_ready(
    broker: ScriptedBroker, make_client: MakeClient, cleanup: ExitStack, at_once: bool, node_id: int
) -> None:
    # It goes to the second bootstrap address. Metadata are asked for first on the same connection, which becomes the
    # broker's own as soon as they are read: before the other answer, or with it.
    dead = cleanup.enter_context(unused_address())
    may_answer = threading.Event()
    cleanup.callback(may_answer.set)
    metadata: list[bytes] = []

    def heartbeat(request: Received) -> HeartbeatResponse | bytes:
        assert may_answer.wait(20)
        answer = encode_response(HeartbeatResponse(), request.version, 2)
        return b"".join([*metadata, *answer]) if at_once else HeartbeatResponse()

    def hold_back(request: Received) -> object:
        metadata.extend(encode_response(broker.metadata(), request.version, 1))
        return SILENCE

    broker.on(ApiKey.HEARTBEAT, heartbeat)
    if at_once:
        broker.on(ApiKey.METADATA, hold_back)
        may_answer.set()
    client = make_client(dead, broker.address)
    future = client.send_any(HeartbeatRequest, HEARTBEAT)
    assert client.unsent() == 1
    if not at_once:
        wait_metadata(client)
        may_answer.set()
    client.poll(client.clock.now() + 20, future)
    assert future.succeeded
    assert future.value.node_id == node_id
    assert broker.accepted == 1


def test_a_request_for_any_node_names_every_address_that_failed(make_client: MakeClient, cleanup: ExitStack) -> None:
    one, two = cleanup.enter_context(unused_address()), cleanup.enter_context(unused_address())
    clock = ManualClock(100.0)
    client = make_client(one, two, clock=clock, selector=AutoSelector(clock, real_wait_s=0.0))
    future = client.send_any(HeartbeatRequest, HEARTBEAT, timeout=10.0)
    client.poll(clock.now() + 60, future)
    error = future.exception
    assert isinstance(error, NoBrokersAvailableError)
    for address in (one, two):
        assert f"TCP connection to {address} failed" in str(error)
    assert clock.now() == pytest.approx(110.0, abs=0.5)
    again = client.send_any(HeartbeatRequest, HEARTBEAT, timeout=10.0)
    assert not again.done, "the next one tries again"
    client.poll(clock.now() + 60, again)
    assert isinstance(again.exception, NoBrokersAvailableError)


def test_a_lookup_goes_to_the_node_with_the_fewest_requests_in_flight(
    make_client: MakeClient, cleanup: ExitStack, broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    other = cleanup.enter_context(ScriptedBroker(node_id=1))
    for each in (broker, other):
        each.brokers = [broker, other]
        each.on(ApiKey.HEARTBEAT, SILENCE)
        each.on(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse())
    client = make_client(broker.address)

    def lookup() -> int:
        found = client.send_any(FindCoordinatorRequest, FindCoordinatorRequest(coordinator_keys=["g"]), min_version=4)
        client.poll(client.clock.now() + 20, found)
        return found.value.node_id

    with caplog.at_level(logging.DEBUG, "pyconsumer.network"):
        lookup()
        assert "no broker is ready yet for FIND_COORDINATOR" in caplog.text
        for node in (0, 1):
            future = client.send(node, FindCoordinatorRequest, FindCoordinatorRequest(coordinator_keys=["g"]))
            client.poll(client.clock.now() + 20, future)
            assert client.connection_state(node) == "ready"
        client.send(0, HeartbeatRequest, HEARTBEAT)
        client.flush()
        caplog.clear()
        assert [lookup() for _ in range(5)] == [1] * 5
        assert caplog.text.count("FIND_COORDINATOR goes to node 1, the least loaded") == 5


def test_a_request_that_was_never_sent_names_the_last_failure(make_client: MakeClient, cleanup: ExitStack) -> None:
    silent = cleanup.enter_context(silent_port())
    clock = ManualClock(100.0)
    client = make_client(metadata=None, clock=clock, selector=AutoSelector(clock), random=lambda: 0.5)
    host, _, port = silent.rpartition(":")
    node = BrokerMetadata(1, host, int(port))
    first = client.send(node, HeartbeatRequest, HEARTBEAT, timeout=60.0)
    client.poll(math.inf, first)
    assert isinstance(first.exception, KafkaConnectionError)
    assert clock.now() == pytest.approx(110.0, abs=0.5)
    second = client.send(node, HeartbeatRequest, HEARTBEAT, timeout=5.0)
    client.poll(math.inf, second)
    assert isinstance(second.exception, RequestTimeoutError)
    assert "no response within 10 s" in str(second.exception)
    assert second.exception.address == silent


def test_setup_is_given_more_time_after_each_failure(make_client: MakeClient, cleanup: ExitStack) -> None:
    silent = cleanup.enter_context(silent_port())
    clock = ManualClock(100.0)
    client = make_client(metadata=None, clock=clock, selector=AutoSelector(clock, real_wait_s=0.0), random=lambda: 0.5)
    host, _, port = silent.rpartition(":")
    times = []
    for _ in range(4):
        future = client.send(BrokerMetadata(1, host, int(port)), HeartbeatRequest, HEARTBEAT, timeout=100.0)
        while client.connection_state(1) != "connecting":
            client.poll(clock.now() + 0.001)
        began = clock.now()
        client.poll(math.inf, future)
        times.append(round(clock.now() - began))
    assert times == [10, 20, 30, 30]


def test_a_broker_without_an_api_versions_response_is_given_up(broker: ScriptedBroker, make_client: MakeClient) -> None:
    from tests.unit.network.broker import SILENCE

    broker.on(ApiKey.API_VERSIONS, SILENCE)
    clock = ManualClock(100.0)
    client = make_client(
        metadata=None, clock=clock, selector=AutoSelector(clock), config={"request_timeout_ms": 20_000}
    )
    node = BrokerMetadata(1, "127.0.0.1", broker.port)
    future = client.send(node, HeartbeatRequest, HEARTBEAT, timeout=60.0)
    client.poll(math.inf, future)
    error = future.exception
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "ApiVersions"
    assert "within 20 s" in str(error)
    assert clock.now() == pytest.approx(120.0, abs=0.5)


def test_one_cause_is_logged_once(
    make_client: MakeClient, cleanup: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    dead = cleanup.enter_context(unused_address())
    clock = ManualClock(100.0)
    client = make_client(dead, clock=clock, selector=AutoSelector(clock, real_wait_s=0.0))
    with caplog.at_level(logging.INFO, "pyconsumer.network"):
        while clock.now() < 160.0:
            client.poll(160.0)
    assert client.stats.connections_failed > 20
    assert [record.levelname for record in caplog.records if "node -1" in record.getMessage()] == ["INFO"]
    assert [record.levelname for record in caplog.records if "no broker at" in record.getMessage()] == ["WARNING"] * 3
    assert dead in caplog.text


def test_attempts_at_a_dead_cluster_get_rare(make_client: MakeClient, cleanup: ExitStack) -> None:
    dead = cleanup.enter_context(unused_address())
    clock = ManualClock(100.0)
    selector = AutoSelector(clock, real_wait_s=0.0)
    client = make_client(dead, clock=clock, selector=selector)
    while clock.now() < 200.0:
        client.poll(200.0)
    assert client.stats.connections_failed < 150
    assert selector.selects < 500


# -- starting over -----------------------------------------------------------------------------------------------------


def test_without_a_reachable_known_broker_bootstrap_starts_again(make_client: MakeClient, cleanup: ExitStack) -> None:
    old, new = cleanup.enter_context(ScriptedBroker(node_id=1)), cleanup.enter_context(ScriptedBroker(node_id=2))
    now_at = [old.address]
    clock = ManualClock(100.0)
    client = make_client(
        "kafka.example:9092",
        resolver=lambda *_: [at(now_at[0])],
        clock=clock,
        selector=AutoSelector(clock),
    )
    wait_metadata(client)
    assert client.metadata is not None
    assert [b.node_id for b in client.metadata.brokers()] == [1]
    now_at[0] = new.address
    old.close()
    client.metadata.request_update()
    while client.metadata.broker(2) is None and clock.now() < 200.0:
        client.poll(200.0)
    assert [b.node_id for b in client.metadata.brokers()] == [2]


def test_a_request_that_starting_over_ends_says_why_no_broker_can_be_reached(
    make_client: MakeClient, cleanup: ExitStack
) -> None:
    """It was sent after the connection had failed, so it did not fail with the connection."""
    old = cleanup.enter_context(ScriptedBroker(node_id=1))
    clock = ManualClock(100.0)
    client = make_client(old.address, clock=clock, selector=(selector := AutoSelector(clock)))
    wait_metadata(client)
    selector.real_wait_s = 0.0
    old.close()
    assert client.metadata is not None
    errors = [""]
    while "starting over" not in errors[-1] and clock.now() < 200.0:
        client.metadata.request_update()
        sent = client.send(1, HeartbeatRequest, HEARTBEAT)
        while not sent.done:
            client.poll(clock.now() + 0.01)
        errors.append(str(sent.exception))
    assert re.search("starting over .*: no known broker can be reached .*refused", errors[-1])


@pytest.mark.slow
def test_repeated_rebootstrap_errors_are_followed_by_growing_pauses(
    make_client: MakeClient, broker: ScriptedBroker
) -> None:
    """KIP-1102: this once caused 1,200 requests a second."""
    clock = ManualClock(100.0)
    selector = AutoSelector(clock)
    client = make_client(broker.address, clock=clock, selector=selector)
    wait_metadata(client)
    assert client.metadata is not None
    asked: list[float] = []

    def start_over(received: Received) -> MetadataResponse:
        asked.append(clock.now())
        return MetadataResponse(error_code=Errors.REBOOTSTRAP_REQUIRED)

    broker.on(ApiKey.METADATA, start_over)
    client.metadata.request_update()
    end = clock.now() + 15.0
    while clock.now() < end:
        client.poll(end)
    assert 10 <= len(asked) <= 30, "at last once a second"
    assert all(later - sooner > 0.7 for sooner, later in itertools.pairwise(asked[8:]))


def test_without_rebootstrap_the_known_brokers_are_retried(make_client: MakeClient, cleanup: ExitStack) -> None:
    old, new = cleanup.enter_context(ScriptedBroker(node_id=1)), cleanup.enter_context(ScriptedBroker(node_id=2))
    now_at = [old.address]
    clock = ManualClock(100.0)
    client = make_client(
        "kafka.example:9092",
        resolver=lambda *_: [at(now_at[0])],
        clock=clock,
        selector=(selector := AutoSelector(clock)),
        config={"metadata_recovery_strategy": "none"},
    )
    wait_metadata(client)
    selector.real_wait_s = 0.0
    assert client.metadata is not None
    now_at[0] = new.address
    old.close()
    client.metadata.request_update()
    while clock.now() < 130.0:
        client.poll(130.0)
    assert client.metadata.broker(1) is not None
    assert new.accepted == 0


def test_a_broker_may_request_a_rebootstrap(make_client: MakeClient, broker: ScriptedBroker) -> None:
    from pyconsumer.protocol.messages.metadata import MetadataResponse

    broker.on(ApiKey.METADATA, [broker.metadata(), MetadataResponse(error_code=129), broker.metadata()])
    client = make_client(broker.address)
    wait_metadata(client)
    assert client.metadata is not None
    client.metadata.request_update()
    while client.metadata.update_count < 2:
        client.poll(client.clock.now() + 20)
    assert broker.accepted == 2


@pytest.mark.parametrize("checks", [True, False])
def test_an_address_that_leads_to_another_broker_makes_the_client_start_over(
    make_client: MakeClient, cleanup: ExitStack, checks: bool
) -> None:
    """KIP-1242: the address of node 1 belongs to another broker now, and the bootstrap name to the new cluster."""
    wrong, new = cleanup.enter_context(ScriptedBroker(node_id=1)), cleanup.enter_context(ScriptedBroker(node_id=2))
    now_at = [wrong.address]
    clock = ManualClock(100.0)
    client = make_client(
        "kafka.example:9092",
        resolver=lambda *_: [at(now_at[0])],
        clock=clock,
        selector=AutoSelector(clock),
        config={"metadata_cluster_check_enable": checks},
    )
    wait_metadata(client)
    assert client.metadata is not None
    now_at[0] = new.address

    def check(request: Received) -> ApiVersionsResponse:
        if request.message.cluster_id is None:
            return api_versions_response()
        assert (request.message.cluster_id, request.message.node_id) == ("c", 1)
        return ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED)

    wrong.on(ApiKey.API_VERSIONS, check)
    wrong.drop_connections()
    wrong.ended.acquire(timeout=20)
    count = client.metadata.update_count
    client.metadata.request_update()
    while client.metadata.update_count == count and clock.now() < 200.0:
        client.poll(200.0)
    assert [b.node_id for b in client.metadata.brokers()] == [2 if checks else 1]


def test_unresolved_names_are_an_error_after_their_timeout(make_client: MakeClient, broker: ScriptedBroker) -> None:
    """KIP-909. Unlike Java's, the client keeps trying."""
    known: list[Endpoint] = []

    def resolver(*_: object) -> list[Endpoint]:
        if not known:
            raise OSError("no such name")
        return known

    clock = ManualClock(100.0)
    client = make_client(
        "kafka.example:9092",
        resolver=resolver,
        clock=clock,
        selector=AutoSelector(clock),
        config={"bootstrap_resolve_timeout_ms": 3000},
    )
    assert client.metadata is not None
    client.metadata.request_update()
    while client.metadata.fatal_error is None and clock.now() < 110.0:
        client.poll(110.0)
    assert 103.0 <= clock.now() < 105.0
    for _ in range(2):  # each call raises it
        error = client.metadata.take_fatal_error()
        assert isinstance(error, BootstrapResolutionError)
        text = "no name of kafka.example:9092 could be looked up within 3 s (bootstrap_resolve_timeout_ms): DNS lookup"
        assert str(error).startswith(text)
    known.append(at(broker.address))
    while not client.metadata.update_count and clock.now() < 200.0:
        client.poll(200.0)
    assert client.metadata.take_fatal_error() is None


# -- idle connections --------------------------------------------------------------------------------------------------


def test_an_idle_connection_is_closed_and_reopened_on_demand(broker: ScriptedBroker, make_client: MakeClient) -> None:
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    clock = ManualClock(100.0)
    client = make_client(
        broker.address, clock=clock, selector=AutoSelector(clock), config={"connections_max_idle_ms": 60_000}
    )
    wait_metadata(client)
    client.poll(clock.now() + 59.0)
    assert client.connection_state(0) == "ready"
    client.poll(clock.now() + 2.0)
    assert client.connection_state(0) == "disconnected"
    assert broker.ended.acquire(timeout=60)
    future = client.send(0, HeartbeatRequest, HEARTBEAT)
    client.poll(clock.now() + 20, future)
    assert future.succeeded
    assert client.stats.connections_failed == 0


def test_a_failed_authentication_fails_requests_for_any_node_at_once(
    make_client: MakeClient, cleanup: ExitStack, broker: ScriptedBroker
) -> None:
    from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
    from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeResponse

    broker.on(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse(error_code=58, error_message="who are you"))
    client = make_client(
        broker.address,
        config={
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "u",
            "sasl_plain_password": "p",
        },
    )
    future = client.send_any(HeartbeatRequest, HEARTBEAT)
    client.poll(client.clock.now() + 20, future)
    assert isinstance(future.exception, AuthenticationError)
    assert "who are you" in str(future.exception)
    assert client.metadata is not None
    assert isinstance(client.metadata.fatal_error, AuthenticationError)
