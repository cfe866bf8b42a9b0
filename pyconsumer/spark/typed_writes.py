"""Keys and values that are written in a format: their schemas, and the bytes of a task's rows.

Rules

1. The schema is settled on the driver, before the first task: registered (``value.schema``), taken by id or version, or
   the latest of the topic's subject. The tasks need no registry.
2. The column's type is checked against it there.
3. A null stays null: a tombstone. A value that does not fit the schema fails the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import SerializationError
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.typed_values import WrittenSide
from pyconsumer.spark.value_formats import format_named

if TYPE_CHECKING:
    import pyarrow as pa

    from pyconsumer.spark.value_options import ValueOptions

__all__ = ["encoded_batches", "settle_writes"]


def settle_writes(values: ValueOptions, topic: str | None, kinds: Mapping[str, Any]) -> dict[str, WrittenSide]:
    """Return the schemas by which columns are written (rule 1).

    Args:
        values: the options of formats.
        topic: the option ``topic``.
        kinds: Spark's types of the columns, by ``"key"`` and ``"value"``.

    Raises:
        ConfigurationError: there is no schema, the registry refuses it, or a column does not fit it.
        SchemaUnavailableError: the registry does not answer.
    """
    found: dict[str, WrittenSide] = {}
    for side, given in values.sides.items():
        form = format_named(given.format)
        found[side] = WrittenSide(form.settle_write(side, given, values.registry, topic, kinds[side]), kinds[side])
    return found


def encoded_batches(
    written: Mapping[str, WrittenSide], places: Mapping[str, int | None], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield batches in which keys and values are bytes.

    Args:
        written: from :func:`settle_writes`.
        places: the positions of the columns.
        batches: the rows of a task.

    Raises:
        WriteError: a value does not fit the schema.
    """
    import pyarrow as pa

    encoders = {side: format_named(found.settled.format).encoder(*found) for side, found in written.items()}
    for batch in batches:
        columns, names = list(batch.columns), batch.schema.names
        for side, encode in encoders.items():
            place = places[side]
            assert place is not None
            try:
                columns[place] = pa.array(encode(columns[place]), pa.binary())
            except (SerializationError, ValueError, OverflowError) as error:
                raise WriteError(f"a {side} does not fit its schema: {error}") from error
        yield pa.RecordBatch.from_arrays(columns, names)
