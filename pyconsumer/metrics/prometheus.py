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

import contextlib
import logging
import math
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric as PrometheusMetric
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector

from pyconsumer.background_log import background
from pyconsumer.metrics.source import Metric, MetricSource, open_sources

__all__ = ["MetricsServer", "collector", "name_of", "serve", "serve_collector"]

_log = logging.getLogger(__name__)

#: So long may a scraper send nothing, or take nothing of the answer.
_LONGEST_SILENCE_S: Final = 30.0
#: So long may scrapes in progress take when the server is closed.
_LONGEST_END_S: Final = 1.0


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

    A process shows its own clients. So the multiprocess mode of ``prometheus-client`` is not supported: behind a server
    of several processes each answer would be that of another one. A warning in the log says so.

    Example::

        prometheus_client.REGISTRY.register(pyconsumer.metrics.collector())
    """
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        _log.warning(
            "the multiprocess mode of prometheus-client is not supported: an answer has only the clients of the process"
            " that gives it. Let each process call pyconsumer.metrics.serve with a port of its own"
        )
    return _ClientCollector()


class _Handler(WSGIRequestHandler):
    """Answers one request, without a line in the log."""

    timeout = _LONGEST_SILENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Leave requests out of the log."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread of its own, and ends as soon as it is woken."""

    daemon_threads = True
    allow_reuse_port = False  # two processes that share a port would answer in turns, each with its own clients
    timeout = 0  # of handle_request(), which is called when a connection is there

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._waker, self._wakes = socket.socketpair()
        try:
            super().__init__(address, handler)
        except BaseException:
            self._close_wakers()
            raise
        self.socket.setblocking(False)  # a connection that has gone again must not hold up the next ones

    def server_bind(self) -> None:
        """Listen, without the question to DNS for the name of the address. Where DNS is broken, that takes seconds."""
        TCPServer.server_bind(self)  # HTTPServer's calls socket.getfqdn
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def run(self) -> None:
        """Answer until :meth:`stop` is called."""
        with background(), selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(self._wakes, selectors.EVENT_READ)
            while all(key.fileobj is not self._wakes for key, _ in selector.select()):
                self.handle_request()

    def stop(self, thread: threading.Thread) -> None:
        """End ``thread``, which runs :meth:`run`. Requests that were received are answered, within a bound."""
        deadline = time.monotonic() + _LONGEST_END_S
        self._waker.send(b"x")
        thread.join()
        self.server_close()
        self._close_wakers()
        with self._changed:
            self._shut(socket.SHUT_RD)  # those without a request end at once
            self._changed.wait_for(lambda: not self._open, deadline - time.monotonic())
            self._shut(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close the copies of all sockets in a forked child. The parent's stay as they are."""
        for one in (self.socket, self._waker, self._wakes, *self._open):
            one.close()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, in a thread of its own."""
        with background():
            super().process_request_thread(request, client_address)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._changed:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        """Close a connection. The handlers' threads call this last."""
        with self._changed:
            self._open.discard(request)
            super().close_request(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note an error in the log, unless the scraper has gone away or was silent for too long."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("a scrape failed")

    def _shut(self, how: int) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(how)

    def _close_wakers(self) -> None:
        self._waker.close()
        self._wakes.close()


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


class MetricsServer:
    """An HTTP server that Prometheus can scrape. :func:`serve` starts it. A context manager.

    A child that is forked from this process has no server: its copies of the sockets are closed, and the port stays
    the parent's.

    Attributes:
        port: the port that it listens on.
    """

    def __init__(self, source: Collector, port: int, host: str) -> None:
        registry = CollectorRegistry()
        registry.register(source)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        kind = _IPv6Server if found[0] == socket.AF_INET6 else _Server
        self._server = kind((str(found[4][0]), port), _Handler)
        self._server.set_app(make_wsgi_app(registry))
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.run, name="pyconsumer-metrics", daemon=True)
        _running.add(self._server)
        self._thread.start()

    def close(self) -> None:
        """Stop the server, and end its thread. A second call has no effect. The same applies in a forked child.

        Scrapes in progress have one second to end. Then their connections are closed.

        Example::

            server.close()
        """
        if self._server in _running:
            _running.discard(self._server)
            self._server.stop(self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_running: Final[set[_Server]] = set()


def _forget_all() -> None:
    for server in _running:
        server.forget()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


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
    return serve_collector(_ClientCollector(), port, host)


def serve_collector(source: Collector, port: int, host: str) -> MetricsServer:
    """Serve the metrics of a collector. Arguments and errors are those of :func:`serve`."""
    return MetricsServer(source, port, host)
