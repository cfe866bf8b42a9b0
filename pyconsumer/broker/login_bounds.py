"""Bounds of connections whose clients have not logged in, and the log of failed logins. The module has no timer.

Rules
1. A login, including the handshake of TLS, has a time. When it is over, the connection is closed.
2. There is a most of such connections. Beyond it the oldest one of the address that has the most of them is closed. So
   half-open connections of one address cannot keep those of other addresses out. The addresses of a network of IPv6
   (64 bits) count as one, because one machine may have them all.
3. A failed login is logged once for each address in 60 s. The next line says how many there were since.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pyconsumer.background_log import Log

__all__ = ["FailedLogins", "PendingLogins"]

_log = Log(__name__)

_REPORT_S: Final = 60.0
_MOST_ADDRESSES: Final = 1000

C = TypeVar("C")


class PendingLogins(Generic[C]):
    """The connections whose clients have not logged in, the oldest first, and those of each address.

    Args:
        limit_s: the time of a login. ``most`` is the largest number of connections.
        close: closes a connection.
    """

    def __init__(self, limit_s: float, most: int, close: Callable[[C], None]) -> None:
        self._limit_s = limit_s
        self._most = most
        self._close = close
        self._pending: dict[C, tuple[float, str]] = {}  # the time of the end, and the network
        self._networks: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, connection: C, host: str, now: float) -> None:
        """Add a new connection from an address."""
        network = _network(host)
        if len(self._pending) >= self._most:
            # The new one counts, too: an address that has as many as any other gives way itself.
            counts = {name: len(those) + (name == network) for name, those in self._networks.items()}
            crowded = max(counts, key=lambda name: (counts[name], name == network))
            self._end(next(iter(self._networks[crowded])))
        self._pending[connection] = now + self._limit_s, network
        self._networks.setdefault(network, {})[connection] = None

    def remove(self, connection: C) -> None:
        """Remove a connection whose client has logged in, or which was closed."""
        found = self._pending.pop(connection, None)
        if found is not None:
            those = self._networks[found[1]]
            del those[connection]
            if not those:
                del self._networks[found[1]]

    def close_late(self, now: float) -> float | None:
        """Close the connections whose time is over. Return the time at which the next one is due, or None."""
        while self._pending:
            connection, (until, _) = next(iter(self._pending.items()))
            if until > now:
                return until
            self._end(connection)
        return None

    def _end(self, connection: C) -> None:
        self.remove(connection)
        self._close(connection)


def _network(host: str) -> str:
    """Return the address, or the network of an address of IPv6."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or int(address) >> 64)


class FailedLogins:
    """Logs failed logins by address."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, int]] = {}

    def add(self, host: str, now: float) -> None:
        """Count a failed login."""
        began, count = self._since.get(host, (now - _REPORT_S, 0))
        if now - began < _REPORT_S:
            self._since[host] = began, count + 1
            return
        _log.warning(
            "a login from %s has failed%s; this is logged once a minute",
            host,
            f", and {count} before it" if count else "",
        )
        if len(self._since) >= _MOST_ADDRESSES:
            self._since.clear()
        self._since[host] = now, 0
