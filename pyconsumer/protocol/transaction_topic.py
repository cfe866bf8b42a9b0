"""Keys and values of ``__transaction_state``: both begin with an int16 version. No state."""

from __future__ import annotations

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

__all__ = ["PartitionsSchema", "TransactionLogKey", "TransactionLogValue", "decode_key", "decode_value", "encode_key"]


@message(0, "data", versions="0", flexible="none")
class TransactionLogKey(Message):
    transactional_id: str = field(STRING, "0", default="")


@structure
class PartitionsSchema(Struct):
    topic: str = field(STRING, "0+", default="")
    partition_ids: list[int] = array(INT32, "0+", factory=list)


@message(-1, "data", versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    producer_id: int = field(INT64, "0+", default=0)
    previous_producer_id: int = field(INT64, "1+", default=-1, tag=0)
    next_producer_id: int = field(INT64, "1+", default=-1, tag=1)
    producer_epoch: int = field(INT16, "0+", default=0)
    next_producer_epoch: int = field(INT16, "1+", default=-1, tag=3)
    transaction_timeout_ms: int = field(INT32, "0+", default=0)
    transaction_status: int = field(INT8, "0+", default=0)
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+", factory=list)
    transaction_last_update_timestamp_ms: int = field(INT64, "0+", default=0)
    transaction_start_timestamp_ms: int = field(INT64, "0+", default=0)
    client_transaction_version: int = field(INT16, "1+", default=0, tag=2)


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of a transactional id's records."""
    return TransactionLogKey(transactional_id=transactional_id).encode_with_version(0)


def decode_key(key: Buffer) -> str | None:
    """Read a key. Return its transactional id, or None if the record has an unknown type.

    Raises:
        ProtocolError: the bytes are too short for a version, or are not a key of their version.
    """
    if _version(key) not in TransactionLogKey.SCHEMA.versions:
        return None
    return TransactionLogKey.decode(memoryview(key)[2:], 0).transactional_id


def decode_value(value: Buffer) -> TransactionLogValue:
    """Read a value of any known version. Raises ``ProtocolError``."""
    version = _version(value)
    if version not in TransactionLogValue.SCHEMA.versions:
        raise ProtocolError(f"TransactionLogValue has versions {TransactionLogValue.SCHEMA.versions}, not {version}")
    return TransactionLogValue.decode(memoryview(value)[2:], version)


def _version(data: Buffer) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too short for a version")
    return int.from_bytes(data[:2], "big", signed=True)
