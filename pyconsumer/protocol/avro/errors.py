"""Errors of Avro: of schemas, of two schemas that do not resolve, of bytes and of values that do not fit a schema.

Each is a :class:`pyconsumer.errors.SerializationError`. The messages name the place in the schema or in the value.
"""

from __future__ import annotations

from pyconsumer.errors import SerializationError

__all__ = ["AvroDecodeError", "AvroEncodeError", "AvroError", "AvroResolutionError", "AvroSchemaError"]


class AvroError(SerializationError):
    """Something of Avro is wrong. The subclasses say whether a schema, bytes or a value."""


class AvroSchemaError(AvroError, ValueError):
    """A text is no Avro schema. The message begins with the place in the schema, such as ``$.fields[2].type``."""


class AvroResolutionError(AvroError):
    """Data of the writer's schema cannot be read with the reader's schema."""


class AvroDecodeError(AvroError, ValueError):
    """Bytes are no value of the schema. The message names the place in the value and the byte."""


class AvroEncodeError(AvroError, ValueError):
    """A value does not fit the schema. The message names the place in the value."""
