"""aiokafka's ``sasl_oauth_token_provider``: coroutines that the program's loop runs at each login and renewal.

The embedded broker has PLAIN alone. Here it runs in this process, and takes OAUTHBEARER's messages under that name.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.logins import LoginError, LoginStep, PlainUsers
from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.aiokafka.abc import AbstractTokenProvider
from pyconsumer.compat.aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyconsumer.compat.aiokafka.tokens import AwaitedTokens
from pyconsumer.errors import AuthenticationError
from pyconsumer.network.sasl import OAuthBearer

WITHIN_S = 90


def _check_token(users: PlainUsers, message: Any) -> LoginStep:
    fields = bytes(message).split(b"\x01")
    good = fields[0] == b"n,," and fields[1] == b"auth=Bearer good" and fields[2] == b"traceId=1"
    if not good:
        raise LoginError(f"no good token: {fields!r}")
    return LoginStep(b"", "alice")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker whose sessions last for three seconds: a renewal comes 150 ms or more before their end."""
    monkeypatch.setattr(PlainUsers, "authenticate", _check_token)
    monkeypatch.setattr(OAuthBearer, "name", "PLAIN")
    with EmbeddedCluster(
        data_dir=":memory:",
        in_thread=True,
        listeners=("SASL_PLAINTEXT",),
        sasl_users={"alice": "secret"},
        config={"connections.max.reauth.ms": 3000, "group.initial.rebalance.delay.ms": 0},
    ) as cluster:
        yield cluster.bootstrap_servers


class Tokens(AbstractTokenProvider):
    """Gives a token after a turn of the loop, and counts.

    Attributes:
        given: how many times it was asked.
        renewed: set when it was asked for more tokens than :attr:`enough`.
    """

    def __init__(self, token: str = "good") -> None:
        self.given = 0
        self.enough = 1 << 30
        self.renewed = asyncio.Event()
        self.threads: set[threading.Thread] = set()
        self._token = token

    async def token(self) -> str:
        self.threads.add(threading.current_thread())
        await asyncio.sleep(0)
        self.given += 1
        if self.given > self.enough:
            self.renewed.set()
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"traceId": "1"}


def _settings(address: str, tokens: Any, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": tokens,
        **more,
    }


@pytest.mark.asyncio
async def test_each_client_logs_in_by_a_coroutine_and_renews(address: str) -> None:
    async with asyncio.timeout(WITHIN_S):
        tokens = Tokens()
        admin = AIOKafkaAdminClient(**_settings(address, tokens))
        await admin.start()
        await admin.create_topics([NewTopic("tokens", 1, 1)])
        await admin.close()
        of_admin = tokens.given
        assert of_admin >= 1

        async with (
            AIOKafkaProducer(**_settings(address, tokens)) as producer,
            AIOKafkaConsumer(
                "tokens", group_id="g", auto_offset_reset="earliest", **_settings(address, tokens)
            ) as consumer,
        ):
            await producer.send_and_wait("tokens", b"1")
            assert tokens.given > of_admin
            assert (await consumer.getone()).value == b"1"
            tokens.enough = tokens.given + 3
            reading = asyncio.create_task(consumer.getone())
            await tokens.renewed.wait()
            await producer.send_and_wait("tokens", b"2")
            assert (await reading).value == b"2"
        assert tokens.threads == {threading.current_thread()}


def test_a_token_that_is_requested_before_the_loop_is_known_comes_later() -> None:
    class Broken(Tokens):
        async def token(self) -> str:
            raise LookupError("the issuer is away")

    async def bind() -> None:
        good.bind()
        assert await asyncio.wrap_future(asked) == "good"
        broken.bind()
        with pytest.raises(LookupError, match="the issuer is away"):
            await asyncio.wrap_future(refused)

    good, broken = AwaitedTokens(Tokens(), WITHIN_S), AwaitedTokens(Broken(), WITHIN_S)
    asked, given_up, refused = good.token(), good.token(), broken.token()  # as a producer's thread before `start`
    assert not asked.done()
    assert given_up.cancel()
    asyncio.run(bind())


@pytest.mark.asyncio
@pytest.mark.parametrize("client", [AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient])
async def test_an_error_of_the_provider_is_an_authentication_error_with_its_cause(address: str, client: Any) -> None:
    class Broken(Tokens):
        async def token(self) -> str:
            raise LookupError("the issuer is away")

    made = client(**_settings(address, Broken()))
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(AuthenticationError, match="LookupError: the issuer is away") as raised:
            await made.start()
        await (made.close() if client is AIOKafkaAdminClient else made.stop())
    assert isinstance(_first(raised.value), LookupError)


@pytest.mark.asyncio
@pytest.mark.parametrize("client", [AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient])
async def test_a_token_that_does_not_come_is_an_authentication_error_after_the_request_timeout(
    address: str, client: Any
) -> None:
    class Slow(Tokens):
        async def token(self) -> str:
            await asyncio.Event().wait()
            return ""

    made = client(**_settings(address, Slow(), request_timeout_ms=600))
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(AuthenticationError) as raised:
            await made.start()
        await (made.close() if client is AIOKafkaAdminClient else made.stop())
    assert isinstance(_first(raised.value), TimeoutError)


@pytest.mark.asyncio
async def test_a_token_that_the_broker_refuses_is_an_authentication_error(address: str) -> None:
    producer = AIOKafkaProducer(**_settings(address, Tokens("bad")))
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(AuthenticationError, match="no good token"):
            await producer.start()
        await producer.stop()


def _first(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
