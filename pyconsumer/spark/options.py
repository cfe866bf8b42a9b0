"""The source's options: names, defaults and checks. Names and meaning are those of Spark's own Kafka connector.

Names are case-insensitive. An unknown name is an error that suggests the nearest one. Options that only a batch read,
or only a stream, can use are checked by :meth:`SourceOptions.batch_bounds` and :meth:`SourceOptions.stream_start`,
because ``load()`` does not say which of the two it will be.

Beyond the connector's there are ``columns``, ``maxBytesPerTrigger``, ``commitToGroup`` and ``startingOffsets=group``.

The result is an immutable value, which travels to the tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.client_config import build_config
from pyconsumer.spark.offsets_json import EARLIEST, LATEST, parse_numbers
from pyconsumer.spark.option_values import (
    MAX_INT64,
    read_duration_ms,
    read_flag,
    read_number,
    read_size,
    read_text,
    read_word,
    split_options,
)
from pyconsumer.spark.schema import DECODE_ERROR, choose_columns
from pyconsumer.spark.subscription import Subscription, parse_subscription
from pyconsumer.spark.value_options import SIDES, VALUE_OPTIONS, ValueOptions, split_registry
from pyconsumer.structs import TopicPartition

__all__ = ["Bound", "SourceOptions"]

_log = logging.getLogger("pyconsumer.spark")

_KNOWN: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
    "commitToGroup",
    *VALUE_OPTIONS,
)
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
    "commitToGroup",
)
_BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_HINTS: Final = {
    "topic": "to choose topics use the option subscribe",
    "topics": "to choose topics use the option subscribe",
    "bootstrap.servers": "the option is called kafka.bootstrap.servers",
    "path": "load() takes no path; to choose topics use the option subscribe",
}
#: Columns beside a typed one, with the options that add them.
_BESIDE: Final = {"_bytes": "includeBytes", "_schema_id": "includeSchemaId"}
_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-2},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = '{"topicA":{"0":1735689600000,"1":1735689600000}}'


@dataclass(frozen=True)
class Bound:
    """The start or the end of a read.

    Attributes:
        kind: ``earliest`` or ``latest``. With ``offsets``, ``numbers`` has an offset for each partition (-1 latest, -2
            earliest). With ``timestamps``, ``numbers`` has a time in ms for each partition. ``timestamp`` is one time
            in ms for all partitions. ``group`` stands for the committed offsets of the consumer group.
        option: name of the option with this bound, for messages.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamps", "timestamp", "group"]
    option: str
    numbers: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp: int = -1
    group: str = ""

    @property
    def drifts(self) -> bool:
        """Return whether the bound may mean other offsets later, even if no record is deleted."""
        return self.kind not in ("earliest", "offsets") or LATEST in self.numbers.values()


