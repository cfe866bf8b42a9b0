"""Avro as typed columns of Spark.

A record that names its schema is read from that one to the column's. With ``value.schema`` and no registry the bytes
are those of that schema alone, as ``from_avro`` reads them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import AvroError, ColumnProgram, Encoder, parse_schema, write_plan
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.protocol.avro.schema_text import schema_text
from pyconsumer.schemas.avro.columns import AvroSide
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.schemas.wire import with_prefix
from pyconsumer.spark.avro_rows import converter
from pyconsumer.spark.layout_columns import BareRows, LayoutColumns, Rows, target
from pyconsumer.spark.registry import kept_client, kept_writers
from pyconsumer.spark.subject_schemas import Direction, chosen_schema, registered_schema, settled_write
from pyconsumer.spark.typed_values import Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["AvroFormat"]

_KIND: Final = "AVRO"


class AvroFormat:
    """See :class:`.typed_values.Format`."""

    def settle(self, side: str, given: SideOptions, registry: Mapping[str, str], topics: Iterable[str]) -> Settled:
        """Find the schema of a column."""
        return self._settled(side, given, registry, topics, "read")

    @staticmethod
    def _settled(
        side: str, given: SideOptions, registry: Mapping[str, str], topics: Iterable[str], direction: Direction
    ) -> Settled:
        if given.schema is not None:
            return Settled("avro", schema_text(_parsed(side, given.schema)), None, not registry)
        client = kept_client(registry)
        schema_id, schema = chosen_schema(client, side, given, topics, direction, _KIND)
        try:
            parsed = parse_with_references(client, schema, strict=False)
        except AvroError as error:
            raise ConfigurationError(f"the schema {schema_id} of the {side}s cannot be used: {error}") from None
        return Settled("avro", schema_text(parsed), schema_id)

    def settle_write(
        self, side: str, given: SideOptions, registry: Mapping[str, str], topic: str | None, kind: Any
    ) -> Settled:
        """Find the schema by which a column is written, and register it if it is new."""
        if given.schema is not None and registry:
            parsed = _parsed(side, given.schema)
            converter(parsed.root, kind, side)  # before it is registered
            schema_id = registered_schema(kept_client(registry), side, Schema(given.schema), topic)
            return Settled("avro", schema_text(parsed), schema_id)
        found = settled_write(side, given, topic, functools.partial(self._settled, side, given, registry))
        converter(parse_schema(found.text, strict=False).root, kind, side)  # which checks the column
        return found

    def encoder(self, settled: Settled, kind: Any) -> Callable[[Any], list[bytes | None]]:
        """Return a function that encodes an Arrow array of a column."""
        schema = parse_schema(settled.text, strict=False)
        convert = converter(schema.root, kind, "")
        prefix = b"" if settled.schema_id is None else with_prefix(settled.schema_id, b"")
        encode = Encoder(write_plan(schema)).encode

        def encoded(column: Any) -> list[bytes | None]:
            values = column.to_pylist()
            if convert is not None:
                values = [None if value is None else convert(value) for value in values]
            return [None if value is None else encode(value, prefix) for value in values]

        return encoded

    def columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column. It is kept for the life of the process."""
        parts = None if paths is None else tuple([tuple(path) for path in paths])
        return _kept_columns(side, settled, parts, tuple(sorted(registry.items())))


def _parsed(side: str, text: str) -> Any:
    try:
        return parse_schema(text)
    except AvroError as error:
        raise ConfigurationError(f"option {side}.schema: {error}") from None


@functools.lru_cache(maxsize=64)
def _kept_columns(side: str, settled: Settled, parts: Any, registry: tuple[tuple[str, str], ...]) -> LayoutColumns:
    reader = parse_schema(settled.text, strict=False)
    layout = make_layout(reader, parts, side=side, target=target(side))

    def rows() -> Rows:
        if settled.is_bare:
            return BareRows(ColumnProgram(column_plan(reader, layout)))
        return AvroSide(layout, MessageField(side), kept_writers(dict(registry)))

    return LayoutColumns(side, layout, rows)
