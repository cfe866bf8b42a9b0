"""Typed columns of Avro beside Spark's own ``from_avro``: the types and the values of each kind of schema are the same.

The jar of ``from_avro`` comes from Maven.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyconsumer import KafkaProducer
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import Encoder, parse_schema, write_plan
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.typed_rows import settle, typed_schema
from tests.support.avro_values import Values
from tests.support.cluster import Cluster
from tests.support.spark import avro_jar
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(480)]

ROWS = 40
_LONG = {"type": "long"}
_IN = [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": "string"}]


def _fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def _decimal(kind: dict[str, Any], precision: int, scale: int = 2) -> dict[str, Any]:
    return {**kind, "logicalType": "decimal", "precision": precision, "scale": scale}


#: Kinds of schemas. The name of a type is made another one wherever it stands.
KINDS: list[Any] = [
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    _fixed(2),
    {"type": "enum", "name": "E", "symbols": ["X", "Y"]},
    {"type": "array", "items": ["null", "int"]},
    {"type": "map", "values": ["null", {"type": "array", "items": ["string", "int"]}]},
    {"type": "record", "name": "R", "fields": _IN},
    # unions
    *(["int"], ["null", "long"], ["double", "null"], ["int", "long"], ["long", "null", "int"], ["float", "double"]),
    *(["int", "float"], ["int", "long", "string"], ["float", "double", "int"], ["null", "boolean", "string"]),
    ["string", {"type": "record", "name": "R", "fields": _IN}, {"type": "map", "values": "int"}],
    [{"type": "enum", "name": "E", "symbols": ["A"]}, "null"],
    [{"type": "int", "logicalType": "date"}, "long"],
    # logical types
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    *(
        {**_LONG, "logicalType": f"{local}timestamp-{unit}"}
        for local in ("", "local-")
        for unit in ("millis", "micros")
    ),
    {"type": "string", "logicalType": "uuid"},
    _fixed(12, logicalType="duration"),
    *(_decimal({"type": "bytes"}, 5), _decimal({"type": "bytes"}, 38, 38), _decimal(_fixed(16), 38, 10)),
]
#: Logical types that do not fit their types. They are ignored.
IGNORED: list[Any] = [
    *(_decimal({"type": "bytes"}, 0), _decimal({"type": "bytes"}, 4, 5), _decimal(_fixed(1), 38, 10)),
    *(
        {"type": "string", "logicalType": "date"},
        {**_LONG, "logicalType": "date"},
        {"type": "bytes", "logicalType": "uuid"},
    ),
    *({"type": "int", "logicalType": kind} for kind in ("timestamp-millis", "time-micros", "nonsense")),
    _fixed(11, logicalType="duration"),
]

#: Where ours differ, on purpose: the kind, Spark's type and ours.
OTHERS = [
    ({**_LONG, "logicalType": "time-micros"}, "time(6)", "bigint"),
    (_fixed(16, logicalType="uuid"), "binary", "string"),
    (["null"], "struct<>", "void"),
]
#: Refused by both.
REFUSED = [
    _decimal({"type": "bytes"}, 39),
    {**_LONG, "logicalType": "timestamp-nanos"},
    {**_LONG, "logicalType": "local-timestamp-nanos"},
    {"type": "array", "items": "All"},
]


def _record(kinds: list[Any]) -> str:
    """Return a schema with a field for each kind, and the kind in a list, a map, a record and a union with null."""
    fields: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        shapes = [
            kind,
            {"type": "array", "items": kind},
            {"type": "map", "values": kind},
            {"type": "record", "name": "R", "fields": [{"name": "y", "type": kind}]},
        ]
        if not isinstance(kind, list) and kind != "null":
            shapes.append(["null", kind])
        fields += [{"name": f"x{number}_{place}", "type": shape} for place, shape in enumerate(shapes)]
    names = 0

    def renamed(kind: Any) -> Any:
        nonlocal names
        if isinstance(kind, list):
            return [renamed(one) for one in kind]
        if not isinstance(kind, dict):
            return kind
        found = {
            name: renamed(part) if name in ("type", "items", "values", "fields") else part
            for name, part in kind.items()
        }
        if kind.get("type") in ("record", "fixed", "enum"):
            names += 1
            found["name"] = f"N{names}"
        return found

    return json.dumps({"type": "record", "name": "All", "fields": renamed(fields)})


def _shown(value: Any) -> Any:
    """Return a value without times that Python cannot show in each time zone: those of the first and the last year."""
    if isinstance(value, dict):
        return {name: _shown(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_shown(part) for part in value)
    if isinstance(value, datetime.datetime) and not 1 < value.year < 9999:
        return value.replace(year=1969)
    return value


def _typed(schema: str) -> dict[str, Any]:
    return {"value.format": "avro", "value.schema": schema}


def _our_type(schema: str) -> Any:
    options = SourceOptions.parse({"kafka.bootstrap.servers": "a:9092", "subscribe": "a", **_typed(schema)})
    return typed_schema(options, settle(options, ["a"]))["value"].dataType


@pytest.fixture
def from_avro(spark: Any) -> Callable[[str, str], Any]:
    if not avro_jar():
        pytest.skip("needs the jar of from_avro, which Maven fetches")
    from pyspark.sql.avro.functions import from_avro as theirs

    return theirs


@pytest.fixture
def their_type(spark: Any, from_avro: Callable[[Any, str], Any]) -> Callable[[str], Any]:
    return lambda schema: (
        spark.range(1).selectExpr("x'' AS v").select(from_avro("v", schema).alias("v")).schema["v"].dataType
    )


def test_the_types_are_those_of_from_avro(their_type: Callable[[str], Any]) -> None:
    schema = _record([*KINDS, *IGNORED])
    theirs, ours = their_type(schema), _our_type(schema)
    for kind in theirs.names:
        assert ours[kind].jsonValue() == theirs[kind].jsonValue(), json.loads(schema)["fields"][
            theirs.names.index(kind)
        ]
    assert ours == theirs


@pytest.mark.parametrize(("kind", "spark_has", "ours"), OTHERS)
def test_the_types_that_differ_on_purpose(
    their_type: Callable[[str], Any], kind: Any, spark_has: str, ours: str
) -> None:
    schema = _record([kind])
    assert their_type(schema)["x0_0"].dataType.simpleString() == spark_has
    assert _our_type(schema)["x0_0"].dataType.simpleString() == ours


@pytest.mark.parametrize("kind", REFUSED)
def test_the_types_that_both_refuse(their_type: Callable[[str], Any], kind: Any) -> None:
    schema = _record([kind])
    with pytest.raises(Exception, match=r"PRECISION|CANNOT_PARSE_DATATYPE|recursive"):
        their_type(schema)
    with pytest.raises(ConfigurationError, match=r"leave it out with columns|give a value\.schema"):
        _our_type(schema)


def test_the_values_are_those_of_from_avro(
    spark: Any, cluster: Cluster, topic_name: str, from_avro: Callable[[str, str], Any]
) -> None:
    schema = _record([*KINDS, *IGNORED])
    values, parsed = Values(7), parse_schema(schema)
    encoder = Encoder(write_plan(parsed))
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(ROWS):
            producer.send(topic_name, encoder.encode(_shown(values.value(parsed.root))))
    raw = reader(spark, cluster.bootstrap_servers, {"subscribe": topic_name}).load()
    typed = reader(spark, cluster.bootstrap_servers, {"subscribe": topic_name, **_typed(schema)}).load()
    judged = raw.orderBy("offset").select(from_avro("value", schema).alias("value")).collect()
    found = typed.orderBy("offset").select("value").collect()
    assert len(found) == ROWS
    for ours, theirs in zip(found, judged, strict=True):
        for name in theirs.value.__fields__:
            assert ours.value[name] == theirs.value[name], name
