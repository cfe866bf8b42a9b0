"""SASL's mechanism GSSAPI: the messages, with a scripted context, and hostile brokers. No Kerberos is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import AuthenticationError, KafkaConnectionError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.gssapi import Gssapi, LoginThread, login_thread
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from pyconsumer.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pyconsumer.settings.config import ClientConfig
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import AutoSelector, Received, ScriptedBroker

OFFER = b"\x01\x01\x00\x00"
CHOICE = b"\x01\x00\x00\x00alice@EXAMPLE.COM"


class Context:
    """A security context that is complete after some tokens, and whose signature is the letter S."""

    principal = "alice@EXAMPLE.COM"

    def __init__(self, tokens: int = 1, answer: bytes = b"") -> None:
        self.left = tokens
        self.answer = answer

    @property
    def complete(self) -> bool:
        return self.left == 0

    def step(self, token: bytes | None) -> bytes:
        if token is None:
            return b"ticket"
        if not token.startswith(b"proof"):
            raise AuthenticationError("not a proof", stage="SASL")
        self.left -= 1
        return self.answer

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"S"):
            raise AuthenticationError("not signed", stage="SASL")
        return message[1:]

    def wrap(self, content: bytes) -> bytes:
        return b"S" + content


class AtOnce(LoginThread):
    """Steps are run by the caller."""

    def submit(self, step: Callable[[], bytes]) -> Any:
        found = super().submit(step)
        found.exception(30)
        return found


def begun(context: Context | None = None) -> Gssapi:
    login = Gssapi(lambda: context or Context(), AtOnce())
    assert login.first() == b"ticket"
    return login


def test_a_login_ends_with_no_layer_and_the_clients_own_name() -> None:
    login = begun()
    assert login.name == "GSSAPI"
    assert login.respond(b"proof") == b""
    assert login.respond(b"S" + OFFER) == b"S" + CHOICE
    assert login.respond(b"") is None


def test_a_context_may_take_several_tokens() -> None:
    login = begun(Context(tokens=3, answer=b"more"))
    assert [login.respond(b"proof") for _ in range(3)] == [b"more"] * 3
    assert login.respond(b"S\x07\xff\xff\xff") == b"S" + CHOICE
    assert login.respond(b"") is None


@pytest.mark.parametrize(
    ("challenges", "why"),
    [
        ([b""], "sent no token that proves its identity"),
        ([b"nonsense"], "not a proof"),
        ([b"proof" + bytes(70_000)], "has 70005 bytes, and at most 65536 are taken"),
        ([b"proof", b""], "not signed"),
        ([b"proof", OFFER], "not signed"),
        ([b"proof", b"S"], "has 0 bytes instead of 4"),
        ([b"proof", b"S\x01\x00"], "has 2 bytes instead of 4"),
        ([b"proof", b"S" + OFFER + b"more"], "has 8 bytes instead of 4"),
        ([b"proof", b"S\x02\x01\x00\x00"], "wants each message signed or encrypted"),
        ([b"proof", b"S\x06\x01\x00\x00"], "wants each message signed or encrypted"),
        ([b"proof", b"S\x00\x00\x00\x00"], "wants each message signed or encrypted"),
        ([b"proof", b"S" + OFFER, b"more"], "after the end of the login"),
        ([b"proof", b"S" + OFFER, b"S" + OFFER], "after the end of the login"),
    ],
)
def test_a_hostile_broker_is_refused(challenges: list[bytes], why: str) -> None:
    login = begun()
    for challenge in challenges[:-1]:
        assert login.respond(challenge) is not None
    with pytest.raises(AuthenticationError, match=why):
        login.respond(challenges[-1])


def test_tokens_without_an_end_are_refused() -> None:
    login = begun(Context(tokens=1_000_000, answer=b"more"))
    for _ in range(5):
        assert login.respond(b"proof") == b"more"
    with pytest.raises(AuthenticationError, match="more than 5 tokens"):
        login.respond(b"proof")


def test_a_token_that_leads_nowhere_is_refused() -> None:
    login = begun(Context(tokens=2))
    with pytest.raises(AuthenticationError, match="does not prove its identity"):
        login.respond(b"proof")


# -- the thread ------------------------------------------------------------------------------------------------------


def test_logins_take_turns_and_one_that_is_given_up_is_skipped() -> None:
    thread, entered, go, ran = LoginThread(), threading.Event(), threading.Event(), []

    def slow() -> bytes:
        entered.set()
        go.wait(30)
        ran.append("slow")
        return b"1"

    first = thread.submit(slow)
    assert entered.wait(30)
    second, third = (thread.submit(lambda number=number: ran.append(number) or b"2") for number in "23")
    assert second.cancel()
    go.set()
    assert (first.result(30), third.result(30)) == (b"1", b"2")
    assert ran == ["slow", "3"]
    assert thread.submit(lambda: b"again").result(30) == b"again"


def test_an_error_is_that_of_the_login_alone() -> None:
    thread = LoginThread()

    def broken() -> bytes:
        raise KafkaConnectionError("no KDC", stage="SASL")

    assert isinstance(thread.submit(broken).exception(30), KafkaConnectionError)
    assert thread.submit(lambda: b"next").result(30) == b"next"


def test_equal_credentials_share_a_thread() -> None:
    assert login_thread(("alice", "/keytab", None)) is login_thread(("alice", "/keytab", None))
    assert login_thread(("alice", "/keytab", None)) is not login_thread(("bob", "/keytab", None))


# -- the whole client ------------------------------------------------------------------------------------------------


MakeClient = Callable[..., NetworkClient]


class Kdc:
    """Makes the logins of a client, in place of ``Kerberos``. Tickets come when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.error: Exception | None = None
        self.hosts: list[str] = []
        self.logins: list[Gssapi] = []
        self._thread = LoginThread()
        self._arrived: Callable[[], object] = lambda: None

    def __call__(self, config: ClientConfig, arrived: Callable[[], object]) -> Kdc:
        self._arrived = arrived
        return self

    def login(self, host: str) -> Gssapi:
        self.hosts.append(host)
        self.logins.append(Gssapi(self._context, self._thread, self._arrived))
        return self.logins[-1]

    def _context(self) -> Context:
        self.go.wait(30)
        if self.error is not None:
            raise self.error
        return Context()

    @property
    def pending(self) -> Future[bytes]:
        found = self.logins[-1]._pending
        assert found is not None
        return found

    def answer(self, error: Exception | None = None) -> None:
        """Give the login that waits its ticket, or an error."""
        self.error = error
        self.go.set()
        self.pending.exception(30)
        self.go.clear()


