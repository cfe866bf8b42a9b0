"""``python -m tests.fuzz.typed``: columns of Avro, Protobuf and JSON of mutated values, over random schemas.

::

    python -m tests.fuzz.typed --inputs 10000000 --sanitize

builds the compiled decoders with gcc's sanitizers for addresses and undefined behaviour. Each thousand inputs have a
schema of their own: of ten schemas five are Avro, four Protobuf and one JSON. Values are made by the schema, and
damaged. About 60 of the thousand go to the decoder in Python, too. The two must not differ in a refused row or a value.
The others are changed in a byte or more, and are read by the compiled decoder alone, as single values or from one
buffer. All that it makes must be valid columns of Arrow. A thousand that take a minute are a hang. A failure names its
schema. It is played again by ``--first NUMBER --inputs 1000``.
"""

from __future__ import annotations

import faulthandler
import importlib.abc
import importlib.util
import random
import resource
import struct
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import click

from tests.fuzz.sanitized import ROOT, built_file, run_sanitized

_MODULE = "pyconsumer.protocol.avro._native"
_SOURCES = ROOT / "pyconsumer/protocol/avro/native"
_ROUND = 1000  # inputs of one schema
_PREFIX = b"\0\0\0\0\x07"
_FORMATS = ("avro", "protobuf", "avro", "protobuf", "json", "avro", "protobuf", "avro", "protobuf", "avro")
_BYTES = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_PARTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x20",  # a block of 2**60 items
    b"\x80\xa8\xd6\xb9\x07",  # 10**9 items
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03",
    b"\x80" * 12,
    b"\x02" * 80,
    b"\x0b" * 80,  # groups within groups
    b"[" * 80,
    b'{"a":' * 70,
    b"1e999",
    b"\\ud800",
    b"\xed\xa0\x80",
)


@click.command(help="Read mutated values of random schemas to columns.")
@click.option("--inputs", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--first", default=0, show_default=True, help="Number of the first input, in whole thousands.")
@click.option("--seed", default=1, show_default=True)
@click.option("--sanitize", is_flag=True, help="With sanitizers; needs gcc.")
@click.option("--most-memory", default=2000, show_default=True, help="MB that the process may take.")
def main(inputs: int, first: int, seed: int, sanitize: bool, most_memory: int) -> None:
    if sanitize and built_file(_MODULE) is None:
        raise SystemExit(run_sanitized("tests.fuzz.typed", sys.argv[1:], {_MODULE: _SOURCES}))
    _use_sanitized()
    start = time.monotonic()
    compared = schemas = 0
    for begin in range(first - first % _ROUND, first + inputs, _ROUND):
        faulthandler.dump_traceback_later(60, exit=True)
        form = _FORMATS[begin // _ROUND % len(_FORMATS)]
        try:
            compared += _play(form, seed << 40 | begin)
        except Exception as error:
            raise click.ClickException(
                f"input {begin} (seed {seed}), {form}: {type(error).__name__}: {error}"
            ) from error
        schemas += 1
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if used > most_memory:
            raise click.ClickException(f"{used} MB are in use after input {begin + _ROUND}")
        if schemas % 200 == 0:
            click.echo(f"{schemas * _ROUND} inputs, {time.monotonic() - start:.0f} s, at most {used} MB")
    faulthandler.cancel_dump_traceback_later()
    click.echo(
        f"{schemas * _ROUND} inputs from {first} on, seed {seed}, {schemas} schemas, {compared} inputs read by both:"
        f" no difference, no damage; {time.monotonic() - start:.0f} s, {time.process_time():.0f} s of them on a core,"
        f" at most {used} MB"
    )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the sanitized module in the place of the installed one."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_file_location(fullname, self._file) if fullname == _MODULE else None


def _use_sanitized() -> None:
    file = built_file(_MODULE)
    if file is not None:
        assert _MODULE not in sys.modules
        sys.meta_path.insert(0, _Finder(file))
    from pyconsumer.protocol.avro import coder

    native = sys.modules.get(_MODULE)
    if native is None or coder.ColumnsDecoder.__module__ != _MODULE:
        raise click.ClickException("the compiled decoder was not built")
    click.echo(f"the compiled decoder: {native.__file__}")


def _play(form: str, seed: int) -> int:
    """Read the inputs of one schema. Return the number of those that both decoders read."""
    from tests.fuzz import typed_schemas

    chance = random.Random(seed)
    case = typed_schemas.CASES[form](seed)
    values = [case.value() for _ in range(10)]
    rows: list[bytes | None] = [None]
    for value in values:
        rows += [_PREFIX + value, *[_PREFIX + case.damaged(value) for _ in range(5)]]
    case.compare(rows)
    most = 1 << 20 if chance.random() < 0.02 else 10_000
    left = _ROUND - len(rows)
    while left > 0:
        value = chance.choice(values)
        some = [_PREFIX + each for each in _variants(value, min(left, chance.choice((5, 30, 100))), chance)]
        left -= len(some)
        case.read(_column(some) if chance.random() < 0.5 else some, len(some), most)
    return len(rows)


def _variants(value: bytes, count: int, chance: random.Random) -> list[bytes]:
    """Return a value with more and more changes, and again from its start."""
    found = []
    changed = bytearray(value or b"\0")
    for _ in range(count):
        how = chance.getrandbits(32)
        if not changed or how & 0x3000 == 0:
            changed = bytearray(value or b"\0")
        place = (how >> 16) % len(changed)
        if how & 0x700 == 0:
            changed[place : place + (how & 3)] = chance.choice(_PARTS)
        elif how & 0x700 == 0x100:
            del changed[place : place + 1 + (how & 7)]
        elif how & 0x700 == 0x200:
            changed[place : place + 8] = struct.pack("<q", 1 << (how & 63) if how & 63 < 63 else -1)
        else:
            changed[place] = changed[place] ^ 1 << (how & 7) if how & 8 else _BYTES[how % len(_BYTES)]
        found.append(bytes(changed))
    return found


def _column(rows: list[bytes]) -> Any:
    """Return rows in one buffer. It is an array, which has no byte behind its end as a text has."""
    from pyconsumer.protocol.records.columns import BinaryColumn

    ends = array("i", [0])
    for row in rows:
        ends.append(ends[-1] + len(row))
    return BinaryColumn(memoryview(ends), memoryview(array("B", b"".join(rows))), None, 0)


if __name__ == "__main__":
    main()
