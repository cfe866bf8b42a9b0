"""``pyconsumer produce``."""

from __future__ import annotations

import os
import sys
from typing import IO, Any, NoReturn

import click

from pyconsumer.cli.options import client_options, connected
from pyconsumer.errors import KafkaError
from pyconsumer.producer import FutureRecordMetadata, KafkaProducer
from pyconsumer.producer.config import PRODUCER_SETTINGS

__all__ = ["command"]


@click.command(help="Send each line of standard input, or of a file, as a record.")
@click.argument("topic")
@connected
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read from here.  [default: stdin]")
@click.option("-k", "--key-separator", metavar="TEXT", help="What stands before it in a line is the key.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Send to this partition.")
@click.option("-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option(
    "-c",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Of batches.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say how many records were sent.")
def command(
    topic: str,
    servers: str,
    settings: dict[str, str],
    timeout_ms: int,
    source: IO[bytes],
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    quiet: bool,
) -> None:
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
    separator = None if key_separator is None else os.fsencode(key_separator)
    if separator == b"":
        raise click.BadParameter("it must not be empty", param_hint="--key-separator")
    options = in_time(client_options(servers, settings) | {"compression_type": compression}, timeout_ms)
    sent = 0
    failures: list[KafkaError] = []
    with KafkaProducer(options) as producer:
        future: FutureRecordMetadata

        def refuse(line: str) -> NoReturn:
            """End because of a line, after those before it were sent."""
            producer.flush()
            if failures:
                raise failures[0]
            raise click.ClickException(f"{line}; the {sent:,} before it were sent")

        for number, line in enumerate(source, 1):
            value = line.rstrip(b"\r\n")
            key = None
            if separator is not None:
                key, found, value = value.partition(separator)
                if not found:
                    refuse(f"line {number} has no key separator {key_separator!r}")
            try:
                future = producer.send(topic, value, key, parsed or None, partition)
            except (ValueError, KafkaError) as error:
                refuse(f"line {number}: {error}")
            future.add_errback(failures.append)
            sent += 1
            if failures:
                break
        producer.flush()
    if failures:
        raise failures[0]
    if not quiet:
        click.echo(f"{sent:,} records sent to {topic}", err=True)
    sys.stdout.flush()


def in_time(options: dict[str, Any], timeout_ms: int) -> dict[str, Any]:
    """The options of a producer that gives up after ``--timeout-ms``, as far as ``--config`` says nothing else."""
    config = PRODUCER_SETTINGS.build(options)
    bounds = {"max_block_ms": timeout_ms, "request_timeout_ms": min(config.request_timeout_ms, timeout_ms)}
    bounds = {name: value for name, value in bounds.items() if name not in config.given}
    if "delivery_timeout_ms" not in config.given:
        request_ms = bounds.get("request_timeout_ms", config.request_timeout_ms)
        bounds["delivery_timeout_ms"] = max(timeout_ms, config.linger_ms + request_ms)
    return options | bounds
