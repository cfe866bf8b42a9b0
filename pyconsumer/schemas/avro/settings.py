"""Settings of Avro's serializer and deserializer: confluent-kafka's dictionaries, and the schemas that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import AvroSchema, AvroSchemaError, parse_schema
from pyconsumer.schemas.errors import SchemaRegistryError
from pyconsumer.schemas.loading import call_registry
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import (
    SerializationContext,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)

__all__ = ["Strategy", "checked_conf", "parse_with_references", "schema_of", "strategy_of", "subject_of"]

Strategy = Callable[[SerializationContext | None, str | None], str | None]

_STRATEGIES: Final[dict[str, Strategy]] = {
    "TOPIC": topic_subject_name_strategy,
    "TOPIC_RECORD": topic_record_subject_name_strategy,
    "RECORD": record_subject_name_strategy,
}
_MOST_REFERENCES: Final = 1000


def checked_conf(conf: Mapping[str, Any] | None, defaults: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return settings with their defaults.

    Raises:
        ConfigurationError: a key is unknown, or a value has another type than its default.
    """
    found = dict(defaults)
    for key, value in (conf or {}).items():
        if key not in defaults:
            raise ConfigurationError(f"{name} has no setting {key!r}. Its settings: {', '.join(sorted(defaults))}")
        if isinstance(defaults[key], bool) and not isinstance(value, bool):
            raise ConfigurationError(f"{key} of {name} is True or False, not {value!r}")
        found[key] = value
    for key in ("schema.id.serializer", "schema.id.deserializer", "subject.name.strategy"):
        if found.get(key) is not None and not callable(found[key]):
            raise ConfigurationError(f"{key} of {name} is a function, not {found[key]!r}")
    metadata = found.get("use.latest.with.metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(f"use.latest.with.metadata of {name} is a dictionary, not {metadata!r}")
    return found


def strategy_of(conf: Mapping[str, Any]) -> Strategy:
    """Return the function that names the subject.

    Raises:
        ConfigurationError: the named strategy is unknown.
    """
    given: Strategy | None = conf["subject.name.strategy"]
    if given is not None:
        return given
    kind = conf["subject.name.strategy.type"]
    kind = "TOPIC" if kind is None else str(getattr(kind, "value", kind))
    if kind not in _STRATEGIES:
        raise ConfigurationError(
            f"subject.name.strategy.type is one of {', '.join(_STRATEGIES)}, or give a function as"
            f" subject.name.strategy, not {kind!r}"
        )
    return _STRATEGIES[kind]


def subject_of(strategy: Strategy, ctx: SerializationContext | None, record_name: str | None) -> str:
    """Return the subject.

    Raises:
        ConfigurationError: the strategy has none for this schema.
    """
    found = strategy(ctx, record_name)
    if not isinstance(found, str) or not found:
        raise ConfigurationError(
            f"the subject's name strategy returned {found!r}: a strategy by record needs a schema with a name"
        )
    return found


def schema_of(given: Any, name: str) -> Schema | None:
    """Return a schema that is given as text or as a registry's value.

    Raises:
        TypeError: it has another type.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return Schema(given)
    if getattr(given, "schema_str", None) is None:
        raise TypeError(f"schema_str of {name} is text or a Schema, not {given!r}")
    return given  # type: ignore[no-any-return]  # or confluent-kafka's value, which has the same attributes


def parse_with_references(client: Any, schema: Schema, *, strict: bool) -> AvroSchema:
    """Parse a schema. Fetch the schemas that it refers to from the registry first. This waits.

    Raises:
        AvroSchemaError: it is no schema, or references form a circle.
        SchemaRegistryError: a reference cannot be fetched.
    """
    return _parsed(client, schema, strict, (), {})


def _parsed(
    client: Any,
    schema: Schema,
    strict: bool,
    way: tuple[tuple[str, int], ...],
    known: dict[tuple[str, int], AvroSchema],
) -> AvroSchema:
    if not isinstance(schema.schema_str, str):
        raise SchemaRegistryError(200, -1, "the registry gave no text of the schema")
    references = []
    for reference in schema.references or ():
        key = str(reference.subject), int(reference.version or -1)
        if key in way:
            circle = " > ".join(f"{subject} version {version}" for subject, version in (*way, key))
            raise AvroSchemaError(f"the references of the schema form a circle: {circle}")
        if key not in known:
            if len(known) >= _MOST_REFERENCES:
                raise AvroSchemaError(f"the schema has more than {_MOST_REFERENCES} references")
            found = call_registry(client, "get_version", key[0], key[1], True)
            known[key] = _parsed(client, found.schema, False, (*way, key), known)
        references.append(known[key])
    return parse_schema(schema.schema_str, references, strict=strict)
