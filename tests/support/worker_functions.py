"""Functions for workers in processes, which import this module alone."""

from __future__ import annotations

import multiprocessing
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyconsumer.workers import ProducerRecord

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "TextlessError",
    "UnpicklableError",
    "Unreadable",
    "copies",
    "copies_batch",
    "copies_table",
    "dies_once",
    "exits_at_three",
    "fails_on_odd_numbers",
    "fails_with_seven",
    "keeps_table",
    "keeps_table_without_seven",
    "names_its_process",
    "never_returns",
    "raises_late",
    "raises_textless",
    "raises_unpicklable",
    "returns_unreadable",
    "signals_at_three",
    "slow_once",
    "waits_for_the_others",
]


def slow_once(record: Any) -> None:
    """Hang at offset 3, unless the file that a header names is there."""
    marker = record.headers[-1][1].decode()
    if record.offset == 3 and not Path(marker).exists():
        Path(marker).touch()
        time.sleep(30)


def waits_for_the_others(record: Any) -> None:
    """Touch a file. At offset 40, wait until there are 79 of them in the folder that a header names."""
    folder = Path(record.headers[-1][1].decode())
    if record.offset != 40:
        (folder / str(record.offset)).touch()
        return
    until = time.monotonic() + 20
    while len(list(folder.iterdir())) < 79:
        if time.monotonic() > until:
            raise TimeoutError("the other records were held up")
        time.sleep(0.01)


def exits_at_three(record: Any) -> None:
    if record.offset == 3:
        raise SystemExit(5)


def signals_at_three(record: Any) -> None:
    """Send the signal that a header names to the program at offset 3."""
    program = multiprocessing.parent_process()
    assert program is not None
    assert program.pid is not None
    if record.offset == 3:
        os.kill(program.pid, int(record.headers[-1][1]))
    if record.offset >= 3:
        time.sleep(0.05)


def raises_late(record: Any) -> None:
    """Raise an exception whose class the worker process has made. The program does not have it."""
    late = type("LateError", (Exception,), {"__module__": __name__})
    globals()["LateError"] = late
    raise late("odd")


def names_its_process(record: Any) -> None:
    """Touch a file with the id of the process in the folder that a header names."""
    (Path(record.headers[-1][1].decode()) / str(os.getpid())).touch()


def dies_once(record: Any) -> None:
    """End the process at offset 3, unless the file that a header names is there."""
    marker = record.headers[-1][1].decode()
    if record.offset == 3 and not Path(marker).exists():
        Path(marker).touch()
        os._exit(3)


def never_returns(record: Any) -> None:
    """Sleep for longer than any test."""
    time.sleep(30)


class UnpicklableError(Exception):
    """Can be pickled and not be read again."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__("odd")


def raises_unpicklable(record: Any) -> None:
    """Raise it at offset 3."""
    if record.offset == 3:
        raise UnpicklableError(1, 2)


class TextlessError(Exception):
    """Has no text, and cannot be pickled."""

    def __str__(self) -> str:
        raise ValueError

    def __reduce__(self) -> tuple[object, ...]:
        raise ValueError


def raises_textless(record: Any) -> None:
    """Raise it at offset 3."""
    if record.offset == 3:
        raise TextlessError


class Unreadable:
    """A value that can be pickled and not be read again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("odd",))


def returns_unreadable(record: Any) -> list[ProducerRecord]:
    """Return a copy, at offset 3 one that the workers' process cannot read."""
    value = Unreadable() if record.offset == 3 else record.value
    return [ProducerRecord(record.headers[-1][1].decode(), value, record.key)]


def copies(record: Any) -> list[ProducerRecord]:
    """Return the record twice, for the topic that its last header names."""
    return [ProducerRecord(record.headers[-1][1].decode(), record.value, record.key)] * 2


def copies_batch(records: list[Any]) -> list[ProducerRecord]:
    """Return each record once, for the topic that its last header names."""
    return [ProducerRecord(record.headers[-1][1].decode(), record.value, record.key) for record in records]


def fails_with_seven(records: list[Any]) -> None:
    """Fail if the value 7 is in the batch."""
    if any(record.value == b"7" for record in records):
        raise ArithmeticError("seven")


def copies_table(table: pyarrow.Table) -> list[ProducerRecord]:
    """Return each record of a table once, for the topic that its last header names."""
    return [ProducerRecord(row["headers"][-1]["value"].decode(), row["value"], row["key"]) for row in table.to_pylist()]


def keeps_table(table: pyarrow.Table) -> None:
    """Write the table to a new file of the folder that the first header of the first record names."""
    from pyarrow import feather

    folder = table["headers"][0].as_py()[0]["value"].decode()
    feather.write_feather(table, f"{folder}/{uuid.uuid4().hex}", compression="uncompressed")


def keeps_table_without_seven(table: pyarrow.Table) -> None:
    """Keep the table, and then fail if the value 7 is in it."""
    keeps_table(table)
    if b"7" in table["value"].to_pylist():
        raise ArithmeticError("seven")


def fails_on_odd_numbers(record: Any) -> None:
    """Raise an exception for each second record."""
    if int(record.value) % 2:
        raise ValueError("odd")
