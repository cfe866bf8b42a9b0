"""``ProtobufSerializer``: messages as bytes. The rules are those of :mod:`pyconsumer.schemas.serializing`, and two.

1. The schema is the file of the message's class, in base64. The files that it imports are registered first, under the
   subjects that ``reference.subject.name.strategy`` names, and become references. Those of ``google/protobuf`` are not.
2. The path of the message's type in its file follows the id (:mod:`pyconsumer.schemas.wire`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.protobuf.files import is_built_in, message_path
from pyconsumer.schemas.loading import call_registry
from pyconsumer.schemas.registry.values import Schema, SchemaReference
from pyconsumer.schemas.serializing import SchemaSerializer, WriterSchema
from pyconsumer.schemas.subjects import MessageField, SerializationContext, reference_subject_name_strategy
from pyconsumer.schemas.wire import with_prefix

__all__ = ["ProtobufSerializer"]

_DEFAULTS: Final[dict[str, Any]] = {
    "skip.known.types": True,
    "reference.subject.name.strategy": reference_subject_name_strategy,
    "use.deprecated.format": False,
    "validation.rules.execution": None,
    "validation.rules.fail.fast": False,
    "validation.rules.executor": None,
}


class ProtobufSerializer(SchemaSerializer[None]):
    """Serializes Protobuf messages, with the id of their schema and the path of their type before them or in a header.

    Use it as ``value_serializer`` or ``key_serializer``, or call it: ``serializer(message, context)``. The order of the
    arguments is that of ``confluent_kafka.schema_registry.protobuf.ProtobufSerializer``. It needs the extra
    ``protobuf``.

    Args:
        msg_type: the class of the messages, such as one that ``protoc`` has generated.
        schema_registry_client: a client of the registry, blocking or for asyncio.
        conf: ``skip.known.types`` (True), ``reference.subject.name.strategy``, ``use.deprecated.format`` (False), and
            the keys of :class:`~pyconsumer.schemas.AvroSerializer`, as in confluent-kafka. With
            ``use.deprecated.format`` the path of the type is written as before 2021, for old readers.
        rule_conf, rule_registry: rules are not run, so only None is taken.

    Raises:
        ConfigurationError: ``msg_type`` is no class of messages, or a setting is unknown, has a wrong value, or
            contradicts another one.
    """

    FORMAT = "PROTOBUF"

    def __init__(
        self,
        msg_type: Any,
        schema_registry_client: Any,
        conf: Mapping[str, Any] | None = None,
        rule_conf: Mapping[str, Any] | None = None,
        rule_registry: Any = None,
    ) -> None:
        descriptor = getattr(msg_type, "DESCRIPTOR", None)
        if not isinstance(msg_type, type) or descriptor is None:
            raise ConfigurationError(f"msg_type of ProtobufSerializer is a class of messages, not {msg_type!r}")
        self._message_type: Any = msg_type
        self._descriptor: Any = descriptor
        schema = Schema(_text(descriptor.file), self.FORMAT)
        super().__init__(schema_registry_client, schema, None, conf, _DEFAULTS, rule_conf, rule_registry)
        mode = self._conf["validation.rules.execution"]
        if str(getattr(mode, "value", mode)).upper() not in ("NONE", "DISABLED"):
            raise ConfigurationError("ProtobufSerializer runs no rules: leave validation.rules.execution out")
        if not callable(self._conf["reference.subject.name.strategy"]):
            raise ConfigurationError("reference.subject.name.strategy of ProtobufSerializer is a function")
        if self._conf["use.deprecated.format"] and self._places_guid:
            raise ConfigurationError("use.deprecated.format writes the id before the value, and not into a header")
        self._own = self._parse(schema, is_own=True)

    def _parse(self, schema: Schema, *, is_own: bool) -> WriterSchema[None]:
        return WriterSchema(None, self._descriptor.full_name, message_path(self._descriptor))

    def _encoder(self, parsed: None) -> Callable[[Any, bytes], bytes]:
        kind = self._message_type

        def encode(message: Any, prefix: bytes) -> bytes:
            if not isinstance(message, kind):
                raise SerializationError(
                    f"the value is a {type(message).__qualname__}, and this serializer writes {kind.__qualname__}"
                )
            try:
                data: bytes = message.SerializeToString()
            except Exception as error:  # a required field is missing, or the message is too large
                raise SerializationError(f"the message cannot be written: {error}") from error
            return prefix + data

        return encode

    def _to_register(self, schema: Schema, topic: str, field: MessageField) -> Schema:
        references = self._references(self._descriptor.file, SerializationContext(topic, field), {})
        return Schema(schema.schema_str, self.FORMAT, references) if references else schema

    def _references(
        self, file: Any, ctx: SerializationContext, known: dict[str, SchemaReference]
    ) -> list[SchemaReference]:
        """Register or look up the files that a file imports. This waits."""
        found = []
        normalize = self._conf["normalize.schemas"]
        for each in file.dependencies:
            if self._conf["skip.known.types"] and is_built_in(each.name):
                continue
            if each.name not in known:
                references = self._references(each, ctx, known)
                subject = self._conf["reference.subject.name.strategy"](ctx, each)
                schema = Schema(_text(each), self.FORMAT, references)
                version = self._registered(subject, schema).version
                if version is None:  # the answer to a registration need not have it
                    version = call_registry(self._client, "lookup_schema", subject, schema, normalize).version
                known[each.name] = SchemaReference(each.name, subject, version)
            found.append(known[each.name])
        return found

    def _prefix(self, schema_id: int, indexes: Sequence[int] | None) -> bytes:
        return with_prefix(schema_id, b"", indexes, zigzag=not self._conf["use.deprecated.format"])


def _text(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()
