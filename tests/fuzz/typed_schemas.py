"""Random schemas of each format, their values, and how both decoders read them. See :mod:`tests.fuzz.typed`."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pyarrow as pa

from pyconsumer.protocol.avro import AvroResolutionError, _pure, _pure_columns, parse_schema, write_plan
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.compiled import load_compiled
from tests.support import avro_columns as of_avro
from tests.support import json_columns as of_json
from tests.support import proto_columns as of_protobuf
from tests.support.avro_values import Values, damaged, evolved
from tests.support.proto_values import ProtoValues

__all__ = ["CASES", "Case"]

_native: Any = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]


class Case(Protocol):
    """A schema of some format."""

    def value(self) -> bytes:
        """Return the bytes of a value of the schema."""

    def damaged(self, value: bytes) -> bytes:
        """Return them with some damage."""

    def compare(self, rows: list[bytes | None]) -> None:
        """Read rows by both decoders, and compare what they make of them."""

    def read(self, rows: Any, count: int, most: int) -> None:
        """Read rows, or a column of them, by the compiled decoder alone."""


def _read(layout: Any, program: Any, rows: Any, count: int, most: int) -> None:
    decoder = _native.ColumnsDecoder(layout.columns, most)
    whole = isinstance(rows, list)
    used, _ = decoder.append(rows, {7: program}) if whole else decoder.append_column(rows, count, {7: program})
    assert used == count == len(decoder), (used, count)
    array = arrow_array(pa, layout, arrow_type(pa, layout), decoder.finish())
    assert len(array) == count
    array.validate(full=True)


class _Avro:
    """A schema, in two of three cases read as a later version of it."""

    def __init__(self, seed: int) -> None:
        while True:
            self._values = values = Values(seed)
            source = values.record() if seed % 2 else values.schema()
            made = of_avro.columns_of(evolved(source, values.random) if seed % 3 else source)
            seed += 1 << 30
            if made is None:
                continue
            self._writer = parse_schema(json.dumps(source))
            self._layout = made[1]
            try:
                self._program = _native.ColumnProgram(column_plan(self._writer, self._layout))
            except AvroResolutionError:
                continue
            self._encoder = _pure.Encoder(write_plan(self._writer))
            return

    def value(self) -> bytes:
        return self._encoder.encode(self._values.value(self._writer.root))

    def damaged(self, value: bytes) -> bytes:
        return damaged(value, self._values.random)

    def compare(self, rows: list[bytes | None]) -> None:
        _, refused, buffers = of_avro.decoded(_native, self._writer, self._layout, rows)
        _, refused_there, buffers_there = of_avro.decoded(_pure_columns, self._writer, self._layout, rows)
        assert refused == refused_there, (refused, refused_there)
        assert of_avro.plain(buffers, self._layout) == of_avro.plain(buffers_there, self._layout)

    def read(self, rows: Any, count: int, most: int) -> None:
        _read(self._layout, self._program, rows, count, most)


class _Protobuf:
    """A message type. Half of its values have their fields in any order."""

    def __init__(self, seed: int) -> None:
        self._values = ProtoValues(seed)
        self._plan = of_protobuf.plan_of(self._values.type)

    def value(self) -> bytes:
        data: bytes = self._values.message().SerializeToString()
        return self._values.mixed(data) if self._values.random.random() < 0.5 else data

    def damaged(self, value: bytes) -> bytes:
        return damaged(value, self._values.random)

    def compare(self, rows: list[bytes | None]) -> None:
        of_protobuf.both(self._plan, rows)

    def read(self, rows: Any, count: int, most: int) -> None:
        _read(self._plan.layout, _native.MessageProgram(self._plan), rows, count, most)


class _Json:
    """A schema of documents."""

    def __init__(self, seed: int) -> None:
        self._documents = of_json.Documents(seed)
        self._plan = of_json.plan_of(self._documents.schema)
        self._program = _native.DocumentProgram(self._plan)

    def value(self) -> bytes:
        return self._documents.text()

    def damaged(self, value: bytes) -> bytes:
        return self._documents.damaged(value)

    def compare(self, rows: list[bytes | None]) -> None:
        of_json.both(self._plan, rows)

    def read(self, rows: Any, count: int, most: int) -> None:
        _read(self._plan.layout, self._program, rows, count, most)


CASES: dict[str, type[_Avro] | type[_Protobuf] | type[_Json]] = {"avro": _Avro, "protobuf": _Protobuf, "json": _Json}
