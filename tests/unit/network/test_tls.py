"""TLS: the session core, contexts, and failures between a client and a port."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import AuthenticationError, ConfigurationError, KafkaConnectionError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.tls import TlsSession, make_context
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse
from pyconsumer.structs import BrokerMetadata
from tests.support.certificates import Certificates
from tests.unit.network.broker import CLOSE, ScriptedBroker, make_config
from tests.unit.network.security import ask, server_context, tls_settings

MakeClient = Callable[..., NetworkClient]


@pytest.fixture
def tls_broker(cleanup: ExitStack) -> Callable[..., ScriptedBroker]:
    def make(pem: Path, **options: Any) -> ScriptedBroker:
        broker = cleanup.enter_context(ScriptedBroker(tls=server_context(pem, **options)))
        broker.on(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=27))
        return broker

    return make


TlsBroker = Callable[..., ScriptedBroker]


# -- it works ----------------------------------------------------------------------------------------------------------


def test_requests_and_responses_go_through_tls(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem)
    client = make_client(metadata=None, config=tls_settings(certificates))
    for _ in range(3):
        assert ask(client, broker).error_code == 27
    assert client.stats.connections_created == 1


def test_a_large_response_through_tls(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    from pyconsumer.protocol.messages import fetch

    records = bytes(range(256)) * (3 << 12)
    broker = tls_broker(certificates.server_pem)
    data = fetch.PartitionData(partition_index=0, records=records)
    broker.on(ApiKey.FETCH, fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=[data])]))
    client = make_client(metadata=None, config=tls_settings(certificates))
    future = client.send(
        BrokerMetadata(1, "localhost", broker.port), fetch.FetchRequest, fetch.FetchRequest(), max_version=12
    )
    client.poll(client.clock.now() + 20, future)
    assert bytes(future.value.message.responses[0].partitions[0].records) == records


def test_an_ip_address_is_checked_against_the_certificate_too(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem)
    client = make_client(metadata=None, config=tls_settings(certificates))
    assert ask(client, broker, "127.0.0.1").error_code == 27


def test_a_ready_context_is_used_as_it_is(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem)
    context = ssl.create_default_context(cafile=certificates.ca_pem)
    client = make_client(metadata=None, config={"security_protocol": "SSL", "ssl_context": context})
    assert ask(client, broker).error_code == 27


def test_the_host_name_need_not_be_checked(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.wrong_host_pem)
    client = make_client(metadata=None, config=tls_settings(certificates, ssl_check_hostname=False))
    assert ask(client, broker).error_code == 27


def test_a_client_may_show_a_certificate_of_its_own(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem, client_ca=certificates.ca_pem)
    config = tls_settings(certificates, ssl_certfile=certificates.client_pem, ssl_keyfile=certificates.client_pem)
    client = make_client(metadata=None, config=config)
    assert ask(client, broker).error_code == 27


# -- it is refused, and the message names the reason -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "ca", "why"),
    [
        ("wrong_host_pem", "ca_pem", "certificate is not for localhost"),
        ("expired_pem", "ca_pem", "has expired"),
        ("server_pem", "stranger_ca_pem", "authority that we do not trust"),
    ],
)
def test_an_invalid_certificate(
    certificate: str,
    ca: str,
    why: str,
    tls_broker: TlsBroker,
    make_client: MakeClient,
    certificates: Certificates,
) -> None:
    broker = tls_broker(getattr(certificates, certificate))
    client = make_client(metadata=None, config={"security_protocol": "SSL", "ssl_cafile": getattr(certificates, ca)})
    error = ask(client, broker)
    assert isinstance(error, AuthenticationError)
    assert error.stage == "TLS"
    assert f"localhost:{broker.port}" in error.address
    assert why in str(error)
    assert not error.retriable


def test_a_broker_that_requires_a_client_certificate(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem, client_ca=certificates.ca_pem)
    client = make_client(metadata=None, config=tls_settings(certificates))
    error = ask(client, broker)
    assert isinstance(error, KafkaConnectionError)
    assert "certificate" in str(error) or "lost" in str(error) or "closed" in str(error)


def test_plain_bytes_to_a_tls_port(tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates) -> None:
    broker = tls_broker(certificates.server_pem)
    error = ask(make_client(metadata=None), broker)
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "ApiVersions"
    assert "TLS" in str(error)
    assert "security_protocol" in str(error)


def test_a_tls_alert_is_recognised(make_client: MakeClient, cleanup: ExitStack) -> None:
    broker = cleanup.enter_context(ScriptedBroker(first_bytes=b"\x15\x03\x03\x00\x02\x02\x46"))
    error = ask(make_client(metadata=None), broker)
    assert "it speaks TLS" in str(error)


@pytest.mark.parametrize("answer", [b"\0\0\0\x04\0\0\0\0", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_tls_to_a_plaintext_port_that_answers(
    answer: bytes, make_client: MakeClient, cleanup: ExitStack, certificates: Certificates
) -> None:
    broker = cleanup.enter_context(ScriptedBroker(first_bytes=answer))
    error = ask(make_client(metadata=None, config=tls_settings(certificates)), broker)
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "TLS"
    assert "does not speak TLS" in str(error)


def test_tls_to_a_plain_port_that_closes(
    make_client: MakeClient, cleanup: ExitStack, certificates: Certificates
) -> None:
    broker = cleanup.enter_context(ScriptedBroker(first_bytes=b""))
    error = ask(make_client(metadata=None, config=tls_settings(certificates)), broker)
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "TLS"
    assert "perhaps the port does not speak TLS" in str(error)


def test_a_broker_that_closes_an_encrypted_connection(
    tls_broker: TlsBroker, make_client: MakeClient, certificates: Certificates
) -> None:
    broker = tls_broker(certificates.server_pem)
    broker.on(ApiKey.HEARTBEAT, [HeartbeatResponse(), CLOSE])
    client = make_client(metadata=None, config=tls_settings(certificates))
    ask(client, broker)
    error = ask(client, broker)
    assert isinstance(error, KafkaConnectionError)
    assert error.stage == "established"


# -- the session core --------------------------------------------------------------------------------------------------


def test_a_session_works_on_bytes_alone(certificates: Certificates) -> None:
    context = make_context(make_config(**tls_settings(certificates)))
    assert context is not None
    session = TlsSession(context, "localhost", "localhost:1")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(certificates.server_pem).wrap_bio(incoming, outgoing, server_side=True)
    server_done = False
    while not session.handshake():
        incoming.write(session.outgoing())
        try:
            server.do_handshake()
            server_done = True
        except ssl.SSLWantReadError:
            pass
        session.feed(outgoing.read())
    incoming.write(session.outgoing())
    if not server_done:
        server.do_handshake()
    session.write(b"hello")
    session.write(b"")
    incoming.write(session.outgoing())
    assert server.read(100) == b"hello"
    server.write(b"answer")
    session.feed(outgoing.read())
    buffer = bytearray(100)
    assert session.read_into(memoryview(buffer)) == 6
    assert buffer[:6] == b"answer"
    assert session.read_into(memoryview(buffer)) == 0
    session.close()
    incoming.write(session.outgoing())
    assert server.read(100) == b""
    session.feed(b"\x17\x03\x03\x00\x05nonse")
    with pytest.raises((AuthenticationError, EOFError)):
        session.read_into(memoryview(buffer))


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_no_tls_no_context() -> None:
    assert make_context(make_config()) is None


def test_a_context_verifies_by_default(certificates: Certificates) -> None:
    context = make_context(make_config(**tls_settings(certificates, ssl_ciphers="ECDHE+AESGCM")))
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert make_context(make_config(security_protocol="SASL_SSL", **_plain())) is not None


def _plain() -> dict[str, str]:
    return {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}


def test_an_invalid_file_is_named(certificates: Certificates, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for options, name in [
        ({"ssl_cafile": nonsense}, "ssl_cafile"),
        ({"ssl_crlfile": nonsense}, "ssl_crlfile"),
        ({"ssl_certfile": nonsense}, "ssl_certfile"),
        ({"ssl_certfile": certificates.client_pem, "ssl_keyfile": nonsense}, "ssl_keyfile"),
        ({"ssl_ciphers": "NO-SUCH-CIPHER"}, "ssl_ciphers"),
    ]:
        with pytest.raises(ConfigurationError, match=name):
            make_context(make_config(**{**tls_settings(certificates), **options}))


def test_a_key_with_a_password(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(certificates.client_pem.read_bytes(), None)
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")))
    options = {"ssl_certfile": certificates.client_pem, "ssl_keyfile": file}
    for password in ("open sesame", lambda: "open sesame"):
        assert make_context(make_config(**tls_settings(certificates, **options, ssl_password=password))) is not None
    for wrong in ({}, {"ssl_password": "wrong"}):
        with pytest.raises(ConfigurationError, match="ssl_password"):
            make_context(make_config(**tls_settings(certificates, **options, **wrong)))


def test_a_context_that_contradicts_the_settings() -> None:
    with pytest.raises(ConfigurationError, match="ssl_check_hostname"):
        make_context(
            make_config(security_protocol="SSL", ssl_context=ssl.create_default_context(), ssl_check_hostname=False)
        )
