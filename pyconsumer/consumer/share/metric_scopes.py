"""The sources of a share consumer's metrics. Any thread reads here while the consumer works, and no lock is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyconsumer.consumer.metric_scopes import group_scope
from pyconsumer.metrics.source import Gauge, MetricSource, Scope
from pyconsumer.network.metric_scopes import NetworkScopes

if TYPE_CHECKING:
    from pyconsumer.consumer.share.delegate import ShareDelegate
    from pyconsumer.metrics.windows import Readable

__all__ = ["open_share_source"]


def open_share_source(delegate: ShareDelegate) -> MetricSource:
    """Return a share consumer's metrics, registered for Prometheus, and hand them to the reporters."""
    config = delegate.config
    return MetricSource(
        "consumer",
        config.client_id,
        "share-consumer",
        delegate.clock.now,
        _ShareScopes(delegate),
        reporters=config.metric_reporters,
        settings=config.shown(),
    )


class _ShareScopes:
    """Finds the sources of a share consumer's metrics."""

    def __init__(self, delegate: ShareDelegate) -> None:
        self._network = NetworkScopes(delegate.client, [delegate.coordinator.background_stats])
        self._metrics = delegate.metrics
        self._coordinator = delegate.coordinator
        self._skipped = delegate.deserialization
        self._groups: Mapping[tuple[str, tuple[str, ...]], Callable[[], Iterable[Scope]]] = {
            ("consumer-share-metrics", ()): self._client,
            ("consumer-share-node-metrics", ("node-id",)): self._network.nodes,
            ("consumer-share-coordinator-metrics", ()): self._group,
            ("consumer-share-fetch-manager-metrics", ()): self._fetches,
            ("app-info", ()): self._network.app_info,
        }

    def __call__(self, group: str, tags: tuple[str, ...]) -> Iterable[Scope]:
        """Return the sources of a group with these tags."""
        return self._groups[group, tags]()

    def _client(self) -> Iterable[Scope]:
        metrics = self._metrics

        def last_poll(now: float) -> float:
            return -1.0 if metrics.last_poll_at < 0 else now - metrics.last_poll_at

        return self._network.client({"client": [metrics]}, {"polls": lambda now: metrics.polls, "last_poll": last_poll})

    def _group(self) -> Iterable[Scope]:
        return (group_scope(self._coordinator.metrics, lambda: len(self._coordinator.assignment)),)

    def _fetches(self) -> Iterable[Scope]:
        metrics = self._metrics
        counters: dict[str, Sequence[Readable]] = {
            "client": [metrics],
            "acknowledged": [metrics.acknowledged],
            "refused": [metrics.refused],
        }
        gauges: dict[str, Gauge] = {
            "fetch_failures": lambda now: metrics.fetch_failures,
            "skipped": lambda now: self._skipped.skipped,
        }
        return (Scope((), counters, gauges),)
