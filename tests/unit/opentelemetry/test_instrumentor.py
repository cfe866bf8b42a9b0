"""``PyconsumerInstrumentor``: when it observes, the cost when it does not, and how it is found."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)

import pyconsumer
from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import IllegalStateError
from pyconsumer.opentelemetry import PyconsumerInstrumentor
from pyconsumer.producer.implementation import Appender
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.telemetry import Client, hooks
from tests.support.spans import Drops, recording

_NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    PyconsumerInstrumentor().uninstrument()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("t", 1)
        cluster.create_topic("generated", 1)
        cluster.create_topic("dropped", 1)
        yield cluster.bootstrap_servers


def test_the_entry_point_is_the_class() -> None:
    (found,) = (one for one in entry_points(group="opentelemetry_instrumentor") if one.name == "pyconsumer")
    assert found.load() is PyconsumerInstrumentor
    instrumentor = PyconsumerInstrumentor()
    assert not instrumentor.is_instrumented_by_opentelemetry
    instrumentor.instrument(skip_dep_check=True)
    assert instrumentor.is_instrumented_by_opentelemetry
    assert instrumentor.instrumentation_dependencies() == ("pyconsumer",)


def test_no_other_module_imports_it() -> None:
    package = Path(pyconsumer.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(package / "opentelemetry") or "opentelemetry" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            assert not [name for name in names if "opentelemetry" in name.split(".")], path


def test_clients_are_observed_once_there_is_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    PyconsumerInstrumentor().instrument()
    KafkaConsumer(bootstrap_servers=_NOWHERE).close()
    assert hooks.active is None
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert hooks.active is None
    KafkaProducer(bootstrap_servers=_NOWHERE).close()
    assert hooks.active is not None
    assert hooks.on_open is not None, "there is no meter provider yet"


def test_a_client_opens_if_the_search_for_a_provider_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise RuntimeError("out of order")

    PyconsumerInstrumentor().instrument()
    monkeypatch.setattr(trace, "get_tracer_provider", fails)
    for _ in range(2):
        KafkaConsumer(bootstrap_servers=_NOWHERE).close()
    lines = [record for record in caplog.records if record.name == "pyconsumer.opentelemetry"]
    assert [record.levelname for record in lines] == ["ERROR"]


def test_providers_of_the_api_alone_count_as_none() -> None:
    PyconsumerInstrumentor().instrument(
        tracer_provider=trace.NoOpTracerProvider(), meter_provider=metrics.NoOpMeterProvider()
    )
    assert hooks.active is None


def test_a_sampler_that_always_drops_counts_as_none() -> None:
    for sampler in (ALWAYS_OFF, TraceIdRatioBased(0.0)):
        with recording(sampler=sampler, metrics=False):
            assert hooks.active is None
    with recording(sampler=TraceIdRatioBased(0.01), metrics=False):
        assert hooks.active is not None


@pytest.mark.parametrize("root", [ALWAYS_OFF, TraceIdRatioBased(0)])
def test_a_sampler_that_drops_all_roots_costs_no_span(servers: str, root: Sampler) -> None:
    with recording(sampler=ParentBased(root), metrics=False) as recorder:
        active = hooks.active
        assert active is not None, "a parent may be recorded"
        client = Client("c")
        assert active.sending(client, "t", None) is None
        remote = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1))
        with trace.use_span(trace.NonRecordingSpan(remote)):
            sending = active.sending(client, "t", None)
            assert sending is not None
            assert sending.headers
            sending.sent(None)
        assert [span.parent.span_id for span in recorder.spans() if span.parent] == [2]


def test_processing_without_a_parent_costs_no_span_if_all_roots_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observer = sys.modules["pyconsumer.opentelemetry.observer"]
    failures: list[object] = []
    monkeypatch.setattr(observer, "_failed", lambda: failures.append(sys.exc_info()[1]))
    records = [ConsumerRecord("t", 0, offset, 0, 0, None, b"x", ()) for offset in range(2)]
    read: list[object] = []
    with recording(sampler=ParentBased(ALWAYS_OFF)) as recorder:
        active = hooks.active
        assert active is not None
        monkeypatch.setattr(observer, "contexts_of", lambda headers: read.append(headers) or [])
        for work in (records[0], records):
            with active.processing(Client("c"), work) as span:
                assert span is None
        assert recorder.points("messaging.process.duration") == {("process", "t", None): 2}
    assert (failures, read) == ([], [])


def test_the_processing_of_several_topics_names_none_of_them() -> None:
    records = [ConsumerRecord("t", 0, offset, 0, 0, None, b"x", ()) for offset in range(200)]
    with recording() as recorder:
        active = hooks.active
        assert active is not None
        for work in (records, [*records, ConsumerRecord("u", 0, 1, 0, 0, None, b"x", ())]):
            with active.processing(Client("c"), work):
                pass
        first, second = recorder.spans("process")
    assert (first.attributes or {})["messaging.destination.name"] == "t"
    assert "messaging.destination.name" not in (second.attributes or {})


def test_a_poll_that_is_refused_has_taken_no_time() -> None:
    with recording() as recorder:
        consumer = KafkaConsumer(bootstrap_servers=_NOWHERE)
        consumer.close()
        for call in (consumer.poll, consumer.poll_arrow, lambda: next(consumer)):
            with pytest.raises(IllegalStateError):
                call()  # type: ignore[operator]
        lengths = [(span.end_time or 0) - (span.start_time or 0) for span in recorder.spans("receive")]
    assert len(lengths) == 3
    assert max(lengths) < 60 * 10**9


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ParentBased(ALWAYS_OFF)])
def test_headers_from_a_generator_are_sent(servers: str, sampler: Sampler) -> None:
    with (
        recording(sampler=sampler, metrics=False),
        KafkaProducer(bootstrap_servers=servers) as producer,
        KafkaConsumer(bootstrap_servers=servers) as consumer,
    ):
        sent = producer.send("generated", b"x", headers=(pair for pair in [("own", b"1")])).get(30)
        tp = TopicPartition(sent.topic, sent.partition)
        consumer.assign([tp])
        consumer.seek(tp, sent.offset)
        (record,) = consumer.poll(10_000).records()
    assert ("own", b"1") in record.headers


def test_a_failure_at_the_end_of_processing_leaves_no_span_current(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("out of order")

    record = ConsumerRecord("t", 0, 1, 0, 0, None, b"x", ())
    with recording() as recorder:
        active = hooks.active
        assert active is not None
        monkeypatch.setattr(active, "measure", fails)
        with active.processing(Client("c"), record) as span:
            assert trace.get_current_span() is span
        assert trace.get_current_span() is trace.INVALID_SPAN
        monkeypatch.setattr(type(span), "record_exception", fails)
        with pytest.raises(KeyError), active.processing(Client("c"), record):
            raise KeyError
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert len(recorder.spans("process")) == 2


def test_a_dropped_span_sends_its_context_and_reads_no_header(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Counting(takes=0)
    with recording(sampler=sampler, metrics=False) as recorder:
        with KafkaProducer(bootstrap_servers=servers, linger_ms=500) as producer:
            producer.send("dropped", b"0").get(30)
            for _ in range(3):
                producer.send("dropped", b"x")
            producer.send_many("dropped", [b"x"] * 6).get(30)
        sent = [b"%032x" % trace_id for trace_id in sampler.asked]
        with KafkaConsumer("dropped", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            assert hooks.active is not None
            with monkeypatch.context() as patch:
                read: list[object] = []
                patch.setattr("pyconsumer.opentelemetry.observer._link", lambda *given: read.append(given))
                records: list[ConsumerRecord] = []
                while len(records) < 10:
                    records += consumer.poll(10_000).records()
        assert not read
        assert recorder.spans() == []
    assert len(sent) == 5, "the sampler is asked once for each call"
    parents = [(dict(record.headers)["traceparent"] or b"").split(b"-") for record in records]
    assert [parent[1] for parent in parents] == [*sent[:4], *[sent[4]] * 6]
    assert {int(parent[3], 16) & 1 for parent in parents} == {0}, "not sampled"


def test_a_send_whose_span_is_dropped_joins_its_batch_at_once(servers: str) -> None:
    """It takes no lock and waits for no outcome, as without an observer."""
    if Appender.__module__.endswith("fast_append"):
        pytest.skip("there is no compiled part")
    with KafkaProducer(bootstrap_servers=servers, linger_ms=10_000, batch_size=1 << 20) as producer:
        entered: list[str] = []

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event == "call":
                entered.append(frame.f_code.co_name)

        with recording(sampler=Drops(), metrics=False):
            for call in (lambda: producer.send("t", b"x"), lambda: producer.send_many("t", [b"x"] * 1000)):
                call()
                entered.clear()
                sys.setprofile(profile)
                try:
                    call()
                finally:
                    sys.setprofile(None)
                assert "_place" not in entered
                assert "sent" not in entered
                assert len(entered) < 40


def _python_calls(call: Any) -> int:
    """Return how many functions of Python a call enters. The least of some calls: a response may arrive in one."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    found = []
    call()
    for _ in range(5):
        count = 0
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
        found.append(count)
    return min(found)