@dataclass(frozen=True)
class SourceOptions:
    """The checked options of the source.

    Attributes:
        starting, ending: the bounds of the read. None if no option sets them.
        on_no_match: the reaction if no record is at or after a starting timestamp: ``error``, or ``latest`` to start at
            the end.
        max_offsets, min_offsets, max_bytes: limits of a micro-batch. None for no limit.
        max_delay_ms: the longest time by which ``min_offsets`` may delay a micro-batch.
        commit_to_group: the consumer group to which a stream's progress is committed, or None.
        kafka_options: ``kafka.*`` options by Kafka's names.
        values: the options of typed keys and values. None if both are binary.
        parts: the wanted parts of a typed column, each a list of names. None is the whole.
        given: the names of the given options, except for ``kafka.*`` options.
    """

    subscription: Subscription
    starting: Bound | None
    ending: Bound | None
    on_no_match: str
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    columns: tuple[str, ...]
    poll_timeout_ms: int
    fetch_offset_attempts: int
    fetch_offset_retry_ms: int
    max_offsets: int | None
    min_offsets: int | None
    max_bytes: int | None
    max_delay_ms: int
    commit_to_group: str | None
    kafka_options: Mapping[str, str] = field(repr=False)  # passwords are among them
    values: ValueOptions | None = None
    parts: Mapping[str, tuple[tuple[str, ...], ...] | None] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check the options that a user has given.

        Raises:
            ConfigurationError: an option is unknown, invalid or missing, or contradicts another one.
        """
        registry, rest = split_registry(options)
        client, own = split_options(rest, _KNOWN, _HINTS)
        subscription = parse_subscription(own)
        build_config(client)
        values = ValueOptions.parse(own, registry)
        columns, parts = _columns(own, values)
        return cls(
            subscription=subscription,
            starting=_bound(own, "starting", client.get("group.id", "")),
            ending=_bound(own, "ending"),
            on_no_match=read_word(own, "startingOffsetsByTimestampStrategy", "error", ("error", "latest")),
            fail_on_data_loss=read_flag(own, "failOnDataLoss", True),
            min_partitions=read_number(own, "minPartitions", 1),
            max_records_per_partition=read_number(own, "maxRecordsPerPartition", 1),
            columns=columns,
            poll_timeout_ms=read_number(own, "kafkaConsumer.pollTimeoutMs", 1, 120_000),
            fetch_offset_attempts=max(1, read_number(own, "fetchOffset.numRetries", 0, 3)),
            fetch_offset_retry_ms=read_number(own, "fetchOffset.retryIntervalMs", 0, 1_000),
            max_offsets=read_number(own, "maxOffsetsPerTrigger", 1, most=MAX_INT64),
            min_offsets=read_number(own, "minOffsetsPerTrigger", 1, most=MAX_INT64),
            max_bytes=read_size(own, "maxBytesPerTrigger"),
            max_delay_ms=read_duration_ms(own, "maxTriggerDelay", 15 * 60_000),
            commit_to_group=read_text(own, "commitToGroup"),
            kafka_options=client,
            values=values,
            parts=parts,
            given=frozenset(own),
        )

    def batch_bounds(self) -> tuple[Bound, Bound]:
        """Return the bounds of a batch read. By default they are the start and the end of the logs.

        Raises:
            ConfigurationError: the read would start at ``latest``, or end at ``earliest``.
        """
        starting = self.starting or Bound("earliest", "startingOffsets")
        ending = self.ending or Bound("latest", "endingOffsets")
        for bound, wrong, number in ((starting, "latest", LATEST), (ending, "earliest", EARLIEST)):
            at = [str(tp) for tp, offset in bound.numbers.items() if bound.kind == "offsets" and offset == number]
            if bound.kind == wrong or at:
                where = f" ({number} for {', '.join(at)})" if at else ""
                raise ConfigurationError(f"option {bound.option}: {wrong}{where} cannot be used in a batch read")
        for name in _STREAM_ONLY:
            if name in self.given:
                _log.warning("option %s has no effect on a batch read", name)
        return starting, ending

    def stream_start(self) -> Bound:
        """Return the start of a new stream. By default it is the end of the logs.

        Raises:
            ConfigurationError: an end is given, or limits contradict each other.
        """
        for name in _BATCH_ONLY:
            if name in self.given:
                raise ConfigurationError(f"option {name} is for batch reads: a stream has no end")
        if self.min_offsets is not None and self.max_offsets is not None and self.min_offsets > self.max_offsets:
            raise ConfigurationError(
                f"option minOffsetsPerTrigger ({self.min_offsets}) must not be greater than maxOffsetsPerTrigger"
                f" ({self.max_offsets})"
            )
        return self.starting or Bound("latest", "startingOffsets")


def _columns(
    own: Mapping[str, str], values: ValueOptions | None
) -> tuple[tuple[str, ...], dict[str, tuple[tuple[str, ...], ...] | None]]:
    """Return the columns to read, and the wanted parts of those that are typed."""
    given = own.get("columns")
    names = None if given is None else [name.strip() for name in given.split(",") if name.strip()]
    include_headers = read_flag(own, "includeHeaders", False)
    if values is None:
        return choose_columns(names, include_headers=include_headers), {}
    from pyconsumer.consumer.typed_arrow import typed_names

    sides = tuple(values.sides)
    found: dict[str, list[list[str]] | None] = dict.fromkeys(sides)
    if names is not None:
        try:
            chosen, found = typed_names([_lower_head(name) for name in names], (), sides)
        except ValueError as error:
            raise ConfigurationError(f"option columns: {error}") from None
        names = list(chosen)
    beside = [suffix for suffix, option in _BESIDE.items() if read_flag(own, option, False)]
    optional = tuple([f"{side}{suffix}" for suffix in _BESIDE for side in sides])
    added = [f"{side}{suffix}" for suffix in beside for side in found]
    if found and values.null_for_errors:
        added.append(DECODE_ERROR)
    columns = choose_columns(names, include_headers=include_headers, optional=optional, added=added)
    parts = {side: None if paths is None else tuple([tuple(path) for path in paths]) for side, paths in found.items()}
    return columns, parts


def _lower_head(name: str) -> str:
    """Return a name such as ``Value.id`` with the column's own spelling."""
    head, dot, path = name.partition(".")
    return f"{head.lower()}{dot}{path}" if head.lower() in SIDES else name


def _bound(own: Mapping[str, str], side: str, group_id: str = "") -> Bound | None:
    """Return the start or end by the first of these options that is given: one time, times, offsets.

    Args:
        side: ``starting`` or ``ending``.
        group_id: ``kafka.group.id``.
    """
    option = f"{side}Timestamp"
    if option in own:
        timestamp = read_number(own, option, 0, most=MAX_INT64)
        return Bound("timestamp", option, timestamp=-1 if timestamp is None else timestamp)
    option = f"{side}OffsetsByTimestamp"
    if option in own:
        return Bound("timestamps", option, parse_numbers(option, own[option], example=_TIMES_EXAMPLE))
    option = f"{side}Offsets"
    if option not in own:
        return None
    text = own[option].strip()
    if text.lower() == "earliest":
        return Bound("earliest", option)
    if text.lower() == "latest":
        return Bound("latest", option)
    if text.lower() == "group" and side == "starting":
        group = read_text(own, "commitToGroup") or group_id
        if not group:
            raise ConfigurationError(
                f"option {option}=group needs the name of the group: set commitToGroup or kafka.group.id"
            )
        return Bound("group", option, group=group)
    if not text.startswith("{"):
        raise ConfigurationError(
            f"option {option} must be earliest, latest or JSON such as {_OFFSETS_EXAMPLE}, not {text!r}"
        )
    numbers = parse_numbers(option, text, example=_OFFSETS_EXAMPLE, legal=lambda number: number >= EARLIEST)
    return Bound("offsets", option, numbers)
