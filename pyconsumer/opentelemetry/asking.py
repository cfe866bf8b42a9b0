"""``Asking``: asks the sampler of the SDK's tracer before a span is made. No state.

Rules

1. The SDK's ``start_span`` makes a context and a span for a dropped span, too, for spans that are its children. A poll
   has none, and a send needs its context for the header alone. So both are left out.
2. The sampler is asked once for each span, and with the trace id of the span. A span that it takes is started by a
   copy of the tracer that knows the decision.
3. The SDK's own samplers decide by the trace id alone, if there is no parent: all, none, or a part of the ids. Their
   decision is made here, without a call. A subclass of them is asked.
4. A tracer that its provider has disabled, until it is enabled again, is left to the SDK. No sampler is asked, and its
   spans have no ids.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer

__all__ = ["Asking", "Dropped", "asking", "parent_of"]

_LOW: Final = (1 << 64) - 1  # the bits of a trace id by which a part is chosen
_ALL: Final = 1 << 64
_SAMPLERS: Final = "opentelemetry.sdk.trace.sampling"
_RANDOM: Final = 2  # the flag of a trace id that is random (W3C Trace Context, level 2)


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


class Dropped(NamedTuple):
    """The context of a span that the sampler has dropped, for headers.

    Attributes:
        trace_id, span_id: its ids.
        flags: without the one of sampled spans.
        state: of the trace, if there is one.
    """

    trace_id: int
    span_id: int
    flags: int
    state: Any


class Asking:
    """Starts spans if the sampler takes them.

    Args:
        tracer: of the SDK.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._attributes = vars(tracer)
        self._ask = tracer.sampler.should_sample
        self._generator = tracer.id_generator
        self._new_trace_id = tracer.id_generator.generate_trace_id
        self._taken, self._knows_children = _taken_by(tracer.sampler)
        self._dropping: object = None  # the decision by which a span is dropped, once there was one

    def drops_now(self) -> bool:
        """Return whether each span that is started now is known to be dropped."""
        if self._is_disabled():
            return True
        return self._taken == 0 and (self._knows_children or parent_of(contexts.get_current()) is None)

    def start(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        links: Sequence[Link] = (),
        *,
        seconds: float = 0.0,
        carries: bool = False,
    ) -> Span | Dropped | None:
        """Start a span below the current one. If the sampler drops it, return None, or its context if ``carries``.

        Args:
            name, kind, attributes, links: of the span.
            seconds: how long ago it has begun.
            carries: return the context of a dropped span.
        """
        if self._is_disabled():
            return self._start(self._tracer, name, kind, attributes, links, seconds)
        return self.start_enabled(name, kind, attributes, links, seconds, carries)

    def start_enabled(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        links: Sequence[Link],
        seconds: float,
        carries: bool,
    ) -> Span | Dropped | None:
        """Do the same as :meth:`start` after :meth:`drops_now`, which has found that the tracer is not disabled."""
        parent = parent_of(contexts.get_current())
        taken = self._taken
        if parent is None:
            if taken == _ALL:
                return self._start(self._tracer, name, kind, attributes, links, seconds)
            trace_id = self._new_trace_id()
        else:
            trace_id = parent.trace_id
            if not self._knows_children:
                taken = None
        state = None
        if taken is None:
            result = self._ask(None, trace_id, name, kind, attributes, links)
            if result.decision is not self._dropping and self._takes(result.decision):
                tracer = copy.copy(self._tracer)
                vars(tracer).update(sampler=_Decided(result), id_generator=_Given(trace_id, self._generator))
                return self._start(tracer, name, kind, attributes, links, seconds)
            state = result.trace_state
        elif trace_id & _LOW < taken:
            tracer = copy.copy(self._tracer)
            vars(tracer).update(id_generator=_Given(trace_id, self._generator))
            return self._start(tracer, name, kind, attributes, links, seconds)
        elif parent is not None:
            state = parent.trace_state
        if not carries:
            return None
        return Dropped(trace_id, self._generator.generate_span_id(), self._flags(parent), state)

    def _takes(self, decision: Any) -> bool:
        """Return whether a decision takes the span. One that drops it is kept: to ask it takes as long as a sampler."""
        is_taken: bool = decision.is_recording()
        if not is_taken:
            self._dropping = decision
        return is_taken

    def _is_disabled(self) -> bool:
        """Return whether the provider has disabled the tracer now (rule 4)."""
        config = self._attributes.get("_tracer_config")  # new in 1.40, and may be replaced at any time
        return config is not None and not config.is_enabled

    @staticmethod
    def _start(
        tracer: Any,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        links: Sequence[Link],
        seconds: float,
    ) -> Span:
        began_ns = time.time_ns() - int(seconds * 1e9) if seconds else None
        span: Span = tracer.start_span(name, None, kind, attributes, links or None, began_ns)
        return span

    def _flags(self, parent: SpanContext | None) -> int:
        if parent is not None:
            return parent.trace_flags & _RANDOM
        is_random = getattr(self._generator, "is_trace_id_random", None)  # new in 1.43
        return _RANDOM if is_random is not None and is_random() else 0


def parent_of(context: contexts.Context) -> SpanContext | None:
    """Return the span context of a context, None if it has none."""
    if not context:
        return None
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def asking(tracer: Tracer) -> Asking | None:
    """Return the way to ask a tracer's sampler, None if it is not a tracer of the SDK as we know it."""
    known = (
        type(tracer).__module__.startswith("opentelemetry.sdk.") and {"sampler", "id_generator"} <= vars(tracer).keys()
    )
    return Asking(tracer) if known else None


def _taken_by(sampler: Any) -> tuple[int | None, bool]:
    """Return what is known of the SDK's samplers (rule 3).

    The first value is the number below which the low half of the trace id must be so that a span without a parent is
    taken. It is None if the sampler must be asked. The second one says whether a parent makes no difference.
    """
    kind = type(sampler)
    if kind.__module__ != _SAMPLERS:
        return None, False
    if kind.__name__ == "ParentBased":
        return _taken_by(vars(sampler).get("_root"))[0], False
    if kind.__name__ == "TraceIdRatioBased":
        return int(sampler.bound), True
    if kind.__name__ == "StaticSampler":
        found = {"AlwaysOnSampler": _ALL, "AlwaysOffSampler": 0}.get(sampler.get_description())
        return found, found is not None
    return None, False
