"""Decisions about spans that are made before the SDK makes one, beside those of the SDK itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import baggage, context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pyconsumer.opentelemetry.asking import Asking, Dropped, asking
from pyconsumer.opentelemetry.context import with_context, with_dropped
from tests.support.spans import Drops


class Seeded(RandomIdGenerator):
    """The ids of one sequence, in two tracers alike."""

    def __init__(self, seed: int, *, is_random: bool = True) -> None:
        self._source = random.Random(seed)
        self._is_random = is_random

    def generate_trace_id(self) -> int:
        return self._source.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        return self._source.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return self._is_random


class Half(TraceIdRatioBased):
    """A sampler that decides in another way than the class whose description it has."""

    def should_sample(self, parent_context: Any, trace_id: int, *_: Any, **__: Any) -> SamplingResult:
        decision = Decision.RECORD_AND_SAMPLE if trace_id >> 64 & 1 else Decision.DROP
        return SamplingResult(decision, None, TraceState([("half", "1")]))


class RecordOnly(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY, {"by": "sampler"})

    def get_description(self) -> str:
        return "records"


SAMPLERS = {
    "on": ALWAYS_ON,
    "off": ALWAYS_OFF,
    "ratio": TraceIdRatioBased(0.5),
    "ratio 0": TraceIdRatioBased(0.0),
    "ratio 1": TraceIdRatioBased(1.0),
    "parent on": ParentBased(ALWAYS_ON),
    "parent off": ParentBased(ALWAYS_OFF),
    "parent ratio": ParentBased(TraceIdRatioBased(0.5), remote_parent_not_sampled=ALWAYS_ON),
    "parent of parent": ParentBased(ParentBased(TraceIdRatioBased(0.5))),
    "half": Half(0.0),
    "parent half": ParentBased(Half(0.0)),
    "drops": Drops(),
    "records only": RecordOnly(),
}


def parents() -> Iterator[SpanContext | None]:
    """No parent, and parents of each kind."""
    source = random.Random(7)
    for _ in range(8):
        yield None
        for flags in range(4):
            for is_remote in (False, True):
                state = TraceState([("a", "b")]) if flags % 2 else None
                yield SpanContext(source.getrandbits(128), 5, is_remote, TraceFlags(flags), state)


def tracer_of(sampler: Sampler, generator: Seeded) -> Any:
    return TracerProvider(sampler=sampler, id_generator=generator, shutdown_on_exit=False).get_tracer("t")


@pytest.mark.parametrize("is_random", [True, False])
@pytest.mark.parametrize("name", SAMPLERS)
def test_decisions_and_contexts_equal_those_of_the_sdk(name: str, is_random: bool) -> None:
    sdk = tracer_of(SAMPLERS[name], Seeded(1, is_random=is_random))
    ours = asking(tracer_of(SAMPLERS[name], Seeded(1, is_random=is_random)))
    assert isinstance(ours, Asking)
    for parent in parents():
        here = Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())
        token = context.attach(here)
        try:
            expected: Any = sdk.start_span("n", None, SpanKind.PRODUCER, {"x": 1})
            found = ours.start("n", SpanKind.PRODUCER, {"x": 1}, carries=True)
            if ours.drops_now():
                assert isinstance(found, Dropped)
        finally:
            context.detach(token)
        wanted = expected.get_span_context()
        if isinstance(found, Dropped):
            assert not expected.is_recording()
            assert found[:3] == (wanted.trace_id, wanted.span_id, wanted.trace_flags)
            assert (found.state or TraceState()) == (wanted.trace_state or TraceState())
        else:
            assert found is not None
            assert expected.is_recording()
            assert found.get_span_context() == wanted
            assert (found.parent, found.attributes) == (expected.parent, expected.attributes)  # type: ignore[attr-defined]


class Asked(Sampler):
    """Counts the questions."""

    def __init__(self) -> None:
        self.count = 0

    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        self.count += 1
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        return "Asked"


@pytest.mark.parametrize("sampler", [ALWAYS_ON, Asked()], ids=["on", "asked"])
def test_a_tracer_that_is_disabled_makes_no_context_and_asks_no_sampler(sampler: Sampler) -> None:
    tracer = tracer_of(sampler, Seeded(1))
    ours = asking(tracer)
    assert ours is not None
    if not hasattr(tracer, "_tracer_config"):
        pytest.skip("this SDK cannot disable a tracer")
    enabled = tracer._tracer_config
    disabled = type(enabled)(is_enabled=False)
    tracer._set_tracer_config(disabled)
    assert ours.drops_now()
    found = ours.start("send t", SpanKind.PRODUCER, {}, carries=True)
    assert isinstance(found, NonRecordingSpan)
    assert not found.get_span_context().is_valid
    assert getattr(sampler, "count", 0) == 0

    tracer._set_tracer_config(enabled)
    assert not ours.drops_now()
    assert not isinstance(ours.start("send t", SpanKind.PRODUCER, {}, carries=True), NonRecordingSpan)


def test_the_time_at_which_a_span_began() -> None:
    ours = asking(tracer_of(ALWAYS_ON, Seeded(1)))
    assert ours is not None
    span: Any = ours.start("n", SpanKind.CLIENT, {}, seconds=100.0)
    span.end()
    assert 100.0 <= (span.end_time - span.start_time) / 1e9 < 160.0


def test_another_tracer_is_not_asked() -> None:
    assert asking(trace.NoOpTracer()) is None


@pytest.mark.parametrize("headers", [None, [("own", b"1")], [("traceparent", b"own")], [("tracestate", b"own=1")]])
@pytest.mark.parametrize("state", [None, TraceState(), TraceState([("a", "b")])])
@pytest.mark.parametrize("entries", [{}, {"user": "4"}])
def test_the_header_of_a_dropped_span_is_that_of_the_propagator(
    headers: Any, state: TraceState | None, entries: dict[str, str]
) -> None:
    here = Context()
    for name, value in entries.items():
        here = baggage.set_baggage(name, value, here)
    token = context.attach(here)
    try:
        found = with_dropped(headers, 0xAB, 0xCD, 2, state)
        span = NonRecordingSpan(SpanContext(0xAB, 0xCD, False, TraceFlags(2), state))
        assert found == with_context(headers, trace.set_span_in_context(span))
    finally:
        context.detach(token)


@pytest.mark.parametrize("is_composite", [True, False])
def test_a_propagator_of_the_application_is_asked(is_composite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(TraceContextTextMapPropagator):
        def inject(self, carrier: Any, *_: Any, **__: Any) -> None:
            carrier["own"] = "context"

    own = CompositePropagator([TraceContextTextMapPropagator(), Own()]) if is_composite else Own()
    monkeypatch.setattr(propagate, "get_global_textmap", lambda: own)
    assert ("own", b"context") in with_dropped(None, 0xAB, 0xCD, 0, None)
