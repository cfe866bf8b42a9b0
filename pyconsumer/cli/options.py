"""Options of several commands: the address of the cluster, client settings, output as JSON, and output of tables."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import click
from rich.console import Console
from rich.table import Table

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.errors import ClusterAuthorizationFailedError
from pyconsumer.settings.config import CLIENT_SETTINGS, Settings
from pyconsumer.settings.properties import (
    OTHERS,
    PREFIX,
    Entry,
    configured_file,
    environment_entries,
    file_entries,
    resolve,
)

__all__ = [
    "DEFAULT_SERVERS",
    "Given",
    "Listing",
    "as_json",
    "check_untyped",
    "client_options",
    "connected",
    "console",
    "files_and_pairs",
    "json_option",
    "key_values",
    "needs",
    "print_table",
    "printable",
    "show_list",
    "table",
]

F = TypeVar("F", bound=Callable[..., Any])


def key_values(_ctx: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Click callback: return ``KEY=VALUE`` arguments as a mapping."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} does not have the form KEY=VALUE")
        found[key.strip()] = value
    return found


class Given(dict[str, str]):
    """The client settings of a command from all sources, as text by dotted name.

    Attributes:
        sources: the settings from file, environment and command line. Later sources take precedence over earlier ones.
        servers: ``bootstrap.servers``, if a source contains it.
    """

    def __init__(self, *sources: Mapping[str, Entry]) -> None:
        self.sources = tuple({name: entry for name, entry in source.items() if name != _SERVERS} for source in sources)
        named = [source[_SERVERS].text for source in sources if _SERVERS in source]
        self.servers = named[-1] if named else None
        super().__init__({name: entry.text for source in self.sources for name, entry in source.items()})

    def common(self) -> dict[str, str]:
        """Return the settings that apply to all clients.

        From a file or the environment, settings that only some clients have are left out.
        """
        found: dict[str, str] = {}
        for source in self.sources:
            found |= {name: one.text for name, one in source.items() if not (one.shared and name in OTHERS)}
        return found

    def without(self, *names: str) -> Given:
        """Return the settings without those that the command sets itself. ``names`` are their dotted names."""
        return Given(*({name: one for name, one in source.items() if name not in names} for source in self.sources))


_SERVERS: Final = "bootstrap.servers"
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.]*)\s*=(.*)", re.DOTALL)


def files_and_pairs(
    _ctx: click.Context, _parameter: click.Parameter, arguments: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Click callback: return the files and the pairs among the values of ``--config``.

    A pair is a name, an equals sign and a value.
    """
    files, pairs = [], {}
    for argument in arguments:
        match = _PAIR.fullmatch(argument)
        if match is not None:
            pairs[match[1]] = match[2]
        elif os.path.isfile(argument) or os.sep in argument:
            files.append(argument)
        else:
            raise click.BadParameter(f"{argument!r} is not an existing file and not of the form KEY=VALUE")
    return files, pairs


def _given(files: Iterable[str], pairs: Mapping[str, str]) -> Given:
    """Return the settings of a command from its files, the environment and the command line."""
    secret = {name for setting in CLIENT_SETTINGS if setting.secret for name in setting.names}
    for name in sorted(secret & pairs.keys()):
        variable = PREFIX + name.replace(".", "_").upper()
        _warn(
            f"every user of this machine can see {name} in the list of processes; put it into a file (--config FILE)"
            f" or into the environment variable {variable}"
        )
    from_files: dict[str, Entry] = {}
    for path in files:
        from_files |= file_entries(path)
    argued = {name.replace("_", "."): Entry(text, "--config", shared=False) for name, text in pairs.items()}
    return Given(from_files if files else configured_file(None), environment_entries(warn=_warn), argued)


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def connected(function: F) -> F:
    """Add ``-b/--bootstrap-servers``, ``--config`` and ``--timeout-ms`` to a command. The command gets the settings."""

    @functools.wraps(function)
    def run(*arguments: Any, servers: str | None, settings: tuple[list[str], dict[str, str]], **options: Any) -> Any:
        given = _given(*settings)
        return function(*arguments, servers=servers or given.servers or DEFAULT_SERVERS, settings=given, **options)

    decorated: Any = click.option(
        "--timeout-ms", type=click.IntRange(1), default=30_000, show_default=True, help="Give up after this time."
    )(run)
    decorated = click.option(
        "--config",
        "--command-config",
        "settings",
        metavar="FILE|KEY=VALUE",
        multiple=True,
        callback=files_and_pairs,
        help="A properties file with client settings, as for Kafka's own tools, or one setting, such as "
        "security.protocol=SSL; may be repeated. Put passwords into a file, or into an environment variable such "
        "as PYCONSUMER_SASL_PASSWORD.",
    )(decorated)
    decorated = click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",  # as Kafka's own tools spell it
        "servers",
        metavar="HOST:PORT[,...]",
        envvar="PYCONSUMER_BOOTSTRAP_SERVERS",
        show_envvar=True,
        help=f"Addresses of one or more brokers.  [default: that of --config, or {DEFAULT_SERVERS}]",
    )(decorated)
    return cast(F, decorated)


