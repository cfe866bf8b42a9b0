"""Protobuf as typed columns of Spark. Executors without the library ``protobuf`` use that of the driver.

Rules

1. The message type is that of ``value.message``, else the first one of the schema.
2. ``value.schema`` is a ``.proto`` text, or in base64 a file as registries keep it, or a ``FileDescriptorSet`` as
   ``protoc --include_imports --descriptor_set_out`` writes it.
3. With ``value.schema`` and a registry each value is read as that message type, whatever type the path in the value
   names. The schema that it names is fetched for its format and its rules alone. Without a registry a record is a
   message alone.
4. With a schema of the registry, a value of a message type with another full name is a bad row. A task knows the
   message type of the column's schema. Other schemas that values name must be parsed, by ``grpcio-tools`` if they are
   text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.protocol.protobuf.coder import message_program
from pyconsumer.protocol.protobuf.column_plan import message_plan, message_schema
from pyconsumer.protocol.protobuf.files import (
    ProtoFile,
    first_message_name,
    is_descriptor,
    message_class,
    message_path,
    parse_file,
)
from pyconsumer.protocol.shipped import need_library
from pyconsumer.schemas.protobuf.columns import ANY_PATH, ProtobufSide, path_of
from pyconsumer.schemas.protobuf.deserializer import ProtobufDeserializer
from pyconsumer.schemas.protobuf.parsing import parse_with_references
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.subjects import MessageField
from pyconsumer.spark.layout_columns import BareRows, LayoutColumns, Rows, target
from pyconsumer.spark.protobuf_rows import converter
from pyconsumer.spark.registry import kept_loader
from pyconsumer.spark.registry_formats import RegistryFormat, encoder_of, prefix_of
from pyconsumer.spark.typed_values import Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["ProtobufFormat"]

_LIBRARY = "google.protobuf"


class ProtobufFormat(RegistryFormat):
    """See :class:`.typed_values.Format`."""

    NAME, KIND = "protobuf", "PROTOBUF"

    def text_of_option(self, given: SideOptions) -> str:
        """Return the schema of the options."""
        assert given.schema is not None
        found = _set_of(given.schema)
        return _text(parse_file(given.schema, {}).descriptor_set() if found is None else found, given)

    def text_of_registry(self, client: Any, schema: Schema, given: SideOptions) -> str:
        """Return a schema of the registry, with those that it refers to."""
        return _text(parse_with_references(client, schema).descriptor_set(), given)

    def to_register(self, given: SideOptions) -> Schema:
        """Return the schema of the options for the registry."""
        assert given.schema is not None
        found = _set_of(given.schema)
        if found is None:
            return super().to_register(given)
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        files = FileDescriptorSet.FromString(found).file
        if len([each for each in files if not each.name.startswith("google/protobuf/")]) > 1:
            raise ConfigurationError(
                "a FileDescriptorSet of several files is not registered here: register them, and set the option"
                " value.schema.id or key.schema.id"
            )
        return Schema(ProtoFile(files[-1], {}).base64, self.KIND)

    def check(self, settled: Settled, kind: Any, side: str) -> None:
        """Check that a column can be written."""
        converter(_class_in(settled), kind, side)

    def encoder(self, settled: Settled, kind: Any) -> Callable[[Any], list[bytes | None]]:
        """Return a function that encodes an Arrow array of a column."""
        message = _class_in(settled)
        prefix = prefix_of(settled, message_path(message.DESCRIPTOR))

        def encode(value: Any) -> bytes:
            try:
                data: bytes = value.SerializeToString()
            except Exception as error:  # a required field is missing, or the message is too large
                raise SerializationError(f"the message cannot be written: {error}") from error
            return prefix + data

        return encoder_of(converter(message, kind, ""), encode)

    def make_columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column that is read."""
        reader = _class_in(settled).DESCRIPTOR
        layout = make_layout(message_schema(reader), paths, side=side, target=target(side))

        def rows() -> Rows:
            if settled.is_bare:
                return BareRows(message_program(message_plan(reader, layout)))
            name = None if settled.schema_id is None else reader.full_name
            own = (name, settled.schema_id, tuple(message_path(reader)), side)
            return ProtobufSide(reader, layout, MessageField(side), kept_loader(registry, _paths, *own))

        return LayoutColumns(side, layout, rows)


def _paths(
    client: Any, name: str | None, schema_id: int | None, path: tuple[int, ...], side: str
) -> Callable[[Any], tuple[int, ...]]:
    """Return the function that finds the path of a message type in a schema. Without a name each path is read.

    Args:
        client: of the registry.
        name: the full name of the type.
        schema_id: a schema in which its path is known.
        path: that path.
        side: ``"key"`` or ``"value"``.
    """
    fetch = ProtobufDeserializer(None, None, client).fetch_writer

    def find(identity: Any) -> tuple[int, ...]:
        writer = fetch(identity)
        if name is None:
            return ANY_PATH
        if identity == schema_id:
            return path
        try:
            return path_of(client, writer, identity, name)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"it is not that of the column, {schema_id}, and this executor cannot parse it: {error}. Or give the"
                f" .proto text of the column by the option {side}.schema, and this is not needed"
            ) from None

    return find


def _set_of(text: str) -> bytes | None:
    """Return the ``FileDescriptorSet`` that a text is in base64. None if it is another form of a schema."""
    if not is_descriptor(text):
        return None
    need_library(_LIBRARY)
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ConfigurationError("Protobuf needs protobuf: pip install pyconsumer[protobuf]") from None
    try:
        data = base64.b64decode(text)
        files = FileDescriptorSet.FromString(data).file
    except (binascii.Error, ValueError, DecodeError):
        return None
    # A single file begins with its name, which is no file.
    return data if files and all(each.name for each in files) else None


def _text(files: bytes, given: SideOptions) -> str:
    """Return the text for :class:`Settled`: the name of the message type, and its files."""
    name = given.message or first_message_name(files)
    message_class(files, name)  # or it is an error now
    return json.dumps([name, base64.b64encode(files).decode()])


def _class_in(settled: Settled) -> type[Any]:
    name, files = json.loads(settled.text)
    need_library(_LIBRARY)
    try:
        return message_class(base64.b64decode(files), name)
    except SerializationError as error:
        raise ConfigurationError(f"the schema of the column cannot be used: {error}") from None
