"""SASL OAUTHBEARER on the broker: tokens of a provider, attacks with tokens, sessions that end, on both brokers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from pyconsumer import KafkaAdminClient
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import AuthenticationError, ConfigurationError, Errors
from pyconsumer.protocol.messages.describe_acls import DescribeAclsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.apache_kafka import ApacheKafka
from tests.support.java import need_jars, properties, tools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.support.token_server import AUDIENCE, CLIENT, TokenServer

#: Kafka takes no second login of a connection within a second.
_SOONEST_S = 1.05
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture(scope="module", params=["embedded", pytest.param("apache", marks=pytest.mark.kafka)])
def address(request: pytest.FixtureRequest, provider: TokenServer) -> Iterator[str]:
    """The SASL_PLAINTEXT listener of a broker that accepts the provider's tokens."""
    wanted = {
        "jwks.endpoint.url": f"{provider.url}/keys",
        "expected.audience": AUDIENCE,
        "expected.issuer": provider.url,
        "clock.skew.seconds": 2,
    }
    if request.param == "embedded":
        with EmbeddedCluster(data_dir=":memory:", oauth=wanted, users={"alice": "secret"}) as cluster:
            yield cluster.bootstrap_servers
        return
    need_jars()
    listener = "listener.name.sasl_plaintext."
    config = {
        f"{listener}sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{listener}oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{listener}oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        **{f"{listener}sasl.oauthbearer.{name}": value for name, value in wanted.items()},
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    }
    with pytest.MonkeyPatch.context() as patch:
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}={provider.url}/keys")
        broker = ApacheKafka(config=config)
        broker.start()
    try:
        yield broker.address("SASL_PLAINTEXT")
    finally:
        broker.stop()


def claims(provider: TokenServer, **changed: Any) -> dict[str, Any]:
    now = int(time.time())
    all_claims = {"iss": provider.url, "aud": AUDIENCE, "sub": "carol", "iat": now, "exp": now + 60} | changed
    return {name: value for name, value in all_claims.items() if value is not None}


def first(token: str, authorization: str = "") -> bytes:
    return f"n,{authorization and f'a={authorization}'},\x01auth=Bearer {token}\x01\x01".encode()


def begin(raw: RawClient, message: bytes) -> Any:
    assert raw.versions
    assert raw.request(SaslHandshakeRequest("OAUTHBEARER"), 1).error_code == 0
    return raw.request(SaslAuthenticateRequest(message))


