"""Looks up host names in a helper thread.

Looking up a name blocks, for many seconds if it must, so it is done in a helper thread.

Each lookup has a thread of its own: one dead name server delays only its own lookup. IP addresses need none.
"""

from __future__ import annotations

import _thread
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from pyconsumer.background_log import background
from pyconsumer.errors import KafkaConnectionError
from pyconsumer.settings.config import Address

__all__ = ["Endpoint", "Lookup", "NameService", "address_problem", "printable_address", "resolve"]

_LONGEST_NAME = 255  # RFC 1035, 2.3.4
_MAX_PORT = 65535


class Endpoint(NamedTuple):
    """One address of a name. ``host`` is the name that the TLS certificate must have."""

    family: int
    sockaddr: tuple[Any, ...]
    host: str

    def __str__(self) -> str:
        return str(Address(str(self.sockaddr[0]), int(self.sockaddr[1])))


Resolver = Callable[[str, int, bool], list[Endpoint]]
"""``(host, port, canonical)`` to endpoints in the order to try them. Raises OSError."""


def resolve(host: str, port: int, canonical: bool = False) -> list[Endpoint]:
    """Ask the system for the addresses of a name. This may block.

    Args:
        canonical: True replaces the name of each address by the one that a reverse lookup finds (KIP-235).

    Raises:
        OSError: the name is unknown, or no name server responds.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    endpoints = dict.fromkeys(Endpoint(family, tuple(sockaddr), host) for family, _, _, _, sockaddr in found)
    if not canonical:
        return list(endpoints)
    return [endpoint._replace(host=_canonical(endpoint)) for endpoint in endpoints]


def address_problem(host: str, port: int) -> str | None:
    """Return the reason why no broker can listen at this address, or None.

    Brokers have been seen to advertise such addresses.
    """
    if not host:
        return "the host is empty"
    if len(host) > _LONGEST_NAME:
        return f"the host has {len(host)} characters, more than the {_LONGEST_NAME} of the longest name"
    if not host.isprintable() or " " in host:
        return "the host contains characters that no name has"
    if not 0 <= port <= _MAX_PORT:
        return f"port {port} is not between 0 and {_MAX_PORT}"
    return None


def printable_address(host: str, port: int) -> str:
    """Return any address as text for messages. It is shortened, and unprintable characters are escaped."""
    shown = host if len(host) <= _LONGEST_NAME else f"{host[:40]}..."
    return str(Address(shown if shown.isprintable() else ascii(shown)[1:-1], port))


def _canonical(endpoint: Endpoint) -> str:
    try:
        return socket.getnameinfo(endpoint.sockaddr, socket.NI_NAMEREQD)[0]
    except OSError:
        return endpoint.host


class Lookup:
    """A name that is being looked up. When ``done`` is True, either ``endpoints`` or ``error`` is set.

    ``at_once`` is True if the lookup was done as soon as it started. It is False for a lookup that a thread has
    finished in the meantime. :meth:`NameService.take` will return that lookup, and it must not be used twice.
    """

    __slots__ = ("at_once", "done", "endpoints", "error", "host", "owner", "port")

    def __init__(self, host: str, port: int, owner: Any) -> None:
        self.host, self.port, self.owner = host, port, owner
        self.done = self.at_once = False
        self.endpoints: list[Endpoint] = []
        self.error: KafkaConnectionError | None = None

    def finish(self, resolver: Resolver, canonical: bool) -> None:
        """Look the name up now, in the current thread."""
        cause: object = "the name has no address"
        try:
            self.endpoints = resolver(self.host, self.port, canonical)
        except (OSError, OverflowError, ValueError) as error:  # UnicodeError is a ValueError
            cause = error
        if not self.endpoints:
            self.fail(f"failed: {cause}")
        self.done = True

    def succeed_at_once(self, endpoint: Endpoint) -> None:
        """End the lookup at once with this endpoint, because the name is an IP address."""
        self.endpoints, self.done, self.at_once = [endpoint], True, True

    def fail(self, why: str, *, at_once: bool = False) -> None:
        """End the lookup without an address. In the error, ``why`` follows the name."""
        self.at_once = at_once
        name = printable_address(self.host, self.port)
        self.error = KafkaConnectionError(f"DNS lookup of {name} {why}", stage="DNS", address=name)
        self.done = True


class NameService:
    """Looks names up in helper threads.

    Args:
        wake: called from a helper thread when :meth:`take` has something to return.
        resolver: the function that looks a name up. By default :func:`resolve`.
    """

    def __init__(self, wake: Callable[[], None], resolver: Resolver | None = None) -> None:
        self._wake = wake
        self._resolver = resolver or resolve
        #: Lookups that :meth:`take` returns; for others only to look at.
        self.finished: deque[Lookup] = deque()

    def start(self, host: str, port: int, owner: Any, *, canonical: bool = False) -> Lookup:
        """Start to look up a name.

        For an IP address, and for an address at which no broker can listen, the lookup is done when this returns.
        :meth:`take` does not return such a lookup.
        """
        lookup = Lookup(host, port, owner)
        problem = address_problem(host, port)
        if problem is not None:
            lookup.fail(f"refused: {problem}; check advertised.listeners of the broker", at_once=True)
            return lookup
        endpoint = None if canonical else _literal(host, port)
        if endpoint is not None:
            lookup.succeed_at_once(endpoint)
            return lookup

        @background()
        def run() -> None:
            lookup.finish(self._resolver, canonical)
            self.finished.append(lookup)
            self._wake()

        # Not threading.Thread: its start() waits for the thread, and Ctrl-C in that wait is a RuntimeError.
        _thread.start_new_thread(run, ())
        return lookup

    def take(self) -> list[Lookup]:
        """Return the lookups that have finished since the last call."""
        found = []
        while self.finished:
            found.append(self.finished.popleft())
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
