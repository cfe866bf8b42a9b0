"""OpenTelemetry: spans, links, context in headers and instruments of all clients, judged by the SDK's exporters."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")  # the extra [test] has it, which some lanes lack

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.errors import CommitFailedError, KafkaError, RecordDeserializationError
from pyconsumer.workers import AsyncWorkers, Batch, Workers
from tests.behaviour.consumer_support import consuming, fill, member, read
from tests.support.cluster import Cluster
from tests.support.process import run
from tests.support.spans import OtlpReceiver, Recorder, recording
from tests.support.worker_functions import copies

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def send(cluster: Cluster, topic: str, count: int, **record: Any) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, **record)


def links_of(span: Any) -> set[int]:
    return {link.context.span_id for link in span.links}


def ids(spans: list[Any]) -> set[int]:
    return {span.context.span_id for span in spans}


@pytest.mark.faces
def test_a_record_from_send_to_commit(cluster: Cluster, topic: str, group_id: str) -> None:
    with recording() as recorder:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send(topic, b"v", key=b"table 4").get(30)
            producer.send(topic, None, key=b"\xff").get(30)
        with consuming(cluster, TopicPartition(topic, 0), group_id=group_id, enable_auto_commit=False) as consumer:
            records = read(consumer, 2)
            for record in records:
                with consumer.processing(record):
                    pass
            consumer.commit()
            assert consumer.poll(50) == {}, "an empty poll"
            received = len(recorder.spans("receive"))
    first, second = recorder.spans("send")
    assert (first.name, first.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert first.attributes["messaging.system"] == "kafka"
    assert first.attributes["messaging.operation.type"] == "send"
    assert first.attributes["messaging.kafka.message.key"] == "table 4"
    assert first.attributes["messaging.destination.partition.id"] == "0"
    assert [span.attributes["messaging.kafka.offset"] for span in (first, second)] == [0, 1]
    assert second.attributes["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in second.attributes, "no text is certain"
    spans = recorder.spans("receive")
    assert len(spans) == received, "nothing for an empty poll"
    assert {(span.name, span.kind) for span in spans} == {(f"receive {topic}", SpanKind.CLIENT)}
    assert sum(span.attributes["messaging.batch.message_count"] for span in spans) == 2
    assert set.union(*map(links_of, spans)) == ids([first, second])
    processed = recorder.spans("process")
    assert [span.attributes["messaging.kafka.offset"] for span in processed] == [0, 1]
    assert [span.parent.span_id for span in processed] == [first.context.span_id, second.context.span_id]
    assert {span.kind for span in processed} == {SpanKind.CONSUMER}
    (commit,) = recorder.spans("commit")
    assert (commit.name, commit.attributes["messaging.operation.type"]) == (f"commit {topic}", "settle")
    assert {span.attributes["messaging.consumer.group.name"] for span in (*spans, *processed, commit)} == {group_id}


@pytest.mark.faces
def test_the_four_instruments(cluster: Cluster, topic: str, group_id: str) -> None:
    with recording() as recorder:
        send(cluster, topic, 3)
        with consuming(cluster, TopicPartition(topic, 0), group_id=group_id, enable_auto_commit=False) as consumer:
            records = read(consumer, 3)
            with consumer.processing(records):
                pass
            consumer.commit()
            consumer.seek_to_beginning()
            for record in consumer:
                if record.offset == 2:
                    break
        consumed = recorder.points("messaging.client.consumed.messages")
        durations = recorder.points("messaging.client.operation.duration")
        polls = len(recorder.spans("receive"))
        assert recorder.points("messaging.client.sent.messages") == {("send", topic, None): 3}
        assert consumed == {("receive", topic, None): 6}
        assert durations == {
            ("send", topic, None): 3,
            ("receive", topic, None): polls,
            ("commit", topic, None): 1,
        }
        assert recorder.points("messaging.process.duration") == {("process", topic, None): 1}


def test_links_are_distinct_and_of_the_first_128_records(cluster: Cluster, topic: str) -> None:
    tracer = trace.NoOpTracer()
    with recording() as recorder:
        tracer = recorder.tracers.get_tracer("the application")
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=500) as producer:
            producer.send_many(topic, [b"%d" % n for n in range(100)]).get(30)
            for _ in range(100):
                producer.send(topic, b"x")
        with consuming(cluster, TopicPartition(topic, 0)) as consumer:
            while len(list((found := consumer.poll(10_000)).records())) < 200:  # all in one poll
                consumer.seek_to_beginning()
            (many,) = (span for span in recorder.spans("send") if "messaging.batch.message_count" in span.attributes)
            assert many.attributes["messaging.batch.message_count"] == 100
            (last,) = recorder.spans("receive")[-1:]
            assert len(last.links) == 1 + 28
            assert many.context.span_id in links_of(last)
            with tracer.start_as_current_span("a job") as job, consumer.processing(found):
                pass
    (span,) = recorder.spans("process")
    assert span.attributes["messaging.batch.message_count"] == 200
    assert span.parent.span_id == job.get_span_context().span_id
    assert links_of(span) == links_of(last)


def test_iteration_has_one_span_for_each_fetch(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 2_000, each=1_000)
    with recording() as recorder:
        seen = 0
        with consuming(
            cluster, TopicPartition(topic, 0), auto_offset_reset="earliest", max_partition_fetch_bytes=1
        ) as consumer:
            for _ in consumer:
                seen += 1
                if seen % 100 == 0:
                    consumer.position(TopicPartition(topic, 0))  # ends what iteration takes by itself
                if seen == 2_000:
                    break
        assert recorder.points("messaging.client.consumed.messages") == {("receive", topic, None): 2_000}
    assert len(recorder.spans("receive")) == 2


@pytest.mark.faces
def test_columns_have_links_if_headers_are_asked_for(cluster: Cluster, topic: str) -> None:
    pytest.importorskip("pyarrow")
    with recording() as recorder:
        send(cluster, topic, 3)
        with consuming(cluster, TopicPartition(topic, 0)) as consumer:
            for columns in (["value"], ["value", "headers"]):
                rows = 0
                while rows < 3:
                    rows += consumer.poll_arrow(10_000, columns=columns).num_rows
                consumer.seek_to_beginning()
                last = recorder.spans("receive")[-1]
                assert bool(last.links) == ("headers" in columns)
        assert recorder.points("messaging.client.consumed.messages") == {("receive", topic, None): 6}
    assert set.union(*map(links_of, recorder.spans("receive"))) <= ids(recorder.spans("send"))


@pytest.mark.faces
def test_a_context_of_the_application_stays_and_bad_ones_are_ignored(cluster: Cluster, topic: str) -> None:
    with recording() as recorder:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send(topic, b"own", headers=[("traceparent", PARENT.encode()), ("other", None)])
            for bad in (b"\xff\xfe", b"nonsense", b"", None):
                producer.send(topic, b"bad", headers=[("traceparent", bad)])
            producer.flush()
        with consuming(cluster, TopicPartition(topic, 0)) as consumer:
            records = read(consumer, 5)
            for record in records:
                with consumer.processing(record) as span:
                    assert span is not None
    assert records[0].headers == [("traceparent", PARENT.encode()), ("other", None)]
    own = int(PARENT.split("-")[2], 16)
    assert links_of(recorder.spans("send")[0]) == {own}
    assert set.union(*map(links_of, recorder.spans("receive"))) == {own}
    parents = [span.parent and span.parent.span_id for span in recorder.spans("process")]
    assert parents == [own, None, None, None, None]


def test_an_exception_sets_the_status_and_is_raised(cluster: Cluster, topic: str) -> None:
    with recording() as recorder:
        send(cluster, topic, 1)
        with consuming(cluster, TopicPartition(topic, 0)) as consumer:
            (record,) = read(consumer, 1)
            with pytest.raises(ValueError, match="no such table"), consumer.processing(record):
                raise ValueError("no such table")
            assert not trace.get_current_span().get_span_context().is_valid
        assert recorder.points("messaging.process.duration") == {("process", topic, "ValueError"): 1}
    (span,) = recorder.spans("process")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such table")
    assert span.attributes["error.type"] == "ValueError"
    assert [event.name for event in span.events] == ["exception"]


@pytest.mark.faces
def test_failed_calls(cluster: Cluster, topic: str, group_id: str) -> None:
    def refuse(value: bytes) -> object:
        raise ValueError("not readable")

    with recording() as recorder:
        send(cluster, topic, 1)
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=200) as producer,
            pytest.raises(KafkaError),
        ):
            producer.send("no topic has this name!", b"x")
        partition = TopicPartition(topic, 0)
        with (
            consuming(cluster, partition, group_id=group_id, value_deserializer=refuse) as consumer,
            pytest.raises(RecordDeserializationError),
        ):
            read(consumer, 1)
        with (
            member(cluster, group_id, topic, group_instance_id="i") as one,
            consuming(cluster, partition, group_id=group_id, enable_auto_commit=False) as other,
        ):
            one.poll(10_000)
            while not one.assignment():
                one.poll(1_000)
            with pytest.raises(CommitFailedError):
                other.commit({partition: 1})
    failed = {span.name: span for span in recorder.spans() if span.status.status_code is StatusCode.ERROR}
    errors = {name: span.attributes["error.type"] for name, span in failed.items()}
    assert errors["receive"] == "RecordDeserializationError"
    assert errors[f"commit {topic}"] in ("CommitFailedError", "UnknownMemberIdError")
    assert "send no topic has this name!" in errors


@pytest.mark.parametrize("how", ["threads", "inline", "tasks"])
def test_workers_have_a_span_around_each_call(cluster: Cluster, topic: str, group_id: str, how: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    current: list[int] = []

    def handle(record: Any) -> None:
        current.append(trace.get_current_span().get_span_context().span_id)

    async def handle_later(record: Any) -> None:
        await asyncio.sleep(0.01)
        handle(record)

    async def in_tasks() -> None:
        async with AsyncKafkaConsumer(topic, **settings) as consumer:
            await AsyncWorkers(consumer, handle_later, concurrency=4).run(until_caught_up=True)

    with recording() as recorder:
        send(cluster, topic, 8)
        if how == "tasks":
            asyncio.run(in_tasks())
        else:
            with KafkaConsumer(topic, **settings) as consumer:
                Workers(consumer, handle, run_in=how, concurrency=4).run(until_caught_up=True)  # type: ignore[arg-type]
        spans = recorder.spans("process")
    assert sorted(current) == sorted(ids(spans))
    assert {span.parent.span_id for span in spans} == ids(recorder.spans("send"))


def test_workers_of_batches_have_a_span_around_each(cluster: Cluster, topic: str, group_id: str) -> None:
    with recording() as recorder:
        send(cluster, topic, 6)
        with KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            batch = Batch(6, wait_ms=2_000)
            Workers(consumer, lambda records: None, run_in="threads", batch=batch).run(until_caught_up=True)
    spans = recorder.spans("process")
    assert sum(span.attributes["messaging.batch.message_count"] for span in spans) == 6
    assert set.union(*map(links_of, spans)) == ids(recorder.spans("send"))


def test_the_layer_of_kafka_python(cluster: Cluster, topic: str, group_id: str) -> None:
    layer = importlib.import_module("pyconsumer.compat.kafka")
    with recording() as recorder:
        producer = layer.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        for n in range(3):
            producer.send(topic, b"%d" % n)
        producer.flush()
        producer.close()
        consumer = layer.KafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
        )
        for record in consumer:
            if record.offset == 2:
                break
        consumer.commit()
        consumer.close()
    sent = recorder.spans("send")
    assert [span.attributes["messaging.kafka.offset"] for span in sent] == [0, 1, 2]
    assert set.union(*map(links_of, recorder.spans("receive"))) == ids(sent)
    assert recorder.spans("commit")


def test_the_layer_of_aiokafka(cluster: Cluster, topic: str, group_id: str) -> None:
    layer = importlib.import_module("pyconsumer.compat.aiokafka")

    async def program() -> None:
        async with layer.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for n in range(3):
                await producer.send_and_wait(topic, b"%d" % n)
        async with layer.AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.getone()
            found: list[Any] = []
            while len(found) < 2:
                found += [one for part in (await consumer.getmany(timeout_ms=5_000)).values() for one in part]
            await consumer.commit()

    with recording() as recorder:
        asyncio.run(program())
        assert recorder.points("messaging.client.consumed.messages") == {("receive", topic, None): 3}
    sent = recorder.spans("send")
    assert len(sent) == 3
    assert set.union(*map(links_of, recorder.spans("receive"))) == ids(sent)
    assert recorder.spans("commit")


_APP = """
import sys
from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.workers import Workers
from tests.support.worker_functions import copies