def encoded(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_token_logs_in_for_as_long_as_it_lives(address: str, provider: TokenServer) -> None:
    with RawClient(address, timeout_s=20) as raw:
        response = begin(raw, first(provider.sign(claims(provider)), "carol"))
        assert (response.error_code, response.auth_bytes) == (0, b"")
        assert 40_000 < response.session_lifetime_ms <= 60_000
        assert raw.request(MetadataRequest(topics=[])).brokers


def test_a_session_ends_with_its_token_and_is_renewed_by_the_same_user(address: str, provider: TokenServer) -> None:
    with RawClient(address, timeout_s=20) as raw:
        ends = int(time.time()) + 3
        assert begin(raw, first(provider.sign(claims(provider, exp=ends)))).session_lifetime_ms <= 3000
        time.sleep(_SOONEST_S)
        assert begin(raw, first(provider.sign(claims(provider, exp=ends + 1)))).error_code == 0
        assert raw.request(MetadataRequest(topics=[])).brokers
        time.sleep(max(0.0, ends + 1.1 - time.time()))
        with pytest.raises((OSError, EOFError)):
            raw.request(MetadataRequest(topics=[]))
    with RawClient(address, timeout_s=20) as raw:
        assert begin(raw, first(provider.sign(claims(provider)))).error_code == 0
        time.sleep(_SOONEST_S)
        response = begin(raw, first(provider.sign(claims(provider, sub="eve"))))
        assert response.error_code == Errors.SASL_AUTHENTICATION_FAILED


def by_shared_secret(provider: TokenServer) -> str:
    """A token that is signed with the public key as if it were a secret."""
    signed = f"{encoded({'alg': 'HS256', 'kid': '1'})}.{encoded(claims(provider))}"
    key = json.dumps(provider.keys()["keys"][0]).encode()
    return f"{signed}.{encoded(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def by_another_key(provider: TokenServer, **head: Any) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signed = f"{encoded({'alg': 'RS256', 'kid': '1'} | head)}.{encoded(claims(provider))}"
    return f"{signed}.{encoded(key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"


def changed(provider: TokenServer) -> str:
    head, _, signature = provider.sign(claims(provider)).split(".")
    return f"{head}.{encoded(claims(provider, sub='admin'))}.{signature}"


def soon(seconds: float) -> int:
    return int(time.time() + seconds)


_REFUSED: dict[str, Callable[[TokenServer], str]] = {
    "no JWT": lambda provider: "abc",
    "no signature": lambda provider: provider.sign(claims(provider)).rpartition(".")[0] + ".",
    "alg none": lambda provider: f"{encoded({'alg': 'none'})}.{encoded(claims(provider))}.",
    "alg None with a signature": lambda provider: provider.sign(claims(provider), alg="None"),
    "shared secret": by_shared_secret,
    "another key": by_another_key,
    "unknown key id": lambda provider: by_another_key(provider, kid="2"),
    "a key in the header": lambda provider: by_another_key(provider, kid="3", jwk=provider.keys()["keys"][0]),
    "changed claims": changed,
    "crit": lambda provider: provider.sign(claims(provider), crit=["exp"], exp=1),
    "expired": lambda provider: provider.sign(claims(provider, exp=soon(-5), iat=soon(-60))),
    "not yet": lambda provider: provider.sign(claims(provider, nbf=soon(30))),
    "no end": lambda provider: provider.sign(claims(provider, exp=None)),
    "no time of issue": lambda provider: provider.sign(claims(provider, iat=None)),
    "end is text": lambda provider: provider.sign(claims(provider, exp="never")),
    "no user": lambda provider: provider.sign(claims(provider, sub=None)),
    "blank user": lambda provider: provider.sign(claims(provider, sub=" ")),
    "user is a number": lambda provider: provider.sign(claims(provider, sub=7)),
    "another issuer": lambda provider: provider.sign(claims(provider, iss="https://eve.invalid")),
    "another audience": lambda provider: provider.sign(claims(provider, aud=["other", "another"])),
    "no audience": lambda provider: provider.sign(claims(provider, aud=None)),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_a_token_is_refused(address: str, provider: TokenServer, case: str) -> None:
    with RawClient(address, timeout_s=20) as raw:
        response = begin(raw, first(_REFUSED[case](provider)))
        assert (response.error_code, json.loads(response.auth_bytes)) == (0, {"status": "invalid_token"})
        response = raw.request(SaslAuthenticateRequest(b"\x01"))
        assert response.error_code == Errors.SASL_AUTHENTICATION_FAILED
        assert "invalid_token" in response.error_message
        with pytest.raises((OSError, EOFError)):
            raw.request(MetadataRequest(topics=[]))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc",
        b"n,,\x01host=x\x01\x01",
    ],
)
def test_a_message_is_refused(address: str, message: bytes) -> None:
    with RawClient(address, timeout_s=20) as raw:
        assert begin(raw, message).error_code == Errors.SASL_AUTHENTICATION_FAILED


def test_another_authorization_id_is_refused(address: str, provider: TokenServer) -> None:
    with RawClient(address, timeout_s=20) as raw:
        response = begin(raw, first(provider.sign(claims(provider)), "admin"))
        assert response.error_code == Errors.SASL_AUTHENTICATION_FAILED
        assert "authorization id" in response.error_message


@pytest.mark.parametrize(
    "accepted",
    [
        {"aud": ["other", AUDIENCE]},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": 7},
        {"exp": 4_000_000_000.5},  # in 2096: parameters are the same in each process of the run
    ],
    ids=str,
)
def test_other_tokens_are_accepted(address: str, provider: TokenServer, accepted: dict[str, Any]) -> None:
    with RawClient(address, timeout_s=20) as raw:
        response = begin(raw, first(provider.sign(claims(provider, **accepted))))
        assert (response.error_code, response.auth_bytes) == (0, b"")


@pytest.mark.parametrize("claim", ["nbf", "exp"])
def test_a_clock_may_be_off_by_the_skew(address: str, provider: TokenServer, claim: str) -> None:
    with RawClient(address, timeout_s=20) as raw:
        assert raw.versions
        times = {"nbf": soon(2)} if claim == "nbf" else {"exp": soon(0), "iat": soon(-60)}  # the skew is 2 s
        response = begin(raw, first(provider.sign(claims(provider, **times))))
        assert (response.error_code, response.auth_bytes) == (0, b"")