@pytest.fixture
def kerberos_broker(broker: ScriptedBroker) -> ScriptedBroker:
    """Follows the messages of GSSAPI. Sessions last for 100 s."""
    answers = {b"ticket": b"proof", b"": b"S" + OFFER, b"S" + CHOICE: b""}

    def authenticate(request: Received) -> SaslAuthenticateResponse:
        answer = answers.get(bytes(request.message.auth_bytes))
        if answer is None:
            return SaslAuthenticateResponse(error_code=58, error_message="not known")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=0 if answer else 100_000)

    broker.on(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(mechanisms=["GSSAPI"]))
    broker.on(ApiKey.SASL_AUTHENTICATE, authenticate)
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    return broker


@pytest.fixture
def kdc(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    made = Kdc()
    monkeypatch.setattr("pyconsumer.network.kerberos.Kerberos", made)
    yield made
    made.go.set()


SETTINGS = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}


class Bench:
    """A client that logs in, and a clock."""

    def __init__(self, broker: ScriptedBroker, make_client: MakeClient) -> None:
        self.broker = broker
        self.clock = ManualClock(1000.0)
        options: dict[str, Any] = {"clock": self.clock, "selector": AutoSelector(self.clock), "random": lambda: 0.5}
        self.client = make_client(metadata=None, config=SETTINGS, **options)

    def ask(self) -> Any:
        node = BrokerMetadata(1, "127.0.0.1", self.broker.port)
        return self.client.send(node, HeartbeatRequest, HeartbeatRequest(group_id="g"))

    def poll_until(self, done: Callable[[], object], future: Any = None) -> None:
        for _ in range(20_000):
            if done():
                return
            self.client.poll(self.clock.now() + 0.01, future)
        raise AssertionError("it did not come")


