"""Schemas of records' keys and values: the client of a Schema Registry and the bytes that name a schema.

See ``docs/schemas.md``. The names and the order of arguments are those of ``confluent_kafka.schema_registry``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.errors import SerializationError as SerializationError
    from pyconsumer.protocol.protobuf.files import message_class as message_class
    from pyconsumer.schemas.avro.deserializer import AvroDeserializer as AvroDeserializer
    from pyconsumer.schemas.avro.serializer import AvroSerializer as AvroSerializer
    from pyconsumer.schemas.awaited import AsyncAvroDeserializer as AsyncAvroDeserializer
    from pyconsumer.schemas.awaited import AsyncAvroSerializer as AsyncAvroSerializer
    from pyconsumer.schemas.awaited import AsyncJSONDeserializer as AsyncJSONDeserializer
    from pyconsumer.schemas.awaited import AsyncJSONSerializer as AsyncJSONSerializer
    from pyconsumer.schemas.awaited import AsyncProtobufDeserializer as AsyncProtobufDeserializer
    from pyconsumer.schemas.awaited import AsyncProtobufSerializer as AsyncProtobufSerializer
    from pyconsumer.schemas.errors import IncompatibleSchemaError as IncompatibleSchemaError
    from pyconsumer.schemas.errors import InvalidSchemaError as InvalidSchemaError
    from pyconsumer.schemas.errors import SchemaFramingError as SchemaFramingError
    from pyconsumer.schemas.errors import SchemaNotFoundError as SchemaNotFoundError
    from pyconsumer.schemas.errors import SchemaRegistryAccessError as SchemaRegistryAccessError
    from pyconsumer.schemas.errors import SchemaRegistryError as SchemaRegistryError
    from pyconsumer.schemas.errors import SchemaRegistryTimeoutError as SchemaRegistryTimeoutError
    from pyconsumer.schemas.errors import SchemaRegistryUnavailableError as SchemaRegistryUnavailableError
    from pyconsumer.schemas.ids import SchemaId as SchemaId
    from pyconsumer.schemas.ids import dual_schema_id_deserializer as dual_schema_id_deserializer
    from pyconsumer.schemas.ids import header_schema_id_serializer as header_schema_id_serializer
    from pyconsumer.schemas.ids import prefix_schema_id_deserializer as prefix_schema_id_deserializer
    from pyconsumer.schemas.ids import prefix_schema_id_serializer as prefix_schema_id_serializer
    from pyconsumer.schemas.json_schema.deserializer import JSONDeserializer as JSONDeserializer
    from pyconsumer.schemas.json_schema.serializer import JSONSerializer as JSONSerializer
    from pyconsumer.schemas.protobuf.deserializer import ProtobufDeserializer as ProtobufDeserializer
    from pyconsumer.schemas.protobuf.serializer import ProtobufSerializer as ProtobufSerializer
    from pyconsumer.schemas.registry.async_client import AsyncSchemaRegistryClient as AsyncSchemaRegistryClient
    from pyconsumer.schemas.registry.client import SchemaRegistryClient as SchemaRegistryClient
    from pyconsumer.schemas.registry.values import ConfigCompatibilityLevel as ConfigCompatibilityLevel
    from pyconsumer.schemas.registry.values import Metadata as Metadata
    from pyconsumer.schemas.registry.values import MetadataProperties as MetadataProperties
    from pyconsumer.schemas.registry.values import MetadataTags as MetadataTags
    from pyconsumer.schemas.registry.values import RegisteredSchema as RegisteredSchema
    from pyconsumer.schemas.registry.values import Rule as Rule
    from pyconsumer.schemas.registry.values import RuleKind as RuleKind
    from pyconsumer.schemas.registry.values import RuleMode as RuleMode
    from pyconsumer.schemas.registry.values import RuleParams as RuleParams
    from pyconsumer.schemas.registry.values import RuleSet as RuleSet
    from pyconsumer.schemas.registry.values import Schema as Schema
    from pyconsumer.schemas.registry.values import SchemaReference as SchemaReference
    from pyconsumer.schemas.registry.values import SchemaVersion as SchemaVersion
    from pyconsumer.schemas.registry.values import ServerConfig as ServerConfig
    from pyconsumer.schemas.simple import Deserializer as Deserializer
    from pyconsumer.schemas.simple import DoubleDeserializer as DoubleDeserializer
    from pyconsumer.schemas.simple import DoubleSerializer as DoubleSerializer
    from pyconsumer.schemas.simple import IntegerDeserializer as IntegerDeserializer
    from pyconsumer.schemas.simple import IntegerSerializer as IntegerSerializer
    from pyconsumer.schemas.simple import Serializer as Serializer
    from pyconsumer.schemas.simple import StringDeserializer as StringDeserializer
    from pyconsumer.schemas.simple import StringSerializer as StringSerializer
    from pyconsumer.schemas.subjects import MessageField as MessageField
    from pyconsumer.schemas.subjects import SerializationContext as SerializationContext
    from pyconsumer.schemas.subjects import record_subject_name_strategy as record_subject_name_strategy
    from pyconsumer.schemas.subjects import reference_subject_name_strategy as reference_subject_name_strategy
    from pyconsumer.schemas.subjects import topic_record_subject_name_strategy as topic_record_subject_name_strategy
    from pyconsumer.schemas.subjects import topic_subject_name_strategy as topic_subject_name_strategy

_AWAITED = "pyconsumer.schemas.awaited"
_IDS = "pyconsumer.schemas.ids"
_ERRORS = "pyconsumer.schemas.errors"
_SUBJECTS = "pyconsumer.schemas.subjects"
_SIMPLE = "pyconsumer.schemas.simple"
_VALUES = "pyconsumer.schemas.registry.values"
_HOMES = {
    "AsyncAvroDeserializer": _AWAITED,
    "AsyncAvroSerializer": _AWAITED,
    "AsyncJSONDeserializer": _AWAITED,
    "AsyncJSONSerializer": _AWAITED,
    "AsyncProtobufDeserializer": _AWAITED,
    "AsyncProtobufSerializer": _AWAITED,
    "AsyncSchemaRegistryClient": "pyconsumer.schemas.registry.async_client",
    "AvroDeserializer": "pyconsumer.schemas.avro.deserializer",
    "AvroSerializer": "pyconsumer.schemas.avro.serializer",
    "ConfigCompatibilityLevel": _VALUES,
    "Deserializer": _SIMPLE,
    "DoubleDeserializer": _SIMPLE,
    "DoubleSerializer": _SIMPLE,
    "IncompatibleSchemaError": _ERRORS,
    "IntegerDeserializer": _SIMPLE,
    "IntegerSerializer": _SIMPLE,
    "InvalidSchemaError": _ERRORS,
    "JSONDeserializer": "pyconsumer.schemas.json_schema.deserializer",
    "JSONSerializer": "pyconsumer.schemas.json_schema.serializer",
    "MessageField": _SUBJECTS,
    "Metadata": _VALUES,
    "MetadataProperties": _VALUES,
    "MetadataTags": _VALUES,
    "ProtobufDeserializer": "pyconsumer.schemas.protobuf.deserializer",
    "ProtobufSerializer": "pyconsumer.schemas.protobuf.serializer",
    "RegisteredSchema": _VALUES,
    "Rule": _VALUES,
    "RuleKind": _VALUES,
    "RuleMode": _VALUES,
    "RuleParams": _VALUES,
    "RuleSet": _VALUES,
    "Schema": _VALUES,
    "SchemaFramingError": _ERRORS,
    "SchemaId": _IDS,
    "SchemaNotFoundError": _ERRORS,
    "SchemaReference": _VALUES,
    "SchemaRegistryAccessError": _ERRORS,
    "SchemaRegistryClient": "pyconsumer.schemas.registry.client",
    "SchemaRegistryError": _ERRORS,
    "SchemaRegistryTimeoutError": _ERRORS,
    "SchemaRegistryUnavailableError": _ERRORS,
    "SchemaVersion": _VALUES,
    "SerializationContext": _SUBJECTS,
    "SerializationError": "pyconsumer.errors",
    "Serializer": _SIMPLE,
    "ServerConfig": _VALUES,
    "StringDeserializer": _SIMPLE,
    "StringSerializer": _SIMPLE,
    "dual_schema_id_deserializer": _IDS,
    "header_schema_id_serializer": _IDS,
    "message_class": "pyconsumer.protocol.protobuf.files",
    "prefix_schema_id_deserializer": _IDS,
    "prefix_schema_id_serializer": _IDS,
    "record_subject_name_strategy": _SUBJECTS,
    "reference_subject_name_strategy": _SUBJECTS,
    "topic_record_subject_name_strategy": _SUBJECTS,
    "topic_subject_name_strategy": _SUBJECTS,
}

__all__ = [
    "AsyncAvroDeserializer",
    "AsyncAvroSerializer",
    "AsyncJSONDeserializer",
    "AsyncJSONSerializer",
    "AsyncProtobufDeserializer",
    "AsyncProtobufSerializer",
    "AsyncSchemaRegistryClient",
    "AvroDeserializer",
    "AvroSerializer",
    "ConfigCompatibilityLevel",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IncompatibleSchemaError",
    "IntegerDeserializer",
    "IntegerSerializer",
    "InvalidSchemaError",
    "JSONDeserializer",
    "JSONSerializer",
    "MessageField",
    "Metadata",
    "MetadataProperties",
    "MetadataTags",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "Rule",
    "RuleKind",
    "RuleMode",
    "RuleParams",
    "RuleSet",
    "Schema",
    "SchemaFramingError",
    "SchemaId",
    "SchemaNotFoundError",
    "SchemaReference",
    "SchemaRegistryAccessError",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SchemaRegistryTimeoutError",
    "SchemaRegistryUnavailableError",
    "SchemaVersion",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "ServerConfig",
    "StringDeserializer",
    "StringSerializer",
    "dual_schema_id_deserializer",
    "header_schema_id_serializer",
    "message_class",
    "prefix_schema_id_deserializer",
    "prefix_schema_id_serializer",
    "record_subject_name_strategy",
    "reference_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
