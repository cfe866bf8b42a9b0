"""aiokafka's response objects, made from pyconsumer's messages.

A response has the fields that its version has in aiokafka, under aiokafka's names: as attributes, where structures are
tuples, and by ``to_object()`` as dictionaries. The table below maps them to ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.alter_configs import AlterConfigsResponse
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsResponse
from pyconsumer.protocol.messages.create_topics import CreateTopicsResponse
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsResponse
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsResponse
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsResponse
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorResponse
from pyconsumer.protocol.messages.list_groups import ListGroupsResponse
from pyconsumer.protocol.messages.metadata import MetadataResponse
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchResponse
from pyconsumer.protocol.schema import Message

__all__ = [
    "ALTER_CONFIGS",
    "CREATE_PARTITIONS",
    "CREATE_TOPICS",
    "DELETE_TOPICS",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_GROUPS",
    "FIND_COORDINATOR",
    "LIST_GROUPS",
    "METADATA",
    "OFFSET_FETCH",
    "Field",
    "Response",
    "Shape",
]


class Field(NamedTuple):
    """A field of a response, and its counterpart in pyconsumer's message.

    Attributes:
        name: the field's name in aiokafka.
        ours: the field's name in pyconsumer's message.
        since: the first version that has the field.
        fields: for an array of structures: the fields of each structure.
    """

    name: str
    ours: str
    since: int = 0
    fields: tuple[Field, ...] = ()


class Shape(NamedTuple):
    """The form of the responses to one API.

    Attributes:
        api_key: the API.
        message: pyconsumer's class of the message.
        last_version: the newest version that aiokafka knows.
        fields: the fields of all versions, in order.
    """

    api_key: ApiKey
    message: type[Message]
    last_version: int
    fields: tuple[Field, ...]

    def response(self, message: Message, version: int) -> Response:
        """Return a message as aiokafka's response object of this version."""
        return _response_class(self, version)(*_values(self.fields, message, version))


