"""The connection core, on scripted bytes."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import (
    AuthenticationError,
    Errors,
    KafkaConnectionError,
    MisroutedConnectionError,
    ProtocolError,
)
from pyconsumer.network.connection import TRANSITIONS, Connection, Reply, State
from pyconsumer.network.sasl import Plain, SaslMechanism, Scram
from pyconsumer.protocol.api import ApiKey, decode_request_header, encode_response
from pyconsumer.protocol.messages import request_type
from pyconsumer.protocol.messages.api_versions import ApiVersionsResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.produce import ProduceRequest
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.network.broker import api_versions_response


class Wire:
    """The broker's end of a connection core: reads its output and gives it responses."""

    def __init__(self, **options: Any) -> None:
        self.connection = Connection("broker:9092", client_id="me", software_version="1.0", **options)
        self.now = 100.0
        self._pending = b""

    def requests(self) -> list[tuple[int, int, int, Any]]:
        """(api key, version, correlation id, message) of the output since the last call."""
        while pieces := self.connection.output():
            self._pending += b"".join(pieces)
            self.connection.wrote(sum(map(len, pieces)))
        found = []
        while self._pending:
            size = int.from_bytes(self._pending[:4], "big")
            frame, self._pending = self._pending[4 : 4 + size], self._pending[4 + size :]
            header = decode_request_header(frame)
            message = request_type(header.api_key).decode(frame[header.body_offset :], header.api_version)
            found.append((header.api_key, header.api_version, header.correlation_id, message))
        return found

    def request(self) -> tuple[int, int, int, Any]:
        (found,) = self.requests()
        return found

    def give(self, data: bytes) -> list[Reply]:
        replies = []
        while data:
            buffer = self.connection.buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            buffer.release()
            replies += self.connection.received(count, self.now)
            data = data[count:]
        return replies

    def answer(self, message: Any, version: int, correlation_id: int) -> list[Reply]:
        return self.give(b"".join(encode_response(message, version, correlation_id)))

    def connect(self) -> None:
        """Complete the ApiVersions exchange."""
        self.connection.connected(self.now)
        key, version, correlation_id, _ = self.request()
        assert key == ApiKey.API_VERSIONS
        self.answer(api_versions_response(), version, correlation_id)

    def send(self, token: Any = "token") -> int:
        self.connection.send(HeartbeatRequest(group_id="g"), 4, token, self.now)
        return self.request()[2]


def sasl_wire(mechanism: SaslMechanism | None = None) -> Wire:
    return Wire(sasl=lambda: mechanism or Plain("user", "secret"), random=lambda: 0.5)


def test_the_table_of_states_is_closed_and_ends() -> None:
    assert set(TRANSITIONS) == set(State)
    assert TRANSITIONS[State.CLOSED] == frozenset()
    assert all(State.CLOSED in targets for state, targets in TRANSITIONS.items() if state is not State.CLOSED)
    with pytest.raises(AssertionError, match="cannot go"):
        Connection("a:1").reauthenticate(0.0)


def test_a_plaintext_connection_sends_api_versions_and_is_ready() -> None:
    wire = Wire()
    assert wire.connection.stage == "TCP"
    wire.connection.connected(wire.now)
    assert wire.connection.stage == "ApiVersions"
    key, version, correlation_id, message = wire.request()
    assert (key, version) == (ApiKey.API_VERSIONS, 5)
    assert (message.client_software_name, message.client_software_version) == ("pyconsumer", "1.0")
    wire.answer(api_versions_response(HEARTBEAT=(0, 3)), version, correlation_id)
    assert wire.connection.ready
    assert wire.connection.stage == "established"
    assert wire.connection.versions is not None
    assert wire.connection.versions.choose(ApiKey.HEARTBEAT) == 3


def unsupported(correlation_id: int, body: bytes) -> bytes:
    frame = correlation_id.to_bytes(4, "big") + body
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize(
    ("body", "next_version"),
    [
        (b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\2", 2),  # as KIP-511 says: 0 to 2 are supported
        (b"\0\x23", 0),  # the error alone
        (b"\0\x23" + b"\0\0\0\0", 0),  # no ranges
        (b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\7", 4),  # claims the version that it has just refused
        (b"\0\x23\0\xff\xff\xff\xff\xff", 0),  # something else
    ],
)
def test_a_broker_without_our_version_of_api_versions_gets_version_0(body: bytes, next_version: int) -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    correlation_id = wire.request()[2]
    wire.give(unsupported(correlation_id, body))
    key, version, correlation_id, _ = wire.request()
    assert (key, version) == (ApiKey.API_VERSIONS, next_version)
    wire.answer(api_versions_response(), version, correlation_id)
    assert wire.connection.ready


def test_a_broker_without_version_0_of_api_versions_cannot_be_used() -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    wire.give(unsupported(wire.request()[2], b"\0\x23"))
    with pytest.raises(KafkaConnectionError, match="UNSUPPORTED_VERSION") as caught:
        wire.give(unsupported(wire.request()[2], b"\0\x23\0\0\0\0"))
    assert caught.value.stage == "ApiVersions"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x28", "it speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400"),
        (b"\0\0\0\x08\0\0\0\x63\0\0\0\0", "not Kafka's"),
    ],
)
def test_an_error_names_a_peer_that_is_no_kafka_broker(data: bytes, what: str) -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    with pytest.raises(KafkaConnectionError, match="security_protocol") as caught:
        wire.give(data)
    assert what in str(caught.value)
    assert caught.value.stage == "ApiVersions"
    assert caught.value.address == "broker:9092"


