"""What a client costs the system, and what becomes of it in a forked child."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import IllegalStateError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.selector import new_selector
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages import fetch
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import AutoSelector, ScriptedBroker

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
    """Counts the system calls of a selector; modify is two in selectors2."""

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


def test_a_short_answer_takes_one_read(broker: ScriptedBroker, make_client: MakeClient) -> None:
    client, clock, _ = connected(broker, make_client)
    future = client.send(0, HeartbeatRequest, HeartbeatRequest(group_id="g"))
    client.poll(clock.now() + 10, future)
    assert CountingSocket.calls == 2


def test_a_dead_cluster_is_no_reason_to_spin(make_client: MakeClient, broker: ScriptedBroker) -> None:
    client, clock, selector = connected(broker, make_client)
    broker.close()
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
