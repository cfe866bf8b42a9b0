"""Contexts in the headers of records: out and in by the global propagator.

A header that cannot be decoded, or that the propagator refuses, is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from opentelemetry import baggage, propagate, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, get_current
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["MOST_RECORDS", "context_of", "contexts_of", "with_context", "with_dropped"]

#: The headers of at most this many records are read for the links of a span.
MOST_RECORDS: Final = 128

_TRACE_PARENT: Final = "traceparent"
_TRACE_STATE: Final = "tracestate"


def with_context(headers: Any, context: Context | None) -> Any:
    """Return the headers with the context. What the application has set stays, and so does a wrong argument."""
    found: dict[str, str] = {}
    propagate.inject(found, context)
    if not found:
        return headers
    given = list(headers) if headers else []
    names = {name for name, _ in given}
    if _TRACE_PARENT in names:  # the state belongs to the parent
        found.pop(_TRACE_STATE, None)
    return given + [(name, value.encode()) for name, value in found.items() if name not in names]


def with_dropped(headers: Any, trace_id: int, span_id: int, flags: int, state: Any) -> Any:
    """Return the headers with the context of a span that is not recorded, below the current context.

    With the usual propagators it is written here, without the objects that they need.
    """
    context = get_current()
    if headers or state or not _is_usual(propagate.get_global_textmap()) or (context and baggage.get_all(context)):
        given = trace.SpanContext(trace_id, span_id, False, trace.TraceFlags(flags), state)
        return with_context(headers, trace.set_span_in_context(trace.NonRecordingSpan(given)))
    return [(_TRACE_PARENT, b"00-%032x-%016x-%02x" % (trace_id, span_id, flags))]


@lru_cache(1)
def _is_usual(propagator: object) -> bool:
    """Return whether a propagator writes the context of W3C, and besides that baggage alone."""
    kinds = [type(propagator)]
    if kinds == [CompositePropagator]:
        kinds = [type(one) for one in vars(propagator).get("_propagators", ())]
    return TraceContextTextMapPropagator in kinds and {*kinds} <= {TraceContextTextMapPropagator, W3CBaggagePropagator}


def context_of(headers: Any, base: Context) -> Context:
    """Return ``base`` with the context that the headers of a record have."""
    return _extracted(_texts(headers, propagate.get_global_textmap().fields), base)


def contexts_of(records: Iterable[Any]) -> list[trace.SpanContext]:
    """Return the distinct span contexts of the first records. Each item has the headers of one record."""
    fields = propagate.get_global_textmap().fields
    found: dict[tuple[int, int], trace.SpanContext] = {}
    seen: set[tuple[tuple[str, str], ...]] = set()
    for headers in islice(records, MOST_RECORDS):
        if not headers:
            continue
        texts = _texts(headers, fields)
        key = tuple(texts.items())
        if key in seen:
            continue
        seen.add(key)
        context = trace.get_current_span(_extracted(texts, Context())).get_span_context()
        if context.is_valid:
            found[context.trace_id, context.span_id] = context
    return list(found.values())


def _texts(headers: Any, fields: set[str]) -> dict[str, str]:
    return dict(_decoded(headers, fields))


def _decoded(headers: Any, fields: set[str]) -> Iterator[tuple[str, str]]:
    for name, value in headers or ():
        if name in fields and value is not None:
            try:
                yield name, value if isinstance(value, str) else bytes(value).decode()
            except (UnicodeDecodeError, TypeError):
                continue


def _extracted(texts: Mapping[str, str], base: Context) -> Context:
    if not texts:
        return base
    try:
        return propagate.extract(texts, base)
    except Exception:  # of a propagator that the application has installed
        return base
