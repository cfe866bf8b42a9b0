"""``pyconsumer consume``."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import click

from pyconsumer import ConsumerRecord, KafkaConsumer, OffsetAndMetadata, TopicPartition, stop_on_signals
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import as_json, client_options, connected, json_option
from pyconsumer.cli.record_lines import TOKENS, Write, as_document, compile_format, plain_format
from pyconsumer.cli.registry import registry_client, with_registry
from pyconsumer.cli.reset import datetime_argument
from pyconsumer.cli.value_formats import json_deserializer, value_format_option
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import WakeupError

__all__ = ["command"]


def _format_argument(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Write | None:
    """Click callback: return the function that writes records in a format."""
    try:
        return None if text is None else compile_format(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _time_argument(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Click callback: read a time in milliseconds since the epoch, or in ISO 8601."""
    if text is not None and text.isascii() and text.isdigit():
        if len(text) > 18:
            raise click.BadParameter(f"{text} is too large for a time in milliseconds since 1970")
        return int(text)
    return datetime_argument(ctx, parameter, text)


class Start(NamedTuple):
    """The start of reading, unless the group or ``auto_offset_reset`` decides."""

    offset: int | None = None  #: a negative one counts from the end
    timestamp_ms: int | None = None


class Ends(NamedTuple):
    """The conditions under which the command stops reading by itself."""

    max_messages: int | None
    idle_ms: int | None
    timeout_ms: int


@click.command(
    help="Print the values of new records, or with --from-beginning of all.\n\n"
    "Tokens of --format: " + "; ".join(f"%{name} {what}" for name, (what, _) in TOKENS.items()) + "; %% a percent "
    "sign. Escapes are \\n, \\t, \\r, \\0, \\\\ and \\xHH. Nothing is added between records: end the format with \\n."
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@connected
@with_registry
@value_format_option
@json_option
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="Join this group and commit offsets; without a group all partitions are read and nothing is committed.",
)
@click.option(
    "--from-beginning", is_flag=True, help="Start with the oldest record of partitions without a committed offset."
)
@click.option("-p", "--partition", type=click.IntRange(0), help="Read only this partition (of one topic).")
@click.option(
    "-o",
    "--offset",
    type=int,
    help="Start at this offset of --partition. A negative one counts from the end, and can be used without "
    "--partition: -5 starts five offsets before the end of each partition.",
)
@click.option(
    "--from-timestamp",
    "timestamp_ms",
    metavar="TIME",
    callback=_time_argument,
    help="Start with the first record at or after this time: 2026-01-31T18:00:00 (UTC, unless it has a zone), or "
    "milliseconds since 1970.",
)
@click.option("-n", "--max-messages", type=click.IntRange(1), help="End after this many records.")
@click.option(
    "--idle-ms",
    type=click.IntRange(1),
    help="End when no record has arrived for this time. Waiting for the group to assign partitions does not count.",
)
@click.option("--key", "wanted_key", metavar="TEXT", help="Print only records with this key.")
@click.option("--keys", is_flag=True, help="Print the key and a tab before the value.")
@click.option("--headers", is_flag=True, help="Print the headers, name=value,..., and a tab before key and value.")
@click.option(
    "-f", "--format", "form", metavar="TEXT", callback=_format_argument, help="Print records in this format, see above."
)
@click.option(
    "--binary",
    type=click.Choice(["base64", "hex"]),
    default="base64",
    show_default=True,
    help="How --json prints bytes that are not UTF-8 text: an object with one field of this name.",
)
def command(
    topics: tuple[str, ...],
    servers: str,
    settings: Any,
    timeout_ms: int,
    registry: dict[str, Any],
    value_format: str,
    json_output: bool,
    group: str | None,
    from_beginning: bool,
    partition: int | None,
    offset: int | None,
    timestamp_ms: int | None,
    max_messages: int | None,
    idle_ms: int | None,
    wanted_key: str | None,
    keys: bool,
    headers: bool,
    form: Write | None,
    binary: str,
) -> None:
    options = client_options(servers, settings, CONSUMER_SETTINGS)
    group = group or options.get("group_id")
    start = Start(offset, timestamp_ms)
    _check(topics, group, partition, start)
    if (form is not None) + json_output + (keys or headers) > 1:
        raise click.UsageError("--format, --json and --keys or --headers cannot be combined")
    options |= {
        "group_id": group,
        "auto_offset_reset": "earliest" if from_beginning else options.get("auto_offset_reset", "latest"),
        "allow_auto_create_topics": False,  # a misspelled name must not create a topic
        "enable_auto_commit": False,  # _read commits, after the records were written
        "enable_auto_offset_store": True,
        "default_api_timeout_ms": timeout_ms,
    }
    write = form or plain_format(keys=keys, headers=headers)
    if json_output:
        write = _json_writer(binary)
    with contextlib.ExitStack() as stack:
        if value_format != "text":
            client = stack.enter_context(registry_client(registry, timeout_ms))
            options["value_deserializer"] = json_deserializer(client, binary, value_format)
        warnings = stack.enter_context(library_warnings())
        consumer: KafkaConsumer[Any, Any] = stack.enter_context(KafkaConsumer(options))
        stopped = stack.enter_context(stop_on_signals(consumer, signals=(signal.SIGTERM,)))
        partitions = _partitions(consumer, topics, partition)
        if group:
            consumer.subscribe(topics)
        else:
            _place(consumer, partitions, start)
        _read(consumer, _Printer(write, wanted_key), Ends(max_messages, idle_ms, timeout_ms), commits=bool(group))
        if warnings.unreachable is not None and stopped.signal is None and not _has_fetched(consumer):
            raise click.ClickException(f"no record could be read: {warnings.unreachable}")
    if stopped.signal is not None:
        raise SystemExit(128 + stopped.signal)  # as shells count it


