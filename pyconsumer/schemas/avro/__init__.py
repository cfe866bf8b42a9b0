"""Avro with a registry: :class:`.serializer.AvroSerializer` and :class:`.deserializer.AvroDeserializer`."""
