"""Tests of the system calls of a client, and of a client in a forked child."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import IllegalStateError
from pyconsumer.network.channel import Channel, ChannelSettings, ChannelStats, LoginSignal
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.connection import Reply
from pyconsumer.network.dns import Endpoint, Lookup
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.selector import EVENT_READ, new_selector
from pyconsumer.protocol.api import ApiKey, decode_request_header, encode_response
from pyconsumer.protocol.messages import fetch
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import AutoSelector, ScriptedBroker, api_versions_response

MakeClient = Callable[..., NetworkClient]


class CountingSocket:
    """Counts the system calls of a socket."""

    calls = 0

    def __init__(self, family: int) -> None:
        self._inner = socket.socket(family, socket.SOCK_STREAM)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name in ("recv_into", "sendmsg", "connect_ex", "getsockopt", "setsockopt", "close"):
            CountingSocket.calls += 1
        return method

    def fileno(self) -> int:
        return self._inner.fileno()


class CountingSelector(AutoSelector):
    """Counts the system calls of a selector. A modify is two at most."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, real_wait_s=0.02)
        self.calls = 0
        register, modify, unregister, select = self.register, self.modify, self.unregister, self.select

        def count(function: Callable[..., Any], calls: int) -> Callable[..., Any]:
            def counted(*args: Any, **options: Any) -> Any:
                self.calls += calls
                return function(*args, **options)

            return counted

        for name, function, calls in (
            ("register", register, 1),
            ("modify", modify, 2),
            ("unregister", unregister, 1),
            ("select", select, 1),
        ):
            setattr(self, name, count(function, calls))


def connected(broker: ScriptedBroker, make_client: MakeClient) -> tuple[NetworkClient, ManualClock, CountingSelector]:
    clock = ManualClock(100.0)
    selector = CountingSelector(clock)
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    client = make_client(broker.address, clock=clock, selector=selector, open_socket=CountingSocket)
    assert client.metadata is not None
    while not client.metadata.update_count:
        client.poll(clock.now() + 10)
    selector.calls = CountingSocket.calls = 0
    return client, clock, selector


def test_an_idle_client_makes_few_system_calls(broker: ScriptedBroker, make_client: MakeClient) -> None:
    client, clock, selector = connected(broker, make_client)
    end = clock.now() + 100.0
    while clock.now() < end:
        client.poll(end)
    assert selector.calls + CountingSocket.calls <= 10


def test_an_idle_consumer_stays_under_ten_calls_a_second(broker: ScriptedBroker, make_client: MakeClient) -> None:
    """Empty fetches every 500 ms and a heartbeat every 3 s, as an idle consumer makes them."""
    client, clock, selector = connected(broker, make_client)
    broker.on(ApiKey.FETCH, fetch.FetchResponse())
    began, rounds = clock.now(), 20
    for number in range(rounds):
        future = client.send(0, fetch.FetchRequest, fetch.FetchRequest())
        if number % 6 == 0:
            client.send(0, HeartbeatRequest, HeartbeatRequest(group_id="g"))
        while not future.done:
            client.poll(clock.now() + 5.0, future)
        client.poll(began + (number + 1) * 0.5)
    seconds = clock.now() - began
    assert seconds >= rounds * 0.5
    assert (selector.calls + CountingSocket.calls) / seconds <= 10


def test_a_short_response_takes_one_read(broker: ScriptedBroker, make_client: MakeClient) -> None:
    client, clock, _ = connected(broker, make_client)
    future = client.send(0, HeartbeatRequest, HeartbeatRequest(group_id="g"))
    client.poll(clock.now() + 10, future)
    assert CountingSocket.calls == 2


def large_answer() -> fetch.FetchResponse:
    data = fetch.PartitionData(partition_index=0, records=bytes(1 << 20))
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic_id=b"t" * 16, partitions=[data])])


def to_be_read(broker: ScriptedBroker, make_client: MakeClient, *answers: fetch.FetchResponse) -> NetworkClient:
    """A client that knows node 0, which answers fetches."""
    broker.on(ApiKey.FETCH, list(answers))
    client = make_client(broker.address)
    assert client.metadata is not None
    while not client.metadata.update_count:
        client.poll(client.clock.now() + 10)
    return client


def asked(client: NetworkClient) -> RequestFuture[Any]:
    """A fetch from node 0 that has been sent."""
    future = client.send(0, fetch.FetchRequest, fetch.FetchRequest())
    client.flush()
    while not client.in_flight(0):
        client.poll(client.clock.now() + 10)
        client.flush()
    return future


def answered(client: NetworkClient, future: RequestFuture[Any]) -> None:
    client.poll(client.clock.now() + 60, future)
    assert future.succeeded


