"""``pyconsumer groups``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from rich.console import Console

from pyconsumer.admin import ConfigResource, ConfigResourceType, GroupDescription, KafkaAdminClient
from pyconsumer.cli.export import export
from pyconsumer.cli.options import (
    Listing,
    as_json,
    client_options,
    connected,
    console,
    json_option,
    print_table,
    printable,
    show_list,
    table,
)
from pyconsumer.cli.positions import Row, positions_of, shown_age
from pyconsumer.cli.reset import reset_offsets
from pyconsumer.cli.watch import watch
from pyconsumer.errors import KafkaError
from pyconsumer.structs import TopicPartition

__all__ = ["command"]


@click.group(help="List, describe, watch, export, reset, alter and delete consumer groups.")
def command() -> None:
    pass


command.add_command(reset_offsets)
command.add_command(watch)
command.add_command(export)


@command.command("list")
@connected
@json_option
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state, such as Stable.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only groups of this type: classic, consumer or share."
)
@click.option("--with-settings", is_flag=True, help="Only groups with settings of their own (Kafka 4.1 and newer).")
def list_groups(
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    states: tuple[str, ...],
    types: tuple[str, ...],
    with_settings: bool,
) -> None:
    """List all groups, with state and coordinator."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        groups = admin.list_groups(states=states, types=types, timeout_ms=timeout_ms)
        if with_settings:
            resources = admin.list_config_resources([ConfigResourceType.GROUP], timeout_ms=timeout_ms)
            names = {one.name for one in resources}
            groups = [group for group in groups if group.group_id in names]
    rows = [
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.group_type,
            "protocol_type": group.protocol_type,
            "coordinator": group.coordinator_id,
        }
        for group in groups
    ]
    show_list(rows, ("group", "state", "type", "coordinator"), json_output=json_output, none="no groups")


@command.command("describe")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@connected
@json_option
@click.option("--lag-time", is_flag=True, help="Also the age of the first uncommitted record.")
def describe(
    names: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    lag_time: bool,
) -> None:
    """Show state, assignor, members, committed offsets and lag of groups."""
    out = console(markup=False)
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        found = positions_of(admin, names, timeout_ms, lag_time=lag_time)
        for name in names:
            one = found[name]
            if isinstance(one, KafkaError):
                raise one
            group, rows = one
            if json_output:
                click.echo(as_json(_document(group, rows, lag_time=lag_time)))
            else:
                _print(out, group, rows, lag_time=lag_time)


@command.command("delete")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@connected
def delete(names: tuple[str, ...], servers: str, settings: dict[str, str], timeout_ms: int) -> None:
    """Delete groups without members, with all their committed offsets."""
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        result = admin.delete_groups(names, raise_errors=False, timeout_ms=timeout_ms)
    for name, error in result.items():
        click.echo(f"deleted {name}" if error is None else f"Error: {name}: {error}", err=error is not None)
    if any(result.values()):
        raise click.exceptions.Exit(1)


@command.command("alter")
@click.argument("name", metavar="GROUP")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Set one of the group's own settings.")
@click.option(
    "--unset",
    "removed",
    multiple=True,
    metavar="NAME",
    help="Remove one of the group's own settings, so that the broker's applies.",
)
@connected
@json_option
def alter(
    name: str,
    values: tuple[str, ...],
    removed: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
) -> None:
    """Change settings of a group of the consumer protocol (KIP-848) or of a share group, and show all of them."""
    changes: dict[str, str | None] = dict.fromkeys(removed)
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="--set")
        changes[key] = text
    resource = ConfigResource(ConfigResourceType.GROUP, name)
    with KafkaAdminClient(client_options(servers, settings)) as admin:
        if changes:
            admin.alter_configs({resource: changes}, timeout_ms=timeout_ms)
        found = admin.describe_configs([resource], timeout_ms=timeout_ms)[resource]
    sources = {key: _SOURCES.get(entry.source, "the broker") for key, entry in found.items()}
    if json_output:
        for key, entry in sorted(found.items()):
            click.echo(as_json({"group": name, "name": key, "value": entry.value, "source": sources[key]}))
        return
    listing = table("setting", "value", "from")
    for key, entry in sorted(found.items()):
        listing.add_row(key, entry.value or "-", sources[key])
    print_table(console(markup=False), listing)


