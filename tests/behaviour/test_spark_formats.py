"""Spark reads and writes JSON and Protobuf as typed columns: with a real registry and a real session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

import pyconsumer.spark.archive as pipelines
from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import archive as archive_command
from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas import (
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
)
from tests.support.proto_files import compiled
from tests.support.spark_streams import Stream, patiently
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(480)]

JSON_ORDER = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "customer": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "note": {"type": ["string", "null"]},
        },
        "required": ["id", "customer", "tags", "counts"],
    }
)
PROTO_ORDER = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
message Order {
  uint64 id = 1; Customer customer = 2; repeated string tags = 3; map<string, int64> counts = 4;
  optional string note = 5; google.protobuf.Timestamp at = 6; oneof pay { string card = 7; bool cash = 8; }
}
message Customer { string name = 1; }
"""
WIDER = PROTO_ORDER.replace("optional string note = 5;", "optional string note = 5; int32 more = 9;")
COMMON = "customer:struct<name:string>,tags:array<string>,counts:map<string,bigint>,note:string"
TYPES = {
    "json": f"struct<id:bigint,{COMMON}>",
    "protobuf": f"struct<id:decimal(20,0),{COMMON},at:timestamp,card:string,cash:boolean>",
}
SCHEMAS = {"json": JSON_ORDER, "protobuf": PROTO_ORDER}


def orders(*ids: int) -> list[dict[str, Any]]:
    return [
        {"id": number, "customer": {"name": f"c{number}"}, "tags": ["a"] * number, "counts": {"x": number}}
        for number in ids
    ]


class World(NamedTuple):
    """A broker with a registry."""

    servers: str
    url: str
    client: SchemaRegistryClient

    def send(self, topic: str, form: str, values: list[Any], schema: str | None = None) -> None:
        """Send values, and None as a tombstone, and bytes as they are."""
        serializer: Any
        if form == "json":
            serializer = JSONSerializer(JSON_ORDER, self.client)
            made = values
        else:
            kind: Any = compiled(schema or PROTO_ORDER).message([0])
            serializer = ProtobufSerializer(kind, self.client)
            made = [kind(**each) if isinstance(each, dict) else each for each in values]
        with (
            KafkaProducer(bootstrap_servers=self.servers, value_serializer=serializer) as producer,
            KafkaProducer(bootstrap_servers=self.servers) as plain,
        ):
            for each in made:
                (plain if isinstance(each, bytes) else producer).send(topic, each).result(60)

    def options(self, topic: str, form: str, **more: object) -> dict[str, object]:
        more = {name.replace("__", "."): value for name, value in more.items()}
        return {"subscribe": topic, "value.format": form, "schema.registry.url": self.url, **more}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster,
        SchemaRegistryClient(cluster.schema_registry_url) as client,
    ):
        assert cluster.schema_registry_url is not None
        yield World(cluster.bootstrap_servers, cluster.schema_registry_url, client)


@pytest.fixture
def load(spark: Any, world: World) -> Callable[..., Any]:
    return lambda topic, form, **more: reader(spark, world.servers, world.options(topic, form, **more)).load()


