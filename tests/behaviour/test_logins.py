"""Logins by settings on Apache Kafka: tokens of a provider, delegation tokens, and a mechanism of one's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaProducer
from pyconsumer.errors import (
    AuthenticationError,
    DelegationTokenNotFoundError,
    DelegationTokenRequestNotAllowedError,
    Errors,
)
from pyconsumer.network.sasl import Plain
from pyconsumer.protocol.messages.metadata import MetadataRequest
from tests.behaviour.access_support import by_scram
from tests.support.apache_kafka import ApacheKafka
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.support.token_server import AUDIENCE, CLIENT, TokenServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture(scope="module")
def kafka(provider: TokenServer) -> Iterator[ApacheKafka]:
    """Apache Kafka that takes passwords, tokens of the provider, and delegation tokens on SASL_PLAINTEXT."""
    listener = "listener.name.sasl_plaintext."
    config = {
        f"{listener}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{listener}scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        f"{listener}oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{listener}oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{listener}sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        f"{listener}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{listener}sasl.oauthbearer.expected.issuer": provider.url,
        f"{listener}connections.max.reauth.ms": 4000,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "delegation.token.secret.key": "a secret of the cluster",
        "early.start.listeners": "CONTROLLER",
    }
    with pytest.MonkeyPatch.context() as patch:
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}={provider.url}/keys")
        broker = ApacheKafka(config=config)
        broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _settings(kafka: ApacheKafka, **login: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.address("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        **login,
    }


def _by_password(kafka: ApacheKafka) -> dict[str, Any]:
    user = kafka.credentials
    return _settings(
        kafka, sasl_mechanism="PLAIN", sasl_plain_username=user.username, sasl_plain_password=user.password
    )


def _by_provider(kafka: ApacheKafka, provider: TokenServer, **settings: Any) -> dict[str, Any]:
    return _settings(
        kafka,
        **{
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": f"{provider.url}/token",
            "sasl_oauthbearer_client_credentials_client_id": CLIENT[0],
            "sasl_oauthbearer_client_credentials_client_secret": CLIENT[1],
            **settings,
        },
    )


def _write_and_read(topic: str, settings: dict[str, Any]) -> None:
    with KafkaProducer(**settings) as producer:
        producer.send(topic, b"one").get(timeout=30)
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000, "group_id": topic}
    with KafkaConsumer(topic, **reading, **settings) as consumer:
        assert next(consumer).value == b"one"


def test_a_provider_by_settings(kafka: ApacheKafka, provider: TokenServer) -> None:
    before = provider.given
    settings = _by_provider(kafka, provider)
    with KafkaAdminClient(**settings) as admin:  # it keeps the login, and so its token
        admin.list_topics()
        _write_and_read("by-settings", settings)
        assert provider.given == before + 1
        time.sleep(5)  # the broker ends sessions after 4 s: the client has logged in again on its connection
        admin.list_topics()


def test_the_grant_jwt_bearer(kafka: ApacheKafka, provider: TokenServer, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    provider.trusted = key.public_key()
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    settings = {
        "sasl_oauthbearer_client_credentials_client_id": None,
        "sasl_oauthbearer_client_credentials_client_secret": None,
        "sasl_oauthbearer_grant_type": "jwt-bearer",
        "sasl_oauthbearer_assertion_private_key_file": file,
    }
    _write_and_read("by-assertion", _by_provider(kafka, provider, **settings))


def test_a_wrong_secret_is_an_error_of_the_login_and_not_shown(kafka: ApacheKafka, provider: TokenServer) -> None:
    settings = _by_provider(kafka, provider, sasl_oauthbearer_client_credentials_client_secret="s3cr3t-wrong")
    with KafkaAdminClient(**settings) as admin:
        with pytest.raises(AuthenticationError, match="answered 401") as caught:
            admin.list_topics(timeout_ms=20_000)
        assert "s3cr3t" not in str(caught.value)


def test_asyncio_logs_in_without_blocking_its_loop(kafka: ApacheKafka, provider: TokenServer) -> None:
    async def program() -> float:
        longest, stop = 0.0, False

        async def watch() -> None:
            nonlocal longest
            while not stop:
                began = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - began)

        provider.delay_s = 1.5
        watching = asyncio.create_task(watch())
        try:
            settings = _by_provider(kafka, provider, sasl_oauthbearer_scope="another-login")
            async with AsyncKafkaProducer(**settings) as producer:
                await (await producer.send("by-settings", b"two"))
        finally:
            stop, provider.delay_s = True, 0.0
            await watching
        return longest

    assert asyncio.run(program()) < 1.0


def test_a_mechanism_of_ones_own(kafka: ApacheKafka) -> None:
    user = kafka.credentials
    _write_and_read("own", _settings(kafka, sasl_mechanism_factory=lambda: Plain(user.username, user.password)))


def test_a_deleted_user_is_served_until_the_next_login(kafka: ApacheKafka) -> None:
    """The embedded broker does the same: test_broker_scram.py."""
    sha_256 = ScramMechanism.SCRAM_SHA_256
    with (
        KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin,
        RawClient(kafka.address("SASL_PLAINTEXT"), timeout_s=20) as client,
    ):
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("gone", sha_256, "gone-secret")])
        wait_until(lambda: "gone" in admin.describe_user_scram_credentials(), 60, "the user")
        assert client.versions
        assert by_scram(client, "gone", "gone-secret").error_code == 0
        began = time.monotonic()
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("gone", sha_256)])
        wait_until(lambda: "gone" not in admin.describe_user_scram_credentials(), 60, "the end of the user")
        assert client.request(MetadataRequest([])).brokers
        time.sleep(max(0.0, began + 1.05 - time.monotonic()))  # Kafka takes no second login within a second
        assert by_scram(client, "gone", "gone-secret").error_code == Errors.SASL_AUTHENTICATION_FAILED
        assert client.closed_by_broker


def test_delegation_tokens(kafka: ApacheKafka) -> None:
    me = f"User:{kafka.credentials.username}"
    with KafkaAdminClient(**_by_password(kafka)) as admin:
        token = admin.create_delegation_token(renewers=["User:scheduler"], max_lifetime_ms=600_000)
        assert (token.owner, token.requester, token.renewers) == (me, me, ("User:scheduler",))
        assert 0 < token.ends_ms - token.issued_ms <= 600_000
        assert token.password not in repr(token)
        login = {
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": token.token_id,
            "sasl_plain_password": token.password,
        }
        _until_known(kafka, {**login, "sasl_scram_tokenauth": True})
        jaas = f'{_SCRAM} required username="{token.token_id}" password="{token.password}" tokenauth="true";'
        _write_and_read("by-token", _settings(kafka, sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas))
        # Without tokenauth it is a user that is not there.
        with KafkaAdminClient(**_settings(kafka, **login)) as other, pytest.raises(AuthenticationError):
            other.list_topics(timeout_ms=10_000)
        by_token = _settings(kafka, **login, sasl_scram_tokenauth=True)
        with KafkaAdminClient(**by_token) as other, pytest.raises(DelegationTokenRequestNotAllowedError):
            other.create_delegation_token()
        assert [found.token_id for found in admin.describe_delegation_tokens()] == [token.token_id]
        assert admin.describe_delegation_tokens(["User:nobody"]) == []
        assert admin.renew_delegation_token(token.hmac, period_ms=60_000) < token.expires_ms
        with pytest.raises(DelegationTokenNotFoundError):
            admin.renew_delegation_token(b"no such token")
        admin.expire_delegation_token(token.hmac)
        _until_refused(kafka, {**login, "sasl_scram_tokenauth": True})
        # A broker without an authorizer lets each user do that (KIP-373).
        for_another = admin.create_delegation_token(owner="User:another-one")
        assert (for_another.owner, for_another.requester) == ("User:another-one", me)
        with pytest.raises(ValueError, match="User:name"):
            admin.create_delegation_token(renewers=["scheduler"])


def _until_known(kafka: ApacheKafka, login: dict[str, Any]) -> None:
    """Wait until the broker has read the token from the metadata log."""
    _until(kafka, login, works=True)


def _until_refused(kafka: ApacheKafka, login: dict[str, Any]) -> None:
    _until(kafka, login, works=False)


def _until(kafka: ApacheKafka, login: dict[str, Any], *, works: bool) -> None:
    end = time.monotonic() + 30
    while True:
        with KafkaAdminClient(**_settings(kafka, **login)) as admin:
            try:
                admin.list_topics(timeout_ms=10_000)
                found = True
            except AuthenticationError:
                found = False
        if found == works:
            return
        assert time.monotonic() < end
        time.sleep(0.1)


def test_delegation_tokens_under_asyncio(kafka: ApacheKafka) -> None:
    async def program() -> None:
        async with AsyncKafkaAdminClient(**_by_password(kafka)) as admin:
            token = await admin.create_delegation_token()
            for _ in range(300):  # the broker reads it from the metadata log
                if token.token_id in {found.token_id for found in await admin.describe_delegation_tokens()}:
                    break
                await asyncio.sleep(0.1)
            assert await admin.renew_delegation_token(token.hmac) > 0
            assert await admin.expire_delegation_token(token.hmac) > 0

    asyncio.run(program())
