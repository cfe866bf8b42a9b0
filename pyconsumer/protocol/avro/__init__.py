"""Avro: schemas, plans, and the decoders and encoders that walk them. No registry, no record of Kafka.

:func:`parse_schema` reads a schema. :func:`read_plan` and :func:`write_plan` make a plan of it. :class:`Decoder` and
:class:`Encoder` are the compiled ones, or their twins in Python. :func:`~.layout.make_layout`,
:func:`~.column_plan.column_plan` and :class:`ColumnsDecoder` do the same for columns.
"""

from __future__ import annotations

from pyconsumer.protocol.avro._pure import AvroDuration
from pyconsumer.protocol.avro.coder import ColumnProgram, ColumnsDecoder, Decoder, Encoder, PrefixDecoder
from pyconsumer.protocol.avro.errors import (
    AvroDecodeError,
    AvroEncodeError,
    AvroError,
    AvroResolutionError,
    AvroSchemaError,
)
from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES, MAX_LEVELS, Plan, read_plan, write_plan
from pyconsumer.protocol.avro.schema import AvroSchema, AvroType, parse_schema

__all__ = [
    "MAX_DECODED_BYTES",
    "MAX_LEVELS",
    "AvroDecodeError",
    "AvroDuration",
    "AvroEncodeError",
    "AvroError",
    "AvroResolutionError",
    "AvroSchema",
    "AvroSchemaError",
    "AvroType",
    "ColumnProgram",
    "ColumnsDecoder",
    "Decoder",
    "Encoder",
    "Plan",
    "PrefixDecoder",
    "parse_schema",
    "read_plan",
    "write_plan",
]
