"""What the columns of a DataFrame mean to the sink. Names and types are those of Spark's own Kafka connector."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyconsumer.errors import ConfigurationError

__all__ = ["SinkColumns", "sink_columns"]

_BYTES: Final = ("binary", "string")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}


class SinkColumns(NamedTuple):
    """Places of the columns in a row; None for one that is not there or does not count."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None


def sink_columns(schema: Any, topic: str | None, *, timestamps: bool = False) -> SinkColumns:
    """Find the columns in a schema of Spark's; others are passed over.

    Args:
        topic: the option that is stronger than the column.
        timestamps: whether a column ``timestamp`` counts, and is needed.

    Raises:
        ConfigurationError: there is no column ``value``, none that tells the topic, or one has a wrong type.
    """
    names = [field.name.lower() for field in schema.fields]
    places: dict[str, int] = {}
    for name, types in _TYPES.items():
        if name not in names or (name == "topic" and topic is not None) or (name == "timestamp" and not timestamps):
            continue
        if names.count(name) > 1:
            raise ConfigurationError(f"there are {names.count(name)} columns named {name}")
        place = names.index(name)
        found = schema.fields[place].dataType.simpleString()
        if found not in types:
            raise ConfigurationError(f"column {name} must be {' or '.join(types)}, not {found}")
        places[name] = place
    if "value" not in places:
        raise ConfigurationError(f"there must be a column named value, binary or string; there are {_listed(schema)}")
    if topic is None and "topic" not in places:
        raise ConfigurationError(
            f"nothing tells the topic: give the option topic, or a column named topic; there are {_listed(schema)}"
        )
    if timestamps and "timestamp" not in places:
        raise ConfigurationError(f"includeTimestamp needs a column named timestamp; there are {_listed(schema)}")
    return SinkColumns(**places)


def _listed(schema: Any) -> str:
    return ", ".join(field.name for field in schema.fields) or "none"
