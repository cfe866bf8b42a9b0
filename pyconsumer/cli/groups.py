"""``pyconsumer groups``."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from pyconsumer.admin import GroupDescription, KafkaAdminClient, OffsetSpec
from pyconsumer.cli.options import as_json, client_options, connected, console, json_option
from pyconsumer.errors import KafkaError
from pyconsumer.structs import TopicPartition

__all__ = ["command"]


@click.group(help="List, describe and delete consumer groups.")
def command() -> None:
    pass


@command.command("list")
@connected
@json_option
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state, such as Stable.")
def list_groups(
    servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool, states: tuple[str, ...]
) -> None:
    """All groups, with state and coordinator."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        groups = admin.list_groups(states=states, timeout_ms=timeout_ms)
    if json_output:
        for group in groups:
            click.echo(
                as_json(
                    {
                        "group": group.group_id,
                        "state": group.state,
                        "type": group.group_type,
                        "protocol_type": group.protocol_type,
                        "coordinator": group.coordinator_id,
                    }
                )
            )
        return
    if not groups:
        click.echo("no groups")
        return
    table = Table()
    for heading in ("group", "state", "type", "coordinator"):
        table.add_column(heading)
    for group in groups:
        table.add_row(group.group_id, group.state, group.group_type, str(group.coordinator_id))
    console().print(table)


@command.command("describe")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@connected
@json_option
def describe(
    names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int, json_output: bool
) -> None:
    """Members, positions and lag of groups."""
    out = console()
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        for name in names:
            group = admin.describe_groups([name], timeout_ms=timeout_ms)[name]
            rows = _positions(admin, group, timeout_ms)
            if json_output:
                click.echo(as_json(_document(group, rows)))
            else:
                _print(out, group, rows)


@command.command("delete")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@connected
def delete(names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int) -> None:
    """Remove groups without members, with all that they committed."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        result = admin.delete_groups(names, raise_errors=False, timeout_ms=timeout_ms)
    for name, error in result.items():
        click.echo(f"deleted {name}" if error is None else f"Error: {name}: {error}", err=error is not None)
    if any(result.values()):
        raise click.exceptions.Exit(1)


Row = tuple[TopicPartition, int | None, int | None, str, str]


def _positions(admin: KafkaAdminClient, group: GroupDescription, timeout_ms: int) -> list[Row]:
    """For each partition: committed offset, end of the log, and the member that owns it."""
    committed = admin.list_group_offsets(group.group_id, timeout_ms=timeout_ms)
    owners = {tp: member for member in group.members for tp in member.assignment}
    partitions = sorted(set(committed) | set(owners))
    ends: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
    try:
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), timeout_ms=timeout_ms)
        ends.update({tp: None if end is None else end.offset for tp, end in found.items()})
    except KafkaError:
        # A topic of the group may be gone: its lag is unknown, the rest still counts.
        for tp in partitions:
            try:
                end = admin.list_offsets({tp: OffsetSpec.LATEST}, timeout_ms=min(timeout_ms, 2000))[tp]
                ends[tp] = None if end is None else end.offset
            except KafkaError:
                continue
    rows: list[Row] = []
    for tp in partitions:
        owner = owners.get(tp)
        position = committed[tp].offset if tp in committed else None
        rows.append(
            (
                tp,
                position,
                ends[tp],
                owner.member_id if owner else "",
                f"{owner.client_id} {owner.host}" if owner else "",
            )
        )
    return rows


def _lag(position: int | None, end: int | None) -> int | None:
    return None if position is None or end is None else max(0, end - position)


def _document(group: GroupDescription, rows: list[Row]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol,
        "coordinator": group.coordinator.node_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [[tp.topic, tp.partition] for tp in member.assignment],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": position,
                "end": end,
                "lag": _lag(position, end),
                "member_id": member or None,
            }
            for tp, position, end, member, _ in rows
        ],
    }


def _print(out: Console, group: GroupDescription, rows: list[Row]) -> None:
    out.print(
        f"group {group.group_id}: {group.state}, {len(group.members)} members, assignor {group.protocol or 'none'}, "
        f"coordinator {group.coordinator}"
    )
    table = Table()
    for heading, side in (("topic", "left"), ("partition", "right"), ("committed", "right"), ("end", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    table.add_column("lag", justify="right")
    table.add_column("client")
    for tp, position, end, _, client in rows:
        lag = _lag(position, end)
        table.add_row(
            tp.topic,
            str(tp.partition),
            "-" if position is None else f"{position:,}",
            "-" if end is None else f"{end:,}",
            "-" if lag is None else f"{lag:,}",
            client,
        )
    if rows:
        out.print(table)
    idle = [member.client_id for member in group.members if not member.assignment]
    if idle:
        out.print(f"without partitions: {', '.join(idle)}")
