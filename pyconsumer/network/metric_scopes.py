"""The sources of the metrics that every client has: its connections, its nodes and its start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyconsumer.metrics.source import Gauge, Scope

if TYPE_CHECKING:
    from pyconsumer.metrics.windows import Readable
    from pyconsumer.network.client import NetworkClient
    from pyconsumer.network.stats import ChannelStats, NodeStats

__all__ = ["NetworkScopes"]


class NetworkScopes:
    """Finds the sources of a client's network metrics. Any thread may call the methods.

    Args:
        client: the network client.
        others: the counters of further ones, which are added.
    """

    def __init__(self, client: NetworkClient, others: Sequence[ChannelStats] = ()) -> None:
        self._client = client
        self._stats = [client.stats, *others]
        self._clock = client.clock
        self._started_ms = client.clock.wall_ms()

    def __call__(self, group: str, tags: tuple[str, ...]) -> Iterable[Scope]:
        """Return the sources of a group with these tags, for a client that has no other metrics."""
        if group == "app-info":
            return self.app_info()
        return self.nodes() if tags else self.client()

    def client(
        self, counters: Mapping[str, Sequence[Readable]] | None = None, gauges: Mapping[str, Gauge] | None = None
    ) -> Iterable[Scope]:
        """Return the sources of the client, with more of them."""
        found: dict[str, Gauge] = {"connections": lambda now: sum(stats.open_connections for stats in self._stats)}
        return (Scope((), {"network": self._stats, **(counters or {})}, {**found, **(gauges or {})}),)

    def nodes(self) -> Iterable[Scope]:
        """Return the sources of each node. Java's name of a node is ``node-`` and the key of its connection."""
        now = self._clock.now()
        found: dict[int, list[NodeStats]] = {}
        for stats in self._stats:
            for key, node in stats.nodes_in_use(now):
                found.setdefault(key, []).append(node)
        return [Scope((f"node-{key}",), {"node": nodes}, {}) for key, nodes in sorted(found.items())]

    def app_info(self) -> Iterable[Scope]:
        """Return the source of the time at which the client was created."""
        return (Scope((), {}, {"started": lambda now: self._started_ms}),)
