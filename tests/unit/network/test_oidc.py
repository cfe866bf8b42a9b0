"""Tokens of an OpenID Connect provider: the requests, and what is refused. The provider is a server on this machine."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from pyconsumer.errors import ConfigurationError
from pyconsumer.network.oidc import LoginFailed, LoginRefused, Token, fetch_token
from tests.support.token_server import CLIENT, JWT_BEARER, TokenServer
from tests.unit.network.security import login


@pytest.fixture
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


@pytest.mark.parametrize("encoded", [True, False])
def test_client_credentials(provider: TokenServer, encoded: bool) -> None:
    """KIP-768, and the header's encoding of KIP-1025."""
    settings = {"sasl_oauthbearer_header_urlencode": encoded, "sasl_oauthbearer_scope": "read write"}
    token = fetch_token(login(f"{provider.url}/token", **settings))
    assert claims(token.text)["scope"] == "read write"
    sent = base64.b64decode(provider.authorizations[-1].removeprefix("Basic ")).decode()
    assert sent == ":".join(map(urllib.parse.quote_plus, CLIENT) if encoded else CLIENT)
    assert token.life_s == 300
    assert token.text not in repr(token)


def test_a_wrong_secret_is_refused_and_shown_nowhere(provider: TokenServer) -> None:
    config = login(f"{provider.url}/token?key=hidden", sasl_oauthbearer_client_credentials_client_secret="s3cr3t-one")
    provider.refusals.append((401, {"error": "invalid_client", "error_description": "s3cr3t-one is wrong"}))
    with pytest.raises(LoginRefused, match=r"answered 401 .invalid_client") as caught:
        fetch_token(config)
    assert "s3cr3t" not in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "s3cr3t" not in repr(config)


def test_the_header_and_a_secret_with_blanks_around_it_are_hidden_and_useful_words_stay(provider: TokenServer) -> None:
    config = login(
        f"{provider.url}/token",
        sasl_oauthbearer_client_credentials_client_id="me",
        sasl_oauthbearer_client_credentials_client_secret=" s3cr3t-one\n",
        sasl_oauthbearer_header_urlencode=False,
        sasl_oauthbearer_scope="orders",
    )
    header = base64.b64encode(b"me:s3cr3t-one").decode()
    text = f"s3cr3t-one, {header}: client_credentials not for scope orders"
    provider.refusals.append((401, {"error_description": text}))
    with pytest.raises(LoginRefused) as caught:
        fetch_token(config)
    assert str(caught.value).endswith("answered 401 (***, ***: client_credentials not for scope orders)")


def test_the_query_of_the_address_is_not_shown() -> None:
    config = login("https://localhost/token?key=s3cr3t")
    assert config.sasl_oauthbearer_token_endpoint_url == "https://localhost/token?key=s3cr3t"
    assert "s3cr3t" not in f"{config!r} {config.shown()}"
    assert "https://localhost/token" in repr(config)


def test_an_address_that_cannot_be_asked_is_refused_without_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("http://localhost/to ken?key=s3cr3t", "http://localhost/token?key=s3cr3t\x7f"):
        with pytest.raises(ConfigurationError, match="no blanks or control characters") as wrong:
            login(address)
        assert "s3cr3t" not in str(wrong.value)

    def fail(connection: http.client.HTTPConnection) -> None:
        raise http.client.InvalidURL("/token?key=s3cr3t")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", fail)
    with pytest.raises(LoginRefused) as caught:
        fetch_token(login("http://localhost/token?key=s3cr3t"))
    assert "s3cr3t" not in str(caught.value)


def test_a_failing_end_point_may_be_asked_again(provider: TokenServer) -> None:
    provider.refusals += [(503, {}), (302, {}), (200, {"token": "x"}), (200, {"access_token": "x" * (1 << 20)})]
    config = login(f"{provider.url}/token")
    with pytest.raises(LoginFailed, match="answered 503") as caught:
        fetch_token(config)
    assert not isinstance(caught.value, LoginRefused)
    for message in ("redirects are not followed", "without a token", "more than 1048576 bytes"):
        with pytest.raises(LoginRefused, match=message):
            fetch_token(config)


def test_timeouts_may_be_longer_than_a_socket_takes(provider: TokenServer) -> None:
    for name in ("sasl_login_read_timeout_ms", "sasl_login_connect_timeout_ms"):
        assert fetch_token(login(f"{provider.url}/token", **{name: 10**14})).life_s == 300


def test_an_end_point_that_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LoginFailed, match="cannot be reached") as caught:
        fetch_token(login(f"http://127.0.0.1:{port}/token"))
    assert not isinstance(caught.value, LoginRefused)


@pytest.mark.skipif(sys.platform != "linux", reason="another system may accept more connections than it was told")
def test_an_end_point_that_does_not_accept_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as waiting:
        for _ in range(3):  # fill its queue: the next ones get no answer at all
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        began = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with pytest.raises(LoginFailed, match="cannot be reached"):
            fetch_token(login(url, sasl_login_connect_timeout_ms=300))
        assert 0.2 < time.monotonic() - began < 5


def test_an_end_point_that_answers_bit_by_bit_is_left_in_time() -> None:
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                while not stop.wait(0.05):
                    connection.sendall(b"H")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with pytest.raises(LoginFailed):
            fetch_token(login(url, sasl_login_read_timeout_ms=300))
        assert time.monotonic() - began < 20, "the bytes go on for ever"
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key: Any, passphrase: bytes = b"") -> bytes:
    hidden: Any = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
    return found