def test_our_client_and_javas_log_in_by_a_provider(address: str, provider: TokenServer, tmp_path: Any) -> None:
    login = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": f"{provider.url}/token",
        "sasl_oauthbearer_client_credentials_client_id": CLIENT[0],
        "sasl_oauthbearer_client_credentials_client_secret": CLIENT[1],
    }
    with KafkaAdminClient(**login) as admin:
        admin.create_topics(["made-by-token"])
    with (
        pytest.raises(AuthenticationError),
        KafkaAdminClient(**login | {"sasl_oauthbearer_client_credentials_client_secret": "wrong"}) as admin,
    ):
        admin.list_topics()
    if "localhost" in address:
        return  # Kafka's own broker needs no proof of Kafka's client
    need_jars()
    file = tmp_path / "java.properties"
    file.write_text(
        properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
                "sasl.oauthbearer.client.credentials.client.id": CLIENT[0],
                "sasl.oauthbearer.client.credentials.client.secret": CLIENT[1],
                "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            }
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}={provider.url}/token")
        shown = tools().run("TopicCommand", "--bootstrap-server", address, "--command-config", str(file), "--list")
    assert "made-by-token" in shown.stdout


def test_librdkafka_logs_in_by_a_provider(address: str, provider: TokenServer) -> None:
    library = pytest.importorskip("confluent_kafka.admin")
    admin = library.AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
            "sasl.oauthbearer.client.id": CLIENT[0],
            "sasl.oauthbearer.client.secret": CLIENT[1],
        }
    )
    assert admin.list_topics(timeout=60).brokers


def test_a_token_that_is_used_twice_is_accepted(address: str, provider: TokenServer) -> None:
    """Also by Kafka. Only TLS protects it on its way."""
    token = provider.sign(claims(provider, jti="one"))
    for _ in range(2):
        with RawClient(address, timeout_s=20) as raw:
            response = begin(raw, first(token))
            assert (response.error_code, response.auth_bytes) == (0, b"")


def is_accepted(cluster: EmbeddedCluster, token: str) -> bool:
    with RawClient(cluster.bootstrap_servers, timeout_s=20) as raw:
        response = begin(raw, first(token))
        assert response.error_code == 0
        return bool(response.auth_bytes == b"")


def test_keys_of_a_file_names_of_claims_and_the_bound_of_a_session(provider: TokenServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys of it.json"
    keys.write_text(json.dumps(provider.keys()))
    oauth = {
        "jwks.endpoint.url": keys.as_uri(),
        "jwks.endpoint.refresh.ms": 100,
        "sub.claim.name": "name",
        "scope.claim.name": "scp",
    }
    config = {"listener.name.sasl_plaintext.connections.max.reauth.ms": 20_000}
    with (
        EmbeddedCluster(data_dir=":memory:", oauth=oauth, acls=["eve: DESCRIBE cluster"], config=config) as cluster,
        TokenServer() as other,
    ):
        with RawClient(cluster.bootstrap_servers, timeout_s=20) as raw:
            response = begin(raw, first(provider.sign(claims(provider, name="eve", scp=["a"])), "eve"))
            assert (response.error_code, response.auth_bytes) == (0, b"")
            assert 15_000 < response.session_lifetime_ms <= 20_000  # and not the 60 s of the token
            assert raw.request(DescribeAclsRequest(1, None, 1, None, None, 1, 1)).error_code == 0
        assert not is_accepted(cluster, provider.sign(claims(provider)))  # it has no name
        old, new = (one.sign(claims(one, name="eve")) for one in (provider, other))
        assert [is_accepted(cluster, token) for token in (old, new)] == [True, False]
        keys.write_text(json.dumps(other.keys()))
        wait_until(lambda: is_accepted(cluster, new), 60, "the keys of the changed file")
        assert not is_accepted(cluster, old)


def test_tokens_without_a_signature_by_an_option_alone(provider: TokenServer) -> None:
    with EmbeddedCluster(data_dir=":memory:", oauth={"unsecured": True}) as cluster:
        unsigned = f"{encoded({'alg': 'none'})}.{encoded({'sub': 'dave', 'exp': soon(60)})}."
        with RawClient(cluster.bootstrap_servers) as raw:
            response = begin(raw, first(unsigned))
            assert (response.error_code, response.auth_bytes) == (0, b"")
        with RawClient(cluster.bootstrap_servers) as raw:
            assert begin(raw, first(provider.sign(claims(provider)))).auth_bytes == b'{"status":"invalid_token"}'
    for oauth in ({}, {"unsecured": True, "jwks.endpoint.url": "file:///keys"}, {"jwks.endpoint.url": "ftp://x/y"}):
        with pytest.raises(ConfigurationError), EmbeddedCluster(data_dir=":memory:", oauth=oauth):
            pass
