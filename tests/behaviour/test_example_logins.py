"""The examples of logins: by a token of an OpenID Connect provider, and by a signature of AWS."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.aiokafka.abc import AbstractTokenProvider
from pyconsumer.compat.aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyconsumer.errors import AuthenticationError
from tests.support.apache_kafka import ApacheKafka
from tests.support.process import Finished, run
from tests.support.token_server import AUDIENCE, CLIENT, TokenServer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- OpenID Connect --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture(scope="module")
def trusting_kafka(provider: TokenServer) -> Iterator[ApacheKafka]:
    """Apache Kafka that checks tokens by the keys of the provider, on the listener SASL_PLAINTEXT."""
    listener = "listener.name.sasl_plaintext."
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    config = {
        f"{listener}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}oauthbearer.sasl.jaas.config": login,
        f"{listener}oauthbearer.sasl.server.callback.handler.class": handler,
        f"{listener}sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        f"{listener}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{listener}sasl.oauthbearer.expected.issuer": provider.url,
    }
    with pytest.MonkeyPatch.context() as patch:
        # Kafka asks only the addresses that its process allows.
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}={provider.url}/keys")
        kafka = ApacheKafka(config=config)
        kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()


def _login(kafka: ApacheKafka, provider: TokenServer, secret: str) -> Finished:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "oauth_login.py")]
    command += ["-b", kafka.address("SASL_PLAINTEXT"), "--token-url", f"{provider.url}/token", "--client-id", CLIENT[0]]
    return run(command, timeout_s=100, cwd=ROOT, env={"CLIENT_SECRET": secret})


@pytest.mark.kafka
@pytest.mark.slow
def test_a_token_of_a_provider_opens_apache_kafka(trusting_kafka: ApacheKafka, provider: TokenServer) -> None:
    before = provider.given
    finished = _login(trusting_kafka, provider, CLIENT[1]).check()
    assert finished.stdout == "5 records read with a token\n"
    assert provider.given == before + 1  # one token for all connections of both clients


@pytest.mark.kafka
@pytest.mark.slow
def test_a_wrong_secret_is_an_error_that_names_it(trusting_kafka: ApacheKafka, provider: TokenServer) -> None:
    finished = _login(trusting_kafka, provider, "wrong")
    assert finished.returncode == 1
    assert "AuthenticationError" in finished.stderr.splitlines()[-1]
    assert "401" in finished.stderr.splitlines()[-1]


class AsyncTokens(AbstractTokenProvider):
    """Tokens for programs of aiokafka: a coroutine that needs the program's loop to go on."""

    def __init__(self, provider: TokenServer) -> None:
        self._provider = provider
        self.asked = 0

    async def token(self) -> str:
        self.asked += 1
        await asyncio.sleep(0.05)
        return await asyncio.to_thread(_fetch_token, self._provider)


def _fetch_token(provider: TokenServer) -> str:
    oauth = _load("oauth_login")
    token: str = oauth.ClientCredentials(f"{provider.url}/token", *CLIENT).token()
    return token


@pytest.mark.kafka
@pytest.mark.slow
def test_coroutines_give_tokens_to_the_clients_of_aiokafka(trusting_kafka: ApacheKafka, provider: TokenServer) -> None:
    tokens = AsyncTokens(provider)
    settings: dict[str, Any] = {
        "bootstrap_servers": trusting_kafka.address("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": tokens,
    }

    async def program() -> list[bytes | None]:
        admin = AIOKafkaAdminClient(**settings)
        await admin.start()
        await admin.create_topics([NewTopic("of-coroutines", 1, 1)])
        await admin.close()
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("of-coroutines", b"one")
        async with AIOKafkaConsumer(
            "of-coroutines", group_id="of-coroutines", auto_offset_reset="earliest", **settings
        ) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 30)).value]

    assert asyncio.run(program()) == [b"one"]
    assert tokens.asked >= 3


@pytest.mark.kafka
@pytest.mark.slow
def test_a_coroutine_that_gives_no_token_is_an_error_with_its_cause(trusting_kafka: ApacheKafka) -> None:
    class Broken(AbstractTokenProvider):
        async def token(self) -> str:
            raise OSError("the provider is down")

    async def program() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=trusting_kafka.address("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Broken(),
        )
        try:
            await consumer.start()
        finally:
            await consumer.stop()

    with pytest.raises(AuthenticationError, match="OSError: the provider is down"):
        asyncio.run(program())


# -- Amazon MSK ------------------------------------------------------------------------------------------------------

# The credentials of AWS's own documentation.
_KEYS = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


def test_the_signature_is_that_of_the_documented_example() -> None:
    """AWS, Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters"."""
    msk = _load("msk_iam")
    url = msk.signed_url(
        "examplebucket.s3.amazonaws.com",
        "/test.txt",
        {},
        "s3",
        "us-east-1",
        msk.Credentials(*_KEYS),
        datetime(2013, 5, 24, tzinfo=UTC),
        86_400,
        payload_hash="UNSIGNED-PAYLOAD",
    )
    assert url.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")


@pytest.mark.parametrize(
    ("session_token", "signature"),
    [
        ("", "bb809705b89df1eef6b818bfd30fc95349f8906285599a411906f01d20c89d39"),
        ("FwoGZXIvYXdzEXAMPLE/token+with=signs", "41a00268ce1e362296bd7ca6af96d047e812671cc0f820bf50fdfc49ac0389ab"),
    ],
)
def test_the_token_has_the_signature_of_amazons_own_signer(session_token: str, signature: str) -> None:
    """The signatures were made by aws-msk-iam-sasl-signer-python 1.0.2 with botocore 1.44.8 for this time."""
    msk = _load("msk_iam")
    tokens = msk.MskTokens("eu-west-1", lambda: msk.Credentials(*_KEYS, session_token))
    token = tokens.token_at(datetime(2026, 11, 24, 12, 30, 15, tzinfo=UTC))
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    assert re.findall(r"X-Amz-Signature=(\w+)", url) == [signature]
    assert "=" not in token
