"""JSON Schema with a registry: :class:`.serializer.JSONSerializer` and :class:`.deserializer.JSONDeserializer`."""
