"""Options of the source."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.options import Bound, SourceOptions
from pyconsumer.spark.schema import COLUMNS
from pyconsumer.structs import TopicPartition

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
TP = TopicPartition("a", 0)


def parse(**extra: str) -> SourceOptions:
    return SourceOptions.parse(LEAST | {name.replace("__", "."): value for name, value in extra.items()})


def test_defaults_are_those_of_sparks_connector() -> None:
    options = parse()
    assert options.batch_bounds() == (Bound("earliest", "startingOffsets"), Bound("latest", "endingOffsets"))
    assert options.fail_on_data_loss
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert (options.poll_timeout_ms, options.fetch_offset_attempts, options.fetch_offset_retry_ms) == (120_000, 3, 1000)
    assert options.on_no_match == "error"


def test_names_count_in_any_case() -> None:
    options = parse(MINPARTITIONS="3", failondataloss="FALSE", INCLUDEHEADERS="true", startingoffsets="EARLIEST")
    assert options.min_partitions == 3
    assert not options.fail_on_data_loss
    assert options.columns == tuple(COLUMNS)


def test_columns_are_chosen_in_any_order_and_case() -> None:
    assert parse(columns="value, OFFSET,timestamptype").columns == ("value", "offset", "timestampType")
    assert parse(columns="value", includeHeaders="true").columns == ("value", "headers")
    assert parse(columns="headers").columns == ("headers",)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"startingOffsets": "earliest"}, Bound("earliest", "startingOffsets")),
        ({"startingOffsets": '{"a":{"0":-2}}'}, Bound("offsets", "startingOffsets", {TP: -2})),
        (
            {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"a":{"0":5}}'},
            Bound("timestamps", "startingOffsetsByTimestamp", {TP: 5}),
        ),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "startingTimestamp": "7"},
            Bound("timestamp", "startingTimestamp", timestamp=7),
        ),
    ],
)
def test_one_timestamp_precedes_timestamps_and_those_precede_offsets(extra: dict[str, str], expected: Bound) -> None:
    assert parse(**extra).batch_bounds()[0] == expected
    ending = {name.replace("starting", "ending"): value for name, value in extra.items()}
    if expected.kind in ("timestamp", "timestamps"):
        assert parse(**ending).batch_bounds()[1].kind == expected.kind


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: latest cannot be used in a batch read"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, r"latest \(-1 for a-0\)"),
        ({"endingOffsets": "earliest"}, "endingOffsets: earliest cannot be used in a batch read"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, r"earliest \(-2 for a-0\)"),
    ],
)
def test_a_batch_begins_before_its_end(extra: dict[str, str], message: str) -> None:
    options = parse(**extra)
    with pytest.raises(ConfigurationError, match=message):
        options.batch_bounds()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"startingOffset": "x"}, "unknown option 'startingoffset'.*did you mean 'startingOffsets'"),
        ({"bootstrap__servers": "x"}, "kafka.bootstrap.servers"),
        ({"topic": "x"}, "subscribe"),
        ({"nothing_like_it": "x"}, "unknown option 'nothing_like_it' of format pyconsumer$"),
        ({"kafka__bootstrap__server": "x"}, "unknown option 'kafka.bootstrap.server'.*'kafka.bootstrap.servers'"),
        ({"kafka__auto__offset__reset": "latest"}, "kafka.auto.offset.reset is not supported.*startingOffsets"),
        ({"kafka__key__deserializer": "x"}, "kafka.key.deserializer is not supported"),
        ({"kafka__value__deserializer": "x"}, "kafka.value.deserializer is not supported"),
        ({"kafka__enable__auto__commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka__interceptor__classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"assign": '{"a":[0]}'}, "only one of"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be at least 1"),
        ({"minPartitions": "many"}, "minPartitions must be a whole number"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false"),
        ({"startingOffsets": "soon"}, "startingOffsets must be earliest, latest or JSON"),
        ({"startingTimestamp": "-5"}, "startingTimestamp must be at least 0"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
        ({"columns": "value,vlaue"}, "no column 'vlaue'"),
        ({"columns": "value,value"}, "named twice"),
        ({"columns": " , "}, "name at least one"),
        ({"kafka__request__timeout__ms": "soon"}, "request.timeout.ms"),
    ],
)
def test_an_invalid_option_raises_one_line(extra: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse(**extra)
    assert "\n" not in str(caught.value)


def test_servers_and_topics_are_required() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka.bootstrap.servers is required"):
        SourceOptions.parse({"subscribe": "a"})
    with pytest.raises(ConfigurationError, match="one of the options subscribe, subscribePattern and assign"):
        SourceOptions.parse({"kafka.bootstrap.servers": "x"})


@pytest.mark.parametrize("name", ["groupIdPrefix", "kafka.group.id", "kafka.max.poll.records"])
def test_options_of_groups_are_accepted_without_a_group(name: str) -> None:
    SourceOptions.parse(LEAST | {name: "5"})


def test_limits_of_a_stream_have_no_effect_on_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    parse(maxOffsetsPerTrigger="5").batch_bounds()
    assert "maxOffsetsPerTrigger has no effect" in caplog.text


def test_passwords_are_not_shown() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
    extra: dict[str, Any] = {"kafka__sasl__jaas__config": jaas, "kafka__security__protocol": "SASL_PLAINTEXT"}
    assert "s3cret" not in repr(parse(**extra))
