"""Options and session of the commands that use Spark. Spark is imported when it is needed."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pyconsumer.cli.java import JavaOfBlock, java_of_block
from pyconsumer.cli.options import Given, console, key_values

__all__ = ["kafka_options", "on_spark", "progress_bar", "spark_session"]

F = TypeVar("F", bound=Callable[..., Any])

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def on_spark(function: F) -> F:
    """Adds ``--master``, ``--conf`` and ``--option`` to a command."""
    function = click.option(
        "--option",
        "spark_options",
        metavar="NAME=VALUE",
        multiple=True,
        callback=key_values,
        help="An option of the Spark source or sink, as in docs/spark.md; may be repeated.",
    )(function)
    function = click.option(
        "--conf", metavar="KEY=VALUE", multiple=True, callback=key_values, help="A setting of Spark; may be repeated."
    )(function)
    return click.option(
        "--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077."
    )(function)


def kafka_options(settings: Mapping[str, str], options: Mapping[str, str], timeout_ms: int) -> dict[str, str]:
    """Options of the Spark source or sink from a command's client settings."""
    found = {"kafka.default.api.timeout.ms": str(timeout_ms)}
    if isinstance(settings, Given):
        settings = settings.common()
    found |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    return found | dict(options)


@contextlib.contextmanager
def spark_session(master: str, conf: Mapping[str, str], *, log: Path | None = None) -> Iterator[Any]:
    """A Spark session for one command. The Java that it starts has ended when the block has.

    Args:
        master, conf: as for :func:`pyconsumer.spark.session`.
        log: the file for what Java says; without one it is a temporary file, which is kept if the command fails.

    Raises:
        click.ClickException: Spark is not installed, or it failed, here or in the block.
        ConfigurationError: there is no Java.
    """
    try:
        from pyconsumer.spark import session
    except ImportError as error:
        raise click.ClickException(str(error)) from None  # it says what to install, so it must come first
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pyconsumer.spark.errors import reason_from_spark

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _temporary_log() if log is None else log.open("ab") as file, _java(master) as java:
        try:
            with _errors_to(file.fileno()):
                spark = session(master=master, **{**_CONF, **conf})
            try:
                yield spark
            finally:
                java.remember_workers()
                spark.stop()
        except (Py4JError, PySparkException) as error:
            raise click.ClickException(f"Spark failed: {reason_from_spark(error)}") from error


def _java(master: str) -> contextlib.AbstractContextManager[JavaOfBlock]:
    """Java lives as long as the command; with Spark Connect it is the server's."""
    return contextlib.nullcontext(JavaOfBlock()) if master.startswith("sc://") else java_of_block()


@contextlib.contextmanager
def _temporary_log() -> Iterator[IO[bytes]]:
    """A file that stays, and is named, if the block ends by an error and something was written."""
    handle, name = tempfile.mkstemp(prefix="pyconsumer-spark-", suffix=".log")
    good = False
    try:
        with os.fdopen(handle, "ab") as file:
            yield file
        good = True
    except (KeyboardInterrupt, click.Abort):
        good = True
        raise
    finally:
        if good or not Path(name).stat().st_size:
            os.unlink(name)
        else:
            click.echo(f"Spark's output is in {name}", err=True)


def progress_bar(*, json_output: bool) -> Progress:
    """A bar whose tasks have a ``text`` beside it; with JSON no bar is shown."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console(markup=False), disable=json_output)


@contextlib.contextmanager
def _errors_to(handle: int) -> Iterator[None]:
    """Redirect to a file what processes started inside write to standard error."""
    kept = os.dup(2)
    try:
        os.dup2(handle, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
