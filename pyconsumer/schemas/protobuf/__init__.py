"""Protobuf with a registry: :class:`.serializer.ProtobufSerializer` and :class:`.deserializer.ProtobufDeserializer`."""