@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_values_are_structs_and_are_written_again_exactly_once(
    world: World, load: Callable[..., Any], topic_name: str, form: str
) -> None:
    world.send(topic_name, form, [*orders(0, 1, 2), None, b"{}"])
    frame = load(topic_name, form, onDecodeError="null", columns="offset,value,decodeError")
    assert frame.schema["value"].dataType.simpleString() == TYPES[form]
    rows = frame.orderBy("offset").collect()
    found = [row.value and (row.value.id, row.value.customer.name, row.value.tags, row.value.counts) for row in rows]
    assert found == [(0, "c0", [], {"x": 0}), (1, "c1", ["a"], {"x": 1}), (2, "c2", ["a", "a"], {"x": 2}), None, None]
    assert [row.decodeError and row.decodeError.stage for row in rows] == [None, None, None, None, "framing"]
    part = load(topic_name, form, columns="value.customer.name", onDecodeError="null")
    assert part.filter("value.customer.name = 'c1'").count() == 1

    copy = f"{topic_name}-copy"
    options = {name: value for name, value in world.options(topic_name, form).items() if name != "subscribe"}
    good = frame.filter("decodeError is null").select("value")
    writer = good.repartition(2).write.format("pyconsumer").options(**options).option("topic", copy)
    writer = writer.option("kafka.bootstrap.servers", world.servers).option("value.schema", SCHEMAS[form])
    writer = writer.option("deliveryGuarantee", "exactly-once").option("txnAppId", topic_name).option("txnVersion", 1)
    for _ in range(2):  # the second time it is skipped
        writer.mode("append").save()
    assert world.client.get_versions(f"{copy}-value") == [1]
    # A client reads them by the same schema.
    deserializer: Any = (
        JSONDeserializer(JSON_ORDER, None, world.client)
        if form == "json"
        else ProtobufDeserializer(compiled(PROTO_ORDER).message([0]), None, world.client)
    )
    read: list[Any] = []
    with KafkaConsumer(
        copy, bootstrap_servers=world.servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        while len(read) < 4:
            read += consumer.poll_arrow(timeout_ms=60_000, value=deserializer)["value"].to_pylist()
    assert len(read) == 4
    values = sorted([each for each in read if each is not None], key=lambda each: int(each["id"]))
    assert [(each["id"], each["customer"]["name"], each["tags"], dict(each["counts"])) for each in values] == found[:3]


def test_bare_values_are_those_of_from_json(
    spark: Any, world: World, load: Callable[..., Any], topic_name: str
) -> None:
    from pyspark.sql.functions import col, from_json

    world.send(topic_name, "json", [json.dumps(each).encode() for each in orders(0, 3)])
    typed = reader(
        spark, world.servers, {"subscribe": topic_name, "value.format": "json", "value.schema": JSON_ORDER}
    ).load()
    raw = reader(spark, world.servers, {"subscribe": topic_name}).load()
    judged = raw.select(col("offset"), from_json(col("value").cast("string"), TYPES["json"]).alias("value"))
    assert typed.select("offset", "value").orderBy("offset").collect() == judged.orderBy("offset").collect()


@pytest.mark.slow
def test_a_stream_of_protobuf_keeps_its_schema(spark: Any, world: World, topic_name: str, tmp_path: Path) -> None:
    world.send(topic_name, "protobuf", orders(0, 1))
    first = world.client.get_latest_version(f"{topic_name}-value").schema_id
    options = world.options(topic_name, "protobuf", startingOffsets="earliest", columns="partition,offset,value.id")
    stream = Stream(spark, world.servers, tmp_path, options)
    stream.run_available()
    assert stream.offsets() == [{topic_name: {"0": 2}, "#schemas": {"value": first}}]
    world.send(topic_name, "protobuf", [{**each, "more": 1} for each in orders(2)], WIDER)
    with pytest.raises(Exception, match=rf"began with schema {first} .*value\.schema\.id={first}"):
        patiently(lambda: stream.start(availableNow=True).awaitTermination())
    stream.options["value.schema.id"] = first
    stream.run_available()
    rows = spark.read.parquet(str(stream.output)).orderBy("offset").select("value.id").collect()
    assert [int(row.id) for row in rows] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_a_typed_archive_keeps_each_record_and_its_schema_id(
    spark: Any, world: World, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    world.send(topic_name, form, [*orders(0, 1), None, b"{}"])
    schema_id = world.client.get_latest_version(f"{topic_name}-value").schema_id
    folder = str(tmp_path / "typed")
    arguments = [topic_name, "--to", folder, "-b", world.servers, "--value-format", form, "--json"]
    arguments += ["--schema-registry", world.url]
    monkeypatch.setattr("pyconsumer.cli.spark.spark_session", lambda master, conf: nullcontext(spark))
    for _ in range(2):  # the second time it adds nothing
        archive_command.command.main(arguments, standalone_mode=False)
    frame = spark.read.parquet(folder).orderBy("offset")
    assert frame.schema["value"].dataType.simpleString() == TYPES[form]
    rows = frame.collect()
    assert [row.offset for row in rows] == [0, 1, 2, 3]
    found = [row.value and (row.value.id, row.value.customer.name, row.value.tags, row.value.counts) for row in rows]
    assert found == [(0, "c0", [], {"x": 0}), (1, "c1", ["a"], {"x": 1}), None, None]
    assert [row.value_schema_id for row in rows] == [schema_id, schema_id, None, None]
    assert [row.bad_value and bytes(row.bad_value) for row in rows] == [None, None, None, b"{}"]
    assert [row.decodeError and row.decodeError.stage for row in rows] == [None, None, None, "framing"]


@pytest.mark.slow
def test_an_archive_has_one_type_of_values(spark: Any, world: World, topic_name: str, tmp_path: Path) -> None:
    def archive(folder: str, **more: object) -> pipelines.Archived:
        options = {name: str(value) for name, value in world.options(topic_name, "protobuf", **more).items()}
        return pipelines.archive(spark, world.servers, topic_name, str(tmp_path / folder), options=options)

    def files(folder: str) -> list[Path]:
        return sorted(path for path in (tmp_path / folder).rglob("*") if path.name != "_lock")

    world.send(topic_name, "protobuf", orders(0))
    first = world.client.get_latest_version(f"{topic_name}-value").schema_id
    pipelines.archive(spark, world.servers, topic_name, str(tmp_path / "raw"))
    archive("typed")
    world.send(topic_name, "protobuf", [{**each, "more": 1} for each in orders(1)], WIDER)
    second = world.client.get_latest_version(f"{topic_name}-value").schema_id

    before = files("raw"), files("typed")
    with pytest.raises(
        ConfigurationError,
        match=rf"/raw holds values as undecoded \(binary\), and .* add values as protobuf of schema {second} \(struct<"
        r"id.* Use another folder, or go on as before, with no value\.format",
    ):
        archive("raw")
    back = rf"with value\.format=protobuf and value\.schema\.id={first}"
    with pytest.raises(ConfigurationError, match=rf"/typed holds values as protobuf of schema {first} .*{back}"):
        pipelines.archive(spark, world.servers, topic_name, str(tmp_path / "typed"))
    with pytest.raises(ConfigurationError, match=rf"add values as protobuf of schema {second} .*{back}"):
        archive("typed", value__schema__id=second)
    assert (files("raw"), files("typed")) == before

    assert archive("typed", value__schema__id=first).records == 1
    rows = spark.read.parquet(str(tmp_path / "typed")).orderBy("offset").collect()
    assert [int(row.value.id) for row in rows] == [0, 1]