def _check(topics: tuple[str, ...], group: str | None, partition: int | None, start: Start) -> None:
    if partition is not None and (len(topics) > 1 or group):
        raise click.UsageError("--partition needs exactly one topic, and cannot be combined with --group")
    if start.offset is not None and start.offset >= 0 and partition is None:
        raise click.UsageError("an --offset that is not negative needs --partition")
    if start.offset is not None and start.timestamp_ms is not None:
        raise click.UsageError("--offset and --from-timestamp cannot be combined")
    if group and start != Start():
        raise click.UsageError(
            "a group starts at its committed offsets: change them by `pyconsumer groups reset-offsets`, or omit --group"
            " (group.id)"
        )


def _partitions(consumer: KafkaConsumer, topics: Iterable[str], partition: int | None) -> list[TopicPartition]:
    """Return the partitions to read.

    Raises:
        click.ClickException: a topic, or the partition, does not exist.
    """
    found = []
    for topic in topics:
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise click.ClickException(f"topic {topic!r} does not exist")
        if partition is not None and partition not in numbers:
            raise click.ClickException(f"topic {topic!r} has no partition {partition}, only 0 to {max(numbers)}")
        found += [TopicPartition(topic, n) for n in sorted(numbers) if partition is None or n == partition]
    return found


def _place(consumer: KafkaConsumer, partitions: list[TopicPartition], start: Start) -> None:
    """Assign the partitions and seek to the start.

    Raises:
        click.ClickException: the offset is beyond the end of the log.
    """
    consumer.assign(partitions)
    if start == Start():
        return
    first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    if start.timestamp_ms is not None:
        at = consumer.offsets_for_times(dict.fromkeys(partitions, start.timestamp_ms))
        for tp, found in at.items():
            consumer.seek(tp, end[tp] if found is None else found.offset)
        if not any(at.values()):
            click.echo("no record is that recent. Waiting for new ones", err=True)
        return
    assert start.offset is not None
    for tp in partitions:
        offset = start.offset if start.offset >= 0 else max(first[tp], end[tp] + start.offset)
        if offset > end[tp]:
            raise click.ClickException(f"offset {offset} is beyond the end of {tp}, offset {end[tp]}")
        if offset < first[tp]:
            click.echo(f"offset {offset} of {tp} has been deleted. Starting at the oldest, {first[tp]}", err=True)
            offset = first[tp]
        consumer.seek(tp, offset)


class _Printer:
    """Writes records to standard output, all or those with a key."""

    def __init__(self, write: Write, wanted_key: str | None) -> None:
        self.count = 0
        self._write = write
        self._key = None if wanted_key is None else wanted_key.encode("utf-8", "surrogateescape")
        self._out = sys.stdout.buffer

    def print(self, record: ConsumerRecord) -> None:
        if self._key is None or record.key == self._key:
            self._out.write(self._write(record))
            self.count += 1

    def flush(self) -> None:
        self._out.flush()


def _json_writer(binary: str) -> Callable[[ConsumerRecord], bytes]:
    return lambda record: as_json(as_document(record, binary)).encode() + b"\n"


def _read(consumer: KafkaConsumer, printer: _Printer, ends: Ends, *, commits: bool) -> None:
    """Print records, and commit them after that, until an end condition is met."""
    idle_ms = ends.idle_ms
    last = assigned = time.monotonic()
    while True:
        wait = 500 if idle_ms is None else max(1, min(500, round((last - time.monotonic()) * 1000) + idle_ms))
        joins = not consumer.assignment()
        batch = consumer.poll(timeout_ms=wait)
        done: dict[TopicPartition, OffsetAndMetadata] = {}
        for record in batch.records():
            printer.print(record)
            done[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(
                record.offset + 1, "", record.leader_epoch
            )
            if printer.count == ends.max_messages:
                break
        printer.flush()
        if done and commits:
            _commit(consumer, done)
        if printer.count == ends.max_messages:
            return
        now = time.monotonic()
        if consumer.assignment():
            assigned = now
        if done or (joins and (now - assigned) * 1000 < ends.timeout_ms):
            last = now
        elif idle_ms is not None and (now - last) * 1000 >= idle_ms:
            return


def _has_fetched(consumer: KafkaConsumer) -> bool:
    """Return whether a broker has responded to a fetch, with or without records."""
    return bool(consumer.metrics()["consumer-fetch-manager-metrics"]["fetch-total"])


def _commit(consumer: KafkaConsumer, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
    """Commit offsets, also if SIGTERM has arrived."""
    try:
        consumer.commit(offsets)
    except WakeupError:
        consumer.commit(offsets)
        raise
