"""The schemas of columns in a registry: by id, by version, the latest of the topics, or registered. For each format.

All calls wait for the registry. They are made on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas.columns import common_schema
from pyconsumer.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAccessError,
)
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.rules import refuse_rules
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.spark.typed_values import Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["Direction", "chosen_schema", "registered_schema", "settled_write"]

Direction = Literal["read", "write"]


def chosen_schema(
    client: Any, side: str, given: SideOptions, topics: Iterable[str], direction: Direction, kind: str
) -> tuple[int, Schema]:
    """Return the id and the schema that the options choose, or those that the subjects of all topics have.

    Args:
        client: of the registry.
        side: ``"key"`` or ``"value"``.
        given: the options of the column.
        topics: the topics.
        direction: whether values are read or written.
        kind: the format by the registry's name.

    Raises:
        ConfigurationError: the topics have several schemas or none, or the schema is of another format.
        SchemaUnavailableError: the registry does not answer.
    """
    if given.schema_id is not None:
        return given.schema_id, _schema_by_id(client, side, given.schema_id, direction, kind)
    return _schema_of_topics(client, side, given, sorted(set(topics)), direction, kind)


def _schema_by_id(client: Any, side: str, schema_id: int, direction: Direction, kind: str) -> Schema:
    try:
        schema: Schema = client.get_schema(schema_id)
    except SchemaNotFoundError as error:
        raise ConfigurationError(f"option {side}.schema.id: {error}") from error
    if (schema.schema_type or "AVRO") != kind:
        raise ConfigurationError(f"option {side}.schema.id: the schema is of the format {schema.schema_type or 'AVRO'}")
    refuse_rules(schema, direction, f"the schema {schema_id}")
    return schema


def _schema_of_topics(
    client: Any, side: str, given: SideOptions, topics: list[str], direction: Direction, kind: str
) -> tuple[int, Schema]:
    ways_out = f"name one with {side}.schema.id or {side}.schema, or read the topics apart"
    if not topics:
        raise ConfigurationError(f"no topic is there yet, so the schema of the {side}s is not known: {ways_out}")
    client.clear_latest_caches()  # the process may have asked for an earlier query
    found: dict[str, Any] = {}
    for topic in topics:
        subject = f"{topic}-{side}"
        try:
            if given.version is not None:
                found[topic] = client.get_version(subject, given.version)
            else:
                found[topic] = client.get_latest_version(subject)
        except SchemaNotFoundError as error:
            version = "" if given.version is None else f", version {given.version},"
            raise ConfigurationError(
                f"the topic {topic} has no schema of the {side}s: the subject {subject}{version} is not in the registry"
                f" ({error}). Otherwise {ways_out}"
            ) from error
    schema = common_schema(
        {topic: (one.subject, one.schema) for topic, one in found.items()},
        MessageField(side),
        ways_out,
        kind,
        direction,
    )
    return found[topics[0]].schema_id, schema


def registered_schema(client: Any, side: str, schema: Schema, topic: str | None) -> int:
    """Register the schema of a column under its topic's subject, and return its id.

    Raises:
        ConfigurationError: the topic is not known, or the registry refuses the schema.
        SchemaUnavailableError: the registry does not answer.
    """
    if topic is None:
        raise ConfigurationError(
            f"option {side}.schema is registered under the topic's subject: set the option topic. If rows choose their"
            f" topics, set {side}.schema.id"
        )
    subject = f"{topic}-{side}"
    try:
        found: Any = client.register_schema_full_response(subject, schema)
    except (IncompatibleSchemaError, InvalidSchemaError, SchemaRegistryAccessError) as error:
        raise ConfigurationError(f"option {side}.schema cannot be registered under {subject}: {error}") from error
    number: int = found.schema_id
    return number


def settled_write(
    side: str, given: SideOptions, topic: str | None, settle: Callable[[list[str], Direction], Settled]
) -> Settled:
    """Return the schema by which a column is written, if it need not be registered.

    Raises:
        ConfigurationError: the schema follows from the topic, and each row names its own.
    """
    if topic is None and given.schema is None and given.schema_id is None:
        raise ConfigurationError(
            f"rows choose their topics, so the schema of the {side}s is not known: set the option topic, or"
            f" {side}.schema.id"
        )
    return settle([] if topic is None else [topic], "write")