DEFAULT_SERVERS: Final = "localhost:9092"


def json_option(function: F) -> F:
    """Add ``--json`` to a command."""
    return click.option("--json", "json_output", is_flag=True, help="Print JSON, one object per line.")(function)


def dry_run_option(function: F) -> F:
    """Add ``--dry-run`` to a command that changes something."""
    return click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")(function)


def client_options(servers: str, settings: Mapping[str, str], table: Settings[Any] = ADMIN_SETTINGS) -> dict[str, Any]:
    """Return the options for a client's constructor.

    Args:
        table: the client's table of settings. A file or the environment may contain settings of other clients, which
            are ignored.

    Raises:
        ConfigurationError: a setting is unknown or has a wrong value. The message names the file and line, or the
            variable.
    """
    options: dict[str, Any] = {"bootstrap_servers": servers}
    if isinstance(settings, Given):
        return options | resolve(table, *settings.sources)
    for name, value in settings.items():  # dotted names, so that values are read as in a properties file
        options[name.replace("_", ".") if "." not in name else name] = value
    return options


def console(*, markup: bool = True) -> Console:
    """Return the console for tables and text. If the output is a file or a pipe, lines are not wrapped.

    Args:
        markup: True interprets ``[bold]`` and the like. It must be False if text from a cluster is printed.
    """
    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, markup=markup, emoji=False, soft_wrap=width is not None, width=width)


def printable(text: str) -> str:
    """Return text with escapes such as ``\\x1b`` for control characters and newlines.

    Clients choose their ids and host names. Without escapes, they could control the terminal or forge lines.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


Cell = str | int | None
"""Text, a number, or None if unknown."""


class Listing(Table):
    """A table that can be printed with lines or as plain text. Control characters in cells are escaped."""

    def __init__(self, headings: Sequence[str], title: str | None = None) -> None:
        super().__init__(title=title, title_justify="left")
        self._lines: list[Sequence[Cell]] = [headings]

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row. Cells are text, numbers (on a terminal with commas) or None, which is printed as a hyphen."""
        self._lines.append(cells)
        super().add_row(*(f"{cell:,}" if isinstance(cell, int) else _text(cell) for cell in cells), **options)

    def plain(self) -> str:
        """Return the headings and rows as lines, with tabs between the cells."""
        return "".join("\t".join(map(_text, line)) + "\n" for line in self._lines)


def _text(cell: Cell) -> str:
    return "-" if cell is None else printable(cell) if isinstance(cell, str) else str(cell)


def print_table(out: Console, listing: Listing) -> None:
    """Print a table. On a terminal it has lines. Elsewhere it is plain text with tabs, for tools such as ``cut``."""
    if out.is_terminal:
        out.print(listing)
    else:
        out.file.write(listing.plain())


def table(*headings: str, right: Collection[str] = (), title: str | None = None) -> Listing:
    """Return an empty table. Long cells are wrapped.

    Args:
        headings: the headings of the columns.
        right: the headings of columns that are aligned to the right.
        title: a line above the table.
    """
    empty = Listing(headings, title)
    for heading in headings:
        empty.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return empty


def show_list(rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, json_output: bool, none: str) -> None:
    """Print a line of JSON for each row, or print a table.

    Args:
        rows: the values by name.
        columns: the names of the values in the table. They are also its headings.
        none: a text for standard error if there are no rows. With ``json_output`` it is not written.
    """
    if json_output:
        for row in rows:
            click.echo(as_json(row))
    elif rows:
        listing = table(*(name.replace("_", " ") for name in columns))
        for row in rows:
            listing.add_row(*(str(row[name]) for name in columns))
        print_table(console(markup=False), listing)
    else:
        click.echo(none, err=True)


def check_untyped(name: str | None) -> None:
    """Raise ``click.UsageError`` if the name of a user begins with the type that names in rules may have."""
    if name is not None and name.startswith("User:"):
        raise click.UsageError(f"write the user without a type: {name.removeprefix('User:')}")


@contextlib.contextmanager
def needs(operation: str) -> Iterator[None]:
    """Say which right on the cluster the commands of a block need, if it is missing."""
    try:
        yield
    except ClusterAuthorizationFailedError as error:
        raise click.ClickException(
            f"{error} You need {operation} on the cluster, such as by the rule 'USER: {operation} cluster'"
        ) from None


def as_json(value: object) -> str:
    """Return one line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
