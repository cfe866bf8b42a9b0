"""The sink's options and columns, and rows as records."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyconsumer.errors import ConfigurationError, NotEnoughReplicasError, RecordTooLargeError
from pyconsumer.producer.future import BatchResult, FutureRecordMetadata
from pyconsumer.spark import sink
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.sink import BatchWriter, RecordsWritten, SinkColumns, SinkOptions, StreamWriter, sink_columns
from pyconsumer.spark.sink_config import producer_settings
from pyconsumer.spark.source import KafkaDataSource
from pyconsumer.structs import TopicPartition

LEAST = {"kafka.bootstrap.servers": "localhost:9092"}
LEAST_CLIENT = {"bootstrap.servers": "localhost:9092"}
EXACTLY = {"deliveryGuarantee": "exactly-once", "topic": "t"}


_TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def schema(columns: str) -> StructType:
    """A schema of text such as ``value binary,key string``."""
    fields = [part.split() for part in columns.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in fields])


def parse(**extra: str) -> SinkOptions:
    return SinkOptions.parse(LEAST | {name.replace("__", "."): text for name, text in extra.items()})


# -- options -----------------------------------------------------------------------------------------------------------


def test_options() -> None:
    options = parse(TOPIC="t", includeHeaders="true", checkpointLocation="/x", kafka__compression__type="zstd")
    assert options.topic == "t"
    assert not options.timestamps
    assert options.kafka_options == {"bootstrap.servers": "localhost:9092", "compression.type": "zstd"}
    assert parse().topic is None


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"topics": "t"}, "unknown option 'topics'.*use the option topic"),
        ({"subscribe": "t"}, "that is for reading"),
        ({"path": "t"}, "take no path"),
        ({"topik": "t"}, "did you mean 'topic'"),
        ({"topic": " "}, "option topic must not be empty"),
        ({"includeTimestamp": "maybe"}, "includeTimestamp must be true or false"),
        ({"kafka__acks": "0"}, "lost records would not be noticed"),
        ({"kafka__acks": "${env:NO_ACKS}"}, "lost records would not be noticed"),
        ({"kafka__key__serializer": "x"}, "kafka.key.serializer is not supported"),
        ({"kafka__value__serializer": "x"}, "kafka.value.serializer is not supported"),
        ({"kafka__partitioner__class": "x"}, "add a column named partition"),
        ({"kafka__transactional__id": "x"}, "for transactions set deliveryGuarantee=exactly-once"),
        ({"deliveryGuarantee": "once"}, "deliveryGuarantee must be at-least-once or exactly-once"),
        (
            {"deliveryGuarantee": "exactly-once"},
            "if the option topic is not given, name a topic for that by progressTopic",
        ),
        ({"transactionalIdPrefix": "x"}, "transactionalIdPrefix needs deliveryGuarantee=exactly-once"),
        (EXACTLY | {"kafka__acks": "1"}, "needs acks='all'"),
        (EXACTLY | {"onMissingProgress": "x"}, "onMissingProgress must be error or begin"),
        (EXACTLY | {"txnAppId": "x"}, "txnAppId and txnVersion must be given together"),
        (EXACTLY | {"txnVersion": "1"}, "txnAppId and txnVersion must be given together"),
        (EXACTLY | {"txnAppId": "a.b", "txnVersion": "1"}, "txnAppId must be 1 to 100 letters"),
        (EXACTLY | {"kafka__transaction__timeout__ms": "x"}, "transaction.timeout.ms|transaction_timeout_ms"),
        ({"kafka__compression__typ": "x"}, "did you mean 'kafka.compression.type'"),
        ({"kafka__batch__size": "x"}, "in the kafka.* options:.*batch_size|batch.size"),
        ({"kafka__max__poll__records": "5"}, "unknown option 'kafka.max.poll.records'"),
    ],
)
def test_an_invalid_option_raises_one_line(
    extra: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_ACKS", "0")
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse(**extra)
    assert "\n" not in str(caught.value)


def test_options_of_exactly_once() -> None:
    given = parse(**EXACTLY, kafka__transaction__timeout__ms="1000")
    assert given.delivery is not None
    assert given.delivery.prefix == "pyconsumer-spark"
    assert given.delivery.progress == TopicPartition("t", 0)
    assert not given.delivery.may_begin
    assert given.app_id is None
    settings = producer_settings(given.kafka_options, transactional_id="a")
    assert (settings["transactional.id"], settings["transaction.timeout.ms"]) == ("a", "1000")
    assert producer_settings(LEAST_CLIENT, transactional_id="a")["transaction.timeout.ms"] == "900000"
    more = {"progressTopic": "p", "transactionalIdPrefix": "q", "txnAppId": "job", "txnVersion": "7"}
    other = parse(**EXACTLY | more, onMissingProgress="begin")
    assert other.delivery is not None
    assert (other.delivery.prefix, other.delivery.progress.topic, other.delivery.may_begin) == ("q", "p", True)
    assert (other.app_id, other.version) == ("job", 7)
    assert pickle.loads(pickle.dumps(other)) == other


def test_servers_are_required() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka.bootstrap.servers is required"):
        SinkOptions.parse({"topic": "t"})


def test_settings_of_javas_producer(caplog: pytest.LogCaptureFixture) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
    options = {
        "bootstrap.servers": "x:1",
        "acks": "all",
        "retries": "5",
        "linger.ms": "7",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": login,
        "metrics.num.samples": "3",
        "metrics.recording.level": "DEBUG",
        "metadata.max.idle.ms": "60000",
    }
    settings = producer_settings(options, warn=True)
    assert settings["metadata.max.idle.ms"] == "60000"
    assert "metadata.max.idle.ms" not in caplog.text
    assert (settings["linger.ms"], settings["acks"], settings["sasl.jaas.config"]) == ("7", "all", login)
    assert settings["metrics.num.samples"] == "3"
    assert "kafka.metrics.recording.level has no effect" in caplog.text
    assert "s3cret" not in repr(parse(**{f"kafka.{name}": text for name, text in options.items()}))


# -- columns -----------------------------------------------------------------------------------------------------------


def test_columns_of_sparks_connector_in_any_order_and_case() -> None:
    found = sink_columns(
        schema("other bigint,VALUE string,key binary,topic string,partition int,headers headers"), None
    )
    assert found == SinkColumns(value=1, key=2, topic=3, partition=4, headers=5)


def test_the_option_is_stronger_than_the_column() -> None:
    assert sink_columns(schema("topic bigint,value binary"), "t") == SinkColumns(value=1)


def test_times_only_on_request() -> None:
    columns = schema("value binary,timestamp timestamp")
    assert sink_columns(columns, "t") == SinkColumns(value=0)
    assert sink_columns(columns, "t", timestamps=True) == SinkColumns(value=0, timestamp=1)


@pytest.mark.parametrize(
    ("ddl", "topic", "message"),
    [
        ("key binary", "t", "a column named value, of type binary or string, is required. The columns are: key"),
        ("value bigint", "t", "column value must be binary or string, not bigint"),
        ("value binary,key int", "t", "column key must be binary or string, not int"),
        ("value binary,partition bigint", "t", "column partition must be int, not bigint"),
        ("value binary,headers string", "t", "column headers must be array<struct<key:string,value:binary>>, not"),
        ("value binary,topic binary", None, "column topic must be string, not binary"),
        (
            "value binary,key string",
            None,
            "no topic to write to is given: .*option topic.*. The columns are: value, key",
        ),
        ("value binary,VALUE string", "t", "there are 2 columns named value"),
    ],
)
def test_columns_that_cannot_be_written(ddl: str, topic: str | None, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        sink_columns(schema(ddl), topic)


def test_times_need_their_column() -> None:
    with pytest.raises(ConfigurationError, match="includeTimestamp needs a column named timestamp"):
        sink_columns(schema("value binary"), "t", timestamps=True)


# -- rows --------------------------------------------------------------------------------------------------------------


class FakeProducer:
    """Takes records. Those with the value ``lost`` fail when flushed, ``large`` ones at once."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.flushed = 0
        self.waiting: list[Any] = []

    def send(self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any) -> Any:
        if value == b"large":
            raise RecordTooLargeError("the record has too many bytes")
        self.sent.append((topic, value, key, headers, partition, timestamp_ms))
        error = NotEnoughReplicasError("no") if value == b"lost" else None
        if error is None:
            return self
        result = BatchResult(TopicPartition(topic, 0))
        result.finish(-1, -1, error)
        return FutureRecordMetadata(result, 0, -1, -1, -1)

    def send_many(self, topic: str, values: list[Any], keys: list[Any] | None) -> Any:
        for row, value in enumerate(values):
            self.send(topic, value, None if keys is None else keys[row], None, None, None)
        return SimpleNamespace(
            done=lambda: self.flushed > 0,
            exception=NotEnoughReplicasError("no") if b"lost" in values else None,
        )

    def add_errback(self, function: Any) -> None:
        pass

    def flush(self) -> None:
        self.flushed += 1


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    made = FakeProducer()

    @contextmanager
    def borrow(options: Any) -> Iterator[FakeProducer]:
        yield made

    monkeypatch.setattr(sink, "borrow_producer", borrow)
    return made


