"""``pyconsumer groups reset-offsets``: moves the committed offsets of a group, by the rules of Kafka's own group tool.

First a plan is made, by reading only. It is printed, and with ``--execute`` all of it is committed in one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from pyconsumer.admin import KafkaAdminClient, OffsetSpec
from pyconsumer.cli.options import as_json, client_options, connected, console, json_option, print_table, table
from pyconsumer.errors import GroupIdNotFoundError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["reset_offsets"]

Wanted = dict[str, list[int] | None]
"""Partitions by topic; None: all of them."""

_WITHOUT_MEMBERS = ("", "Empty", "Dead")  # "": older brokers do not list the state


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset: an option of the command, and its value."""

    option: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """The change of one partition's offset. If ``new`` is not the requested offset, ``note`` has the reason."""

    partition: TopicPartition
    old: int | None
    new: int
    note: str | None = None


def topic_arguments(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> Wanted:
    """Click callback: read ``TOPIC`` or ``TOPIC:0,1`` arguments."""
    found: Wanted = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise click.BadParameter(f"{text!r} names no topic")
        if topic in found:
            raise click.BadParameter(f"topic {topic!r} is given twice. List its partitions with commas")
        if not colon:
            found[topic] = None
            continue
        try:
            chosen = [int(number) for number in numbers.split(",")]
        except ValueError:
            chosen = [-1]
        if min(chosen) < 0:
            raise click.BadParameter(f"{text!r} does not have the form TOPIC or TOPIC:PARTITION,...")
        found[topic] = sorted(set(chosen))
    return found


def datetime_argument(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Click callback: return an ISO 8601 time as ms since the epoch. Without a zone it is UTC, as in Kafka's tool."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not an ISO 8601 time such as 2026-01-31T18:00:00 or ...T18:00:00+01:00"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    milliseconds = round(time.timestamp() * 1000)
    if milliseconds < 0:
        raise click.BadParameter(f"{text!r} is before 1970")
    return milliseconds


@click.command("reset-offsets")
@click.argument("group", metavar="GROUP")
@connected
@json_option
@click.option(
    "-t",
    "--topic",
    "wanted",
    metavar="TOPIC[:0,1]",
    multiple=True,
    callback=topic_arguments,
    help="A topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record of the log.")
@click.option("--to-latest", is_flag=True, help="To the end of the log, after the newest record.")
@click.option("--to-offset", type=click.IntRange(0), metavar="OFFSET", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=datetime_argument,
    help="To the first record at or after an ISO 8601 time, in UTC unless it has a zone.",
)
@click.option(
    "--shift-by", type=int, metavar="N", help="By this many offsets from the committed one; back if negative."
)
@click.option("--execute", is_flag=True, help="Reset the offsets; without this option nothing is changed.")
def reset_offsets(
    group: str,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    wanted: Wanted,
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: int | None,
    shift_by: int | None,
    execute: bool,
) -> None:
    """Move the committed offsets of a group without members.

    Prints old and new offsets, and changes nothing unless --execute is given. A target outside the log of a partition
    is replaced by the nearest offset in it. A group that does not exist is created.
    """
    if bool(wanted) == all_topics:
        raise click.UsageError("either --topic or --all-topics is required")
    given = [Target(option) for option, on in (("--to-earliest", to_earliest), ("--to-latest", to_latest)) if on]
    numbers = {"--to-offset": to_offset, "--to-datetime": to_datetime, "--shift-by": shift_by}
    given += [Target(option, value) for option, value in numbers.items() if value is not None]
    if len(given) != 1:
        raise click.UsageError(
            "exactly one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by is required"
        )
    with KafkaAdminClient(client_options(servers, settings) | {"default_api_timeout_ms": timeout_ms}) as admin:
        is_shared = refuse_members(admin, group)
        moves = plan(admin, group, wanted, given[0], is_shared=is_shared)
        if execute and is_shared:
            admin.alter_share_group_offsets(group, {move.partition: move.new for move in moves})
        elif execute:
            admin.alter_group_offsets(group, {move.partition: OffsetAndMetadata(move.new) for move in moves})
    _show(group, moves, executed=execute, json_output=json_output)


def refuse_members(admin: KafkaAdminClient, group: str) -> bool:
    """Check that the group has no members. Members would overwrite the new offsets by their own commits.

    Returns:
        True if it is a share group.

    Raises:
        click.ClickException: the group has members.
    """
    is_shared = False
    try:
        found = admin.describe_groups([group])[group]
    except GroupIdNotFoundError:
        # It does not exist, or is of a newer type, which is only listed.
        state = next((item.state for item in admin.list_groups() if item.group_id == group), "")
        who = f"is {state}"
    else:
        is_shared = found.group_type == "share"
        state = found.state
        who = found.who() or f"is {state}"
    if state not in _WITHOUT_MEMBERS:
        raise click.ClickException(
            f"group {group!r} {who}. Offsets can be reset only if it has no members: stop them and try again"
        )
    return is_shared


def plan(admin: KafkaAdminClient, group: str, wanted: Wanted, target: Target, *, is_shared: bool = False) -> list[Move]:
    """Return the changes, in the order of partitions.

    Args:
        wanted: the partitions. If empty: all partitions with a committed offset.

    Raises:
        click.ClickException: a partition does not exist, or has no committed offset that could be shifted.
    """
    if is_shared:
        committed = {tp: found.start_offset for tp, found in admin.list_share_group_offsets(group).items()}
    else:
        committed = {tp: found.offset for tp, found in admin.list_group_offsets(group).items()}
    partitions = _existing(admin, wanted) if wanted else _still_there(admin, group, committed)
    missing = [tp for tp in partitions if tp not in committed]
    if target.option == "--shift-by" and missing:
        raise click.ClickException(
            f"group {group!r} has no committed offset to shift for {_listed(missing)}. Choose other partitions, or an "
            "option that begins with --to"
        )
    first = _offsets(admin, partitions, OffsetSpec.EARLIEST)
    end = _offsets(admin, partitions, OffsetSpec.LATEST)
    by_time = admin.list_offsets(dict.fromkeys(partitions, target.value)) if target.option == "--to-datetime" else {}
    moves = []
    for tp in partitions:
        note = None
        if target.option == "--to-earliest":
            requested = first[tp]
        elif target.option == "--to-latest":
            requested = end[tp]
        elif target.option == "--to-offset":
            requested = target.value
        elif target.option == "--shift-by":
            requested = committed[tp] + target.value
        else:
            found = by_time[tp]
            requested = end[tp] if found is None else found.offset
            note = "no record is that recent: end of the log" if found is None else None
        new = min(max(requested, first[tp]), end[tp])
        if new != requested:
            place = "before the start" if requested < new else "beyond the end"
            note = f"{requested:,} is {place} of the log, which is {new:,}"
        moves.append(Move(tp, committed.get(tp), new, note))
    return moves


def _existing(admin: KafkaAdminClient, wanted: Mapping[str, list[int] | None]) -> list[TopicPartition]:
    """Return the requested partitions. Raise ``ClickException`` if one does not exist."""
    found: list[TopicPartition] = []
    for topic in admin.describe_topics(wanted):
        numbers = [item.partition for item in topic.partitions]
        chosen = wanted[topic.name]
        for number in numbers if chosen is None else chosen:
            if number not in numbers:
                raise click.ClickException(
                    f"topic {topic.name!r} has no partition {number}, only 0 to {max(numbers, default=-1)}"
                )
            found.append(TopicPartition(topic.name, number))
    return sorted(found)


def _still_there(admin: KafkaAdminClient, group: str, committed: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions with a committed offset that exist, and report the others on standard error."""
    known = {
        TopicPartition(topic.name, item.partition) for topic in admin.describe_topics() for item in topic.partitions
    }
    gone = sorted(set(committed) - known)
    if gone:
        click.echo(f"skipped, because they no longer exist: {_listed(gone)}", err=True)
    found = sorted(set(committed) & known)
    if not found:
        raise click.ClickException(f"group {group!r} has no committed offsets. Name topics by --topic")
    return found


def _offsets(admin: KafkaAdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, spec))
    return {tp: 0 if item is None else item.offset for tp, item in found.items()}


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)


def _show(group: str, moves: list[Move], *, executed: bool, json_output: bool) -> None:
    if json_output:
        for move in moves:
            click.echo(
                as_json(
                    {
                        "group": group,
                        "topic": move.partition.topic,
                        "partition": move.partition.partition,
                        "old": move.old,
                        "new": move.new,
                        "note": move.note,
                        "executed": executed,
                    }
                )
            )
        return
    changes = table("topic", "partition", "old", "new", "note", right=("partition", "old", "new"))
    for move in moves:
        tp = move.partition
        changes.add_row(tp.topic, str(tp.partition), move.old, move.new, move.note or "")
    print_table(console(markup=False), changes)
    if executed:
        click.echo(f"the offsets of group {group} were reset")
    else:
        click.echo("dry run: no offset was changed. Add --execute to reset the offsets")
