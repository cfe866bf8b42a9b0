"""Listeners without a network: the behaviour when no descriptors are left to accept connections."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.broker.server import BrokerServer


class Loop:
    """An event loop that runs calls on request."""

    def __init__(self) -> None:
        self.readers: dict[Any, Callable[[], None]] = {}
        self.later: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, sock: Any, callback: Callable[..., None], *args: Any) -> None:
        self.readers[sock] = lambda: callback(*args)

    def remove_reader(self, sock: Any) -> bool:
        return self.readers.pop(sock, None) is not None

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None: ...

    def call_later(self, seconds: float, callback: Callable[..., None], *args: Any) -> Any:
        self.later.append((seconds, lambda: callback(*args)))
        return SimpleNamespace(cancel=lambda: None)


class Listener:
    """A listening socket that fails with ``error``."""

    error = errno.EMFILE
    closed = False

    def listen(self, backlog: int) -> None: ...

    def setblocking(self, flag: bool) -> None: ...

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 9092

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        raise OSError(self.error, os.strerror(self.error))

    def close(self) -> None:
        self.closed = True


def opened(listener: Listener) -> tuple[BrokerServer, Loop]:
    loop = Loop()
    broker: Any = SimpleNamespace(config=BrokerConfig({"connections.max.idle.ms": -1}))
    server = BrokerServer(broker, loop, SecurityConfig())  # type: ignore[arg-type]
    server.open("PLAINTEXT", "127.0.0.1", 0, held=listener)  # type: ignore[arg-type]
    server.accept()
    return server, loop


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_without_descriptors_a_listener_pauses_before_it_accepts_again(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    listener.error = error
    _, loop = opened(listener)
    loop.readers[listener]()
    assert loop.readers == {}
    assert len(caplog.records) == 1
    ((seconds, again),) = loop.later
    assert seconds == 1
    listener.error = errno.EAGAIN
    again()
    loop.readers[listener]()
    assert len(caplog.records) == 1


def test_a_listener_that_was_closed_in_between_stays_closed() -> None:
    listener = Listener()
    server, loop = opened(listener)
    loop.readers[listener]()
    server.close()
    assert listener.closed
    loop.later[-1][1]()
    assert loop.readers == {}


def test_a_client_that_gave_up_is_no_reason_to_rest() -> None:
    listener = Listener()
    listener.error = errno.ECONNABORTED
    _, loop = opened(listener)
    loop.readers[listener]()
    assert list(loop.readers) == [listener]