def test_rows_become_records_in_their_order(producer: FakeProducer) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"1", None, "ü".encode()]),
            "key": pa.array(["k", None, "w"]),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "partition": pa.array([1, None, 0], pa.int32()),
            "timestamp": pa.array([1_234_567, None, 5_000], pa.timestamp("us", tz="UTC")),
        }
    )
    columns = SinkColumns(value=0, key=1, headers=2, partition=3, timestamp=4)
    written = BatchWriter(parse(topic="t"), columns).write(iter([batch, batch.slice(2)]))
    assert written == RecordsWritten(4)
    first = ("t", b"1", b"k", [("h", b"x"), ("h", None)], 1, 1234)
    last = ("t", "ü".encode(), b"w", [], 0, 5)
    assert producer.sent == [first, ("t", None, None, None, None, None), last, last]
    assert producer.flushed == 1


def test_topics_of_a_column(producer: FakeProducer) -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "b"], "value": ["1", "2"]})
    assert StreamWriter(parse(), SinkColumns(value=1, topic=0)).write(iter([batch])).records == 2
    assert [found[:2] for found in producer.sent] == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_strings_that_are_not_text_are_written_unchanged(producer: FakeProducer, kind: pa.DataType) -> None:
    odd = pa.array([b"\xff\xfe", None]).cast(kind, safe=False)
    batch = pa.RecordBatch.from_pydict({"value": odd, "key": odd})
    BatchWriter(parse(topic="t"), SinkColumns(value=0, key=1)).write(iter([batch]))
    assert [found[1:3] for found in producer.sent] == [(b"\xff\xfe", b"\xff\xfe"), (None, None)]


