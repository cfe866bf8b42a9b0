"""The subject under which a schema is registered, from the topic, the field and the record's name.

The three strategies are those of Confluent's serializers. A strategy of your own is any function with the same
arguments that returns the subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas.registry.values import SchemaReference

__all__ = [
    "MessageField",
    "SerializationContext",
    "record_subject_name_strategy",
    "reference_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]


class MessageField(StrEnum):
    """The side of a record: its key or its value."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


class SerializationContext:
    """The place of a key or value: topic, side and headers.

    Args:
        topic: the topic's name.
        field: ``MessageField.KEY`` or ``MessageField.VALUE``.
        headers: the record's headers. A serializer that writes the schema's id into a header adds it here.
    """

    __slots__ = ("field", "headers", "topic")

    def __init__(
        self,
        topic: str,
        field: MessageField,
        headers: list[tuple[str, Any]] | Sequence[tuple[str, Any]] | Mapping[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers

    def __repr__(self) -> str:
        return f"SerializationContext({self.topic!r}, {self.field})"


def topic_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None = None) -> str:
    """Return ``<topic>-key`` or ``<topic>-value``.

    Raises:
        ConfigurationError: there is no context.
    """
    if ctx is None:
        raise ConfigurationError("the subject is named by the topic, so a SerializationContext is required")
    return f"{ctx.topic}-{ctx.field}"


def topic_record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None = None) -> str | None:
    """Return ``<topic>-<name of the record>``. None if the schema has no name.

    Raises:
        ConfigurationError: there is no context.
    """
    if ctx is None:
        raise ConfigurationError("the subject is named by the topic, so a SerializationContext is required")
    return None if record_name is None else f"{ctx.topic}-{record_name}"


def record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None = None) -> str | None:
    """Return the name of the record. None if the schema has no name."""
    return record_name


def reference_subject_name_strategy(ctx: SerializationContext | None, schema_ref: SchemaReference) -> str | None:
    """Return the name of a reference as its subject, for Protobuf's imports."""
    return None if schema_ref is None else schema_ref.name
