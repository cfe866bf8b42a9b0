"""SASL through the whole client."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import AuthenticationError
from pyconsumer.network.client import NetworkClient
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import SILENCE, AutoSelector, Received, ScriptedBroker

MakeClient = Callable[..., NetworkClient]
HEARTBEAT = HeartbeatRequest(group_id="g")
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "user",
    "sasl_plain_password": "secret",
}


@pytest.fixture
def sasl_broker(broker: ScriptedBroker) -> ScriptedBroker:
    """Knows one user. Sessions last for 100 s."""

    def authenticate(request: Received) -> SaslAuthenticateResponse:
        if request.message.auth_bytes != b"\0user\0secret":
            return SaslAuthenticateResponse(error_code=58, error_message="wrong password")
        return SaslAuthenticateResponse(session_lifetime_ms=100_000)

    broker.on(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(ApiKey.SASL_AUTHENTICATE, authenticate)
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    return broker


def ask(client: NetworkClient, broker: ScriptedBroker) -> Any:
    node = BrokerMetadata(1, "127.0.0.1", broker.port)
    future = client.send(node, HeartbeatRequest, HeartbeatRequest(group_id="g"))
    client.poll(client.clock.now() + 60, future)
    return future.exception or future.value.message


def test_a_known_user_is_authenticated(sasl_broker: ScriptedBroker, make_client: MakeClient) -> None:
    client = make_client(metadata=None, config=PLAIN)
    assert ask(client, sasl_broker).error_code == 0
    assert [request.api_key for request in sasl_broker.received] == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.HEARTBEAT,
    ]


def test_a_wrong_password_fails_waiting_requests_with_the_brokers_message(
    sasl_broker: ScriptedBroker, make_client: MakeClient
) -> None:
    client = make_client(metadata=None, config={**PLAIN, "sasl_plain_password": "wrong"})
    error = ask(client, sasl_broker)
    assert isinstance(error, AuthenticationError)
    assert "wrong password" in str(error)
    assert sasl_broker.address in str(error)
    assert client.node_error(1) is error
    assert sasl_broker.count(ApiKey.HEARTBEAT) == 0


def test_the_session_is_renewed_before_it_ends(sasl_broker: ScriptedBroker, make_client: MakeClient) -> None:
    clock = ManualClock(1000.0)
    selector = AutoSelector(clock, patient_from=1089.5)
    client = make_client(metadata=None, config=PLAIN, clock=clock, selector=selector, random=lambda: 0.5)
    assert ask(client, sasl_broker).error_code == 0
    client.poll(clock.now() + 89.0)
    assert sasl_broker.count(ApiKey.SASL_AUTHENTICATE) == 1
    client.poll(clock.now() + 3.0)
    assert sasl_broker.count(ApiKey.SASL_AUTHENTICATE) == 2
    assert ask(client, sasl_broker).error_code == 0
    assert sasl_broker.accepted == 1


def test_a_renewal_without_a_response_closes_the_connection(
    sasl_broker: ScriptedBroker, make_client: MakeClient
) -> None:
    clock = ManualClock(1000.0)
    client = make_client(metadata=None, config=PLAIN, clock=clock, selector=AutoSelector(clock), random=lambda: 0.5)
    ask(client, sasl_broker)
    sasl_broker.on(ApiKey.SASL_HANDSHAKE, SILENCE)
    client.poll(clock.now() + 89.0)
    until = clock.now() + 40.0
    while clock.now() < until:
        client.poll(until)
    assert client.connection_state(1) == "disconnected"
    assert client.stats.connections_failed == 1


def test_a_mechanism_of_the_users_own(sasl_broker: ScriptedBroker, make_client: MakeClient) -> None:
    class Own:
        name = "OWN"

        def first(self) -> bytes:
            return b"\0user\0secret"

        def respond(self, challenge: bytes) -> bytes | None:
            return None

    client = make_client(metadata=None, sasl=lambda host: Own())
    assert ask(client, sasl_broker).error_code == 0
    (handshake,) = [r.message for r in sasl_broker.received if r.api_key == ApiKey.SASL_HANDSHAKE]
    assert handshake.mechanism == "OWN"


# -- tokens that come later ------------------------------------------------------------------------------------------


class LateTokens:
    """A provider whose tokens the test gives when it wants."""

    def __init__(self) -> None:
        self.asked: list[Future[str]] = []

    def token(self) -> Future[str]:
        self.asked.append(Future())
        return self.asked[-1]


@pytest.fixture
def late(sasl_broker: ScriptedBroker) -> dict[str, Any]:
    """Settings with late tokens, for a broker that takes every token. Sessions last for 100 s."""
    sasl_broker.on(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse(session_lifetime_ms=100_000))
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": LateTokens(),
    }


def test_a_login_waits_for_a_token_without_blocking(
    sasl_broker: ScriptedBroker, make_client: MakeClient, late: dict[str, Any]
) -> None:
    clock = ManualClock(1000.0)
    client = make_client(metadata=None, config=late, clock=clock, selector=AutoSelector(clock), random=lambda: 0.5)
    tokens: LateTokens = late["sasl_oauth_token_provider"]
    future = client.send(BrokerMetadata(1, "127.0.0.1", sasl_broker.port), HeartbeatRequest, HEARTBEAT)
    until = clock.now() + 0.2
    while clock.now() < until:
        client.poll(until, future)
    assert not future.done
    assert len(tokens.asked) == 1
    assert sasl_broker.count(ApiKey.SASL_AUTHENTICATE) == 0

    tokens.asked[0].set_result("a token")
    client.poll(clock.now() + 60, future)
    assert future.value.message.error_code == 0
    (said,) = [r.message.auth_bytes for r in sasl_broker.received if r.api_key == ApiKey.SASL_AUTHENTICATE]
    assert b"Bearer a token" in said


def test_a_renewal_asks_for_another_token(
    sasl_broker: ScriptedBroker, make_client: MakeClient, late: dict[str, Any]
) -> None:
    clock = ManualClock(1000.0)
    client = make_client(metadata=None, config=late, clock=clock, selector=AutoSelector(clock), random=lambda: 0.5)
    tokens: LateTokens = late["sasl_oauth_token_provider"]
    future = client.send(BrokerMetadata(1, "127.0.0.1", sasl_broker.port), HeartbeatRequest, HEARTBEAT)
    while not tokens.asked:
        client.poll(clock.now() + 0.01, future)
    tokens.asked[0].set_result("first")
    client.poll(clock.now() + 60, future)
    client.poll(clock.now() + 89.5)
    assert len(tokens.asked) == 1
    while len(tokens.asked) == 1:
        client.poll(clock.now() + 0.1)
    tokens.asked[1].set_result("second")
    while sasl_broker.count(ApiKey.SASL_AUTHENTICATE) == 1:
        client.poll(clock.now() + 0.01)
    assert ask(client, sasl_broker).error_code == 0
    assert sasl_broker.accepted == 1


def test_an_error_in_place_of_a_late_token_fails_the_login(
    sasl_broker: ScriptedBroker, make_client: MakeClient, late: dict[str, Any]
) -> None:
    clock = ManualClock(1000.0)
    client = make_client(metadata=None, config=late, clock=clock, selector=AutoSelector(clock), random=lambda: 0.5)
    tokens: LateTokens = late["sasl_oauth_token_provider"]
    future = client.send(BrokerMetadata(1, "127.0.0.1", sasl_broker.port), HeartbeatRequest, HEARTBEAT)
    while not tokens.asked:
        client.poll(clock.now() + 0.01, future)
    tokens.asked[0].set_exception(OSError("the provider is down"))
    client.poll(clock.now() + 60, future)
    assert isinstance(future.exception, AuthenticationError)
    assert "OSError: the provider is down" in str(future.exception)
