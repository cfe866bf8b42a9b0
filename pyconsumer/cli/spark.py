"""Options, session and progress bar of the commands that use Spark, which is imported when it is needed."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pyconsumer.cli.java import JavaOfBlock, java_of_block
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import Given, connected, console, json_option, key_values

__all__ = ["SparkJob", "kafka_options", "progress_bar", "spark_job", "spark_session"]

F = TypeVar("F", bound=Callable[..., Any])

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def _on_spark(function: F) -> F:
    """Add ``--master``, ``--conf`` and ``--option`` to a command."""
    function = click.option(
        "--option",
        "spark_options",
        metavar="NAME=VALUE",
        multiple=True,
        callback=key_values,
        help="An option of the Spark source or sink, see docs/spark.md; may be repeated.",
    )(function)
    function = click.option(
        "--conf", metavar="KEY=VALUE", multiple=True, callback=key_values, help="A Spark setting; may be repeated."
    )(function)
    return click.option(
        "--master", default="local[*]", show_default=True, help="Spark's master, such as spark://host:7077."
    )(function)


@dataclass(frozen=True)
class SparkJob:
    """The options that all commands with Spark have.

    Attributes:
        servers: addresses of the cluster.
        options: the options of the Spark source or sink.
        master, conf: see :func:`pyconsumer.spark.session`.
        json_output: True prints the progress as JSON.
    """

    servers: str
    options: dict[str, str]
    master: str
    conf: dict[str, str]
    json_output: bool

    @contextlib.contextmanager
    def running(self) -> Iterator[tuple[Any, Progress]]:
        """Yield a Spark session and a progress bar. Both end together with the block."""
        bar = progress_bar(json_output=self.json_output)
        with spark_session(self.master, self.conf) as spark, library_warnings(), bar:
            yield spark, bar


def spark_job(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a command that runs one job on Spark. The command gets them as the argument ``job``."""

    @functools.wraps(function)
    def with_job(
        servers: str,
        settings: dict[str, str],
        timeout_ms: int,
        master: str,
        conf: dict[str, str],
        spark_options: dict[str, str],
        json_output: bool,
        **others: Any,
    ) -> None:
        options = kafka_options(settings, spark_options, timeout_ms)
        function(job=SparkJob(servers, options, master, conf, json_output), **others)

    return connected(_on_spark(json_option(with_job)))


def kafka_options(settings: Mapping[str, str], options: Mapping[str, str], timeout_ms: int) -> dict[str, str]:
    """Return the options of the Spark source or sink for a command's client settings."""
    found = {"kafka.default.api.timeout.ms": str(timeout_ms)}
    if isinstance(settings, Given):
        settings = settings.common()
    found |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    return found | dict(options)


@contextlib.contextmanager
def spark_session(master: str, conf: Mapping[str, str], *, log: Path | None = None) -> Iterator[Any]:
    """Yield a Spark session for one command. If it has started Java, Java ends together with the block.

    Args:
        master, conf: see :func:`pyconsumer.spark.session`.
        log: the file for Java's output. None: a temporary file, which is kept if the command fails.

    Raises:
        click.ClickException: Spark is not installed, or it has failed, either at the start or in the block.
        ConfigurationError: no Java 17 or newer was found.
    """
    try:
        from pyconsumer.spark import session
    except ImportError as error:
        raise click.ClickException(str(error)) from None  # the error says what to install
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
    """Return the context that ends Java with the command. With Spark Connect, Java belongs to the server."""
    return contextlib.nullcontext(JavaOfBlock()) if master.startswith("sc://") else java_of_block()


@contextlib.contextmanager
def _temporary_log() -> Iterator[IO[bytes]]:
    """Yield a file, which is kept and named if the block fails and something was written."""
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
    """Return a progress bar whose tasks have a ``text``. It is hidden if the output is JSON."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console(markup=False), disable=json_output)


@contextlib.contextmanager
def _errors_to(handle: int) -> Iterator[None]:
    """Redirect the standard error of processes that are started in the block to a file."""
    kept = os.dup(2)
    try:
        os.dup2(handle, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