def test_a_huge_frame_before_the_connection_is_ready_is_rejected() -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    with pytest.raises(KafkaConnectionError):
        wire.give((2 << 20).to_bytes(4, "big"))


def test_requests_are_sent_at_once_and_responses_come_in_order() -> None:
    wire = Wire()
    wire.connect()
    first, second = wire.send("a"), wire.send("b")
    assert [entry.token for entry in wire.connection.in_flight] == ["a", "b"]
    data = b"".join(encode_response(HeartbeatResponse(error_code=27), 4, first))
    data += b"".join(encode_response(HeartbeatResponse(), 4, second))
    replies = wire.give(data)
    assert [(reply.request.token, reply.message.error_code) for reply in replies] == [("a", 27), ("b", 0)]  # type: ignore[attr-defined]
    assert not wire.connection.in_flight


def test_a_response_to_another_request_breaks_the_stream() -> None:
    wire = Wire()
    wire.connect()
    correlation_id = wire.send()
    with pytest.raises(ProtocolError, match="comes first"):
        wire.answer(HeartbeatResponse(), 4, correlation_id + 1)
    assert [entry.token for entry in wire.connection.in_flight] == ["token"]


def test_unrequested_bytes_break_the_stream() -> None:
    wire = Wire()
    wire.connect()
    with pytest.raises(ProtocolError, match="without a request"):
        wire.answer(HeartbeatResponse(), 4, 1)


def test_an_undecodable_response_breaks_the_stream_and_fails_its_request() -> None:
    wire = Wire()
    wire.connect()
    correlation_id = wire.send()
    with pytest.raises(ProtocolError):
        wire.give(unsupported(correlation_id, b"\0"))
    assert [entry.token for entry in wire.connection.in_flight] == ["token"]


def test_bytes_after_the_end_of_a_response_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "pyconsumer.network.connection")
    wire = Wire()
    wire.connect()
    for _ in range(3):
        frame = b"".join(encode_response(HeartbeatResponse(error_code=27), 4, wire.send()))[4:] + b"new"
        (reply,) = wire.give(len(frame).to_bytes(4, "big") + frame)
        assert reply.message.error_code == 27  # type: ignore[attr-defined]
    assert caplog.text.count("3 bytes after the end") == 1


def test_a_request_without_response_is_done_when_its_last_byte_is_written() -> None:
    wire = Wire()
    wire.connect()
    wire.connection.send(ProduceRequest(acks=0), 9, "quiet", wire.now, expect_response=False)
    assert not wire.connection.in_flight
    size = sum(map(len, wire.connection.output()))
    assert wire.connection.wrote(size - 1) == []
    assert wire.connection.has_output
    assert wire.connection.wrote(1) == ["quiet"]
    assert not wire.connection.has_output
    wire.connection.send(ProduceRequest(acks=0), 9, "waits", wire.now, expect_response=False)
    assert wire.connection.wrote(1) == []


def test_a_gathering_write_has_a_bounded_number_of_pieces() -> None:
    wire = Wire()
    wire.connect()
    for number in range(100):
        wire.connection.send(HeartbeatRequest(group_id="g"), 4, number, wire.now)
    assert len(wire.connection.output()) == 64
    assert len(wire.requests()) == 100


# -- SASL --------------------------------------------------------------------------------------------------------------


def test_sasl_comes_between_versions_and_ready() -> None:
    wire = sasl_wire()
    wire.connect()
    assert wire.connection.state is State.SASL_HANDSHAKE
    key, version, correlation_id, message = wire.request()
    assert (key, version, message.mechanism) == (ApiKey.SASL_HANDSHAKE, 1, "PLAIN")
    wire.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]), version, correlation_id)
    key, version, correlation_id, message = wire.request()
    assert (key, message.auth_bytes) == (ApiKey.SASL_AUTHENTICATE, b"\0user\0secret")
    assert wire.connection.stage == "SASL"
    wire.answer(SaslAuthenticateResponse(), version, correlation_id)
    assert wire.connection.ready
    assert wire.connection.reauthenticate_at == float("inf")


