"""Serializers and deserializers that are awaited, for programs on an event loop that call them.

Rules

1. Each takes the arguments of the class without ``Async`` in its name, and reads or writes as that one does. The client
   of the registry is one for asyncio or a blocking one.
2. ``await`` of the object gives the object, since confluent-kafka's are made so: ``await AsyncAvroSerializer(...)``.
3. A call never blocks the loop. While a schema is fetched, other tasks run.
4. Our clients take these objects, too, and bind them as they bind the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from pyconsumer.generic import PendingError
from pyconsumer.schemas.deserializing import BoundDeserializer, SchemaDeserializer
from pyconsumer.schemas.serializing import BoundSerializer, SchemaSerializer
from pyconsumer.schemas.subjects import SerializationContext

__all__ = [
    "AsyncAvroDeserializer",
    "AsyncAvroSerializer",
    "AsyncJSONDeserializer",
    "AsyncJSONSerializer",
    "AsyncProtobufDeserializer",
    "AsyncProtobufSerializer",
]

T = TypeVar("T")


async def _result(call: Callable[[], T]) -> T:
    """Return the result of a call, and wait for the schemas that it needs."""
    while True:
        try:
            return call()
        except PendingError as pending:
            future: Any = pending.arrival
        arrival = asyncio.wrap_future(future)
        await asyncio.wait([arrival])
        arrival.exception()  # the next call raises it


class _Awaited:
    """An object that ``await`` returns (rule 2)."""

    def __await__(self) -> Generator[Any, None, Self]:
        async def found() -> Self:
            return self

        return found().__await__()


class _Serializer(_Awaited):
    def __init__(self, made: SchemaSerializer[Any]) -> None:
        self._made = made

    async def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object. None returns None.

        Raises:
            SerializationError: the object does not fit the schema, or the registry cannot be used.
        """
        return await _result(lambda: self._made.attempt(obj, ctx))

    def bind(self, field: str) -> BoundSerializer:
        """Return the serializer for keys (``"key"``) or for values (``"value"``), for our clients."""
        return self._made.bind(field)


class _Deserializer(_Awaited):
    def __init__(self, made: SchemaDeserializer[Any]) -> None:
        self._made = made

    async def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the value of some bytes. None returns None.

        Raises:
            SerializationError: the bytes are no value of their schema, or it cannot be fetched.
        """
        return await _result(lambda: self._made.attempt(data, ctx))

    def bind(self, field: str) -> BoundDeserializer:
        """Return the deserializer for keys (``"key"``) or for values (``"value"``), for our clients."""
        return self._made.bind(field)


class AsyncAvroSerializer(_Serializer):
    """:class:`~pyconsumer.schemas.AvroSerializer` with calls that are awaited: ``await serializer(value, context)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.avro.serializer import AvroSerializer

        super().__init__(AvroSerializer(*args, **kwargs))


class AsyncAvroDeserializer(_Deserializer):
    """:class:`~pyconsumer.schemas.AvroDeserializer` with calls that are awaited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.avro.deserializer import AvroDeserializer

        super().__init__(AvroDeserializer(*args, **kwargs))


class AsyncJSONSerializer(_Serializer):
    """:class:`~pyconsumer.schemas.JSONSerializer` with calls that are awaited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.json_schema.serializer import JSONSerializer

        super().__init__(JSONSerializer(*args, **kwargs))


class AsyncJSONDeserializer(_Deserializer):
    """:class:`~pyconsumer.schemas.JSONDeserializer` with calls that are awaited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.json_schema.deserializer import JSONDeserializer

        super().__init__(JSONDeserializer(*args, **kwargs))


class AsyncProtobufSerializer(_Serializer):
    """:class:`~pyconsumer.schemas.ProtobufSerializer` with calls that are awaited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.protobuf.serializer import ProtobufSerializer

        super().__init__(ProtobufSerializer(*args, **kwargs))


class AsyncProtobufDeserializer(_Deserializer):
    """:class:`~pyconsumer.schemas.ProtobufDeserializer` with calls that are awaited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from pyconsumer.schemas.protobuf.deserializer import ProtobufDeserializer

        super().__init__(ProtobufDeserializer(*args, **kwargs))
