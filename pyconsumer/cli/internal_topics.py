"""Readers of an internal topic of a cluster, from its brokers or from the files of one of them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import click
from click.core import ParameterSource

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.errors import CorruptRecordError, KafkaError, KafkaTimeoutError
from pyconsumer.protocol.records import iter_records
from pyconsumer.protocol.records.batch import scan_until_damage

__all__ = ["Files", "InternalRecord", "data_dir_option", "files_of", "of_cluster"]

#: Chooses partitions among the sorted numbers of those that exist.
Choose: TypeAlias = Callable[[list[int]], list[int]]

_SEGMENT = re.compile(r"\d{20}\.log")


data_dir_option = click.option(
    "-d",
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read the files of a broker, ours or Apache Kafka's, instead of a cluster.",
)


class InternalRecord(NamedTuple):
    """A record of an internal topic. ``timestamp`` is in ms since the epoch."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    is_control: bool = False


def of_cluster(
    options: dict[str, object], topic: str, choose: Choose, timeout_ms: int, *, absent: str
) -> Iterator[InternalRecord]:
    """Yield the records of a cluster's partitions, up to their current ends.

    Args:
        options: settings of the consumer.
        choose: a function that chooses partitions. Its argument is the sorted list of all partition numbers.
        absent: a text for standard error if the topic does not exist.

    Raises:
        KafkaTimeoutError: no record arrived within ``timeout_ms``.
    """
    options = options | {"group_id": None, "enable_auto_commit": False, "allow_auto_create_topics": False}
    with KafkaConsumer(options) as consumer:
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        if not numbers:
            click.echo(absent, err=True)
            return
        chosen = [TopicPartition(topic, number) for number in choose(numbers)]
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
                        yield InternalRecord(tp.partition, record.offset, record.timestamp, record.key, record.value)
                if consumer.position(tp) != before:
                    last = time.monotonic()
                elif time.monotonic() - last > timeout_ms / 1000:
                    raise KafkaTimeoutError(
                        f"no record of {tp} arrived within {timeout_ms} ms, from offset {before} on"
                    )


def files_of(ctx: click.Context, root: Path, topic: str, choose: Choose) -> Files:
    """Return the segments of a topic below a folder.

    Raises:
        click.UsageError: the command line also names a cluster.
    """
    if ctx.get_parameter_source("servers") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--bootstrap-servers and --data-dir cannot be combined")
    return Files(root, topic, choose)


class Files:
    """The segments of an internal topic below a folder.

    Args:
        choose: a function that chooses partitions. Its argument is the sorted list of the numbers that exist.

    Attributes:
        damaged: True if a file is damaged. Each damage is reported on standard error.
    """

    def __init__(self, root: Path, topic: str, choose: Choose) -> None:
        self._root = root
        self._topic = topic
        self._choose = choose
        self.damaged = False

    def read(self) -> Iterator[InternalRecord]:
        """Yield the records by partition and offset.

        Raises:
            click.ClickException: the folder has no partition of the topic, or has a partition more than once.
        """
        folders = self._folders()
        for number in self._choose(sorted(folders)):
            segments = sorted(path for path in folders[number].iterdir() if _SEGMENT.fullmatch(path.name))
            for path in segments:
                yield from self._segment(number, path, newest=path == segments[-1])

    def _folders(self) -> dict[int, Path]:
        found: dict[int, Path] = {}
        name = re.compile(rf"{self._topic}-(\d+)")
        for path in sorted([self._root.absolute(), *self._root.rglob(f"{self._topic}-*")]):
            match = name.fullmatch(path.name)
            if match is None or not path.is_dir():
                continue
            other = found.setdefault(int(match[1]), path)
            if other != path:
                raise click.ClickException(
                    f"{self._root} contains partition {match[1]} of {self._topic} more than once, in {other} and "
                    f"{path}: name the folder of one broker"
                )
        if not found:
            raise click.ClickException(
                f"{self._root} contains no folder named {self._topic}-NUMBER: is it the data folder of a broker?"
            )
        return found

    def _segment(self, number: int, path: Path, *, newest: bool) -> Iterator[InternalRecord]:
        data = memoryview(path.read_bytes())
        batches, damage = scan_until_damage(data)
        for info in batches:
            try:
                for record in iter_records(data[info.position : info.end_position]):
                    place = number, record.offset, record.timestamp
                    yield InternalRecord(*place, record.key, record.value, record.is_control)
            except KafkaError as error:
                reason = str(error)
                if isinstance(error, CorruptRecordError):
                    reason = str(error.args[0]) if error.args else reason
                self._report(f"{path}: byte {info.position}: {reason}")
        position = batches[-1].end_position if batches else 0
        rest = len(data) - position
        if not rest or not any(data[position:]):  # zeros: preallocated space
            return
        if damage is not None:
            self._report(f"{path}: {damage.args[0]}; {rest} bytes from there on are not shown")
        elif newest:
            # A running broker may be writing it, or a crash has left it; the broker truncates it at its next start.
            click.echo(f"{path}: the last {rest} bytes, from byte {position} on, are not a complete batch", err=True)
        else:
            self._report(f"{path}: byte {position}: the last {rest} bytes are not a complete batch")

    def _report(self, text: str) -> None:
        self.damaged = True
        sys.stdout.flush()
        click.echo(f"Error: {text}", err=True)
