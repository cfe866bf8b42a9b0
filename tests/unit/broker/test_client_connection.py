"""A connection of the broker without a network, and the order of requests and responses on it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.client_connection import ClientConnection
from pyconsumer.broker.handlers import SERVED, handler_of
from pyconsumer.broker.outgoing import SendTurns
from pyconsumer.broker.security import Session
from pyconsumer.protocol.api import decode_response, encode_request
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.fetch import FetchRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest
from pyconsumer.protocol.messages.produce import ProduceRequest, ProduceResponse
from pyconsumer.protocol.schema import Message
from tests.unit.broker.group.support import World

MEMBERS = 150


class NoLoop:
    """An event loop that runs only requested calls, when :meth:`run` is called."""

    now = 0.0

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.scheduled.append(callback)

    def run(self) -> int:
        """Run requested calls until none is left. Return the number of turns."""
        turns = 0
        while self.scheduled:
            turns += 1
            now, self.scheduled = self.scheduled, []
            for callback in now:
                callback()
        return turns

    def add_reader(self, *_: Any) -> None: ...

    remove_reader = add_writer = remove_writer = add_reader


class Sink:
    """A socket that takes all bytes at once, or with ``full`` none."""

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
    """One connection, with requests that arrived before it is served."""

    def __init__(
        self, world: World, loop: NoLoop | None = None, sink: Any = None, noted: set[tuple[str, int]] | None = None
    ) -> None:
        self.sink = Sink() if sink is None else sink
        self.loop = NoLoop() if loop is None else loop
        broker = SimpleNamespace(
            clock=world.clock,
            timer=world.timer,
            faults=None,
            authorizer=None,
            logs=SimpleNamespace(folder=None),
            rates=SimpleNamespace(quotas=SimpleNamespace(exist=False)),
            group_coordinator=world.coordinator,
            controller=SimpleNamespace(features={}, features_epoch=0),
        )
        server: Any = SimpleNamespace(
            loop=self.loop,
            broker=broker,
            max_request_bytes=100 << 20,
            max_login_bytes=1 << 20,
            trailing_noted=set() if noted is None else noted,
            turns=SendTurns(self.loop.call_soon),
            scratch=memoryview(bytearray(256 << 10)),
        )
        server.forget = lambda connection: None
        self.connection = ClientConnection(server, self.sink, "PLAINTEXT", "/h", Session(), None)  # type: ignore[arg-type]

    def send(self, *requests: tuple[Message, int]) -> None:
        for number, (request, version) in enumerate(requests):
            self.connection._feed(memoryview(b"".join(encode_request(request, version, number, "c"))))
        self.connection._pump()
        self.loop.run()


def test_connections_take_turns() -> None:
    loop = NoLoop()
    order: list[str] = []

    class Named(Sink):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def sendmsg(self, buffers: list[bytes]) -> int:
            order.append(self.name)
            return super().sendmsg(buffers)

    greedy, modest = (Client(World(), loop, Named(name)) for name in "gm")
    frame = b"".join(encode_request(ApiVersionsRequest(), 0, 1, "c"))
    greedy.connection._feed(memoryview(frame * 1000))
    greedy.connection._pump()
    modest.connection._feed(memoryview(frame * 2))
    modest.connection._pump()
    greedy.connection._feed(memoryview(frame))  # more that came gives it no further turn
    greedy.connection._pump()
    assert order == ["g", "m"]
    loop.run()
    assert order[:6] == ["g", "m", "g", "m", "g", "g"]
    assert len(order) == 1003


class Dribble(Sink):
    """A socket that receives a frame in pieces."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.left = data
        self.piece = 0

    def recv_into(self, buffer: memoryview) -> int:
        count = min(self.piece, len(buffer), len(self.left))
        buffer[:count] = self.left[:count]
        self.left = self.left[count:]
        return count


def test_a_size_alone_takes_no_memory() -> None:
    size = 4 << 20
    sinks = [Dribble(size.to_bytes(4, "big") + bytes(300_000)) for _ in range(100)]
    clients = [Client(World(), sink=sink) for sink in sinks]
    for more, most in ((4, 0), (1, 100 << 10), (1000, 100 << 10), (200_000, 1 << 20)):
        for client, sink in zip(clients, sinks, strict=True):
            sink.piece = more
            client.connection._on_readable()
            assert not sink.closed
            body = client.connection._body
            assert body is not None
            assert sys.getsizeof(body) <= most + 200, more


