"""Control records: markers in a log that are not delivered to applications (KIP-98). No state.

A control batch has one record, whose key contains its type. COMMIT or ABORT marks the end of a transaction.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records.builder import BatchBuilder

__all__ = [
    "ControlRecordType",
    "EndTransactionMarker",
    "build_end_transaction_marker",
    "decode_control_type",
    "decode_end_transaction_marker",
    "encode_end_transaction_marker",
]

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """The type of a control record. Unknown types are read as UNKNOWN and skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The marker at the end of a transaction, with the epoch of the coordinator that wrote it."""

    type: ControlRecordType
    coordinator_epoch: int


def decode_control_type(key: bytes | None) -> ControlRecordType:
    """Read the key of a control record.

    Raises:
        CorruptRecordError: the key is missing, shorter than 4 bytes or has a negative version.
    """
    if key is None or len(key) < 4:
        raise CorruptRecordError(f"the key of a control record has {len(key or b'')} bytes, and must have at least 4")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"the key of a control record has version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def decode_end_transaction_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """Read a COMMIT or ABORT marker. Later versions of it are read as version 0.

    Raises:
        CorruptRecordError: the key or the value is too short or has a negative version, or the record has another type.
    """
    kind = decode_control_type(key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise CorruptRecordError(f"a control record of type {kind.name} does not end a transaction")
    if value is None or len(value) < 6:
        raise CorruptRecordError(
            f"the value of a transaction marker has {len(value or b'')} bytes, and must have at least 6"
        )
    version, epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"a transaction marker has version {version}")
    return EndTransactionMarker(kind, epoch)


def encode_end_transaction_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Return the key and value of a marker's record, in version 0."""
    return _KEY.pack(0, marker.type), _VALUE.pack(0, marker.coordinator_epoch)


def build_end_transaction_marker(
    kind: ControlRecordType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the control batch that ends a transaction: 78 bytes."""
    builder = BatchBuilder()
    builder.try_append(timestamp_ms, *encode_end_transaction_marker(EndTransactionMarker(kind, coordinator_epoch)))
    return builder.build(
        base_offset, producer_id, producer_epoch, is_transactional=True, is_control=True, leader_epoch=leader_epoch
    )
