"""A connection of the broker without a network: what it does with requests that came before it answered others."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.connection import Connection
from pyconsumer.broker.handlers import handler_of
from pyconsumer.broker.security import Session
from pyconsumer.protocol.api import decode_response, encode_request
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest
from pyconsumer.protocol.messages.produce import ProduceRequest
from pyconsumer.protocol.schema import Message
from tests.unit.group.support import World

MEMBERS = 150


class NoLoop:
    """An event loop on which nothing happens by itself."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def add_reader(self, *_: Any) -> None: ...

    remove_reader = add_writer = remove_writer = add_reader


class Sink:
    """A socket that takes everything at once, or with ``full`` nothing."""

    full = closed = False

    def __init__(self) -> None:
        self.answers = 0
        self.last = b""

    def sendmsg(self, buffers: list[bytes]) -> int:
        if self.full:
            raise BlockingIOError
        self.answers += 1
        self.last = b"".join(buffers)
        return len(self.last)

    def close(self) -> None:
        self.closed = True


class Client:
    """One connection, with requests that are on their way already when it is served."""

    def __init__(self, world: World) -> None:
        self.sink = Sink()
        broker = SimpleNamespace(clock=world.clock, timer=world.timer, faults=None, group_coordinator=world.coordinator)
        server: Any = SimpleNamespace(loop=NoLoop(), broker=broker, max_request_bytes=1 << 20, max_login_bytes=1 << 20)
        server.forget = lambda connection: None
        self.connection = Connection(server, self.sink, "PLAINTEXT", "/h", Session(), None)  # type: ignore[arg-type]

    def send(self, *requests: tuple[Message, int]) -> None:
        for number, (request, version) in enumerate(requests):
            self.connection._feed(memoryview(b"".join(encode_request(request, version, number, "c"))))
        self.connection._pump()


def test_requests_that_are_answered_at_once_are_served_by_one_loop() -> None:
    client = Client(World())
    many = 2 * sys.getrecursionlimit()
    client.send(*[(ApiVersionsRequest(), 0)] * many)
    assert client.sink.answers == many


def test_the_members_of_a_large_group_may_send_ahead(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    clients = [Client(world) for _ in range(MEMBERS)]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    for client in clients:
        client.send((join, 3), (OffsetFetchRequest(group_id="g", topics=[]), 5))
    world.advance(60)
    assert [client.sink.answers for client in clients] == [2] * MEMBERS
    assert not any(client.connection.busy for client in clients)
    assert not caplog.records


def test_a_client_that_does_not_read_is_idle() -> None:
    client = Client(World())
    client.sink.full = True
    client.send((ApiVersionsRequest(), 0), (ApiVersionsRequest(), 0))
    assert client.sink.answers == 0
    assert not client.connection.busy
    before = client.connection.last_active
    client.connection._loop.now = before + 60  # type: ignore[attr-defined]
    client.connection._on_writable()
    assert client.connection.last_active == before
    client.sink.full = False
    client.connection._on_writable()
    assert client.sink.answers == 2
    assert client.connection.last_active == before + 60


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left on device"), 56), (ZeroDivisionError(), -1)],
    ids=["disk", "mistake"],
)
class TestAHandlerThatCannotGoOn:
    @pytest.fixture(autouse=True)
    def broken(self, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        async def handle(*_: Any) -> None:
            raise error

        known = handler_of
        monkeypatch.setattr(
            "pyconsumer.broker.connection.handler_of", lambda api_key: known(api_key)._replace(handle=handle)
        )

    def test_the_client_is_told(self, code: int) -> None:
        client = Client(World())
        client.send((InitProducerIdRequest(None), 4))
        answer = decode_response(InitProducerIdRequest.API_KEY, 4, client.sink.last[4:])[1]
        assert answer.error_code == code
        assert not client.connection.busy
        client.send((InitProducerIdRequest(None), 4))
        assert (client.sink.answers, client.sink.closed) == (2, False)

    def test_without_acks_the_connection_is_closed(self, code: int) -> None:
        client = Client(World())
        client.send((ProduceRequest(acks=0), 9))
        assert (client.sink.answers, client.sink.closed) == (0, True)