@pytest.fixture
def bench(kerberos_broker: ScriptedBroker, make_client: MakeClient, kdc: Kdc) -> Bench:
    return Bench(kerberos_broker, make_client)


def _said(broker: ScriptedBroker) -> list[bytes]:
    return [bytes(r.message.auth_bytes) for r in broker.received if r.api_key == ApiKey.SASL_AUTHENTICATE]


def test_a_login_waits_for_a_ticket_without_blocking(bench: Bench, kdc: Kdc) -> None:
    future = bench.ask()
    bench.poll_until(lambda: kdc.logins)
    until = bench.clock.now() + 0.2
    while bench.clock.now() < until:
        bench.client.poll(until, future)
    assert not future.done
    assert _said(bench.broker) == []
    kdc.answer()
    bench.client.poll(bench.clock.now() + 60, future)
    assert future.value.message.error_code == 0
    assert kdc.hosts == ["127.0.0.1"]
    assert _said(bench.broker) == [b"ticket", b"", b"S" + CHOICE]


def test_a_session_is_renewed_with_a_login_of_its_own(bench: Bench, kdc: Kdc) -> None:
    future = bench.ask()
    bench.poll_until(lambda: kdc.logins)
    kdc.answer()
    bench.client.poll(bench.clock.now() + 60, future)
    bench.client.poll(bench.clock.now() + 89.5)
    bench.poll_until(lambda: len(kdc.logins) == 2)
    kdc.answer()
    bench.poll_until(lambda: len(_said(bench.broker)) == 6)
    future = bench.ask()
    bench.client.poll(bench.clock.now() + 60, future)
    assert future.value.message.error_code == 0
    assert bench.broker.accepted == 1


def test_an_unreachable_kdc_is_tried_again(bench: Bench, kdc: Kdc) -> None:
    future = bench.ask()
    bench.poll_until(lambda: kdc.logins)
    kdc.answer(KafkaConnectionError("Kerberos for kafka/b: no KDC", stage="SASL"))
    bench.client.poll(bench.clock.now() + 60, future)
    assert isinstance(future.exception, KafkaConnectionError)
    assert not isinstance(future.exception, AuthenticationError)
    assert f"SASL with {bench.broker.address} failed: Kerberos for kafka/b: no KDC" in str(future.exception)
    future = bench.ask()
    bench.poll_until(lambda: len(kdc.logins) == 2)
    kdc.answer()
    bench.client.poll(bench.clock.now() + 60, future)
    assert future.value.message.error_code == 0


def test_a_missing_ticket_ends_the_login(bench: Bench, kdc: Kdc) -> None:
    future = bench.ask()
    bench.poll_until(lambda: kdc.logins)
    kdc.answer(AuthenticationError("Kerberos for kafka/b: no ticket: get one by kinit", stage="SASL"))
    bench.client.poll(bench.clock.now() + 60, future)
    assert isinstance(future.exception, AuthenticationError)
    assert "get one by kinit" in str(future.exception)


def test_a_silent_kdc_takes_the_time_of_a_handshake_and_its_login_is_given_up(bench: Bench, kdc: Kdc) -> None:
    future = bench.ask()
    bench.poll_until(lambda: kdc.logins)
    begun = bench.clock.now()
    bench.client.poll(begun + 60, future)
    assert 29 < bench.clock.now() - begun < 32  # request_timeout_ms
    assert isinstance(future.exception, KafkaConnectionError)
    assert not isinstance(future.exception, AuthenticationError)
    assert "no ticket from a KDC" in str(future.exception)