def test_a_mechanism_of_several_steps() -> None:
    wire = sasl_wire(Scram("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO"))
    wire.connect()
    _, version, correlation_id, _ = wire.request()
    wire.answer(SaslHandshakeResponse(), version, correlation_id)
    steps = [
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ]
    for step in steps:
        _, version, correlation_id, _ = wire.request()
        wire.answer(SaslAuthenticateResponse(auth_bytes=step), version, correlation_id)
    assert wire.connection.ready


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI", "SCRAM-SHA-256"]), "offers GSSAPI, SCRAM-SHA-256"),
        (SaslHandshakeResponse(error_code=34), "does not use SASL"),
    ],
)
def test_a_mechanism_that_the_broker_does_not_take(response: SaslHandshakeResponse, why: str) -> None:
    wire = sasl_wire()
    wire.connect()
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(AuthenticationError, match=why) as caught:
        wire.answer(response, version, correlation_id)
    assert (caught.value.stage, caught.value.address) == ("SASL", "broker:9092")
    assert not caught.value.retriable


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (SaslAuthenticateResponse(error_code=58, error_message="wrong password"), "wrong password"),
        (SaslAuthenticateResponse(error_code=58, error_message=None), "SASL_AUTHENTICATION_FAILED"),
    ],
)
def test_a_failed_authentication_is_not_retriable_and_names_the_reason(
    response: SaslAuthenticateResponse, why: str
) -> None:
    wire = sasl_wire()
    wire.connect()
    _, version, correlation_id, _ = wire.request()
    wire.answer(SaslHandshakeResponse(), version, correlation_id)
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(AuthenticationError, match=why):
        wire.answer(response, version, correlation_id)


def test_an_error_of_a_token_provider_is_a_failed_authentication() -> None:
    class Broken(Plain):
        def first(self) -> bytes:
            raise RuntimeError("no token server")

    wire = sasl_wire(Broken("u", "p"))
    wire.connect()
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(AuthenticationError, match="no token server"):
        wire.answer(SaslHandshakeResponse(), version, correlation_id)


def test_a_broker_without_sasl_is_a_failed_authentication() -> None:
    wire = sasl_wire()
    wire.connection.connected(wire.now)
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(AuthenticationError, match="SaslHandshake"):
        wire.answer(api_versions_response(without=(ApiKey.SASL_HANDSHAKE,)), version, correlation_id)


def ready_with_lifetime(lifetime_ms: int) -> Wire:
    wire = sasl_wire()
    wire.connect()
    _, version, correlation_id, _ = wire.request()
    wire.answer(SaslHandshakeResponse(), version, correlation_id)
    _, version, correlation_id, _ = wire.request()
    wire.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms), version, correlation_id)
    return wire


def test_a_session_is_renewed_in_the_order_of_requests() -> None:
    wire = ready_with_lifetime(100_000)
    assert wire.connection.reauthenticate_at == pytest.approx(100.0 + 90.0)
    before = wire.send("before")
    wire.connection.reauthenticate(190.0)
    assert not wire.connection.ready
    key, version, handshake, _ = wire.request()
    assert key == ApiKey.SASL_HANDSHAKE
    (reply,) = wire.answer(HeartbeatResponse(), 4, before)
    assert reply.request.token == "before"
    wire.answer(SaslHandshakeResponse(), version, handshake)
    key, version, authenticate, _ = wire.request()
    assert key == ApiKey.SASL_AUTHENTICATE
    wire.now = 191.0
    wire.answer(SaslAuthenticateResponse(session_lifetime_ms=10_000), version, authenticate)
    assert wire.connection.ready
    assert wire.connection.reauthenticate_at == pytest.approx(200.0)
    assert wire.send("after") > authenticate


def test_an_error_of_a_token_provider_at_a_renewal_only_closes_the_connection() -> None:
    wire = ready_with_lifetime(100_000)

    class Broken(Plain):
        def first(self) -> bytes:
            raise RuntimeError("no token server")

    wire.connection._sasl = lambda: Broken("u", "p")
    wire.connection.reauthenticate(190.0)
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(KafkaConnectionError, match="no token server") as caught:
        wire.answer(SaslHandshakeResponse(), version, correlation_id)
    assert caught.value.retriable, "nobody has refused us: requests may be repeated on another connection"
    assert not isinstance(caught.value, AuthenticationError)


