"""``Asking``: asks the sampler of the SDK's tracer before a span is made. No state.

The SDK's ``start_span`` makes ids and a context for a dropped span, too, for spans that are its children. A poll has
none, so this is left out. A span that the sampler takes is started by a copy of the tracer that knows the decision. So
the sampler is asked once for each span, and with the trace id of the span.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer

__all__ = ["Asking", "asking"]


class _Decided:
    """A sampler that has decided."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def should_sample(self, *_: Any, **__: Any) -> Any:
        return self._result


class _Given:
    """A generator of ids whose trace id is given."""

    def __init__(self, trace_id: int, generator: Any) -> None:
        self._trace_id = trace_id
        self._generator = generator

    def generate_trace_id(self) -> int:
        return self._trace_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)


class Asking:
    """Starts spans if the sampler takes them.

    Args:
        tracer: of the SDK.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._ask = tracer.sampler.should_sample
        self._generator = tracer.id_generator

    def start(self, name: str, kind: SpanKind, attributes: Mapping[str, Any], began_ns: int | None) -> Span | None:
        """Start a span below the current one. Return None if the sampler drops it."""
        parent = trace.get_current_span().get_span_context()
        trace_id = parent.trace_id if parent.is_valid else self._generator.generate_trace_id()
        result = self._ask(None, trace_id, name, kind, attributes, ())
        if not result.decision.is_recording():
            return None
        tracer = copy.copy(self._tracer)
        vars(tracer).update(sampler=_Decided(result), id_generator=_Given(trace_id, self._generator))
        span: Span = tracer.start_span(name, None, kind, attributes, None, began_ns)
        return span


def asking(tracer: Tracer) -> Asking | None:
    """Return the way to ask a tracer's sampler, None if it is not a tracer of the SDK as we know it."""
    known = (
        type(tracer).__module__.startswith("opentelemetry.sdk.") and {"sampler", "id_generator"} <= vars(tracer).keys()
    )
    return Asking(tracer) if known else None