def test_the_grant_jwt_bearer(provider: TokenServer, key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    """KIP-1139."""
    provider.trusted = key.public_key()
    file, template = tmp_path / "key.pem", tmp_path / "template.json"
    file.write_bytes(_pem(key, b"open sesame"))
    template.write_text('{"header": {"kid": "7"}, "payload": {"tenant": "a", "sub": "from the file"}}')
    config = login(
        f"{provider.url}/token",
        sasl_oauthbearer_jwt_retriever_class="org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        sasl_oauthbearer_assertion_private_key_file=str(file),
        sasl_oauthbearer_assertion_private_key_passphrase="open sesame",
        sasl_oauthbearer_assertion_template_file=str(template),
        sasl_oauthbearer_assertion_claim_iss="me",
        sasl_oauthbearer_assertion_claim_sub="me",
        sasl_oauthbearer_assertion_claim_aud="them",
        sasl_oauthbearer_assertion_claim_jti_include=True,
    )
    assert fetch_token(config).life_s == 300
    (form,) = provider.asked
    assert form["grant_type"] == [JWT_BEARER]
    sent = claims(form["assertion"][0])
    assert (sent["iss"], sent["aud"], sent["sub"], sent["tenant"]) == ("me", "them", "from the file", "a")
    assert sent["exp"] - sent["iat"] == 300
    assert sent["iat"] - sent["nbf"] == 60
    assert len(sent["jti"]) == 36
    head = form["assertion"][0].split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))) == {
        "kid": "7",
        "alg": "RS256",
        "typ": "JWT",
    }
    with pytest.raises(LoginRefused, match="passphrase is wrong") as caught:
        fetch_token(config.replace(sasl_oauthbearer_assertion_private_key_passphrase="s3cr3t"))
    assert "s3cr3t" not in str(caught.value)


def test_an_assertion_stands_for_the_secret(provider: TokenServer, key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    """KIP-1258: one that is made, and one in a file."""
    provider.trusted = key.public_key()
    settings: dict[str, Any] = {"sasl_oauthbearer_client_credentials_client_secret": None}
    pem = {
        "sasl_oauthbearer_assertion_private_key_pem": _pem(key).decode(),
        "sasl_oauthbearer_assertion_claim_iss": "i",
    }
    fetch_token(login(f"{provider.url}/token", **settings, **pem))
    made = provider.asked[-1]["client_assertion"][0]
    assert provider.asked[-1]["client_id"] == [CLIENT[0]]
    file = tmp_path / "assertion"
    file.write_text(made + "\n")
    config = login(f"{provider.url}/token", **settings, sasl_oauthbearer_assertion_file=str(file))
    fetch_token(config)
    assert provider.asked[-1]["client_assertion"] == [made]
    file.write_text("replaced.by.another")
    with pytest.raises(LoginRefused, match="401"):
        fetch_token(config)


def test_an_assertion_by_an_elliptic_curve(provider: TokenServer, tmp_path: Path) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    config = login(
        f"{provider.url}/token",
        sasl_oauthbearer_grant_type=JWT_BEARER,
        sasl_oauthbearer_assertion_private_key_pem=_pem(curve).decode(),
        sasl_oauthbearer_assertion_algorithm="es256",
    )
    with pytest.raises(LoginRefused, match="invalid_grant"):  # the provider knows RSA alone
        fetch_token(config)
    signed, _, signature = provider.asked[-1]["assertion"][0].rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    numbers = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    curve.public_key().verify(utils.encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(SHA256()))
    with pytest.raises(LoginRefused, match="not a key for RS256"):
        fetch_token(config.replace(sasl_oauthbearer_assertion_algorithm="RS256"))


@pytest.mark.parametrize(
    ("answer", "life_s"),
    [
        ({"expires_in": 100}, 100),
        ({"expires_in": "100"}, 100),
        ({"expires_in": -5}, 60),
        ({"expires_in": "soon"}, 60),
        ({"expires_in": True}, 60),
        ({"id_token": "x", "access_token": 5, "expires_in": 7}, 7),
        ({"access_token": "a.eyJleHAiOiAyMDAsICJpYXQiOiAxMDB9.c"}, 100),  # exp 200, iat 100, long ago: a length
        ({"access_token": "a.!!.c"}, 60),
    ],
)
def test_the_life_of_a_token(provider: TokenServer, answer: dict[str, Any], life_s: float) -> None:
    provider.refusals.append((200, {"access_token": "opaque", **answer}))
    assert fetch_token(login(f"{provider.url}/token")).life_s == life_s


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_oauthbearer_token_endpoint_url": None}, "sasl_oauthbearer_token_endpoint_url"),
        ({"sasl_oauthbearer_token_endpoint_url": "ftp://x"}, "begins with https://"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://u:s3cr3t@x/"}, "no user name"),
        ({"sasl_oauthbearer_client_credentials_client_secret": None}, "needs .*client_secret"),
        ({"sasl_oauth_token_provider": lambda: "x"}, "both give tokens"),
        ({"sasl_oauthbearer_grant_type": "jwt-bearer"}, "an assertion needs"),
        ({"sasl_oauthbearer_jwt_retriever_class": "com.example.Mine"}, "sasl_oauth_token_provider"),
        ({"sasl_oauthbearer_jwt_retriever_class": "FileJwtRetriever"}, "does not fit"),
        ({"sasl_oauthbearer_extensions": {"auth": "x"}}, "not auth"),
        ({"sasl_oauthbearer_extensions": {"a": "x\x01auth=y"}}, "printable"),
    ],
)
def test_settings_that_are_wrong(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        login("https://localhost/token", **settings)
    assert "s3cr3t" not in str(caught.value)


def test_a_token_is_not_shown() -> None:
    assert "s3cr3t" not in repr(Token("s3cr3t", 1.0))
