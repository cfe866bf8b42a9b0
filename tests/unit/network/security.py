"""Settings of logins and of TLS, and a request over TLS, for several test modules."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from pyconsumer.network.client import NetworkClient
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.settings.config import ClientConfig
from pyconsumer.structs import BrokerMetadata
from tests.support.certificates import Certificates
from tests.support.token_server import CLIENT
from tests.unit.network.broker import ScriptedBroker, make_config

__all__ = ["ask", "login", "server_context", "tls_settings"]


def server_context(pem: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def ask(client: NetworkClient, broker: ScriptedBroker, host: str = "localhost") -> Any:
    """Send a heartbeat. Return the message or the error."""
    node = BrokerMetadata(1, host, broker.port)
    future = client.send(node, HeartbeatRequest, HeartbeatRequest(group_id="g" * 30_000))
    client.poll(client.clock.now() + 20, future)
    return future.exception or future.value.message


def tls_settings(certificates: Certificates, **options: Any) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_cafile": certificates.ca_pem, **options}


def login(url: str, **settings: Any) -> ClientConfig:
    given = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": url,
        "sasl_oauthbearer_client_credentials_client_id": CLIENT[0],
        "sasl_oauthbearer_client_credentials_client_secret": CLIENT[1],
        "sasl_oauthbearer_header_urlencode": True,
    }
    return make_config(**{**given, **settings})
