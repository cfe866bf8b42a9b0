"""Keys and values of ``__share_group_state``, the state of share partitions (KIP-932). No state.

A key begins with the type of the record (int16): 0 a snapshot, 1 an update. It names a group, a topic id and a
partition. A value begins with the version of its schema (int16, 0). A snapshot without a value is a tombstone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

__all__ = [
    "SNAPSHOT",
    "UPDATE",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareStateKey",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StateBatch",
    "decode_state_key",
    "decode_state_value",
    "encode_state_key",
]

SNAPSHOT: Final = 0
UPDATE: Final = 1


class ShareStateKey(NamedTuple):
    """A share partition: a partition of a topic, as one group sees it."""

    group_id: str
    topic_id: bytes
    partition: int


@message(0, "data", versions="0", flexible="none")
class ShareSnapshotKey(Message):
    group_id: str = field(STRING, "0", default="")
    topic_id: bytes = field(UUID, "0", default=ZERO_UUID)
    partition: int = field(INT32, "0", default=0)


@message(1, "data", versions="0", flexible="none")
class ShareUpdateKey(Message):
    group_id: str = field(STRING, "0", default="")
    topic_id: bytes = field(UUID, "0", default=ZERO_UUID)
    partition: int = field(INT32, "0", default=0)


@structure
class StateBatch(Struct):
    first_offset: int = field(INT64, "0+", default=0)
    last_offset: int = field(INT64, "0+", default=0)
    delivery_state: int = field(INT8, "0+", default=0)
    delivery_count: int = field(INT16, "0+", default=0)


@message(0, "data", versions="0", flexible="0+")
class ShareSnapshotValue(Message):
    snapshot_epoch: int = field(INT32, "0+", default=0)
    state_epoch: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)
    start_offset: int = field(INT64, "0+", default=0)
    delivery_complete_count: int = field(INT32, "0+", default=-1, tag=0)
    create_timestamp: int = field(INT64, "0+", default=0)
    write_timestamp: int = field(INT64, "0+", default=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+", factory=list)


@message(1, "data", versions="0", flexible="0+")
class ShareUpdateValue(Message):
    snapshot_epoch: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)
    start_offset: int = field(INT64, "0+", default=0)
    delivery_complete_count: int = field(INT32, "0+", default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+", factory=list)


def encode_state_key(kind: int, key: ShareStateKey) -> bytes:
    """Encode the key of a snapshot or an update."""
    fields = ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return kind.to_bytes(2, "big") + fields.encode(0)


def decode_state_key(key: Buffer) -> tuple[int, ShareStateKey] | None:
    """Read a key. Return its type and the share partition, or None if the record has an unknown type.

    Raises:
        ProtocolError: the bytes are too short for a type, or are not a key of their type.
    """
    if len(key) < 2:
        raise ProtocolError(f"{len(key)} bytes are too short for a type")
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    found = ShareSnapshotKey.decode(memoryview(key)[2:], 0)
    return kind, ShareStateKey(found.group_id, bytes(found.topic_id), found.partition)


def decode_state_value(kind: int, value: Buffer) -> ShareSnapshotValue | ShareUpdateValue:
    """Read the value of a snapshot or an update. Raises ``ProtocolError`` if it cannot be read."""
    schema = ShareSnapshotValue if kind == SNAPSHOT else ShareUpdateValue
    return schema.decode_with_version(value)[0]
