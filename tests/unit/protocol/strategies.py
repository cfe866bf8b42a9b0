"""Random messages: for every message and version, values for all fields that the version has."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from pyconsumer.protocol import api, consumer_protocol, offsets_topic, transaction_topic
from pyconsumer.protocol.api import API
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.schema import FieldSpec, Message, Struct, WireType

OTHERS: tuple[type[Message], ...] = (
    api.RequestHeaderMessage,
    api.ResponseHeaderMessage,
    consumer_protocol.ConsumerProtocolSubscription,
    consumer_protocol.ConsumerProtocolAssignment,
    offsets_topic.OffsetCommitKey,
    offsets_topic.OffsetCommitValue,
    offsets_topic.GroupMetadataKey,
    offsets_topic.GroupMetadataValue,
    transaction_topic.TransactionLogKey,
    transaction_topic.TransactionLogValue,
)


def all_messages() -> list[type[Message]]:
    return [cls for key in API for cls in load(key)] + list(OTHERS)


def all_versions() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in all_messages() for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1)]


def _primitive(wire: WireType) -> st.SearchStrategy[Any]:
    if wire.name == "bool":
        return st.booleans()
    if wire.name == "string":
        return st.text(max_size=20)
    if wire.name in ("bytes", "records"):
        return st.binary(max_size=40)
    if wire.name == "uuid":
        return st.binary(min_size=16, max_size=16)
    if wire.name == "float64":
        return st.floats(allow_nan=False)
    bits = wire.size * 8
    if wire.name.startswith("u"):
        return st.integers(0, (1 << bits) - 1)
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _value(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    one = _primitive(spec.type) if isinstance(spec.type, WireType) else structs(spec.type, version)
    value = st.lists(one, max_size=3) if spec.is_array else one
    return st.none() | value if version in spec.nullable else value


@functools.cache
def structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances of a struct or message, with the fields of one version."""
    return st.builds(cls, **{spec.name: _value(spec, version) for spec in cls.FIELDS if version in spec.versions})
