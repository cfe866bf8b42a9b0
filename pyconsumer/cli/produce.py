"""``pyconsumer produce``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pyconsumer.cli.ending import SIGTERM_STATUS, Terminated, raise_on_sigterm
from pyconsumer.cli.notices import library_warnings
from pyconsumer.cli.options import client_options, connected
from pyconsumer.cli.record_lines import JsonRecord, from_document
from pyconsumer.cli.registry import with_registry
from pyconsumer.cli.value_formats import ValueWriter, value_format_option
from pyconsumer.errors import KafkaError
from pyconsumer.producer import FutureRecordMetadata, KafkaProducer
from pyconsumer.producer.config import PRODUCER_SETTINGS

__all__ = ["command"]

_MOST_PER_BYTE = 8  #: longest line by record size: JSON needs up to six bytes for one (``\u0000``), and field names
_EVERY = 1024  #: records between two updates of the progress bar


@click.command(
    help="Send each line of standard input, or of a file, as a record.\n\n"
    "With --json each line is an object as printed by `consume --json`, with a value and, optionally, key, headers and "
    'timestamp. A null value is a tombstone; {"base64": "..."} and {"hex": "..."} are bytes.'
)
@click.argument("topic")
@connected
@with_registry
@value_format_option
@click.option(
    "--value-schema",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="With --value-format: the schema, which is registered.  [default: the latest version of TOPIC-value]",
)
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="The file to read.  [default: stdin]")
@click.option("--json", "json_input", is_flag=True, help="Lines are JSON objects.")
@click.option(
    "--keep-partitions",
    is_flag=True,
    help="With --json: send each record to the partition in its line, not to that of its key.",
)
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    help="The key is the part of a line before the first TEXT, the value the part after it.",
)
@click.option("-p", "--partition", type=click.IntRange(0), help="Send to this partition.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option(
    "-c",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Compression of batches.  [default: compression.type of --config, or none]",
)
@click.option("-q", "--quiet", is_flag=True, help="Show neither progress nor the number of records sent.")
def command(
    topic: str,
    servers: str,
    settings: Any,
    timeout_ms: int,
    registry: dict[str, Any],
    value_format: str,
    value_schema: IO[str] | None,
    source: IO[bytes],
    json_input: bool,
    keep_partitions: bool,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str | None,
    quiet: bool,
) -> None:
    parsed = _parsed_headers(headers)
    separator = None if key_separator is None else os.fsencode(key_separator)
    if separator == b"":
        raise click.BadParameter("it must not be empty", param_hint="--key-separator")
    if json_input and separator is not None:
        raise click.UsageError("--json and --key-separator cannot be combined")
    if keep_partitions and (not json_input or partition is not None):
        raise click.UsageError("--keep-partitions needs --json, and cannot be combined with --partition")

    if value_schema is not None and value_format == "text":
        raise click.UsageError("--value-schema needs --value-format avro or json")
    options = client_options(servers, settings, PRODUCER_SETTINGS)
    if compression is not None:
        options["compression_type"] = compression
    writer = None if value_format == "text" else ValueWriter(registry, topic, value_schema, timeout_ms, value_format)

    def read(line: bytes) -> JsonRecord:
        if json_input:
            found = from_document(line, None if writer is None else writer.of_document)
            chosen = found.partition if keep_partitions else partition
            return found._replace(headers=[*found.headers, *parsed], partition=chosen)
        value = line.rstrip(b"\r\n")
        key = None
        if separator is not None:
            key, present, value = value.partition(separator)
            if not present:
                raise ValueError(f"it has no key separator {key_separator!r}")
        return JsonRecord(key, value if writer is None else writer.of_line(value), parsed, partition, None)

    try:
        with raise_on_sigterm(), _progress(source, quiet=quiet) as show:
            sent, status = _send(topic, in_time(options, timeout_ms), source, read, show)
    except Terminated:
        raise SystemExit(SIGTERM_STATUS) from None
    finally:
        if writer is not None:
            writer.close()
    if not quiet:
        click.echo(f"{sent:,} record{'s' * (sent != 1)} sent to {topic}", err=True)
    if status:
        raise SystemExit(status)


def _parsed_headers(headers: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    parsed: list[tuple[str, bytes | None]] = []
    for header in headers:
        name, equals, text = header.partition("=")
        if not equals:
            raise click.BadParameter(f"{header!r} is not of the form NAME=VALUE", param_hint="--header")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise click.BadParameter(f"the name in {header!r} is not UTF-8", param_hint="--header") from None
        parsed.append((name, os.fsencode(text)))
    return parsed


def _send(
    topic: str,
    options: dict[str, Any],
    source: IO[bytes],
    read: Callable[[bytes], JsonRecord],
    show: Callable[[int, int], object],
) -> tuple[int, int]:
    """Send all lines, and return the number of records and the exit status: 0, or that of a signal.

    Args:
        read: returns the record of a line, or raises ValueError with the reason why it is not one.
        show: called now and then with the number of records, and of bytes of the source.

    Raises:
        click.ClickException: a line is not a record. The lines before it were sent.
        KafkaError: a record could not be delivered.
    """
    sent = size = 0
    failures: list[KafkaError] = []
    most = _MOST_PER_BYTE * PRODUCER_SETTINGS.build(options).max_request_size
    with library_warnings(), KafkaProducer(options) as producer:
        future: FutureRecordMetadata

        def refuse(line: str) -> NoReturn:
            """Send the lines before this one, and raise an error for it."""
            producer.flush()
            if failures:
                raise failures[0]
            raise click.ClickException(f"{line}; {_before(sent)}")

        status = 0
        try:
            for number, line in enumerate(_lines(source, most), 1):
                size += len(line)
                if len(line) > most:
                    refuse(f"line {number} has more than {most:,} bytes, too many for a record (max.request.size)")
                try:
                    record = read(line)
                    more: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp_ms": record.timestamp_ms}
                    future = producer.send(
                        topic, record.value, record.key, record.headers or None, record.partition, **more
                    )
                except (ValueError, KafkaError) as error:
                    refuse(f"line {number}: {error}")
                future.add_errback(failures.append)
                sent += 1
                if sent % _EVERY == 0:
                    show(sent, size)
                if failures:
                    break
        except Terminated:
            status = SIGTERM_STATUS
        except KeyboardInterrupt:
            status = 130
        show(sent, size)
        producer.flush()  # also after a signal: lines that were read are sent; a second signal interrupts that
    if failures:
        raise failures[0]
    return sent, status


def _before(sent: int) -> str:
    if sent == 1:
        return "the record before it was sent"
    return f"the {sent:,} records before it were sent" if sent else "no record was sent"


def _lines(source: IO[bytes], most: int) -> Iterator[bytes]:
    """Yield the lines of a source. Of one with more than ``most`` bytes, which is refused, yield ``most + 1`` bytes."""
    while line := source.readline(most + 1):
        yield line


@contextlib.contextmanager
def _progress(source: IO[bytes], *, quiet: bool) -> Iterator[Callable[[int, int], object]]:
    """Show a progress bar on standard error, if that is a terminal and the lines are not typed there."""
    console = Console(stderr=True, highlight=False, markup=False)
    if quiet or not console.is_terminal or source.isatty():
        yield lambda records, size: None
        return
    try:
        total = os.fstat(source.fileno()).st_size or None  # unknown for a pipe
    except (OSError, ValueError):
        total = None
    columns = (BarColumn(), TextColumn("{task.fields[records]} records"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, records="0")
        yield lambda records, size: bar.update(task, completed=size, records=f"{records:,}")


def in_time(options: dict[str, Any], timeout_ms: int) -> dict[str, Any]:
    """Return the options for a producer, with the timeouts of ``--timeout-ms``.

    Timeouts in ``--config`` take precedence.
    """
    config = PRODUCER_SETTINGS.build(options)
    bounds = {"max_block_ms": timeout_ms, "request_timeout_ms": min(config.request_timeout_ms, timeout_ms)}
    bounds = {name: value for name, value in bounds.items() if name not in config.given}
    if "delivery_timeout_ms" not in config.given:
        request_ms = bounds.get("request_timeout_ms", config.request_timeout_ms)
        bounds["delivery_timeout_ms"] = max(timeout_ms, config.linger_ms + request_ms)
    return options | bounds
