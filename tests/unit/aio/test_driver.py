"""The driver on an event loop resumes a call after an event, at any moment of the event."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Iterator

import pytest

from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver, yield_to_loop
from pyconsumer.clock import ManualClock
from pyconsumer.network.futures import Steps, Wait


class _Client:
    """A network client whose events are triggered by the test."""

    closed = False
    is_ahead = False

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)

    def fileno(self) -> int:
        return self.ours.fileno()

    def step(self, now: float) -> tuple[float, bool]:
        self.is_ahead = False
        try:
            return math.inf, bool(self.ours.recv(64))
        except BlockingIOError:
            return math.inf, False

    def before_read_ahead(self, arrange_step: Callable[[], object]) -> None:
        self._schedule_service = arrange_step

    def arm_read_ahead(self) -> None:
        self.is_ahead = bool(self._schedule_service())

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client() -> Iterator[_Client]:
    made = _Client(ManualClock())
    yield made
    made.ours.close()
    made.theirs.close()


@pytest.fixture
def driver(client: _Client) -> Iterator[LoopDriver]:
    made = LoopDriver(client, "AsyncKafkaConsumer")  # type: ignore[arg-type]
    yield made
    made.close()


def _waits(happened: list[str], name: str) -> Steps[None]:
    """Wait for the next event."""
    happened.append(f"{name} waits")
    yield Wait(None, math.inf)
    happened.append(f"{name} resumed")


@pytest.mark.asyncio
async def test_an_event_while_a_call_yields_resumes_it(client: _Client, driver: LoopDriver) -> None:
    """A call has occupied the loop for long, so others run before it waits. While one waits, sockets are served."""
    happened: list[str] = []

    def long_call() -> Steps[None]:
        client.theirs.send(b"a response")
        client.clock.advance(LONGEST_TURN_S * 2)
        yield from _waits(happened, "second")

    async with asyncio.timeout(10):
        first = asyncio.create_task(driver.run(_waits(happened, "first")))
        await asyncio.sleep(0)
        await asyncio.gather(first, driver.run(long_call()))
    assert happened == ["first waits", "second waits", "first resumed", "second resumed"]


@pytest.mark.asyncio
async def test_a_recheck_while_a_call_yields_resumes_it(client: _Client, driver: LoopDriver) -> None:
    """Another call ends its work in the round in which this one lets others run. No response says so."""
    happened: list[str] = []

    def long_call() -> Steps[None]:
        client.clock.advance(LONGEST_TURN_S * 2)
        asyncio.get_running_loop().call_soon(driver.recheck)
        yield from _waits(happened, "call")

    async with asyncio.timeout(1):
        await driver.run(long_call())
    assert happened == ["call waits", "call resumed"]


@pytest.mark.asyncio
async def test_a_call_that_yields_with_complete_data_does_not_read(client: _Client, driver: LoopDriver) -> None:
    """The kernel buffers data in the meantime and acknowledges it ahead, until the loop would wait."""
    driver.bind()
    client.theirs.send(b"a response")
    for _ in range(3):
        await driver.let_others_run()
        assert client.is_ahead
    await yield_to_loop()  # rounds of the loop in which no call gives way
    assert not client.is_ahead
    with pytest.raises(BlockingIOError):
        client.ours.recv(64)


@pytest.mark.asyncio
async def test_the_sockets_are_served_before_the_loop_waits(client: _Client, driver: LoopDriver) -> None:
    """No socket is readable as long as the kernel takes data in ahead, so the loop must not wait then."""
    loop = driver.bind()
    client.arm_read_ahead()
    assert client.is_ahead
    waited: asyncio.Future[bool] = loop.create_future()
    loop.call_later(0.001, lambda: waited.set_result(client.is_ahead))
    assert await waited is False


def test_a_closed_loop_takes_no_data_in_ahead(client: _Client, driver: LoopDriver) -> None:
    async def begin() -> None:
        driver.bind()

    asyncio.run(begin())
    client.arm_read_ahead()
    assert not client.is_ahead
