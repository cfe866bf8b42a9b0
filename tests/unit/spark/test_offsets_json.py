"""JSON of partitions and offsets."""

from __future__ import annotations

import json

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.offsets_json import format_offsets, offsets_to_spark, parse_numbers, parse_partitions
from pyconsumer.structs import TopicPartition


def test_partitions_are_sorted() -> None:
    found = parse_partitions("assign", '{"b":[4,2],"a":[0]}')
    assert found == [TopicPartition("a", 0), TopicPartition("b", 2), TopicPartition("b", 4)]


@pytest.mark.parametrize(
    "text",
    ["", "a,b", "[]", "{}", '{"a":1}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', '{"a":[0,0]}', '{"a":[0],"a":[1]}'],
)
def test_an_invalid_list_of_partitions_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option assign"):
        parse_partitions("assign", text)


def test_numbers_by_partition() -> None:
    found = parse_numbers("startingOffsets", '{"a":{"0":23,"1":-2}}', example="{}", legal=lambda n: n >= -2)
    assert found == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -2}


def test_the_offsets_of_a_typed_stream_can_be_given_back() -> None:
    text = json.dumps(offsets_to_spark({TopicPartition("a", 0): 23}, {"value": 7}))
    assert "#schemas" in text
    assert parse_numbers("startingOffsets", text, example="{}") == {TopicPartition("a", 0): 23}


@pytest.mark.parametrize(
    "text",
    ['{"a":[0]}', '{"a":{"x":1}}', '{"a":{"0":1.5}}', '{"a":{"0":-3}}', '{"a":{"0":true}}', '{"a":{"0":1e30}}', "{"],
)
def test_an_invalid_offset_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"option startingOffsets.*should look like EXAMPLE"):
        parse_numbers("startingOffsets", text, example="EXAMPLE", legal=lambda n: n >= -2)


def test_offsets_are_written_in_one_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 5, TopicPartition("a", 0): 7}
    assert format_offsets(offsets) == '{"a":{"0":7},"b":{"2":5,"10":1}}'
    assert format_offsets(dict(reversed(offsets.items()))) == format_offsets(offsets)
