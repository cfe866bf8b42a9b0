"""The checks of ``split_batches``: a dead letter has the bytes of its record, or the batch is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import types as spark

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark import split_batches
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.typed_rows import settle, typed_schema

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092"}
BINARY, RECORD = spark.BinaryType(), spark.StructType([spark.StructField("x", spark.IntegerType())])
PLAIN = {
    "topic": spark.StringType(),
    "partition": spark.IntegerType(),
    "offset": spark.LongType(),
    "timestamp": spark.TimestampType(),
    "decodeError": spark.StringType(),
}


class Written(Exception):
    """The frame was not refused."""


def source_schema(**formats: str) -> spark.StructType:
    """The columns of the source with some formats."""
    options = OPTIONS | {"subscribe": "orders", "onDecodeError": "null"}
    for side in formats:
        options |= {f"{side}.format": "avro", f"{side}.schema": json.dumps("bytes")}
    parsed = SourceOptions.parse(options)
    return typed_schema(parsed, settle(parsed, ["orders"]))


def split(columns: dict[str, Any], decoded: tuple[str, ...] | None) -> None:
    """Split a frame of some columns, of which the job has made all but ``decodeError``."""

    def select(*_: str) -> Any:
        raise Written

    kinds = columns | PLAIN
    sign = None if decoded is None else source_schema(**dict.fromkeys(decoded, "avro"))["decodeError"].metadata
    fields = [
        spark.StructField(name, kind, True, sign if name == "decodeError" else None) for name, kind in kinds.items()
    ]
    frame = SimpleNamespace(columns=list(kinds), schema=spark.StructType(fields), selectExpr=select)
    split_batches("good", "dead", app_id="job", options=OPTIONS)(frame, 0)


@pytest.mark.parametrize(
    ("columns", "decoded", "lacking"),
    [
        ({"key": BINARY, "value": RECORD}, ("value",), "value_bytes"),
        # Avro's bytes, fixed and duration are binary columns, and so may be one that the job computes.
        ({"key": BINARY, "value": BINARY}, ("value",), "value_bytes"),
        ({"key": BINARY, "value": BINARY}, ("key",), "key_bytes"),
        ({"key": BINARY, "key_bytes": BINARY, "value": BINARY}, ("key", "value"), "value_bytes"),
        ({"key": RECORD, "key_bytes": BINARY}, ("key",), "value"),
        ({"value": RECORD, "value_bytes": BINARY}, ("value",), "key"),
        ({"key": spark.StringType(), "value_bytes": BINARY}, ("value",), "key"),
        # The job has replaced decodeError itself, so that nothing tells which sides were decoded.
        ({"key": BINARY, "value": BINARY}, None, "key_bytes, value_bytes"),
        ({"key": BINARY, "value_bytes": BINARY}, None, "key_bytes"),
    ],
)
def test_a_frame_without_the_bytes_of_its_records_is_refused(
    columns: dict[str, Any], decoded: tuple[str, ...] | None, lacking: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"lacks the columns {lacking}, which"):
        split(columns, decoded)


@pytest.mark.parametrize("name", PLAIN)
def test_the_place_of_a_record_is_needed(name: str) -> None:
    frame = SimpleNamespace(columns=["key", "value", *(other for other in PLAIN if other != name)])
    with pytest.raises(ConfigurationError, match=f"lacks the columns {name}, which"):
        split_batches("good", "dead", app_id="job", options=OPTIONS)(frame, 0)


@pytest.mark.parametrize(
    ("columns", "decoded"),
    [
        ({"key": BINARY, "value": BINARY, "value_bytes": BINARY}, ("value",)),
        ({"key": RECORD, "key_bytes": BINARY, "value": BINARY}, ("key",)),
        ({"key_bytes": BINARY, "value_bytes": BINARY}, ("key", "value")),
        ({"key_bytes": BINARY, "value_bytes": BINARY}, None),
    ],
)
def test_a_frame_with_them_is_written(columns: dict[str, Any], decoded: tuple[str, ...] | None) -> None:
    with pytest.raises(Written):
        split(columns, decoded)


@pytest.mark.parametrize("name", ["topic", "Topic", "value.format", "key.format"])
def test_options_that_would_mix_or_change_the_rows_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"option {name} "):
        split_batches("good", "dead", app_id="job", options={**OPTIONS, name: "avro"})
