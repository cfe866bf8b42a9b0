"""``pyconsumer consume``."""

from __future__ import annotations

import signal
import sys
import time

import click

from pyconsumer import ConsumerRecord, KafkaConsumer, OffsetAndMetadata, TopicPartition, stop_on_signals
from pyconsumer.cli.options import as_json, client_options, connected, json_option
from pyconsumer.errors import WakeupError

__all__ = ["command"]


@click.command(help="Print the values of records: new ones, or with --from-beginning all.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@connected
@json_option
@click.option(
    "-g", "--group", metavar="GROUP", help="Join this group and commit positions; by default alone, all partitions."
)
@click.option("--from-beginning", is_flag=True, help="Start with the oldest record where nothing is committed.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Read only this partition (of one topic).")
@click.option("-o", "--offset", type=click.IntRange(0), help="Start there; needs --partition.")
@click.option("-n", "--max-messages", type=click.IntRange(1), help="End after this many records.")
@click.option(
    "--idle-ms",
    type=click.IntRange(1),
    help="End when no record came for this time. The time until a group has given partitions does not count.",
)
@click.option("--keys", is_flag=True, help="Print key, a tab, then the value.")
def command(
    topics: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    group: str | None,
    from_beginning: bool,
    partition: int | None,
    offset: int | None,
    max_messages: int | None,
    idle_ms: int | None,
    keys: bool,
) -> None:
    if partition is not None and (len(topics) > 1 or group):
        raise click.UsageError("--partition needs exactly one topic and no --group")
    if offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    options = client_options(servers, settings) | {
        "group_id": group,
        "auto_offset_reset": "earliest" if from_beginning else "latest",
        "allow_auto_create_topics": False,  # a name typed wrongly should not make a topic
        "enable_auto_commit": False,  # committed below, after the records were written
        "default_api_timeout_ms": timeout_ms,
    }
    out = sys.stdout.buffer
    count = 0
    with KafkaConsumer(options) as consumer, stop_on_signals(consumer, signals=(signal.SIGTERM,)) as stopped:
        wanted = []
        for topic in topics:
            numbers = consumer.partitions_for_topic(topic)
            if not numbers:
                raise click.ClickException(f"topic {topic!r} does not exist")
            if partition is not None and partition not in numbers:
                raise click.ClickException(f"topic {topic!r} has no partition {partition}, only 0 to {max(numbers)}")
            wanted += [TopicPartition(topic, n) for n in sorted(numbers) if partition is None or n == partition]
        if group:
            consumer.subscribe(topics)
        else:
            consumer.assign(wanted)
            if offset is not None:
                consumer.seek(wanted[0], offset)
        last = assigned = time.monotonic()
        while True:
            wait = 500 if idle_ms is None else max(1, min(500, round((last - time.monotonic()) * 1000) + idle_ms))
            joins = not consumer.assignment()
            batch = consumer.poll(timeout_ms=wait)
            done: dict[TopicPartition, OffsetAndMetadata] = {}
            for record in batch.records():
                out.write(_line(record, json_output, keys))
                done[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(
                    record.offset + 1, "", record.leader_epoch
                )
                count += 1
                if count == max_messages:
                    break
            out.flush()
            if done and group:
                _commit(consumer, done)
            if count == max_messages:
                return
            now = time.monotonic()
            if consumer.assignment():
                assigned = now
            if done or (joins and (now - assigned) * 1000 < timeout_ms):
                last = now
            elif idle_ms is not None and (now - last) * 1000 >= idle_ms:
                return
    if stopped.signal is not None:
        raise SystemExit(128 + stopped.signal)  # as shells count it


def _commit(consumer: KafkaConsumer, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
    """Commit what was printed, also if the program is to end."""
    try:
        consumer.commit(offsets)
    except WakeupError:
        consumer.commit(offsets)
        raise


def _line(record: ConsumerRecord, json_output: bool, keys: bool) -> bytes:
    if json_output:
        document = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(data)] for name, data in record.headers],
        }
        return as_json(document).encode() + b"\n"
    value: bytes = b"" if record.value is None else record.value
    return (record.key or b"") + b"\t" + value + b"\n" if keys else value + b"\n"


def _text(data: bytes | None) -> str | None:
    """Bytes as text; what is not UTF-8 is shown escaped."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
