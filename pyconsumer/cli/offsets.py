"""``pyconsumer offsets``: what stands in ``__consumer_offsets``, read from a cluster or from the files of a broker."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.cli.offset_lines import FORMATS, Found, as_document, as_text
from pyconsumer.cli.options import as_json, client_options, connected, json_option
from pyconsumer.errors import CorruptRecordError, KafkaError, KafkaTimeoutError
from pyconsumer.protocol.records import iter_records
from pyconsumer.protocol.records.batch import scan_until_damage

__all__ = ["command"]

TOPIC = "__consumer_offsets"
_FOLDER = re.compile(rf"{TOPIC}-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")


@click.group(help="Look into the topic of committed offsets.")
def command() -> None:
    pass


@command.command("dump")
@connected
@json_option
@click.option(
    "-d",
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read the files of a broker, ours or Apache Kafka's, instead of a cluster.",
)
@click.option("-g", "--group", metavar="GROUP", help="Only what belongs to this group, in its one partition.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Only this partition of the topic.")
@click.option("--only", type=click.Choice(["offsets", "groups"]), help="Only committed offsets, or only registrations.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Our own lines, or those of the formatters of Kafka 2.0 or 2.1.",
)
@click.pass_context
def dump(
    ctx: click.Context,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    data_dir: Path | None,
    group: str | None,
    partition: int | None,
    only: str | None,
    form: str,
) -> None:
    """Print the records of __consumer_offsets, one a line, by partition and offset.

    Every commit is shown as PARTITION@OFFSET GROUP TOPIC-PARTITION -> COMMITTED, newest last; those of transactions
    that were aborted or are still open, too. A tombstone says that an offset or a group was removed. Records of
    newer group protocols are shown by type, group, member and size. A damaged file is reported with the place of the
    damage; its good records before that and the other files are still shown, and the exit status is 1.
    """
    if json_output and form != "text":
        raise click.UsageError("--json and --format exclude each other")
    if data_dir is not None:
        if ctx.get_parameter_source("servers") is ParameterSource.COMMANDLINE:
            raise click.UsageError("either --bootstrap-servers or --data-dir is needed, not both")
        source = Files(data_dir, group, partition)
        records = source.read()
    else:
        source = None
        options = client_options(servers, settings) | {"default_api_timeout_ms": timeout_ms}
        records = of_cluster(options, group, partition, timeout_ms)
    unreadable = 0
    for found in records:
        if group is not None and found.group != group:
            continue
        if (only == "offsets" and not found.is_offset) or (only == "groups" and not found.is_group):
            continue
        unreadable += found.problem is not None
        line = as_json(as_document(found)) if json_output else as_text(found, form)
        if line is not None:
            sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if unreadable:
        click.echo(f"Error: {unreadable} records cannot be read", err=True)
    if unreadable or (source is not None and source.damaged):
        raise click.exceptions.Exit(1)


def of_cluster(
    options: dict[str, object], group: str | None, partition: int | None, timeout_ms: int
) -> Iterator[Found]:
    """The records of a cluster's partitions up to their ends of now.

    Args:
        group: read only the partition that this group is in.

    Raises:
        KafkaTimeoutError: nothing came for ``timeout_ms``.
    """
    options = options | {"group_id": None, "enable_auto_commit": False, "allow_auto_create_topics": False}
    with KafkaConsumer(options) as consumer:
        numbers = sorted(consumer.partitions_for_topic(TOPIC) or ())
        if not numbers:
            click.echo(f"there is no topic {TOPIC} yet: no group has used this cluster", err=True)
            return
        chosen = [TopicPartition(TOPIC, number) for number in _chosen(numbers, group, partition, len(numbers))]
        first, end = consumer.beginning_offsets(chosen), consumer.end_offsets(chosen)
        for tp in chosen:
            if first[tp] >= end[tp]:
                continue
            consumer.assign([tp])
            consumer.seek(tp, first[tp])
            last = time.monotonic()
            while consumer.position(tp) < end[tp]:
                before = consumer.position(tp)
                for record in consumer.poll(timeout_ms=500).records():
                    if record.offset < end[tp]:
                        yield Found.read(tp.partition, record.offset, record.timestamp, record.key, record.value)
                if consumer.position(tp) != before:
                    last = time.monotonic()
                elif time.monotonic() - last > timeout_ms / 1000:
                    raise KafkaTimeoutError(
                        f"{tp.topic}-{tp.partition} gave nothing at offset {before} in {timeout_ms} ms"
                    )


def _chosen(numbers: list[int], group: str | None, partition: int | None, count: int | None) -> list[int]:
    """Those partitions that were asked for. ``count``: how many the topic has, None if that is not known."""
    if partition is not None and partition not in numbers:
        raise click.ClickException(f"there is no partition {partition} of {TOPIC}, only {numbers[0]} to {numbers[-1]}")
    if partition is not None:
        return [partition]
    if group is not None and count is not None:
        from pyconsumer.broker.group.records import partition_for

        return [partition_for(group, count)]
    return numbers


class Files:
    """The segments of ``__consumer_offsets`` below a folder.

    Attributes:
        damaged: whether something was wrong with a file, as reported on standard error.
    """

    def __init__(self, root: Path, group: str | None, partition: int | None) -> None:
        self._root = root
        self._group = group
        self._partition = partition
        self.damaged = False

    def read(self) -> Iterator[Found]:
        """The records by partition and offset."""
        folders = self._folders()
        # How many partitions the topic has cannot be seen: a broker may hold some of them.
        for number in _chosen(sorted(folders), self._group, self._partition, None):
            segments = sorted(path for path in folders[number].iterdir() if _SEGMENT.fullmatch(path.name))
            for path in segments:
                yield from self._segment(number, path, newest=path == segments[-1])

    def _folders(self) -> dict[int, Path]:
        found: dict[int, Path] = {}
        for path in sorted([self._root.absolute(), *self._root.rglob(f"{TOPIC}-*")]):
            match = _FOLDER.fullmatch(path.name)
            if match is None or not path.is_dir():
                continue
            other = found.setdefault(int(match[1]), path)
            if other != path:
                raise click.ClickException(
                    f"{self._root} holds partition {match[1]} of {TOPIC} more than once, in {other} and {path}: "
                    "name the folder of one broker"
                )
        if not found:
            raise click.ClickException(
                f"{self._root} holds no folder named {TOPIC}-NUMBER: is it the data of a broker?"
            )
        return found

    def _segment(self, number: int, path: Path, *, newest: bool) -> Iterator[Found]:
        data = memoryview(path.read_bytes())
        batches, damage = scan_until_damage(data)
        for info in batches:
            try:
                for record in iter_records(data[info.position : info.end_position]):
                    yield Found.read(
                        number, record.offset, record.timestamp, record.key, record.value, record.is_control
                    )
            except KafkaError as error:
                reason = str(error)
                if isinstance(error, CorruptRecordError):
                    reason = str(error.args[0]) if error.args else reason
                self._tell(f"{path}: byte {info.position}: {reason}")
        position = batches[-1].end_position if batches else 0
        rest = len(data) - position
        if not rest or not any(data[position:]):  # zeros: space that was reserved
            return
        if damage is not None:
            self._tell(f"{path}: {damage.args[0]}; {rest} bytes from there on are not shown")
        elif newest:
            # What a running broker is writing just now, or what a crash has left, which its next start cuts off.
            click.echo(f"{path}: the last {rest} bytes, from byte {position} on, are no whole batch", err=True)
        else:
            self._tell(f"{path}: byte {position}: the last {rest} bytes are no whole batch")

    def _tell(self, text: str) -> None:
        self.damaged = True
        sys.stdout.flush()
        click.echo(f"Error: {text}", err=True)
