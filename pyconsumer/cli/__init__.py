"""The ``pyconsumer`` command.

Exit status: 0 success, 1 failure (one line on standard error gives the reason), 2 wrong usage, 130 Ctrl-C, 143 SIGTERM.
Commands are imported when they are called, so that ``pyconsumer --help`` is quick.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from pyconsumer.errors import ConfigurationError, KafkaError

__all__ = ["cli", "main"]

_COMMANDS = {
    "acls": ("pyconsumer.cli.acls", "List, add and remove rules for what users may do."),
    "archive": ("pyconsumer.cli.archive", "Write a topic's records to Parquet files, with Spark."),
    "broker": ("pyconsumer.cli.broker", "Run an embedded Kafka cluster."),
    "completion": ("pyconsumer.cli.completion", "Print a script for tab completion in a shell."),
    "consume": ("pyconsumer.cli.consume", "Print the records of topics."),
    "demo": ("pyconsumer.cli.demo", "Send real flights through a broker, a consumer group and Spark."),
    "groups": ("pyconsumer.cli.groups", "List, describe, watch, reset and delete consumer groups."),
    "offsets": ("pyconsumer.cli.offsets", "Print the records of __consumer_offsets."),
    "produce": ("pyconsumer.cli.produce", "Send the lines of standard input as records."),
    "quotas": ("pyconsumer.cli.quotas", "List, set and remove quotas of users, client ids and addresses."),
    "replay": ("pyconsumer.cli.replay", "Send the records of an archive to a topic, with Spark."),
    "schemas": ("pyconsumer.cli.schemas", "List, show, register, check and delete schemas of a registry."),
    "transactions": ("pyconsumer.cli.transactions", "List, describe and abort transactions; find hanging ones."),
    "topics": ("pyconsumer.cli.topics", "List, create, describe, alter and delete topics."),
    "users": ("pyconsumer.cli.users", "List users of SCRAM, set passwords, delete users."),
}


class _Lazy(click.Group):
    """A command group that imports its commands when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = _COMMANDS.get(name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry[0]).command
        if sys.flags.optimize >= 2:
            from pyconsumer.cli.source_help import restore_help

            restore_help(command)
        return command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if sys.flags.optimize >= 2:
            from pyconsumer.cli.source_help import restore_help

            restore_help(self)
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from pyconsumer.settings.config import nearest

            near = nearest(args[0], _COMMANDS)
            hint = "" if near is None else f" Did you mean {near!r}?"
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from pyconsumer import __version__
        from pyconsumer.protocol.version_text import version_text

        click.echo(version_text(__version__))
        ctx.exit()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
@click.option("-v", "--verbose", count=True, help="Log to standard error; twice: all details.")
@click.pass_context
def cli(ctx: click.Context, verbose: int) -> None:
    """Kafka on the command line: topics, groups, records, and a broker to try them with."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    if ctx.invoked_subcommand == "broker":
        from pyconsumer.broker.console_log import log_to_stderr

        log_to_stderr(level, with_time=True if verbose else None)
    elif verbose:
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    else:
        # A failure is reported once, by the error that ends the command. A broker keeps running and logs as it goes.
        logging.getLogger("pyconsumer").addHandler(logging.NullHandler())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        result: Any = cli.main(args=arguments, prog_name="pyconsumer", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        error.show()
        return 2
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return 1
    except ConfigurationError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except (KafkaError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output has closed it, as `head` does. Python must not write the rest when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        click.echo(f"Error: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0
