"""Options that several commands share: the address of the cluster, client settings, output as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import click
from rich.console import Console, RenderableType
from rich.table import Table

__all__ = ["as_json", "client_options", "connected", "console", "json_option", "key_values", "printable", "table"]

F = TypeVar("F", bound=Callable[..., Any])


def key_values(_ctx: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Click callback: ``KEY=VALUE`` arguments as a mapping."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE")
        found[key.strip()] = value
    return found


def _settings(ctx: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Click callback: the settings of ``--command-config``, then those of ``--config``."""
    from pyconsumer.config import CLIENT_SETTINGS

    given = key_values(ctx, parameter, pairs)
    secret = {name for setting in CLIENT_SETTINGS if setting.secret for name in setting.names} | {"sasl.jaas.config"}
    for name in sorted(secret & given.keys()):
        click.echo(
            f"Warning: every user of this machine can read {name} in the list of processes; use --command-config FILE",
            err=True,
        )
    named = {name.replace("_", "."): value for name, value in given.items()}
    from_file: dict[str, str] = ctx.meta.get(_FILE_SETTINGS, {})
    return from_file | named


_FILE_SETTINGS: Final = "pyconsumer.command_config"


def _command_config(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        from pyconsumer.cli.properties import client_properties

        ctx.meta[_FILE_SETTINGS] = {name.replace("_", "."): text for name, text in client_properties(path).items()}


def connected(function: F) -> F:
    """Adds ``-b/--bootstrap-servers``, ``--command-config``, ``--config`` and ``--timeout-ms`` to a command."""
    function = click.option(
        "--timeout-ms", type=click.IntRange(1), default=30_000, show_default=True, help="Give up after this time."
    )(function)
    function = click.option(
        "--config",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_settings,
        help="A client setting, such as security.protocol=SSL; may be repeated.",
    )(function)
    function = click.option(
        "--command-config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_command_config,
        help="A properties file with client settings, as for Kafka's own tools; passwords belong there.",
    )(function)
    return click.option(
        "-b",
        "--bootstrap-servers",
        "servers",
        metavar="HOST:PORT[,...]",
        default="localhost:9092",
        show_default=True,
        envvar="PYCONSUMER_BOOTSTRAP_SERVERS",
        show_envvar=True,
        help="Where the cluster is.",
    )(function)


def json_option(function: F) -> F:
    """Adds ``--json``."""
    return click.option("--json", "json_output", is_flag=True, help="Print JSON, one object per line.")(function)


def client_options(servers: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Options for a client's constructor. Dotted names, so that values are read as in a properties file."""
    options: dict[str, Any] = {"bootstrap_servers": servers}
    for name, value in settings.items():
        options[name.replace("_", ".") if "." not in name else name] = value
    return options


def console(*, markup: bool = True) -> Console:
    """Return where tables and text for people go. In a file or a pipe lines are not cut to the width of a terminal.

    Args:
        markup: whether ``[bold]`` is an order. It must be False where names that others chose are printed.
    """
    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, markup=markup, emoji=False, soft_wrap=width is not None, width=width)


def printable(text: str) -> str:
    """Return text as it may go to a terminal: characters that steer it, and newlines, as escapes such as ``\\x1b``.

    Ids and host names are chosen by clients, which could otherwise move the cursor or forge lines.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class _PrintableTable(Table):
    """A table whose rows are made printable."""

    def add_row(self, *renderables: RenderableType | None, **options: Any) -> None:
        super().add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in renderables), **options)


def table(*headings: str, right: Collection[str] = (), title: str | None = None) -> Table:
    """An empty table. What is too long for a column continues in its next line, and control characters are escaped.

    Args:
        headings: of its columns.
        right: those of them whose values are numbers, which are set to the right.
        title: a line above it.
    """
    empty = _PrintableTable(title=title, title_justify="left")
    for heading in headings:
        empty.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return empty


def as_json(value: object) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)
