"""Avro as typed columns of Spark.

A record that names its schema is read from that one to the column's. With ``value.schema`` and no registry the bytes
are those of that schema alone, as ``from_avro`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.protocol.avro import ColumnProgram, Encoder, parse_schema, write_plan
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.protocol.avro.schema_text import schema_text
from pyconsumer.schemas.avro.columns import AvroSide
from pyconsumer.schemas.avro.deserializer import AvroDeserializer
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.spark.avro_rows import converter
from pyconsumer.spark.layout_columns import BareRows, LayoutColumns, Rows, target
from pyconsumer.spark.registry import kept_loader
from pyconsumer.spark.registry_formats import RegistryFormat, encoder_of, prefix_of
from pyconsumer.spark.typed_values import Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["AvroFormat"]


class AvroFormat(RegistryFormat):
    """See :class:`.typed_values.Format`."""

    NAME, KIND = "avro", "AVRO"

    def text_of_option(self, given: SideOptions) -> str:
        """Return the schema of the options."""
        assert given.schema is not None
        return schema_text(parse_schema(given.schema))

    def text_of_registry(self, client: Any, schema: Schema, given: SideOptions) -> str:
        """Return a schema of the registry, with those that it refers to."""
        return schema_text(parse_with_references(client, schema, strict=False))

    def check(self, settled: Settled, kind: Any, side: str) -> None:
        """Check that a column can be written."""
        converter(parse_schema(settled.text, strict=False).root, kind, side)

    def encoder(self, settled: Settled, kind: Any) -> Callable[[Any], list[bytes | None]]:
        """Return a function that encodes an Arrow array of a column."""
        schema = parse_schema(settled.text, strict=False)
        prefix = prefix_of(settled)
        encode = Encoder(write_plan(schema)).encode
        return encoder_of(converter(schema.root, kind, ""), lambda value: encode(value, prefix))

    def make_columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column that is read."""
        reader = parse_schema(settled.text, strict=False)
        layout = make_layout(reader, paths, side=side, target=target(side))

        def rows() -> Rows:
            if settled.is_bare:
                return BareRows(ColumnProgram(column_plan(reader, layout)))
            return AvroSide(layout, MessageField(side), kept_loader(registry, _writers))

        return LayoutColumns(side, layout, rows)


def _writers(client: Any) -> Callable[[Any], Any]:
    return AvroDeserializer(client).load_writer
