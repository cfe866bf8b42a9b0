"""``pyconsumer offsets``: the records of ``__consumer_offsets``, read from a cluster or from the files of a broker."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import click

from pyconsumer.cli.internal_topics import data_dir_option, files_of, of_cluster
from pyconsumer.cli.offset_lines import FORMATS, DumpedRecord, as_document, as_text
from pyconsumer.cli.options import as_json, client_options, connected, json_option

__all__ = ["command"]

TOPIC = "__consumer_offsets"


@click.group(help="Print the records of __consumer_offsets, the topic of committed offsets and groups.")
def command() -> None:
    pass


@command.command("dump")
@connected
@json_option
@data_dir_option
@click.option("-g", "--group", metavar="GROUP", help="Only the records of this group.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Only this partition of the topic.")
@click.option(
    "--only", type=click.Choice(["offsets", "groups"]), help="Only committed offsets, or only metadata of groups."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Our own format, or that of the tools of Kafka 2.0 or 2.1.",
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
    """Print the records of __consumer_offsets, one per line, by partition and offset.

    A commit is printed as PARTITION@OFFSET GROUP TOPIC-PARTITION -> COMMITTED, the newest last, also one of a
    transaction that was aborted or is open. A tombstone means that an offset or a group was deleted. Records of the
    consumer protocol are printed in words, those of share and streams groups by type, group, member and size. A damaged
    file is reported with the place of the damage. The records before it and the other files are printed, and the exit
    status is 1.
    """
    if json_output and form != "text":
        raise click.UsageError("--json and --format cannot be combined")
    if data_dir is not None:
        # The number of the topic's partitions is unknown: the broker may have only some of them.
        source = files_of(ctx, data_dir, TOPIC, lambda numbers: _chosen(numbers, group, partition, None))
        records = source.read()
    else:
        source = None
        options = client_options(servers, settings) | {"default_api_timeout_ms": timeout_ms}
        records = of_cluster(
            options,
            TOPIC,
            lambda numbers: _chosen(numbers, group, partition, len(numbers)),
            timeout_ms,
            absent=f"there is no topic {TOPIC} yet: no group has used this cluster",
        )
    unreadable = 0
    for found in itertools.starmap(DumpedRecord.read, records):
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


def _chosen(numbers: list[int], group: str | None, partition: int | None, count: int | None) -> list[int]:
    """Return the requested partitions. ``count`` is the number of the topic's partitions, None if it is unknown."""
    if partition is not None and partition not in numbers:
        raise click.ClickException(f"{TOPIC} has no partition {partition}, only {numbers[0]} to {numbers[-1]}")
    if partition is not None:
        return [partition]
    if group is not None and count is not None:
        from pyconsumer.broker.group.common.offset_records import partition_for

        return [partition_for(group, count)]
    return numbers