def test_a_client_without_an_observer_makes_no_call_more(servers: str) -> None:
    """Calls of Python per poll and per send: the same as if the hooks were not there, which one attribute shows."""
    with KafkaProducer(bootstrap_servers=servers, linger_ms=10_000) as producer:
        producer.send_many("t", [b"x"] * 5_000).get(30)
        with KafkaConsumer(
            "t", bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=10
        ) as consumer:
            consumer.poll(10_000)

            def send() -> None:
                producer.send("t", b"x")

            def poll() -> None:
                assert consumer.poll(0)

            without = _python_calls(send), _python_calls(poll)
            PyconsumerInstrumentor().instrument()  # no provider
            assert (_python_calls(send), _python_calls(poll)) == without
            entered: list[str] = []

            def profile(frame: Any, event: str, argument: Any) -> None:
                if event == "call":
                    entered.append(frame.f_code.co_filename)

            sys.setprofile(profile)
            try:
                send()
                poll()
            finally:
                sys.setprofile(None)
            assert not [name for name in entered if name.endswith(("observation.py", "telemetry.py", "observer.py"))]


def test_a_failure_of_opentelemetry_is_logged_once_and_the_client_works_on(
    servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sys.modules["pyconsumer.opentelemetry.observer"]._failed.cache_clear()
    with recording() as recorder:
        active = hooks.active

        def fails(*_: object, **__: object) -> None:
            raise RuntimeError("out of order")

        assert active is not None
        monkeypatch.setattr(active, "start", fails)
        monkeypatch.setattr(active, "start_send", fails)
        monkeypatch.setattr(active, "start_receive", fails)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send("t", b"last").get(30)
            producer.send_many("t", [b"many"]).get(30)
        with KafkaConsumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            found = list(consumer.poll(10_000).records())
            with consumer.processing(found[0]):
                pass
            consumer.commit()
        assert recorder.spans() == []
    text = "OpenTelemetry could not be told of a call. Further failures are not logged"
    assert sum(record.getMessage().endswith(text) for record in caplog.records) == 1


class Counting(Sampler):
    """Takes every second span or none, and counts how often it is asked, and for which trace."""

    def __init__(self, *, takes: int = 1) -> None:
        self.asked: list[int] = []
        self._takes = takes

    def should_sample(self, parent_context: Any, trace_id: int, *_: Any, **__: Any) -> SamplingResult:
        self.asked.append(trace_id)
        takes = self._takes and not len(self.asked) % 2
        return SamplingResult(Decision.RECORD_AND_SAMPLE if takes else Decision.DROP)

    def get_description(self) -> str:
        return "counts"


def test_a_sampler_is_asked_once_for_each_poll_and_with_the_trace_id_of_the_span(servers: str) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for _ in range(4):
            producer.send("asked", b"x").get(30)
    sampler = Counting()
    with (
        recording(sampler=sampler) as recorder,
        KafkaConsumer("asked", bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=1) as consumer,
    ):
        found = 0
        while found < 4:
            found += consumer.poll(1000).count()
        spans = recorder.spans()
    assert len(sampler.asked) == 4
    assert [span.context.trace_id for span in spans] == sampler.asked[1::2]
    assert len({span.context.span_id for span in spans}) == 2