@pytest.mark.parametrize("piece", [1, 5, 1000, 65_536, 10**6, 10**7])
def test_a_frame_that_comes_in_pieces_is_whole(piece: int) -> None:
    content = bytes(range(256)) * (4 if piece < 100 else 400 if piece < 10_000 else 20_000)
    sink = Dribble(2 * (len(content).to_bytes(4, "big") + content))
    client = Client(World(), sink=sink)
    client.connection._pump = lambda: None  # type: ignore[method-assign]
    sink.piece = piece
    while sink.left:
        client.connection._on_readable()
    assert list(client.connection._frames) == [content, content]


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
            "pyconsumer.broker.client_connection.handler_of", lambda api_key: known(api_key)._replace(handle=handle)
        )

    def test_the_client_gets_an_error_response(self, code: int) -> None:
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


def test_only_a_throttled_answer_has_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests a client sends ahead, one timer for its connection is enough."""
    served = handler_of(ApiKey.PRODUCE)
    assert served is not None

    async def handle(*_: Any) -> ProduceResponse:
        return ProduceResponse(responses=[])

    quick = served._replace(handle=handle, check=None)
    monkeypatch.setattr("pyconsumer.broker.client_connection.handler_of", lambda key: quick)
    world = World()
    client = Client(world)
    before = len(world.timer)
    throttle_ms = [0]
    client.connection._broker.rates = SimpleNamespace(  # type: ignore[assignment]
        quotas=SimpleNamespace(exist=True), produced=lambda *_: throttle_ms[0]
    )
    client.send(*[(ProduceRequest(acks=1), 9)] * 20)
    assert (client.sink.answers, len(world.timer)) == (20, before)

    throttle_ms[0] = 500
    client.send(*[(ProduceRequest(acks=1), 9)] * 20)
    for answered in range(21, 41):
        assert (client.sink.answers, len(world.timer)) == (answered, before + 1)
        world.advance(0.5)
        client.loop.run()
    assert (client.sink.answers, len(world.timer)) == (40, before)


@pytest.mark.parametrize("api_key", sorted(SERVED), ids=lambda key: ApiKey(key).name)
def test_bytes_after_a_complete_request_are_ignored(
    api_key: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As Java's broker does. librdkafka 2.16 sends three of them after Metadata version 13."""
    seen: list[Message] = []

    async def handle(broker: Any, request: Message, context: Any) -> None:
        seen.append(request)

    known = handler_of
    monkeypatch.setattr(
        "pyconsumer.broker.client_connection.handler_of", lambda key: known(key)._replace(handle=handle, check=None)
    )
    client = Client(World())
    served = handler_of(api_key)
    assert served is not None
    for version in range(served.min_version, served.max_version + 1):
        for extra in (b"", b"\0", b"\0\0\0", b"\xff" * 40):
            frame = b"".join(encode_request(load(api_key)[0](), version, 1, "c"))[4:] + extra
            client.connection._feed(memoryview(len(frame).to_bytes(4, "big") + frame))
            client.connection._pump()
            assert not client.sink.closed, (version, extra)
    assert len(seen) == 4 * (served.max_version - served.min_version + 1)
    assert len(caplog.records) == 1
    assert "after the end" in caplog.text


def test_they_are_logged_once_for_each_software_version_and_api(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(broker: Any, request: Message, context: Any) -> None:
        """Send no response."""

    known = handler_of
    monkeypatch.setattr(
        "pyconsumer.broker.client_connection.handler_of",
        lambda key: known(key) if key == ApiKey.API_VERSIONS else known(key)._replace(handle=handle, check=None),
    )
    noted: set[tuple[str, int]] = set()
    for version in ("2.15.0", "2.16.0", "2.16.0"):  # three connections of two versions
        client = Client(World(), noted=noted)
        client.send((ApiVersionsRequest(client_software_name="librdkafka", client_software_version=version), 3))
        for request, api_version in ((MetadataRequest(), 13), (MetadataRequest(), 12), (FetchRequest(), 12)):
            frame = b"".join(encode_request(request, api_version, 1, "c"))[4:] + b"\0\0\0"
            client.connection._feed(memoryview(len(frame).to_bytes(4, "big") + frame))
            client.connection._pump()
            client.loop.run()
    logged = [re.findall(r"request (\w+) .*\((.*)\) are ignored", message)[0] for message in caplog.messages]
    assert logged == [
        ("METADATA", "librdkafka 2.15.0"),
        ("FETCH", "librdkafka 2.15.0"),
        ("METADATA", "librdkafka 2.16.0"),
        ("FETCH", "librdkafka 2.16.0"),
    ]


def test_an_incomplete_body_is_rejected() -> None:
    client = Client(World())
    frame = b"".join(encode_request(ProduceRequest(acks=1), 9, 1, "c"))[4:-2]
    client.connection._feed(memoryview(len(frame).to_bytes(4, "big") + frame))
    client.connection._pump()
    assert client.sink.closed