class Response:
    """A response of a broker. Its fields are attributes. Structures in arrays are tuples."""

    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    SHAPE: ClassVar[Shape]

    def __init__(self, *values: Any) -> None:
        for field, value in zip(self._fields(), values, strict=True):
            setattr(self, field.name, value)

    @classmethod
    def _fields(cls) -> Iterator[Field]:
        return (field for field in cls.SHAPE.fields if field.since <= cls.API_VERSION)

    def get_item(self, name: str) -> Any:
        """Return a field by name.

        Raises:
            KeyError: the response has no such field.
        """
        return vars(self)[name]

    def to_object(self) -> dict[str, Any]:
        """Return the fields as a dictionary. Structures in arrays are also dictionaries."""
        return {field.name: _objects(field, vars(self)[field.name], self.API_VERSION) for field in type(self)._fields()}

    def __repr__(self) -> str:
        shown = (f"{field.name}={_shown(field, vars(self)[field.name], self.API_VERSION)}" for field in self._fields())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Response):
            return NotImplemented
        return self.SHAPE is other.SHAPE and vars(self) == vars(other)

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(field.name for field in self._fields())
        raise AttributeError(f"{type(self).__name__} has no {name!r}. It has {known}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.SHAPE.api_key, self.API_VERSION, tuple(vars(self).values()))


@functools.cache
def _response_class(shape: Shape, version: int) -> type[Response]:
    """Return the class of the responses of a version, such as ``CreateTopicsResponse_v3``."""
    known = {"API_KEY": int(shape.api_key), "API_VERSION": version, "SHAPE": shape, "__module__": __name__}
    return type(f"{shape.message.__name__}_v{version}", (Response,), known)


def _restored(api_key: ApiKey, version: int, values: tuple[Any, ...]) -> Response:
    """Return a pickled response."""
    return _response_class(_SHAPES[api_key], version)(*values)


def _values(fields: tuple[Field, ...], item: Any, version: int) -> tuple[Any, ...]:
    """Return the values of the fields that a version has."""
    return tuple(_value(field, getattr(item, field.ours), version) for field in fields if field.since <= version)


def _value(field: Field, value: Any, version: int) -> Any:
    if field.fields:
        return [_values(field.fields, item, version) for item in value]
    if isinstance(value, list | tuple):
        return list(value)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _objects(field: Field, value: Any, version: int) -> Any:
    """Return a value with dictionaries for tuples."""
    if not field.fields:
        return value
    kept = [each for each in field.fields if each.since <= version]
    return [{each.name: _objects(each, one, version) for each, one in zip(kept, item, strict=True)} for item in value]


def _shown(field: Field, value: Any, version: int) -> str:
    if not field.fields:
        return repr(value)
    kept = [each for each in field.fields if each.since <= version]
    items = (
        ", ".join(f"{each.name}={_shown(each, one, version)}" for each, one in zip(kept, item, strict=True))
        for item in value
    )
    return "[" + ", ".join(f"({item})" for item in items) + "]"


# -- the table -------------------------------------------------------------------------------------------------------


def _same(*names: str, since: int = 0) -> tuple[Field, ...]:
    """Return fields whose names are ours."""
    return tuple(Field(name, name, since) for name in names)


CREATE_TOPICS: Final = Shape(
    ApiKey.CREATE_TOPICS,
    CreateTopicsResponse,
    3,
    (
        *_same("throttle_time_ms", since=2),
        Field(
            "topic_errors",
            "topics",
            fields=(Field("topic", "name"), *_same("error_code"), *_same("error_message", since=1)),
        ),
    ),
)
DELETE_TOPICS: Final = Shape(
    ApiKey.DELETE_TOPICS,
    DeleteTopicsResponse,
    3,
    (
        *_same("throttle_time_ms", since=1),
        Field("topic_error_codes", "responses", fields=(Field("topic", "name"), *_same("error_code"))),
    ),
)
CREATE_PARTITIONS: Final = Shape(
    ApiKey.CREATE_PARTITIONS,
    CreatePartitionsResponse,
    1,
    (
        *_same("throttle_time_ms"),
        Field("topic_errors", "results", fields=(Field("topic", "name"), *_same("error_code", "error_message"))),
    ),
)
_RESOURCE = _same("error_code", "error_message", "resource_type", "resource_name")
ALTER_CONFIGS: Final = Shape(
    ApiKey.ALTER_CONFIGS,
    AlterConfigsResponse,
    1,
    (*_same("throttle_time_ms"), Field("resources", "responses", fields=_RESOURCE)),
)
_SYNONYMS = Field(
    "config_synonyms",
    "synonyms",
    fields=(Field("config_name", "name"), Field("config_value", "value"), Field("config_source", "source")),
)
_ENTRIES = Field(
    "config_entries",
    "configs",
    fields=(
        Field("config_names", "name"),
        Field("config_value", "value"),
        *_same("read_only", "config_source", "is_sensitive"),
        _SYNONYMS,
    ),
)
DESCRIBE_CONFIGS: Final = Shape(
    ApiKey.DESCRIBE_CONFIGS,
    DescribeConfigsResponse,
    2,
    (*_same("throttle_time_ms"), Field("resources", "results", fields=(*_RESOURCE, _ENTRIES))),
)
DESCRIBE_GROUPS: Final = Shape(
    ApiKey.DESCRIBE_GROUPS,
    DescribeGroupsResponse,
    3,
    (
        *_same("throttle_time_ms", since=1),
        Field(
            "groups",
            "groups",
            fields=(
                *_same("error_code"),
                Field("group", "group_id"),
                Field("state", "group_state"),
                *_same("protocol_type"),
                Field("protocol", "protocol_data"),
                Field(
                    "members",
                    "members",
                    fields=_same("member_id", "client_id", "client_host", "member_metadata", "member_assignment"),
                ),
                *_same("authorized_operations", since=3),
            ),
        ),
    ),
)
LIST_GROUPS: Final = Shape(
    ApiKey.LIST_GROUPS,
    ListGroupsResponse,
    2,
    (
        *_same("throttle_time_ms", since=1),
        *_same("error_code"),
        Field("groups", "groups", fields=(Field("group", "group_id"), *_same("protocol_type"))),
    ),
)
FIND_COORDINATOR: Final = Shape(
    ApiKey.FIND_COORDINATOR,
    FindCoordinatorResponse,
    1,
    (
        *_same("throttle_time_ms", since=1),
        *_same("error_code"),
        *_same("error_message", since=1),
        Field("coordinator_id", "node_id"),
        *_same("host", "port"),
    ),
)
OFFSET_FETCH: Final = Shape(
    ApiKey.OFFSET_FETCH,
    OffsetFetchResponse,
    3,
    (
        *_same("throttle_time_ms", since=3),
        Field(
            "topics",
            "topics",
            fields=(
                Field("topic", "name"),
                Field(
                    "partitions",
                    "partitions",
                    fields=(
                        Field("partition", "partition_index"),
                        Field("offset", "committed_offset"),
                        *_same("metadata", "error_code"),
                    ),
                ),
            ),
        ),
        *_same("error_code", since=2),
    ),
)
METADATA: Final = Shape(
    ApiKey.METADATA,
    MetadataResponse,
    5,
    (
        *_same("throttle_time_ms", since=3),
        Field("brokers", "brokers", fields=(*_same("node_id", "host", "port"), *_same("rack", since=1))),
        *_same("cluster_id", since=2),
        *_same("controller_id", since=1),
        Field(
            "topics",
            "topics",
            fields=(
                *_same("error_code"),
                Field("topic", "name"),
                *_same("is_internal", since=1),
                Field(
                    "partitions",
                    "partitions",
                    fields=(
                        *_same("error_code"),
                        Field("partition", "partition_index"),
                        Field("leader", "leader_id"),
                        Field("replicas", "replica_nodes"),
                        Field("isr", "isr_nodes"),
                        *_same("offline_replicas", since=5),
                    ),
                ),
            ),
        ),
    ),
)
_SHAPES: Final = {
    shape.api_key: shape
    for shape in (
        CREATE_TOPICS,
        DELETE_TOPICS,
        CREATE_PARTITIONS,
        ALTER_CONFIGS,
        DESCRIBE_CONFIGS,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        FIND_COORDINATOR,
        OFFSET_FETCH,
        METADATA,
    )
}
