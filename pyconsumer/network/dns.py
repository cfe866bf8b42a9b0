"""Names to addresses. Looking up a name blocks, for many seconds if it must, so it is done in a helper thread.

Each lookup has a thread of its own: one dead name server delays nothing else. IP addresses need none.
"""

from __future__ import annotations

import _thread
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from pyconsumer.config import Address
from pyconsumer.errors import KafkaConnectionError

__all__ = ["Endpoint", "Lookup", "NameService", "resolve"]


class Endpoint(NamedTuple):
    """One address that a name stands for. ``host`` is the name that a TLS certificate must be for."""

    family: int
    sockaddr: tuple[Any, ...]
    host: str

    def __str__(self) -> str:
        return str(Address(str(self.sockaddr[0]), int(self.sockaddr[1])))


Resolver = Callable[[str, int, bool], list[Endpoint]]
"""``(host, port, canonical)`` to endpoints in the order to try them; raises OSError."""


def resolve(host: str, port: int, canonical: bool = False) -> list[Endpoint]:
    """Ask the system. May block.

    Args:
        canonical: each address gets the name that a reverse lookup finds (KIP-235).

    Raises:
        OSError: the name is not known, or no name server answers.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    endpoints = dict.fromkeys(Endpoint(family, tuple(sockaddr), host) for family, _, _, _, sockaddr in found)
    if not canonical:
        return list(endpoints)
    return [endpoint._replace(host=_canonical(endpoint)) for endpoint in endpoints]


def _canonical(endpoint: Endpoint) -> str:
    try:
        return socket.getnameinfo(endpoint.sockaddr, socket.NI_NAMEREQD)[0]
    except OSError:
        return endpoint.host


class Lookup:
    """A name that is being looked up. ``endpoints`` or ``error`` is set when ``done`` is.

    ``at_once``: it was done when it was started. One that a thread finished meanwhile is not: :meth:`NameService.take`
    will give it out, and it must not be used twice.
    """

    __slots__ = ("at_once", "done", "endpoints", "error", "host", "owner", "port")

    def __init__(self, host: str, port: int, owner: Any) -> None:
        self.host, self.port, self.owner = host, port, owner
        self.done = self.at_once = False
        self.endpoints: list[Endpoint] = []
        self.error: KafkaConnectionError | None = None

    def finish(self, resolver: Resolver, canonical: bool) -> None:
        """Look it up now, in this thread."""
        cause: object = "the name has no address"
        try:
            self.endpoints = resolver(self.host, self.port, canonical)
        except (OSError, UnicodeError) as error:
            cause = error
        if not self.endpoints:
            name = Address(self.host, self.port)
            self.error = KafkaConnectionError(f"DNS lookup of {name} failed: {cause}", stage="DNS", address=str(name))
        self.done = True


class NameService:
    """Looks names up in helper threads.

    Args:
        wake: called from a helper thread when there is something to :meth:`take`.
        resolver: what asks; :func:`resolve` by default.
    """

    def __init__(self, wake: Callable[[], None], resolver: Resolver | None = None) -> None:
        self._wake = wake
        self._resolver = resolver or resolve
        self._finished: deque[Lookup] = deque()

    def start(self, host: str, port: int, owner: Any, *, canonical: bool = False) -> Lookup:
        """Start to look up a name. An IP address is done on return and is not given out by :meth:`take`."""
        lookup = Lookup(host, port, owner)
        endpoint = None if canonical else _literal(host, port)
        if endpoint is not None:
            lookup.endpoints, lookup.done, lookup.at_once = [endpoint], True, True
            return lookup

        def run() -> None:
            lookup.finish(self._resolver, canonical)
            self._finished.append(lookup)
            self._wake()

        # Not threading.Thread: its start() waits for the thread, and Ctrl-C in that wait is a RuntimeError.
        _thread.start_new_thread(run, ())
        return lookup

    def take(self) -> list[Lookup]:
        """The lookups that have finished since the last call."""
        found = []
        while self._finished:
            found.append(self._finished.popleft())
        return found


def _literal(host: str, port: int) -> Endpoint | None:
    try:
        socket.inet_pton(socket.AF_INET, host)
        return Endpoint(socket.AF_INET, (host, port), host)
    except OSError:
        pass
    try:
        socket.inet_pton(socket.AF_INET6, host)
    except OSError:
        return None
    return Endpoint(socket.AF_INET6, (host, port, 0, 0), host)
