"""``pyconsumer transactions``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from pyconsumer import TopicPartition
from pyconsumer.admin import KafkaAdminClient, TransactionDescription
from pyconsumer.cli.internal_topics import data_dir_option, files_of, of_cluster
from pyconsumer.cli.options import (
    as_json,
    client_options,
    connected,
    json_option,
    printable,
    show_list,
)
from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.transaction_topic import TransactionLogValue, decode_key, decode_value

__all__ = ["command"]

_TOPIC = "__transaction_state"
_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@click.group(help="List, describe and abort transactions; find hanging ones.")
def command() -> None:
    pass


@command.command("list")
@connected
@json_option
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only transactions in this state, such as Ongoing."
)
@click.option(
    "--longer-than",
    type=click.IntRange(0),
    metavar="MS",
    help="Only transactions that have been open for more milliseconds than this.",
)
@click.option("--pattern", metavar="REGEX", help="Only transactional ids that match this pattern as a whole.")
def list_transactions(
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    states: tuple[str, ...],
    longer_than: int | None,
    pattern: str | None,
) -> None:
    """List all transactional ids, with state, producer id and coordinator."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = admin.list_transactions(
            states=states, min_duration_ms=longer_than, pattern=pattern, timeout_ms=timeout_ms
        )
    columns = ("transactional_id", "state", "producer_id", "coordinator")
    values = ((one.transactional_id, one.state, one.producer_id, one.coordinator_id) for one in found)
    rows = [dict(zip(columns, each, strict=True)) for each in values]
    show_list(rows, columns, json_output=json_output, none="no transactions")


@command.command("describe")
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@connected
@json_option
def describe(
    names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool
) -> None:
    """Show state, producer, age and partitions of transactions."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = admin.describe_transactions(names, timeout_ms=timeout_ms)
    for one in found.values():
        if json_output:
            click.echo(as_json(_document(one)))
            continue
        click.echo(f"{printable(one.transactional_id)} is {one.state}, on coordinator {one.coordinator_id}")
        click.echo(f"  producer {one.producer_id}, epoch {one.producer_epoch}, timeout {one.timeout_ms} ms")
        if one.start_ms is not None:
            click.echo(f"  open since {_moment(one.start_ms)}")
        for tp in one.partitions:
            click.echo(f"  {tp}")


def _document(one: TransactionDescription) -> dict[str, object]:
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "start_ms": one.start_ms,
        "partitions": [str(tp) for tp in one.partitions],
        "coordinator": one.coordinator_id,
    }


@command.command("find-hanging")
@connected
@json_option
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only partitions of this topic.")
@click.option(
    "--max-timeout",
    "max_timeout_ms",
    type=click.IntRange(0),
    default=900_000,
    show_default=True,
    metavar="MS",
    help="transaction.max.timeout.ms of the brokers. Their coordinator may still end transactions younger than that.",
)
def find_hanging(
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    topics: tuple[str, ...],
    max_timeout_ms: int,
) -> None:
    """Find transactions that block consumers with read_committed, and that no coordinator will ever end.

    Each is printed with the command that aborts it.
    """
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        names = topics or admin.list_topics(include_internal=True, timeout_ms=timeout_ms)
        described = admin.describe_topics(names, timeout_ms=timeout_ms)
        partitions = [TopicPartition(topic.name, one.partition) for topic in described for one in topic.partitions]
        found = admin.find_hanging_transactions(
            partitions, max_transaction_timeout_ms=max_timeout_ms, timeout_ms=timeout_ms
        )
    for one in found:
        start = one.producer.transaction_start_offset
        if json_output:
            click.echo(
                as_json(
                    {
                        "topic": one.partition.topic,
                        "partition": one.partition.partition,
                        "start_offset": start,
                        "producer_id": one.producer.producer_id,
                        "producer_epoch": one.producer.producer_epoch,
                        "last_timestamp_ms": one.producer.last_timestamp_ms,
                        "transactional_id": one.transactional_id,
                    }
                )
            )
            continue
        name = one.transactional_id
        owner = "unknown transactional id" if name is None else f"transactional id {printable(name)}"
        click.echo(
            f"{one.partition} from offset {start}: producer {one.producer.producer_id} ({owner}), last write "
            f"{_moment(one.producer.last_timestamp_ms)}"
        )
        click.echo(f"  pyconsumer transactions abort {one.partition.topic} {one.partition.partition} {start}")
    if not found and not json_output:
        click.echo(f"no hanging transactions in {len(partitions)} partitions")


@command.command("abort")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("start_offset", type=click.IntRange(0))
@connected
def abort(
    topic: str, partition: int, start_offset: int, servers: str, settings: dict[str, str], timeout_ms: int
) -> None:
    """Abort the transaction that begins at START_OFFSET of a partition.

    Use it only for a transaction that find-hanging has named: if its producer is still writing, its records are lost.
    """
    tp = TopicPartition(topic, partition)
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        admin.abort_transaction(tp, start_offset, timeout_ms=timeout_ms)
    click.echo(f"aborted the transaction of {tp} that began at offset {start_offset}")


@command.command("fence")
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@connected
def fence(names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int) -> None:
    """Fence the producers that use these ids, and abort their open transactions."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        for name, (producer_id, epoch) in admin.fence_producers(names, timeout_ms=timeout_ms).items():
            click.echo(f"fenced {printable(name)}: producer {producer_id} now has epoch {epoch}")