def mark_of(client: NetworkClient) -> int:
    """Return the number of bytes that the kernel waits for before it wakes a reader of the connection to node 0."""
    channel = client._pool.nodes[0].channel
    assert channel is not None
    return int(channel._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such mark")
class TestTakingInAhead:
    """The kernel buffers a large response while no caller waits. A caller that waits is woken for every byte."""

    def test_only_after_a_large_response_and_only_while_another_is_due(
        self, broker: ScriptedBroker, make_client: MakeClient
    ) -> None:
        small, large = fetch.FetchResponse(), large_answer()
        client = to_be_read(broker, make_client, small, large, large, small)
        marks = []
        for _ in range(5):
            future = asked(client)
            due = mark_of(client)
            answered(client, future)
            marks.append((due, mark_of(client)))
        assert [due > 1 for due, _ in marks] == [False, False, True, True, False]
        assert {after for _, after in marks} == {1}, "nothing is due any more"

    def test_a_waiting_caller_is_woken_by_a_few_bytes(self, broker: ScriptedBroker, make_client: MakeClient) -> None:
        client = to_be_read(broker, make_client, large_answer(), fetch.FetchResponse())
        answered(client, asked(client))
        future = asked(client)
        assert mark_of(client) > 1
        client.poll(client.clock.now() + 600, future)  # longer than a test may take
        assert future.succeeded

    def test_where_another_driver_waits_it_takes_a_step_before(
        self, broker: ScriptedBroker, make_client: MakeClient
    ) -> None:
        client = to_be_read(broker, make_client, large_answer())
        answered(client, asked(client))
        arranged: list[bool] = []
        loop_runs = True

        def arrange_step() -> bool:
            arranged.append(loop_runs)
            return loop_runs

        client.before_read_ahead(arrange_step)
        asked(client)
        assert arranged == [True]
        assert mark_of(client) > 1
        client.step(client.clock.now())
        assert mark_of(client) == 1
        loop_runs = False  # nobody will take a step any more
        client.arm_read_ahead()
        assert mark_of(client) == 1


class Wire:
    """A stub of a socket, its selector and the broker behind it that counts system calls.

    Args:
        held: bytes that the system holds for the reader at most: one read gives no more.
    """

    def __init__(self, held: int, records: bytes) -> None:
        self.calls = 0
        self._held = held
        self._records = records
        self._incoming = memoryview(b"")

    def __getattr__(self, name: str) -> Any:  # setblocking, register and the like
        def call(*_: Any) -> int:
            self.calls += 1
            return 0

        return call

    def sendmsg(self, pieces: list[memoryview]) -> int:
        self.calls += 1
        request = b"".join(pieces)
        header = decode_request_header(request[4:])
        data = fetch.PartitionData(partition_index=0, records=self._records)
        topic = fetch.FetchableTopicResponse(topic_id=b"t" * 16, partitions=[data])
        answer = fetch.FetchResponse(responses=[topic]) if header.api_key == ApiKey.FETCH else api_versions_response()
        self._incoming = memoryview(b"".join(encode_response(answer, header.api_version, header.correlation_id)))
        return len(request)

    def recv_into(self, view: memoryview) -> int:
        self.calls += 1
        count = min(len(view), self._held, len(self._incoming))
        if not count:
            raise BlockingIOError
        view[:count] = self._incoming[:count]
        self._incoming = self._incoming[count:]
        return count

    def select(self) -> bool:
        self.calls += 1
        return len(self._incoming) > 0


@pytest.mark.parametrize(("held", "most"), [(1 << 30, 4), (256 << 10, 8 * 4 + 4)])
def test_a_fetch_of_four_mib_takes_few_system_calls(held: int, most: int) -> None:
    """One write, then for each part that the kernel holds a wait and a read: about one call per MiB if it holds all."""
    records = bytes(4 << 20)
    wire = Wire(held, records)
    lookup = Lookup("h", 1, None)
    lookup.endpoints, lookup.done = [Endpoint(socket.AF_INET, ("h", 1), "h")], True
    channel = Channel(
        "h:1",
        None,
        lookup,
        ChannelSettings(LoginSignal(), itertools.count(), open_socket=lambda family: wire),
        wire,
        ChannelStats(),
    )

    def receive() -> list[Reply]:
        replies: list[Reply] = []
        while not replies and wire.select():
            channel.on_event(EVENT_READ, 0.0, replies)
        return replies

    channel.start(0.0)
    receive()
    assert channel.ready
    wire.calls = 0

    assert channel.connection is not None
    channel.connection.send(fetch.FetchRequest(), 17, None, 0.0)
    channel.flush()
    (reply,) = receive()

    assert bytes(reply.message.responses[0].partitions[0].records) == records
    assert wire.calls <= most


def test_a_dead_cluster_is_no_reason_to_spin(make_client: MakeClient, broker: ScriptedBroker) -> None:
    client, clock, selector = connected(broker, make_client)
    broker.close()
    selector.real_wait_s = 0.0
    end = clock.now() + 60.0
    while clock.now() < end:
        client.poll(end)
    assert (selector.calls + CountingSocket.calls) / 60.0 < 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_cannot_use_the_client_and_does_not_disturb_the_parent(
    broker: ScriptedBroker, make_client: MakeClient
) -> None:
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    client = make_client(metadata=None)
    node = BrokerMetadata(1, "127.0.0.1", broker.port)

    def ask() -> None:
        future = client.send(node, HeartbeatRequest, HeartbeatRequest(group_id="g"))
        client.poll(client.clock.now() + 20, future)
        assert future.succeeded

    ask()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in (
                lambda: client.poll(0.0),
                lambda: client.send(1, HeartbeatRequest, HeartbeatRequest()),
                client.flush,
            ):
                try:
                    call()
                except IllegalStateError:
                    refused += 1
            client.wakeup()
            client.close()
        finally:
            os.write(write_end, b"%d" % refused)
            os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 10) == b"3"
    os.close(read_end)
    os.waitpid(child, 0)
    ask()
    assert client.stats.connections_created == 1
    assert broker.accepted == 1


def test_the_selector_of_the_system_can_be_watched_itself() -> None:
    selector = new_selector()
    try:
        assert selector.fileno() >= 0  # type: ignore[attr-defined]
    finally:
        selector.close()
