"""Typed columns of JSON. The rules are those of :mod:`pyconsumer.schemas.columns` and :mod:`.shapes`.

If ``validate`` is given as True, a document is checked against the whole schema of the result, in Python. Otherwise its
types and ``required`` are, by compiled code (:mod:`.column_plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.schemas.columns import FramedSide, TypedColumns, found_or_error
from pyconsumer.schemas.json_schema.column_plan import DocumentPlan, document_program
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import Shaped, shape_of
from pyconsumer.schemas.json_schema.validation import Validator, parse_with_references
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.subjects import MessageField

__all__ = ["JsonColumns", "JsonSide"]


class JsonColumns(TypedColumns[Shaped]):
    """The typed columns of one side of a ``JSONDeserializer``.

    Args:
        owner: the ``JSONDeserializer``.
        field: key or value.
    """

    def __init__(self, owner: Any, field: MessageField) -> None:
        super().__init__(owner, field)
        self._writers: Loader[Any] = Loader(owner.fetch_writer)

    def _parse(self, schema: Any, *, is_own: bool) -> Shaped:
        return shape_of(parse_with_references(self._owner.client, schema))

    def _side(self, reader: Shaped, paths: Sequence[Sequence[str]] | None) -> JsonSide:
        return JsonSide(reader, paths, self._owner, self._field, self._writers)


class JsonSide(FramedSide):
    """The columns of one side.

    Args:
        reader: the schema of the result.
        paths: the wanted parts.
        owner: the ``JSONDeserializer``.
        field: key or value.
        writers: fetches the schemas that values name.
    """

    def __init__(
        self,
        reader: Shaped,
        paths: Sequence[Sequence[str]] | None,
        owner: Any,
        field: MessageField,
        writers: Loader[Any],
    ) -> None:
        super().__init__(make_layout(reader.schema, paths, side=str(field)), field)
        self._reader = reader
        self._writers = writers if owner.client is not None else None
        self._alone: Any = None
        self._decode = owner.json_decode
        self._check = Validator(reader.document).check if owner.checks_columns else None
        is_plain = self._decode is None and self._check is None
        self._plan = DocumentPlan(reader.schema, self.layout, self._read, is_plain=is_plain)

    def _read(self, data: bytes) -> Any:
        document = load_document(data, self._decode)
        if self._check is not None:
            self._check(document)
        return self._reader.fit(document)

    def _find(self, key: Any) -> Any:
        """Return a schema, or the error in its place."""
        writers = self._writers
        return None if writers is None else found_or_error(key, lambda: writers.get(key, f"the schema {key}"))

    def _program(self, key: Any, found: Any) -> Any:
        if self._writers is not None:
            return document_program(self._plan, key)
        if self._alone is None:  # no registry bounds the ids that documents may name
            self._alone = document_program(self._plan)
        return self._alone
