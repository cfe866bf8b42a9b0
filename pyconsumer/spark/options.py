"""The source's options: names, defaults, checks. Names and meaning are those of Spark's own Kafka connector.

Names count in any case. An unknown name is an error that tells the nearest one. What only the batch source, or only a
stream, can take is checked by :meth:`SourceOptions.batch_bounds`, since ``load()`` does not tell which it will be.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, overload

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.client_settings import build_config
from pyconsumer.spark.offsets_json import EARLIEST, LATEST, parse_numbers
from pyconsumer.spark.schema import choose_columns
from pyconsumer.spark.subscription import Subscription, parse_subscription
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
    "maxTriggerDelay",
)
_SPELLING: Final = {name.lower(): name for name in _KNOWN}
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_HINTS: Final = {
    "topic": "topics to read are named by subscribe",
    "topics": "topics to read are named by subscribe",
    "bootstrap.servers": "it is called kafka.bootstrap.servers",
    "path": "load() takes no path; topics are named by subscribe",
}
_PREFIX: Final = "kafka."

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-2},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = '{"topicA":{"0":1735689600000,"1":1735689600000}}'


@dataclass(frozen=True)
class Bound:
    """Where to begin or to end.

    Attributes:
        kind: ``earliest`` and ``latest`` need nothing more; ``offsets`` has an offset for each partition (-1 latest,
            -2 earliest); ``timestamps`` has a time in ms for each; ``timestamp`` has one time for all.
        option: the option that says so, for messages.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamps", "timestamp"]
    option: str
    numbers: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp: int = -1


@dataclass(frozen=True)
class SourceOptions:
    """Checked options.

    Attributes:
        starting, ending: None where the options say nothing.
        late_timestamps: what to do when there is no record at or after a starting timestamp: ``error``, or ``latest``:
            begin at the end.
        client: ``kafka.*`` options by Kafka's names.
    """

    subscription: Subscription
    starting: Bound | None
    ending: Bound | None
    late_timestamps: str
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    columns: tuple[str, ...]
    poll_timeout_ms: int
    fetch_offset_attempts: int
    fetch_offset_retry_ms: int
    client: Mapping[str, str] = field(repr=False)  # passwords are among them
    stream_only: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check options as a user gave them.

        Raises:
            ConfigurationError: an unknown, illegal, missing or contradicting one.
        """
        client, own = _split(options)
        subscription = parse_subscription(own)
        build_config(client)
        columns = own.get("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
        return cls(
            subscription=subscription,
            starting=_bound(own, "starting"),
            ending=_bound(own, "ending"),
            late_timestamps=_word(own, "startingOffsetsByTimestampStrategy", "error", ("error", "latest")),
            fail_on_data_loss=_flag(own, "failOnDataLoss", True),
            min_partitions=_number(own, "minPartitions", 1),
            max_records_per_partition=_number(own, "maxRecordsPerPartition", 1),
            columns=choose_columns(names, include_headers=_flag(own, "includeHeaders", False)),
            poll_timeout_ms=_number(own, "kafkaConsumer.pollTimeoutMs", 1, 120_000),
            fetch_offset_attempts=max(1, _number(own, "fetchOffset.numRetries", 0, 3)),
            fetch_offset_retry_ms=_number(own, "fetchOffset.retryIntervalMs", 0, 1_000),
            client=client,
            stream_only=tuple(name for name in _STREAM_ONLY if name in own),
        )

    def batch_bounds(self) -> tuple[Bound, Bound]:
        """Where a batch read begins and ends: by default at the start and the end of the topic.

        Raises:
            ConfigurationError: it is to begin at the end, or to end at the beginning.
        """
        starting = self.starting or Bound("earliest", "startingOffsets")
        ending = self.ending or Bound("latest", "endingOffsets")
        for bound, wrong, number in ((starting, "latest", LATEST), (ending, "earliest", EARLIEST)):
            at = [str(tp) for tp, offset in bound.numbers.items() if bound.kind == "offsets" and offset == number]
            if bound.kind == wrong or at:
                where = f" ({number} for {', '.join(at)})" if at else ""
                raise ConfigurationError(f"option {bound.option}: a batch read cannot use {wrong}{where} there")
        for name in self.stream_only:
            _log.warning("option %s has no effect on a batch read", name)
        return starting, ending


def _split(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Client settings without their prefix, and our own options in their usual spelling."""
    client: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith(_PREFIX):
            client[name.removeprefix(_PREFIX)] = value
        elif name in _SPELLING:
            own[_SPELLING[name]] = value
        else:
            raise ConfigurationError(_unknown(name))
    return client, own


def _unknown(name: str) -> str:
    text = f"unknown option {name!r} of format pyconsumer"
    if name in _HINTS:
        return f"{text}: {_HINTS[name]}"
    near = difflib.get_close_matches(name, _SPELLING, n=1, cutoff=0.6)
    return f"{text}; did you mean {_SPELLING[near[0]]!r}?" if near else text


def _bound(own: Mapping[str, str], side: str) -> Bound | None:
    """The strongest of the three options that say where to begin or end: one time, times, offsets."""
    option = f"{side}Timestamp"
    if option in own:
        timestamp = _number(own, option, 0, most=0x7FFFFFFFFFFFFFFF)
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
    if not text.startswith("{"):
        raise ConfigurationError(
            f"option {option} must be earliest, latest or JSON such as {_OFFSETS_EXAMPLE}, not {text!r}"
        )
    numbers = parse_numbers(option, text, example=_OFFSETS_EXAMPLE, legal=lambda number: number >= EARLIEST)
    return Bound("offsets", option, numbers)


def _flag(own: Mapping[str, str], name: str, default: bool) -> bool:
    text = own.get(name)
    if text is None:
        return default
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise ConfigurationError(f"option {name} must be true or false, not {text!r}")
    return found


def _word(own: Mapping[str, str], name: str, default: str, words: Iterable[str]) -> str:
    text = own.get(name, default).strip().lower()
    if text not in words:
        raise ConfigurationError(f"option {name} must be {' or '.join(words)}, not {own[name]!r}")
    return text


@overload
def _number(
    own: Mapping[str, str], name: str, least: int, default: None = None, *, most: int = 0x7FFFFFFF
) -> int | None: ...


@overload
def _number(own: Mapping[str, str], name: str, least: int, default: int, *, most: int = 0x7FFFFFFF) -> int: ...


def _number(
    own: Mapping[str, str], name: str, least: int, default: int | None = None, *, most: int = 0x7FFFFFFF
) -> int | None:
    text = own.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise ConfigurationError(f"option {name} must be a whole number, not {text!r}") from None
    if not least <= number <= most:
        raise ConfigurationError(f"option {name} must be at least {least} and at most {most}, not {number}")
    return number
