"""OpenTelemetry in tests: spans and measurements of this process in memory, and a receiver of OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from pyconsumer.opentelemetry import PyconsumerInstrumentor
from tests.support.http_server import LocalHttpServer

__all__ = ["Drops", "OtlpReceiver", "Recorder", "recording"]


class Drops(Sampler):
    """Drops all spans, as a sampler of an application."""

    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        return "drops all"


class Recorder:
    """The spans and measurements of the clients in this process.

    Args:
        options: of the SDK's ``TracerProvider``, such as a sampler.
    """

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False, **options)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def spans(self, operation: str | None = None) -> list[ReadableSpan]:
        """Return the spans that have ended, of one operation if it is named."""
        found = self._exporter.get_finished_spans()
        return [span for span in found if operation in (None, (span.attributes or {}).get("messaging.operation.name"))]

    def points(self, name: str) -> dict[tuple[str, str | None, str | None], float]:
        """Return an instrument's values, or counts of values, by operation, topic and error."""
        data = self._reader.get_metrics_data()
        return {
            tuple(
                point.attributes.get(key)
                for key in ("messaging.operation.name", "messaging.destination.name", "error.type")
            ): getattr(point, "value", None) or point.count
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    def close(self) -> None:
        """End both providers."""
        self.tracers.shutdown()
        self.meters.shutdown()


@contextmanager
def recording(*, metrics: bool = True, **options: Any) -> Iterator[Recorder]:
    """Observe the clients of this process inside the block."""
    recorder = Recorder(**options)
    instrumentor = PyconsumerInstrumentor()
    given = {"meter_provider": recorder.meters} if metrics else {}
    instrumentor.instrument(tracer_provider=recorder.tracers, **given)
    try:
        yield recorder
    finally:
        instrumentor.uninstrument()
        recorder.close()


class OtlpReceiver:
    """Receives spans and metrics over HTTP, as a collector does. A context manager."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.setdefault(self.path, []).append(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = LocalHttpServer(Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = self._server.url

    def __enter__(self) -> OtlpReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[Any]:
        """Return the spans as protocol buffers, in the order of arrival."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return [
            span
            for body in self.bodies.get("/v1/traces", ())
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            if scope.scope.name == "pyconsumer"
            for span in scope.spans
        ]

    def metric_names(self) -> set[str]:
        """Return the names of the metrics that have arrived."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        return {
            metric.name
            for body in self.bodies.get("/v1/metrics", ())
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            if scope.scope.name == "pyconsumer"
            for metric in scope.metrics
        }
