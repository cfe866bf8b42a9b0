"""Typed columns of Avro: plans of the writers' schemas. The rules are those of :mod:`pyconsumer.schemas.columns`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyconsumer.protocol.avro import AvroError, AvroSchema, ColumnProgram
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.schemas.avro.parsing import parse_with_references
from pyconsumer.schemas.columns import FramedSide, TypedColumns, common_schema, found_or_error
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.subjects import MessageField

__all__ = ["AvroColumns", "AvroSide", "common_schema"]


class AvroColumns(TypedColumns[AvroSchema]):
    """The typed columns of one side of an ``AvroDeserializer``.

    Args:
        owner: the ``AvroDeserializer``.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        super().__init__(owner, field)
        self._writers: Loader[AvroSchema] = Loader(owner.load_writer)

    def _parse(self, schema: Any, *, is_own: bool) -> AvroSchema:
        return parse_with_references(self._owner.client, schema, strict=is_own)

    def _side(self, reader: AvroSchema, paths: Sequence[Sequence[str]] | None) -> AvroSide:
        return AvroSide(make_layout(reader, paths, side=str(self._field)), self._field, self._writers)


class AvroSide(FramedSide):
    """The columns of one side.

    Args:
        layout: the columns.
        field: key or value.
        writers: fetches the schemas that values name.
    """

    def __init__(self, layout: Layout, field: MessageField, writers: Loader[AvroSchema]) -> None:
        super().__init__(layout, field)
        self._writers = writers
        self._made: dict[Any, Any] = {}

    def _find(self, key: Any) -> Any:
        found = self._made.get(key)
        return found if found is not None else found_or_error(key, lambda: self._new_program(key))

    def _program(self, key: Any, found: Any) -> Any:
        return found

    def _new_program(self, key: Any) -> Any:
        writer = self._writers.get(key, f"the schema {key}")
        try:
            found = self._made[key] = ColumnProgram(column_plan(writer, self.layout))
        except AvroError as error:
            raise type(error)(f"the schema {key}: {error}") from None
        return found
