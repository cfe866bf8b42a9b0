"""Counters of a network client: connections, requests, bytes and waiting, in all and by node.

The thread that owns the client writes, and any thread reads. :meth:`ChannelStats.selected` begins new windows for all
of them, and so does :meth:`ChannelStats.requested`, because a client may send after a long time without a select. The
other methods are only additions. A node's counters go an hour after its last use, and not while a connection is open.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyconsumer.metrics.windows import Counters, Windows

__all__ = ["ChannelStats", "NodeStats"]

#: A node's counters are kept for this long after its last use (seconds).
_KEPT_S: Final = 3600.0


class NodeStats(Counters):
    """Counters of one connection to a node. Times are in seconds.

    Attributes:
        last_used_at: when the last window began in which something was sent or received, in monotonic seconds.
        connections: connections to the node that are open or being established.
    """

    TOTALS: ClassVar[tuple[str, ...]] = (
        "requests",
        "request_bytes",
        "responses",
        "latency",
        "bytes_received",
        "bytes_sent",
        "transfers",
    )
    PEAKS: ClassVar[tuple[str, ...]] = ("largest_request", "longest_latency")
    __slots__ = (*TOTALS, *PEAKS, "connections", "last_used_at")

    requests: int
    request_bytes: int
    responses: int
    latency: float
    bytes_received: int
    bytes_sent: int
    transfers: int
    largest_request: float
    longest_latency: float

    def __init__(self, windows: Windows, now: float) -> None:
        super().__init__(windows, now)
        self.last_used_at = now
        self.connections = 0

    def attached(self) -> None:
        """Count a connection that begins."""
        self.connections += 1

    def detached(self) -> None:
        """Count a connection that is over."""
        self.connections -= 1

    def is_used(self, now: float) -> bool:
        """Return whether a connection is open, or one was used in the last hour."""
        return self.connections > 0 or now - self.last_used_at < _KEPT_S

    def received(self, size_bytes: int) -> None:
        """Count a read."""
        self.transfers += 1
        self.bytes_received += size_bytes

    def sent(self, size_bytes: int) -> None:
        """Count a write."""
        self.transfers += 1
        self.bytes_sent += size_bytes

    def requested(self, size_bytes: int) -> None:
        """Count a request."""
        self.requests += 1
        self.request_bytes += size_bytes
        if size_bytes > self.largest_request:
            self.largest_request = size_bytes

    def responded(self, seconds: float) -> None:
        """Count a response."""
        self.responses += 1
        self.latency += seconds
        if seconds > self.longest_latency:
            self.longest_latency = seconds

    def begin_window(self, now: float) -> bool:
        """Begin a window, and return False if the node has not been used for so long that it can be forgotten."""
        if self.connections > 0 or self.transfers != self.at_start("transfers"):
            self.last_used_at = now
        self.roll(now)
        return self.is_used(now)


class ChannelStats(NodeStats):
    """Counters of all channels of a client. Times are in seconds.

    Attributes:
        connections_failed: connections that were lost or could not be established.
        nodes: the counters by node, under the key of its connection (see ``ConnectionPool.key``).
    """

    TOTALS: ClassVar[tuple[str, ...]] = (
        *NodeStats.TOTALS,
        "connections_created",
        "connections_closed",
        "authentications",
        "refusals",
        "reauthentications",
        "reauthentication",
        "later_refusals",
        "selects",
        "waited",
        "worked",
    )
    PEAKS: ClassVar[tuple[str, ...]] = (*NodeStats.PEAKS, "longest_reauthentication")
    __slots__ = (*TOTALS[len(NodeStats.TOTALS) :], "connections_failed", "longest_reauthentication", "nodes", "windows")

    connections_created: int
    connections_closed: int
    authentications: int
    refusals: int
    reauthentications: int
    reauthentication: float
    later_refusals: int
    selects: int
    waited: float
    worked: float
    longest_reauthentication: float

    def __init__(self, windows: Windows | None = None, now: float = 0.0) -> None:
        self.windows = windows or Windows()
        super().__init__(self.windows, now)
        self.connections_failed = 0
        self.nodes: dict[int, NodeStats] = {}

    def node(self, key: int, now: float) -> NodeStats:
        """Return the counters of a node. The first call creates them."""
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = NodeStats(self.windows, now)
        return found

    def rename(self, before: int, key: int) -> None:
        """Keep the counters of a bootstrap address under the broker's id, which is known now.

        The connection goes on writing to the same object, so that object stays. It takes over the values of an earlier
        connection to the broker.
        """
        found = self.nodes.pop(before, None)
        if found is None:
            return
        earlier = self.nodes.get(key)
        if earlier is not None:
            found.absorb(earlier)
        self.nodes[key] = found

    def count_request(self, size_bytes: int, now: float) -> None:
        """Count a request, and begin new windows before if the current ones are over."""
        if now >= self.ends_at:
            self.begin_windows(now)
        self.requested(size_bytes)

    @property
    def open_connections(self) -> int:
        """The number of established connections."""
        return max(0, self.connections_created - self.connections_closed)

    def created(self) -> None:
        """Count a connection that was established."""
        self.connections_created += 1

    def closed(self) -> None:
        """Count a connection that was established before and is closed now."""
        self.connections_closed += 1

    def failed(self) -> None:
        """Count a connection that was lost or could not be established."""
        self.connections_failed += 1

    def authenticated(self) -> None:
        """Count a TLS or SASL handshake."""
        self.authentications += 1

    def reauthenticated(self, seconds: float) -> None:
        """Count a repeated login (KIP-368)."""
        self.reauthentications += 1
        self.reauthentication += seconds
        if seconds > self.longest_reauthentication:
            self.longest_reauthentication = seconds

    def refused(self, *, again: bool) -> None:
        """Count a login that failed, or a repeated one (``again``)."""
        if again:
            self.later_refusals += 1
        else:
            self.refusals += 1

    def selected(self, began_at: float, now: float) -> None:
        """Count a call of the selector, and begin new windows if the current ones are over."""
        if now >= self.ends_at:
            start = self.split_at(began_at, now)
            if start > began_at:
                self.waited += start - began_at
                began_at = start
            self.begin_windows(start)
        self.selects += 1
        self.waited += now - began_at

    def served(self, seconds: float) -> None:
        """Count time that was spent on sockets."""
        self.worked += seconds

    def begin_windows(self, now: float) -> None:
        """Begin windows of all counters, and forget the nodes that are not used any more."""
        self.roll(now)
        for key, node in list(self.nodes.items()):
            if not node.begin_window(now):
                del self.nodes[key]

    def nodes_in_use(self, now: float) -> list[tuple[int, NodeStats]]:
        """Return the nodes that are connected or were used in the last hour. Any thread may call this."""
        return [(key, node) for key, node in list(self.nodes.items()) if node.is_used(now)]