def test_a_row_without_a_topic(producer: FakeProducer) -> None:
    batch = pa.RecordBatch.from_pydict({"topic": pa.array(["a", None]), "value": ["1", "2"]})
    with pytest.raises(WriteError, match=r"\[KAFKA_NULL_TOPIC_IN_DATA\]"):
        BatchWriter(parse(), SinkColumns(value=1, topic=0)).write(iter([batch]))


@pytest.mark.parametrize(("value", "error"), [(b"lost", "NotEnoughReplicas"), (b"large", "RecordTooLarge")])
def test_a_record_that_cannot_be_written_fails_the_task(producer: FakeProducer, value: bytes, error: str) -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"1", value])})
    with pytest.raises(WriteError, match=f"could not be written: {error}") as caught:
        BatchWriter(parse(topic="t"), SinkColumns(value=0)).write(iter([batch]))
    assert caught.value.__cause__ is not None
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_a_task_without_rows(producer: FakeProducer) -> None:
    assert BatchWriter(parse(topic="t"), SinkColumns(value=0)).write(iter([])).records == 0


# -- what Spark does with writers --------------------------------------------------------------------------------------


def source(**extra: str) -> KafkaDataSource:
    return KafkaDataSource(options=CaseInsensitiveDict(LEAST | {"topic": "t"} | extra))


def test_spark_calls_by_keyword() -> None:
    columns = schema("value binary")
    assert isinstance(source().writer(schema=columns, overwrite=False), DataSourceArrowWriter)
    assert isinstance(source().streamWriter(schema=columns, overwrite=True), DataSourceStreamArrowWriter)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be overwritten.*mode\('append'\)"):
        source().writer(schema=schema("value binary"), overwrite=True)


def test_writers_travel_and_have_no_state() -> None:
    writer = source().writer(schema=schema("value binary"), overwrite=False)
    copy = pickle.loads(pickle.dumps(writer))
    assert (copy.options, copy.columns) == (writer.options, writer.columns)
    copy.commit([RecordsWritten(3), RecordsWritten(4)])
    copy.abort([RecordsWritten(3), None])
    stream = source().streamWriter(schema=schema("value binary"), overwrite=False)
    stream.commit([RecordsWritten(3)], batchId=5)
    stream.abort([None], batchId=6)
