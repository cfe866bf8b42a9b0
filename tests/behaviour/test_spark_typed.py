"""Spark reads typed columns: with a real registry, a real session, batches and streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
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