servers, topic, sink, group = sys.argv[1:]
with KafkaProducer(bootstrap_servers=servers) as producer:
    for n in range(3):
        producer.send(topic, b"%d" % n, headers=[("sink", sink.encode())])
    producer.flush()
    with KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        run_in = "processes" if __name__ == "__main__" else "inline"
        Workers(consumer, copies, run_in=run_in, producer=producer).run(until_caught_up=True)
"""


@pytest.mark.slow
def test_a_program_started_by_opentelemetry_instrument_exports_over_http(
    cluster: Cluster, make_topic: Any, group_id: str, tmp_path: Path
) -> None:
    """A program that knows nothing of OpenTelemetry, with workers in processes, against a receiver of OTLP."""
    pytest.importorskip("opentelemetry.instrumentation.distro", reason="opentelemetry-instrument is not installed")
    assert copies is not None
    app = tmp_path / "app.py"
    app.write_text("if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in _APP.splitlines()))
    topic, sink = make_topic(1), make_topic(1)
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    with OtlpReceiver() as receiver:
        run(
            [str(command), sys.executable, str(app), cluster.bootstrap_servers, topic, sink, group_id],
            timeout_s=120,
            env={
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_LOGS_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                "OTEL_BSP_SCHEDULE_DELAY": "50",
                "OTEL_SERVICE_NAME": "a test",
                "OTEL_SEMCONV_STABILITY_OPT_IN": "messaging/dup",
                "PYTHONPATH": os.getcwd(),
            },
        ).check()
        spans = receiver.spans()
        names = receiver.metric_names()
    by_name: dict[str, list[Any]] = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
    assert len(by_name[f"send {topic}"]) == 3
    assert by_name[f"receive {topic}"]
    assert by_name[f"commit {topic}"]
    sent = {span.span_id for span in by_name[f"send {topic}"]}
    assert {link.span_id for span in by_name[f"receive {topic}"] for link in span.links} == sent
    assert {span.parent_span_id for span in by_name[f"process {topic}"]} == sent
    keys = {one.key for one in by_name[f"send {topic}"][0].attributes}
    assert {"messaging.system", "messaging.system.name", "kafka.offset", "messaging.kafka.offset"} <= keys
    assert {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
    } == names


def test_a_recorder_without_meters_counts_nothing(cluster: Cluster, topic: str) -> None:
    with recording(metrics=False) as recorder:
        send(cluster, topic, 1)
        assert isinstance(recorder, Recorder)
        assert recorder.points("messaging.client.sent.messages") == {}
        assert len(recorder.spans("send")) == 1