class BrokenStream:
    """A TLS session that is set up at once. A damaged record comes later."""

    def __init__(self) -> None:
        self.damaged = False
        self._in = self._out = b""

    def handshake(self) -> bool:
        self._in = b""
        return True

    def feed(self, data: memoryview | bytes) -> None:
        self._in += bytes(data)

    def read_into(self, buffer: memoryview) -> int:
        if self.damaged:
            raise AuthenticationError("bad record mac", stage="TLS")
        data, self._in = self._in[: len(buffer)], self._in[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: bytes) -> None:
        self._out += bytes(data)

    def outgoing(self) -> bytes:
        data, self._out = self._out, b""
        return data


@pytest.mark.parametrize("late", [False, True])
def test_a_corrupt_stream_is_an_authentication_error_only_before_the_first_response(late: bool) -> None:
    stream = BrokenStream()
    wire = Wire(tls=stream)
    wire.connection.connected(wire.now)
    wire.give(b"hello")
    _, version, correlation_id, _ = wire.request()
    if late:
        wire.answer(api_versions_response(), version, correlation_id)
    stream.damaged = True
    with pytest.raises(KafkaConnectionError, match="bad record mac") as caught:
        wire.give(b"x")
    assert isinstance(caught.value, AuthenticationError) is not late
    assert caught.value.retriable is late


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_closed_connection_names_stage_address_and_cause() -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    error = wire.connection.lost("connection reset by peer")
    assert error.stage == "ApiVersions"
    assert error.address == "broker:9092"
    assert "connection reset by peer" in str(error)
    assert "wants TLS" in str(error)
    assert error.retriable
    assert wire.connection.state is State.CLOSED


def test_a_port_that_closes_after_the_first_request_may_require_sasl() -> None:
    wire = Wire()
    wire.connect()
    wire.send()
    assert "wants SASL" in str(wire.connection.lost("closed"))


def test_a_connection_that_was_in_use_is_just_lost() -> None:
    wire = Wire()
    wire.connect()
    wire.answer(HeartbeatResponse(), 4, wire.send())
    error = wire.connection.lost("closed")
    assert str(error) == "connection to broker:9092 lost: closed"
    assert error.stage == "established"


def test_an_api_versions_response_with_an_error() -> None:
    wire = Wire()
    wire.connection.connected(wire.now)
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(KafkaConnectionError, match="INVALID_REQUEST"):
        wire.answer(ApiVersionsResponse(error_code=42), version, correlation_id)


@pytest.mark.parametrize("limit", [100 << 20, 200 << 20])
def test_a_response_larger_than_the_largest_request_closes_the_connection(limit: int) -> None:
    wire = Wire() if limit == 100 << 20 else Wire(max_response_bytes=limit)
    wire.connect()
    wire.send()
    assert wire.give(limit.to_bytes(4, "big")) == []
    assert len(wire.connection.buffer()) <= 16 << 20, "memory is taken as the bytes come"

    wire = Wire() if limit == 100 << 20 else Wire(max_response_bytes=limit)
    wire.connect()
    wire.send()
    with pytest.raises(ProtocolError, match=rf"broker:9092.*the limit is {limit}. .* raise fetch_max_bytes"):
        wire.give((limit + 1).to_bytes(4, "big"))


# -- misrouted connections (KIP-1242) ----------------------------------------------------------------------------------


def test_api_versions_names_the_expected_cluster_and_node() -> None:
    wire = Wire(expects=("cluster", 3))
    wire.connection.connected(wire.now)
    _, version, _, request = wire.request()
    assert (version, request.cluster_id, request.node_id) == (5, "cluster", 3)
    anyone = Wire()
    anyone.connection.connected(anyone.now)
    assert (anyone.request()[3].cluster_id, wire.connection.state) == (None, State.API_VERSIONS)


def test_a_broker_that_is_another_one_ends_the_connection_with_its_reason() -> None:
    wire = Wire(expects=("cluster", 3))
    wire.connection.connected(wire.now)
    _, version, correlation_id, _ = wire.request()
    with pytest.raises(MisroutedConnectionError, match="the broker at broker:9092 is not node 3 of cluster cluster"):
        wire.answer(ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED), version, correlation_id)


def test_an_older_broker_gets_no_cluster_and_node_id() -> None:
    wire = Wire(expects=("cluster", 3))
    wire.connection.connected(wire.now)
    _, _, correlation_id, _ = wire.request()
    refused = api_versions_response(API_VERSIONS=(0, 4))
    refused.error_code = Errors.UNSUPPORTED_VERSION
    wire.answer(refused, 0, correlation_id)
    _, version, _, request = wire.request()
    assert (version, request.cluster_id, request.node_id) == (4, None, -1)
