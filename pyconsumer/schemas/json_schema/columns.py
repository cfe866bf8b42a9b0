"""Typed columns of JSON. The rules are those of :mod:`pyconsumer.schemas.columns` and :mod:`.shapes`.

If ``validate`` is given as True, a document is checked against the whole schema of the result, in Python. Otherwise its
types and ``required`` are, by compiled code (:mod:`.column_plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyconsumer.protocol.avro.layout import Layout, make_layout
from pyconsumer.schemas.columns import FramedSide, TypedColumns, found_or_error
from pyconsumer.schemas.json_schema.column_plan import DocumentPlan, document_program
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import Shaped, shape_of
from pyconsumer.schemas.json_schema.validation import Validator, parse_with_references
from pyconsumer.schemas.loading import Loader
from pyconsumer.schemas.subjects import MessageField

__all__ = ["JsonColumns", "JsonSide", "plan_of"]


def plan_of(
    reader: Shaped,
    layout: Layout,
    decode: Callable[[bytes], Any] | None = None,
    check: Callable[[Any], None] | None = None,
) -> DocumentPlan:
    """Return the plan for reading documents.

    Args:
        reader: the schema of the result.
        layout: its columns.
        decode: makes a document of bytes in the place of ours.
        check: checks it against the whole schema.
    """

    def read(data: bytes) -> Any:
        document = load_document(data, decode)
        if check is not None:
            check(document)
        return reader.fit(document)

    return DocumentPlan(reader.schema, layout, read, is_plain=decode is None and check is None)


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
        owner = self._owner
        return JsonSide(
            reader,
            make_layout(reader.schema, paths, side=str(self._field)),
            self._field,
            None if owner.client is None else self._writers,
            is_named=owner.client is not None,
            decode=owner.json_decode,
            check=Validator(reader.document).check if owner.checks_columns else None,
        )


class JsonSide(FramedSide):
    """The columns of one side.

    Args:
        reader: the schema of the result.
        layout: the columns.
        field: key or value.
        writers: fetches the schemas that values name. None: they are not fetched.
        is_named: True if messages name the schema of a value.
        decode, check: see :func:`plan_of`.
    """

    def __init__(
        self,
        reader: Shaped,
        layout: Layout,
        field: MessageField,
        writers: Loader[Any] | None,
        *,
        is_named: bool,
        decode: Callable[[bytes], Any] | None = None,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(layout, field)
        self._writers = writers
        self._is_named = is_named
        self._alone: Any = None
        self._plan = plan_of(reader, layout, decode, check)

    def _find(self, key: Any) -> Any:
        """Return a schema, or the error in its place."""
        writers = self._writers
        return None if writers is None else found_or_error(key, lambda: writers.get(key, f"the schema {key}"))

    def _program(self, key: Any, found: Any) -> Any:
        if self._is_named:
            return document_program(self._plan, key)
        if self._alone is None:  # no registry bounds the ids that documents may name
            self._alone = document_program(self._plan)
        return self._alone
