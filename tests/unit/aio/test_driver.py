"""The driver on an event loop resumes a call when something has happened, whenever that was."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Iterator

import pytest

from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver
from pyconsumer.clock import ManualClock
from pyconsumer.network.futures import Steps, Wait


class _Client:
    """A network client to which something happens when the test says so."""

    closed = False

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)

    def fileno(self) -> int:
        return self.ours.fileno()

    def step(self, now: float) -> tuple[float, bool]:
        try:
            return math.inf, bool(self.ours.recv(64))
        except BlockingIOError:
            return math.inf, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client() -> Iterator[_Client]:
    made = _Client(ManualClock())
    yield made
    made.ours.close()
    made.theirs.close()


@pytest.mark.asyncio
async def test_what_happens_while_a_call_gives_way_resumes_it(client: _Client) -> None:
    """The call has kept the loop for long, so others run before it waits; one of them serves the sockets."""
    driver = LoopDriver(client, "AsyncKafkaConsumer")  # type: ignore[arg-type]
    rounds: list[int] = []

    def steps() -> Steps[str]:
        client.theirs.send(b"a response")
        client.clock.advance(LONGEST_TURN_S * 2)
        rounds.append(1)
        yield Wait(None, math.inf)
        return "resumed"

    try:
        async with asyncio.timeout(10):
            assert await driver.run(steps()) == "resumed"
    finally:
        driver.close()
    assert rounds == [1]
