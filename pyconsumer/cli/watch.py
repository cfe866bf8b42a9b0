"""``pyconsumer groups watch``: the lag of groups at intervals.

On a terminal the table is redrawn each time. Elsewhere lines are added, for a file or another program.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pyconsumer.admin import GroupDescription, KafkaAdminClient
from pyconsumer.cli.ending import SIGTERM_STATUS, Terminated, raise_on_sigterm
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import as_json, client_options, connected, console, json_option, printable, table
from pyconsumer.cli.positions import Row, positions_of
from pyconsumer.errors import GroupIdNotFoundError, KafkaError
from pyconsumer.structs import TopicPartition

__all__ = ["Look", "Watch", "watch"]

_HEADINGS = ("time", "group", "topic", "partition", "committed", "end", "lag", "client")


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a group at one time.

    Attributes:
        at_ms: milliseconds since 1970.
        state: the state of the group, or an error message.
        size: the number of members, in words.
        rates: committed offsets per second since the previous look, by partition. None if unknown.
    """

    group: str
    at_ms: int
    state: str
    size: str = ""
    rows: Sequence[Row] = ()
    rates: dict[TopicPartition, float | None] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """The sum of all known lags, or None if none is known."""
        known = [row.lag for row in self.rows if row.lag is not None]
        return sum(known) if known else None


class Watch:
    """Looks at groups repeatedly. It remembers the last look, in order to compute rates.

    Args:
        admin: the admin client to use.
        groups: the group ids.
        timeout_ms: longest time of each call.
        clock, now_ms: functions that return monotonic seconds, and ms since 1970.
    """

    def __init__(
        self,
        admin: KafkaAdminClient,
        groups: Sequence[str],
        timeout_ms: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._admin = admin
        self._groups = groups
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._now_ms = now_ms
        self._before: dict[tuple[str, TopicPartition], tuple[float, int]] = {}
        self._seen = False

    def look(self) -> list[Look]:
        """Look at each group. An error of a group is part of the result.

        Raises:
            KafkaError: no group has been described successfully so far.
        """
        found = []
        first: KafkaError | None = None
        try:
            positions = positions_of(self._admin, self._groups, self._timeout_ms)
        except KafkaError as error:
            positions = dict.fromkeys(self._groups, error)
        for group in self._groups:
            one = positions[group]
            if isinstance(one, KafkaError):
                first = first or one
                gone = isinstance(one, GroupIdNotFoundError)
                found.append(Look(group, round(self._now_ms()), "does not exist" if gone else str(one)))
            else:
                found.append(self._look(group, *one))
                self._seen = True
        if first is not None and not self._seen:
            raise first
        return found

    def _look(self, group: str, described: GroupDescription, rows: Sequence[Row]) -> Look:
        now = self._clock()
        rates: dict[TopicPartition, float | None] = {}
        for row in rows:
            before = self._before.get((group, row.partition))
            rates[row.partition] = None
            if row.committed is None:
                continue
            if before is not None and now > before[0]:
                rates[row.partition] = (row.committed - before[1]) / (now - before[0])
            self._before[group, row.partition] = now, row.committed
        return Look(group, round(self._now_ms()), described.state, described.size, rows, rates)


def _picture(looks: Sequence[Look]) -> Group:
    """Return the looks as tables for a terminal."""
    parts: list[Any] = []
    for one in looks:
        members = f", {one.size}" if one.size else ""
        lag = "unknown" if one.lag is None else f"{one.lag:,}"
        parts.append(Text(printable(f"group {one.group}: {one.state}{members}, lag {lag}, {_moment(one.at_ms)}")))
        if not one.rows:
            continue
        numbers = ("partition", "committed", "end", "lag", "per second")
        listing = table("topic", *numbers, "client", right=numbers)
        for row in one.rows:
            rate = one.rates.get(row.partition)
            listing.add_row(
                row.partition.topic,
                str(row.partition.partition),
                *(row.committed, row.end, row.lag),
                None if rate is None else f"{rate:,.1f}",
                None if row.owner is None else row.owner.client_id,
            )
        parts.append(listing)
    return Group(*parts)


def _lines(looks: Sequence[Look], *, headings: bool) -> str:
    """Return the looks as lines with tabs between the cells. A group without partitions has one, with its state."""
    listing = table(*_HEADINGS)
    for one in looks:
        moment = _moment(one.at_ms)
        if not one.rows:
            listing.add_row(moment, one.group, *[None] * 5, one.state)
        for row in one.rows:
            numbers = row.partition.partition, row.committed, row.end, row.lag
            owner = None if row.owner is None else row.owner.client_id
            listing.add_row(moment, one.group, row.partition.topic, *numbers, owner)
    text = listing.plain()
    return text if headings else text.partition("\n")[2]


def _document(one: Look) -> dict[str, object]:
    return {
        "time": one.at_ms,
        "group": one.group,
        "state": one.state,
        "lag": one.lag,
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                "per_second": one.rates.get(row.partition),
                "client_id": None if row.owner is None else row.owner.client_id,
            }
            for row in one.rows
        ],
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _interval_argument(_ctx: click.Context, _parameter: click.Parameter, seconds: float) -> float:
    """Click callback: refuse ``nan``, which click's range accepts."""
    if math.isnan(seconds):
        raise click.BadParameter("'nan' is not a number of seconds")
    return seconds


@click.command("watch")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@connected
@json_option
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0.1, 86_400),
    default=2.0,
    show_default=True,
    callback=_interval_argument,
    help="Seconds between two looks.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="End after this many looks; by default on Ctrl-C.")
def watch(
    names: tuple[str, ...],
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    json_output: bool,
    interval: float,
    count: int | None,
) -> None:
    """Show the lag of groups at intervals.

    On a terminal the table is redrawn each time, with the offsets per second that were committed since the last time.
    In a pipe or a file, lines are added each time: time, group, topic, partition, committed, end, lag and client,
    separated by tabs.
    """
    out = console(markup=False)
    try:
        with (
            raise_on_sigterm(),
            library_warnings(),
            KafkaAdminClient(client_options(servers, settings)) as admin,
        ):
            seen = Watch(admin, names, timeout_ms)
            if out.is_terminal and not json_output:
                _draw(out, seen, interval, count)
            else:
                _write(seen, interval, count, json_output=json_output)
    except Terminated:
        raise SystemExit(SIGTERM_STATUS) from None


def _draw(out: Console, seen: Watch, interval: float, count: int | None) -> None:
    looks = seen.look()
    with Live(_picture(looks), console=out, auto_refresh=False, vertical_overflow="ellipsis") as live:
        done = 1
        while done != count:
            time.sleep(interval)
            live.update(_picture(seen.look()), refresh=True)
            done += 1


def _write(seen: Watch, interval: float, count: int | None, *, json_output: bool) -> None:
    done = 0
    while True:
        looks = seen.look()
        if json_output:
            sys.stdout.write("".join(as_json(_document(one)) + "\n" for one in looks))
        else:
            sys.stdout.write(_lines(looks, headings=done == 0))
        sys.stdout.flush()
        done += 1
        if done == count:
            return
        time.sleep(interval)
