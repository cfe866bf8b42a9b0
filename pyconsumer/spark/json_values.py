"""JSON as typed columns of Spark.

Rules

1. The columns are those of :mod:`pyconsumer.schemas.json_schema.shapes`. Types and ``required`` are checked.
2. A record that names a schema is read by that of the column. The schema that it names is fetched for its format and
   its rules alone. With ``value.schema`` and no registry a record is a document alone.
3. On writing, a document is checked against the whole schema, by the library ``jsonschema_rs``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.schemas.json_schema.column_plan import document_program
from pyconsumer.schemas.json_schema.columns import JsonSide, plan_of
from pyconsumer.schemas.json_schema.deserializer import JSONDeserializer
from pyconsumer.schemas.json_schema.documents import dump_document
from pyconsumer.schemas.json_schema.shapes import shape_of
from pyconsumer.schemas.json_schema.validation import JsonSchema, Validator, parse_with_references
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.spark.json_rows import converter
from pyconsumer.spark.layout_columns import BareRows, LayoutColumns, Rows, target
from pyconsumer.spark.registry import kept_loader
from pyconsumer.spark.registry_formats import RegistryFormat, encoder_of, prefix_of
from pyconsumer.spark.typed_values import Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["JsonFormat"]


class JsonFormat(RegistryFormat):
    """See :class:`.typed_values.Format`."""

    NAME, KIND = "json", "JSON"

    def text_of_option(self, given: SideOptions) -> str:
        """Return the schema of the options."""
        return self.text_of_registry(None, self.to_register(given), given)

    def text_of_registry(self, client: Any, schema: Schema, given: SideOptions) -> str:
        """Return a schema of the registry, with those that it refers to."""
        found = parse_with_references(client, schema)
        return json.dumps([found.document, found.references], separators=(",", ":"))

    def check(self, settled: Settled, kind: Any, side: str) -> None:
        """Check that a column can be written."""
        schema = _schema_in(settled)
        Validator(schema)
        converter(shape_of(schema).schema.root, kind, side)

    def encoder(self, settled: Settled, kind: Any) -> Callable[[Any], list[bytes | None]]:
        """Return a function that encodes an Arrow array of a column."""
        schema = _schema_in(settled)
        check = Validator(schema).check
        prefix = prefix_of(settled)

        def encode(document: Any) -> bytes:
            check(document)
            return prefix + dump_document(document)

        return encoder_of(converter(shape_of(schema).schema.root, kind, ""), encode)

    def make_columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column that is read."""
        reader = shape_of(_schema_in(settled))
        layout = make_layout(reader.schema, paths, side=side, target=target(side))

        def rows() -> Rows:
            if settled.is_bare:
                return BareRows(document_program(plan_of(reader, layout)))
            return JsonSide(reader, layout, MessageField(side), kept_loader(registry, _writers), is_named=False)

        return LayoutColumns(side, layout, rows)


def _schema_in(settled: Settled) -> JsonSchema:
    return JsonSchema(*json.loads(settled.text))


def _writers(client: Any) -> Callable[[Any], Any]:
    return JSONDeserializer(None, None, client).fetch_writer
