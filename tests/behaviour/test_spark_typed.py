"""Spark reads typed columns: with a real registry, a real session, batches and streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

import pyconsumer.spark.archive as pipelines
from pyconsumer import KafkaProducer
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import archive as archive_command
from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas import AvroSerializer, SchemaRegistryClient
from pyconsumer.spark import lag
from tests.support.spark_streams import Stream, patiently
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(480)]

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [
                    {"name": "name", "type": "string"},
                    {"name": "since", "type": {"type": "int", "logicalType": "date"}},
                ],
            },
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 1.5}]}
LOGIN = "alice:s3cr3t"


class World(NamedTuple):
    """A broker with a registry that wants a login. The secret is in a file."""

    servers: str
    url: str
    secrets: Path
    client: SchemaRegistryClient

    def send(self, topic: str, schema: dict[str, Any], *ids: int, **extra: Any) -> None:
        serializer = AvroSerializer(self.client, json.dumps(schema))
        with KafkaProducer(bootstrap_servers=self.servers, value_serializer=serializer) as producer:
            for number in ids:
                customer = {"name": f"c{number}", "since": number}
                producer.send(
                    topic, {"id": number, "customer": customer, "tags": ["a"] * number, "at": number, **extra}
                )

    def send_bytes(self, topic: str, *values: bytes | None) -> None:
        with KafkaProducer(bootstrap_servers=self.servers) as producer:
            for value in values:
                producer.send(topic, value)

    def options(self, topic: str, **more: object) -> dict[str, object]:
        return {
            "subscribe": topic,
            "value.format": "avro",
            "schema.registry.url": self.url,
            "schema.registry.basic.auth.user.info": f"${{file:{self.secrets}:login}}",
            **more,
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    secrets = tmp_path_factory.mktemp("secrets") / "registry.properties"
    secrets.write_text(f"login={LOGIN}\n")
    users = dict([LOGIN.split(":")])
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True, schema_registry_users=users) as cluster,
        SchemaRegistryClient({"url": cluster.schema_registry_url, "basic.auth.user.info": LOGIN}) as client,
    ):
        yield World(cluster.bootstrap_servers, cluster.schema_registry_url, secrets, client)


@pytest.fixture
def load(spark: Any, world: World) -> Callable[..., Any]:
    return lambda topic, **more: reader(spark, world.servers, world.options(topic, **more)).load()


def test_values_are_structs_and_bad_ones_are_told_apart(
    world: World, load: Callable[..., Any], topic_name: str
) -> None:
    world.send(topic_name, ORDER, 0, 1)
    world.send(topic_name, WIDER, 2, price=2.5)
    world.send_bytes(topic_name, None, b"{}")
    frame = load(topic_name, onDecodeError="null", includeBytes=True)
    assert frame.select("value").schema.simpleString() == (
        "struct<value:struct<id:bigint,customer:struct<name:string,since:date>,tags:array<string>,at:timestamp,"
        "price:double>>"
    )
    rows = frame.orderBy("offset").collect()
    assert [row.value and (row.value.id, row.value.customer.name, row.value.tags, row.value.price) for row in rows] == [
        (0, "c0", [], 1.5),
        (1, "c1", ["a"], 1.5),
        (2, "c2", ["a", "a"], 2.5),
        None,
        None,
    ]
    assert [row.decodeError and row.decodeError.stage for row in rows] == [None, None, None, None, "framing"]
    assert bytes(rows[4].value_bytes) == b"{}"
    # The columns are Spark's own: a filter, a nested column, an aggregate.
    assert frame.filter("value.customer.name = 'c1'").selectExpr("sum(value.id)").collect()[0][0] == 1
    # The schema stays that of load(), and so does a frame's.
    part = load(topic_name, columns="value.customer.name,value.id", onDecodeError="null")
    world.client.register_schema(f"{topic_name}-value", _schema({**WIDER, "fields": [*WIDER["fields"], _NEXT]}))
    assert part.columns == ["value", "decodeError"]
    assert part.filter("decodeError is null and value is not null").count() == 3
    assert sorted(row.name for row in part.select("value.customer.name").dropna().collect()) == ["c0", "c1", "c2"]
    # No secret is in a plan.
    assert "s3cr3t" not in frame._jdf.queryExecution().toString()


_NEXT = {"name": "next", "type": "int", "default": 0}


def _schema(source: Any) -> Any:
    from pyconsumer.schemas import Schema

    return Schema(json.dumps(source))


def test_a_bad_row_fails_the_query_and_sql_has_the_columns(
    spark: Any, world: World, load: Callable[..., Any], topic_name: str
) -> None:
    world.send(topic_name, ORDER, 0)
    given = ", ".join(f"`{name}` '{value}'" for name, value in world.options(topic_name).items())
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING pyconsumer OPTIONS ("
        f"`kafka.bootstrap.servers` '{world.servers}', {given})"
    )
    assert spark.sql("SELECT value.customer.since AS since FROM orders").collect()[0].since.isoformat() == "1970-01-01"
    world.send_bytes(topic_name, b"{}")
    with pytest.raises(Exception, match=rf"{topic_name}-0 at offset 1: the record cannot be decoded: value: .*7b 7d"):
        load(topic_name).collect()


def test_wrong_schemas_are_told_by_load(world: World, load: Callable[..., Any], topic_name: str) -> None:
    world.client.register_schema(f"{topic_name}-value", _schema(ORDER))
    world.client.register_schema(f"{topic_name}-2-value", _schema(WIDER))
    with pytest.raises(Exception, match="have different schemas of the value"):
        load(f"{topic_name},{topic_name}-2")
    with pytest.raises(Exception, match="has no schema of the values"):
        load(f"{topic_name}-3")


def test_structs_are_written_as_avro_exactly_once(
    spark: Any, world: World, load: Callable[..., Any], topic_name: str
) -> None:
    world.send(topic_name, ORDER, 0, 1)
    copy = f"{topic_name}-copy"
    options = {name: value for name, value in world.options(topic_name).items() if name != "subscribe"}
    writer = load(topic_name).selectExpr("value.id AS key", "value").repartition(2).write.format("pyconsumer")
    writer = writer.options(**options).option("kafka.bootstrap.servers", world.servers).option("topic", copy)
    writer = (
        writer.option("value.schema", json.dumps(ORDER)).option("key.format", "avro").option("key.schema", '"long"')
    )
    writer = writer.option("deliveryGuarantee", "exactly-once").option("txnAppId", topic_name).option("txnVersion", 1)
    for _ in range(2):  # the second time it is skipped
        writer.mode("append").save()
    assert world.client.get_versions(f"{copy}-value") == [1]
    found = load(copy, key__format="avro", kafka__isolation__level="read_committed").orderBy("key").collect()
    assert [row.key for row in found] == [0, 1]
    assert [row.value for row in found] == [row.value for row in load(topic_name).orderBy("value.id").collect()]
    frame = load(topic_name).selectExpr("struct(value.id AS number) AS value")
    with pytest.raises(Exception, match="Order has no field number"):
        frame.write.format("pyconsumer").options(**options).option("kafka.bootstrap.servers", world.servers).option(
            "topic", copy
        ).mode("append").save()


@pytest.mark.slow
def test_a_stream_keeps_its_schema(spark: Any, world: World, topic_name: str, tmp_path: Path) -> None:
    world.send(topic_name, ORDER, 0, 1)
    first = world.client.get_latest_version(f"{topic_name}-value").schema_id
    options = world.options(topic_name, startingOffsets="earliest", columns="partition,offset,value.id,value.at")
    stream = Stream(spark, world.servers, tmp_path, options)
    (progress,) = stream.run_available()
    assert stream.offsets() == [{topic_name: {"0": 2}, "#schemas": {"value": first}}]
    assert sum(lag(progress).values()) == 0
    world.send(topic_name, WIDER, 2, price=2.5)
    second = world.client.get_latest_version(f"{topic_name}-value").schema_id
    with pytest.raises(
        Exception, match=rf"began with schema {first} .*latest one is {second} .*value\.schema\.id={first}"
    ):
        patiently(lambda: stream.start(availableNow=True).awaitTermination())
    assert len(stream.offsets()) == 1
    stream.options["value.schema.id"] = first
    stream.run_available()
    assert stream.offsets()[1:] == [{topic_name: {"0": 3}}]
    assert stream.positions() == [(0, 0), (0, 1), (0, 2)]
    rows = spark.read.parquet(str(stream.output)).orderBy("offset").select("value.id").collect()
    assert [row.id for row in rows] == [0, 1, 2]


@pytest.mark.slow
def test_a_typed_archive_keeps_each_record_and_its_schema_id(
    spark: Any, world: World, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(topic_name, ORDER, 0, 1)
    world.send(topic_name, WIDER, 2, price=2.5)
    world.send_bytes(topic_name, None, b"{}")
    first, second = (world.client.get_version(f"{topic_name}-value", number).schema_id for number in (1, 2))
    folder = str(tmp_path / "typed")
    login = "schema.registry.basic.auth.user.info"
    arguments = [topic_name, "--to", folder, "-b", world.servers, "--value-format", "avro", "--json"]
    arguments += ["--schema-registry", world.url, "--option", f"{login}={world.options(topic_name)[login]}"]
    monkeypatch.setattr("pyconsumer.cli.spark.spark_session", lambda master, conf: nullcontext(spark))
    for _ in range(2):  # the second time it adds nothing
        archive_command.command.main(arguments, standalone_mode=False)
    rows = spark.read.parquet(folder).orderBy("offset").collect()
    assert [row.offset for row in rows] == [0, 1, 2, 3, 4]
    assert [row.value and (row.value.id, row.value.price) for row in rows] == [(0, 1.5), (1, 1.5), (2, 2.5), None, None]
    assert [row.value_schema_id for row in rows] == [first, first, second, None, None]
    assert [row.bad_value and bytes(row.bad_value) for row in rows] == [None, None, None, None, b"{}"]
    assert [row.decodeError and row.decodeError.stage for row in rows] == [None, None, None, None, "framing"]
    assert {"key", "timestamp", "timestampType", "headers", "topic"} < set(rows[0].asDict())
    copy = f"{topic_name}-copy"
    with KafkaAdminClient(bootstrap_servers=world.servers) as admin:
        admin.create_topics([NewTopic(copy, 1, 1)])
    with pytest.raises(ConfigurationError, match="has decoded values and not the bytes"):
        pipelines.replay(spark, folder, world.servers, copy)
    # With the bytes of all records it can be replayed.
    options = {name: str(value) for name, value in world.options(topic_name, includeBytes="true").items()}
    pipelines.archive(spark, world.servers, topic_name, f"{folder}-bytes", options=options)
    assert pipelines.replay(spark, f"{folder}-bytes", world.servers, copy).records == 5
    found = [reader(spark, world.servers, {"subscribe": name}).load() for name in (topic_name, copy)]
    source, replayed = (frame.select("key", "value", "timestamp").orderBy("offset").collect() for frame in found)
    assert source == replayed
    assert replayed[3].value is None
    assert bytes(replayed[4].value) == b"{}"
