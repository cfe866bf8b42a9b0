"""Settings of serializers and deserializers: confluent-kafka's dictionaries, and the schemas that they name.

:func:`with_references` walks the references of a schema for all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.schemas.errors import SchemaRegistryError
from pyconsumer.schemas.loading import call_registry
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import (
    SerializationContext,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)

__all__ = [
    "FORMAT_NAMES",
    "Strategy",
    "check_function",
    "checked_conf",
    "refuse_rule_arguments",
    "schema_of",
    "strategy_of",
    "subject_of",
    "with_references",
]

P = TypeVar("P")

Strategy = Callable[[SerializationContext | None, str | None], str | None]

_STRATEGIES: Final[dict[str, Strategy]] = {
    "TOPIC": topic_subject_name_strategy,
    "TOPIC_RECORD": topic_record_subject_name_strategy,
    "RECORD": record_subject_name_strategy,
}
_MOST_REFERENCES: Final = 1000
#: The formats as messages name them.
FORMAT_NAMES: Final = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


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


def schema_of(given: Any, name: str, kind: str) -> Schema | None:
    """Return a schema that is given as text or as a registry's value.

    Args:
        given: by the user.
        name: of the class, for messages.
        kind: ``AVRO``, ``JSON`` or ``PROTOBUF``, the format of a text.

    Raises:
        TypeError: it has another type.
        ConfigurationError: it is a schema of another format.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return Schema(given, kind)
    if getattr(given, "schema_str", None) is None:
        raise TypeError(f"schema_str of {name} is text or a Schema, not {given!r}")
    if (getattr(given, "schema_type", None) or "AVRO") != kind:
        raise ConfigurationError(f"the schema of {name} is of the format {given.schema_type}, not {kind}")
    return given  # type: ignore[no-any-return]  # or confluent-kafka's value, which has the same attributes


def check_function(given: Any, name: str) -> None:
    """Raise an error if ``to_dict``, ``from_dict`` or the like is given, and is no function.

    Raises:
        ConfigurationError: it is none.
    """
    if given is not None and not callable(given):
        raise ConfigurationError(f"{name} is a function, not {given!r}")


def refuse_rule_arguments(rule_conf: Mapping[str, Any] | None, rule_registry: Any, name: str) -> None:
    """Raise an error if rules are configured, since none is run.

    Raises:
        ConfigurationError: they are.
    """
    if rule_conf or rule_registry is not None:
        raise ConfigurationError(f"{name} runs no rules: leave rule_conf and rule_registry out")


def with_references(
    client: Any,
    schema: Schema,
    parse: Callable[[str, list[tuple[str, P]]], P],
    error: type[SerializationError],
    fetch: Callable[[str, int], Schema] | None = None,
    skip: Callable[[str], bool] = lambda name: False,
) -> P:
    """Parse a schema after the schemas that it refers to, which the registry has. This waits.

    Args:
        client: of the registry.
        schema: the schema.
        parse: gets the text of a schema, and its references by name, each parsed.
        error: the class of an error of the references.
        fetch: gets the subject and the version of a reference, and returns its schema. None asks the client.
        skip: says of a reference's name that it needs no schema of the registry.

    Raises:
        SerializationError: references form a circle, or there are too many.
        SchemaRegistryError: a reference cannot be fetched.
    """
    known: dict[tuple[str, int], P] = {}

    def of_registry(subject: str, version: int) -> Schema:
        found: Schema = call_registry(client, "get_version", subject, version, True).schema
        return found

    get = of_registry if fetch is None else fetch

    def parsed(given: Schema, way: tuple[tuple[str, int], ...]) -> P:
        if not isinstance(given.schema_str, str):
            raise SchemaRegistryError(200, -1, "the registry gave no text of the schema")
        references: list[tuple[str, P]] = []
        for reference in given.references or ():
            if skip(str(reference.name)):
                continue
            key = str(reference.subject), int(reference.version or -1)
            if key in way:
                circle = " > ".join(f"{subject} version {version}" for subject, version in (*way, key))
                raise error(f"the references of the schema form a circle: {circle}")
            if key not in known:
                if len(known) >= _MOST_REFERENCES:
                    raise error(f"the schema has more than {_MOST_REFERENCES} references")
                known[key] = parsed(get(*key), (*way, key))
            references.append((str(reference.name), known[key]))
        return parse(given.schema_str, references)

    return parsed(schema, ())
