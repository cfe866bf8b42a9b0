"""``kafka.serializer``: base classes, and the two serializers of kafka-python 3.x.

Serializers are called as ``serialize(topic, headers, data)``. Those of kafka-python 2.x, which take ``(topic, value)``,
are recognized by the number of their parameters.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from pyconsumer.errors import SerializationError

__all__ = [
    "DefaultSerializer",
    "Deserializer",
    "JsonSerializer",
    "Serializer",
    "as_deserializer",
    "as_serializer",
    "check_no_text",
]


class Serializer:
    """Base class of serializers."""

    def __init__(self, **config: Any) -> None:
        pass

    def serialize(self, topic: str, headers: Any, data: Any) -> bytes | None:
        """Return bytes for a key or value."""
        raise NotImplementedError

    def close(self) -> None:
        """Release resources of the serializer."""


class Deserializer:
    """Base class of deserializers."""

    def __init__(self, **config: Any) -> None:
        pass

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
        """Return the key or value for bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Release resources of the deserializer."""


class DefaultSerializer(Serializer, Deserializer):
    """Encodes and decodes text. Bytes are sent unchanged."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self.encoding = encoding

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        """Return a text as bytes. Bytes and None are returned unchanged."""
        if data is None or type(data) in (bytes, bytearray, memoryview):
            return data
        return data.encode(self.encoding)

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
        """Return bytes as text. None stays None."""
        return None if data is None else data.decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """Encodes and decodes objects as JSON."""

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        """Return an object as JSON. None stays None."""
        return None if data is None else super().serialize(topic, headers, json.dumps(data))

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
        """Return the object in a JSON text. None stays None."""
        return None if data is None else json.loads(super().deserialize(topic, headers, data))


def check_no_text(config: Any, key: Any, value: Any) -> None:
    """Refuse a text where there is no serializer that makes bytes of it, as both originals do.

    Args:
        config: the settings of the producer.
        key, value: those of a record.

    Raises:
        SerializationError: one is a text. It crosses the border as a ``TypeError``.
    """
    for name, data in (("key", key), ("value", value)):
        if isinstance(data, str) and getattr(config, f"{name}_serializer") is None:
            raise SerializationError(f"the {name} is a str, but without a {name}_serializer it must be bytes or None")


def as_serializer(given: Any) -> Any:
    """Return a serializer that takes ``(topic, headers, data)``. Functions are returned unchanged."""
    serialize = getattr(given, "serialize", None)
    return given if serialize is None or not _takes_two(serialize) else _OldSerializer(serialize)


def as_deserializer(given: Any) -> Any:
    """Return a deserializer that takes ``(topic, headers, data)``. Functions are returned unchanged."""
    deserialize = getattr(given, "deserialize", None)
    return given if deserialize is None or not _takes_two(deserialize) else _OldDeserializer(deserialize)


def _takes_two(method: Any) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    return len(parameters) == 2 and all(one.kind is not one.VAR_POSITIONAL for one in parameters)


class _OldSerializer:
    def __init__(self, serialize: Any) -> None:
        self._serialize = serialize

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return self._serialize(topic, data)


class _OldDeserializer:
    def __init__(self, deserialize: Any) -> None:
        self._deserialize = deserialize

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        return self._deserialize(topic, data)
