"""Metrics for Prometheus, under the names that the JMX exporter gives to those of Java's clients.

The names are those of ``jmx_prometheus_javaagent`` 1.0.1 with an empty configuration: ``kafka_``, the kind of client,
the group, the metric, and no ``_total`` at the end. So dashboards for Java's clients work. Two differences are wanted:

* A value that is NaN is left out, so that an average over several clients is one.
* A topic whose name has dots is reported by its name alone. Java also reports it with underscores, which doubles sums
  (deprecated there by KIP-1109).

As in Java the same name exists with and without the labels ``topic`` and ``partition``. A sum needs one of the two:
``sum(kafka_consumer_consumer_fetch_manager_metrics_records_consumed{topic=""})``.

Needs the extra ``[prometheus]``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector

from pyconsumer.metrics.source import Metric, MetricSource, open_sources

__all__ = ["MetricsServer", "collector", "name_of", "serve", "serve_collector"]


def name_of(domain: str, metric: Metric) -> str:
    """Return the name under which a metric is served. ``domain`` is the kind of its client, such as ``consumer``."""
    name = f"kafka_{domain}_{metric.group}_{metric.name}".replace("-", "_")
    return name.removesuffix("_total")


class _ClientCollector(Collector):
    """Reads the clients of this process that are open at the time of a scrape."""

    def collect(self) -> Iterable[PrometheusMetric]:
        families: dict[str, UnknownMetricFamily] = {}
        for source in open_sources():
            for metric in source.table():
                if not math.isnan(metric.value):
                    _add(families, source, metric)
        return families.values()

    def describe(self) -> Iterable[PrometheusMetric]:
        """Return nothing: a registry that asked for the names would read all clients at once."""
        return ()


def _add(families: dict[str, UnknownMetricFamily], source: MetricSource, metric: Metric) -> None:
    labels = {name.replace("-", "_"): value for name, value in metric.tags.items()}
    labels["client_id"] = source.label
    _sample(families, name_of(source.domain, metric), metric.description, labels, metric.value)
    if metric.name == "start-time-ms":  # an attribute of the MBean beside its metrics
        name = f"kafka_{source.domain}_app_info_StartTimeMs".replace("-", "_")
        _sample(families, name, metric.description, {"id": source.label}, metric.value)


def _sample(
    families: dict[str, UnknownMetricFamily], name: str, description: str, labels: dict[str, str], value: float
) -> None:
    family = families.get(name)
    if family is None:
        family = families[name] = UnknownMetricFamily(name, description)
    family.add_sample(name, labels, value)


def collector() -> Collector:
    """Return a collector of the metrics of all clients in this process, for a registry of your own.

    Clients that are created later are included, and clients that are closed or dropped disappear. If two clients of
    the same kind have the same client id, the label of the second one ends with ``-2``.

    Example::

        prometheus_client.REGISTRY.register(pyconsumer.metrics.collector())
    """
    return _ClientCollector()


class MetricsServer:
    """An HTTP server that Prometheus can scrape. :func:`serve` starts it. A context manager.

    Attributes:
        port: the port that it listens on.
    """

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread
        self._pid = os.getpid()
        self.port: int = server.server_port

    def close(self) -> None:
        """Stop the server, and end its thread. A second call has no effect.

        In a forked child, which has a copy of the socket but not the thread, this closes the copy only.

        Example::

            server.close()
        """
        if self._pid != os.getpid():
            self._server.socket.close()
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def serve(port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the metrics of all clients in this process to Prometheus, in a thread of its own.

    Args:
        port: the port to listen on. 0 chooses a free one, which :attr:`MetricsServer.port` names.
        host: the address to listen on. By default only this machine can reach it.

    Raises:
        OSError: the port is taken.

    Example::

        server = pyconsumer.metrics.serve(9400)
    """
    return serve_collector(collector(), port, host)


def serve_collector(source: Collector, port: int, host: str) -> MetricsServer:
    """Serve the metrics of a collector. Arguments and errors are those of :func:`serve`."""
    registry = CollectorRegistry()
    registry.register(source)
    server, thread = start_http_server(port, host, registry=registry)
    return MetricsServer(server, thread)