@command.command("dump")
@connected
@json_option
@data_dir_option
@click.option("--id", "wanted", metavar="TRANSACTIONAL_ID", help="Only the records of this transactional id.")
@click.pass_context
def dump(
    ctx: click.Context,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    data_dir: Path | None,
    wanted: str | None,
) -> None:
    """Print the records of __transaction_state, one per line, by partition and offset.

    A damaged file is reported with the place of the damage. The records before it and the other files are printed, and
    the exit status is 1.
    """
    source = None
    if data_dir is not None:
        source = files_of(ctx, data_dir, _TOPIC, lambda numbers: numbers)
        records = source.read()
    else:
        records = of_cluster(
            client_options(servers, settings) | {"default_api_timeout_ms": timeout_ms},
            _TOPIC,
            lambda numbers: numbers,
            timeout_ms,
            absent=f"there is no topic {_TOPIC} yet: no producer has used transactions in this cluster",
        )
    for record in records:
        if not record.is_control:
            _print(f"{record.partition}@{record.offset}", record.key, record.value, wanted, json_output)
    if source is not None and source.damaged:
        raise click.exceptions.Exit(1)


def _print(place: str, key: bytes | None, value: bytes | None, wanted: str | None, json_output: bool) -> None:
    try:
        name = decode_key(key or b"")
        found = None if value is None else decode_value(value)
    except ProtocolError as error:
        click.echo(f"Error: {place}: {error}", err=True)
        return
    if name is None or (wanted is not None and name != wanted):
        return
    if json_output:
        click.echo(
            as_json({"place": place, "transactional_id": name, "value": None if found is None else _fields(found)})
        )
        return
    if found is None:
        click.echo(f"{place} {printable(name)} removed")
        return
    partitions = " ".join(_partitions(found))
    click.echo(
        f"{place} {printable(name)} {_state(found)} producer {found.producer_id} epoch {found.producer_epoch}"
        + (f" {partitions}" if partitions else "")
    )


def _state(found: TransactionLogValue) -> str:
    code = found.transaction_status
    return _STATES[code] if 0 <= code < len(_STATES) else f"state {code}"


def _partitions(found: TransactionLogValue) -> list[str]:
    return [f"{topic.topic}-{one}" for topic in found.transaction_partitions or () for one in topic.partition_ids]


def _fields(found: TransactionLogValue) -> dict[str, object]:
    return {
        "state": _state(found),
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "start_ms": found.transaction_start_timestamp_ms,
        "last_update_ms": found.transaction_last_update_timestamp_ms,
        "partitions": _partitions(found),
        "previous_producer_id": found.previous_producer_id,
        "next_producer_id": found.next_producer_id,
        "client_transaction_version": found.client_transaction_version,
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
