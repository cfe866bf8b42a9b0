"""OpenTelemetry: spans, context in headers, and instruments of all clients in this process.

``opentelemetry-instrument`` finds :class:`PyconsumerInstrumentor` by the entry point ``opentelemetry_instrumentor``.
Programs that configure OpenTelemetry themselves call it::

    from pyconsumer.opentelemetry import PyconsumerInstrumentor

    PyconsumerInstrumentor().instrument()

No other module imports this package. It needs the extra ``[opentelemetry]``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

import pyconsumer
from pyconsumer.opentelemetry.names import STABILITY_VARIABLE, schema_url, versions
from pyconsumer.opentelemetry.observer import Observer
from pyconsumer.telemetry import hooks

__all__ = ["PyconsumerInstrumentor"]

_log = logging.getLogger("pyconsumer.opentelemetry")

#: Descriptions of samplers that drop each span, and of those that drop each span without a parent.
_DROPS_ALL: Final = re.compile(r"AlwaysOffSampler$|TraceIdRatioBased\{0(\.0*)?\}$")
_DROPS_ROOTS: Final = re.compile(r"ParentBased\{root:(AlwaysOffSampler|TraceIdRatioBased\{0(\.0*)?\}),")


class PyconsumerInstrumentor:
    """Switches the observation of all clients on and off. Has the methods of OpenTelemetry's ``BaseInstrumentor``.

    Example::

        PyconsumerInstrumentor().instrument()
    """

    def instrument(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None, **_: Any
    ) -> None:
        """Observe all clients of this process, also those that exist already.

        As long as there is no provider, clients work as without this call. It is looked for again whenever a client is
        created. A provider whose sampler drops every span (``ALWAYS_OFF``, a ratio of 0) counts as none: no context is
        sent either. With ``ParentBased`` around such a sampler the same is so for calls without a current span.

        Args:
            tracer_provider: makes the spans. By default the global one.
            meter_provider: makes the instruments. By default the global one.

        Example::

            PyconsumerInstrumentor().instrument(tracer_provider=provider)
        """
        names = versions(os.environ.get(STABILITY_VARIABLE, ""))

        def look() -> None:
            tracers = tracer_provider or trace.get_tracer_provider()
            meters = meter_provider or metrics.get_meter_provider()
            tracer = meter = None
            if _is_real(tracers):
                tracer = tracers.get_tracer("pyconsumer", pyconsumer.__version__, schema_url(names))
            if _is_real(meters):
                meter = meters.get_meter("pyconsumer", pyconsumer.__version__, schema_url(names))
            complete = tracer is not None and meter is not None
            sampler = _description(tracer)
            if _DROPS_ALL.match(sampler):
                tracer = None
            active = None
            if tracer is not None or meter is not None:
                drops_roots = bool(_DROPS_ROOTS.match(sampler))
                active = Observer(tracer, meter, names, (tracers, meters), drops_roots=drops_roots)
            hooks.attach(active, None if complete else look_again)

        def look_again() -> None:
            try:
                look()
            except Exception:  # a client opens all the same
                _log.exception("OpenTelemetry could not be asked for its providers. It is not asked again")
                hooks.attach(hooks.active, None)

        look()

    def uninstrument(self, **_: Any) -> None:
        """Observe no client any more. Spans that have begun are ended as usual.

        Example::

            PyconsumerInstrumentor().uninstrument()
        """
        hooks.attach(None, None)

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Return whether clients are observed, or will be as soon as there is a provider."""
        return hooks.active is not None or hooks.on_open is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the packages that are observed: this one.

        Example::

            PyconsumerInstrumentor().instrumentation_dependencies()
        """
        return ("pyconsumer",)


def _is_real(provider: object) -> bool:
    """Return whether a provider does anything. Those of the API package stand for none."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _description(tracer: Tracer | None) -> str:
    """Return the text by which the sampler of the SDK's tracer describes itself."""
    sampler = getattr(tracer, "sampler", None)
    return "" if sampler is None else str(sampler.get_description())