#: Runs of finished records that a line shows.
_MOST_RUNS = 5
#: Sources of a value by Kafka's numbers; all others are settings of the broker.
_SOURCES = {5: "default", 8: "the group"}


def _document(group: GroupDescription, rows: list[Row], *, lag_time: bool = False) -> dict[str, object]:
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": group.coordinator.node_id,
        "coordinator_address": str(group.coordinator.address),
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "topics": member.topics,
                "topic_pattern": member.topic_pattern,
                "rack": member.rack_id,
                "partitions": [[*tp] for tp in member.assignment],
                "type": member.member_type,
                "epoch": member.epoch,
                "target": None if member.target is None else [[*tp] for tp in member.target],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                **({"lag_time_s": row.lag_time} if lag_time else {}),
                "finished": [list(run) for run in row.finished],
                "member_id": row.owner.member_id if row.owner else None,
                **({"end_unknown": row.reason} if row.reason else {}),
                **({"lag_time_unknown": row.lag_time_reason} if row.lag_time_reason else {}),
            }
            for row in rows
        ],
    }


def _print(out: Console, group: GroupDescription, rows: list[Row], *, lag_time: bool = False) -> None:
    node = group.coordinator
    kind = f"type {group.group_type or 'unknown'}"
    # A classic group may be of other things, such as Connect's workers.
    if group.protocol_type not in ("", "consumer", "share"):
        kind += f", protocol type {group.protocol_type}"
    if group.epoch is not None:
        kind += f", epoch {group.epoch}"
        if group.assignment_epoch != group.epoch:
            kind += f" (assignment of {group.assignment_epoch})"
    out.print(
        printable(
            f"group {group.group_id}: {group.state}, {group.size}, {kind}, "
            f"assignor {group.protocol or 'none'}, coordinator {node.node_id} ({node.address})"
        )
    )
    if group.members:
        print_table(out, _members(group))
    if rows:
        numbers = ("partition", "committed", "end", "lag", *(["lag time"] if lag_time else []))
        has_gaps = any(row.finished for row in rows)
        positions = table("topic", *numbers, "client", *(["finished above"] if has_gaps else []), right=numbers)
        for row in rows:
            positions.add_row(
                row.partition.topic,
                str(row.partition.partition),
                *(row.committed, row.end, row.lag),
                *([shown_age(row.lag_time)] if lag_time else []),
                row.owner.client_id if row.owner else "-",
                *([_runs(row.finished)] if has_gaps else []),
            )
        known = [row.lag for row in rows if row.lag is not None]
        print_table(out, positions)
        if known:
            out.print(f"lag of {len(known)} of {len(rows)} partitions: {sum(known):,}")
        for what, reasons in (
            ("end", [row.reason for row in rows]),
            ("lag time", [row.lag_time_reason for row in rows]),
        ):
            for reason in sorted({one for one in reasons if one}):
                out.print(printable(f"{what} of {reasons.count(reason)} of {len(rows)} partitions unknown: {reason}"))


def _runs(finished: Sequence[tuple[int, int]]) -> str:
    """Return runs of finished records as offsets: ``17-20 23``, and how many more runs there are."""
    shown = [str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in finished[:_MOST_RUNS]]
    more = len(finished) - len(shown)
    return " ".join(shown) + (f" and {more} more" if more else "")


def _members(group: GroupDescription) -> Listing:
    """Return the members by client, with epochs, and with their target assignments if members still move to them."""
    headings = ["client", "host", "instance", "member", "partitions"]
    has_epochs = group.epoch is not None
    moves = any(member.target not in (None, member.assignment) for member in group.members)
    headings += ["epoch"] if has_epochs else []
    headings += ["to be"] if moves else []
    members = table(*headings)
    for member in sorted(group.members, key=lambda item: (item.client_id, item.member_id)):
        row = [
            member.client_id,
            member.host,
            member.group_instance_id or "-",
            member.member_id,
            in_short(member.assignment) or "none",
        ]
        row += [str(member.epoch)] if has_epochs else []
        row += [in_short(member.target or ()) or "none"] if moves else []
        members.add_row(*row)
    return members


def in_short(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in the notation of ``--topic``: ``orders:0,1,2 users:4``."""
    by_topic: dict[str, list[str]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(str(tp.partition))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())
