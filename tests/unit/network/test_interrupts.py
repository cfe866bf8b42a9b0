"""Ctrl-C at any line of the network client: no connection hangs, and no request is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pyconsumer.network
from pyconsumer.errors import KafkaConnectionError, RequestCancelledError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.structs import BrokerMetadata
from tests.unit.network.broker import ScriptedBroker

HERE = str(Path(pyconsumer.network.__file__).parent)
BACKOFFS = ("reconnect_backoff_ms", "reconnect_backoff_max_ms", "retry_backoff_ms", "retry_backoff_max_ms")
STEP = 29  # lines from one interrupt to the next; all of them take half a minute
LONG = 5.0  # seconds; setting a connection up may take 10 s, an answer 30 s


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th line that runs in the package of the network."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.where = ""

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(HERE) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._line


def to_node(client: NetworkClient, port: int) -> RequestFuture[Any]:
    node = BrokerMetadata(0, "127.0.0.1", port)
    return client.send(node, HeartbeatRequest, HeartbeatRequest(group_id="g"), connection="coordinator")


def to_any(client: NetworkClient, port: int) -> RequestFuture[Any]:
    return client.send_any(FindCoordinatorRequest, FindCoordinatorRequest(coordinator_keys=["g"]), min_version=4)


def answered(client: NetworkClient, future: RequestFuture[Any]) -> bool:
    until = client.clock.now() + LONG
    while not future.done and client.clock.now() < until:
        client.poll(until, future)
    return future.done


@pytest.mark.slow
@pytest.mark.parametrize(("first", "ask"), [(1, to_node), (3, to_any)])
def test_polls_after_an_interrupt_by_ctrl_c_complete_the_work(
    first: int,
    ask: Callable[[NetworkClient, int], RequestFuture[Any]],
    broker: ScriptedBroker,
    make_client: Callable[..., NetworkClient],
) -> None:
    broker.on(ApiKey.HEARTBEAT, HeartbeatResponse())
    broker.on(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse())
    number = first
    while True:
        client = make_client(broker.address, config=dict.fromkeys(BACKOFFS, 1))
        future = ask(client, broker.port)
        interrupt = InterruptAt(number)
        try:
            with interrupt:
                answered(client, future)
        except KeyboardInterrupt:
            pass
        assert answered(client, future), f"nothing came of the request interrupted at {interrupt.where}"
        assert future.exception is None or isinstance(future.exception, (KafkaConnectionError, RequestCancelledError))
        for request in (to_node, to_any, to_node):
            later = request(client, broker.port)
            assert answered(client, later), f"no request goes through after {interrupt.where}"
        assert later.exception is None, interrupt.where
        until = client.clock.now() + LONG
        while client.in_flight() + client.unsent() and client.clock.now() < until:
            client.poll(until)  # metadata may be under way
        assert client.in_flight() == client.unsent() == 0, interrupt.where
        client.close()
        if not interrupt.where:
            break
        number += STEP
    assert number > 100
