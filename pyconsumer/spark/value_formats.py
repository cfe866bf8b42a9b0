"""Formats of typed columns: the one place that knows which there are. No state.

To add one, write a subclass of :class:`.registry_formats.RegistryFormat`, and add its name here and in
``value_options.FORMATS``.
"""

from __future__ import annotations

from pyconsumer.spark.typed_values import Format

__all__ = ["format_named"]


def format_named(name: str) -> Format:
    """Return a format by its name in the options."""
    if name == "json":
        from pyconsumer.spark.json_values import JsonFormat

        return JsonFormat()
    if name == "protobuf":
        from pyconsumer.spark.protobuf_values import ProtobufFormat

        return ProtobufFormat()
    assert name == "avro", name
    from pyconsumer.spark.avro_values import AvroFormat

    return AvroFormat()
