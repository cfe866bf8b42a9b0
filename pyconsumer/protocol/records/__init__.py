"""Record batches: decoding and building them, compression and checksums.

Other packages import from here, where the compiled decoder replaces the one in Python.
"""

from __future__ import annotations

from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    BatchInfo,
    check_crc,
    patch_batch,
    scan,
)
from pyconsumer.protocol.records.builder import BatchBuilder, record_size_bound
from pyconsumer.protocol.records.columns import BinaryColumn, Columns, HeaderColumn
from pyconsumer.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, Codec
from pyconsumer.protocol.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    decode_control_type,
    decode_end_transaction_marker,
    encode_end_transaction_marker,
)
from pyconsumer.protocol.records.cursor import iter_records, read_control_record, read_end_transaction_marker
from pyconsumer.protocol.records.decoder import (
    IMPLEMENTATION,
    ColumnsBuilder,
    ConsumerRecord,
    Cursor,
    DecodeAhead,
    LogScan,
    check_records,
    convert,
    describe,
)
from pyconsumer.protocol.records.log_scan import ScanStop
from pyconsumer.protocol.records.record import SimpleRecord

__all__ = [
    "BATCH_OVERHEAD",
    "CREATE_TIME",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "IMPLEMENTATION",
    "LOG_APPEND_TIME",
    "NO_TIMESTAMP_TYPE",
    "BatchBuilder",
    "BatchInfo",
    "BinaryColumn",
    "Codec",
    "Columns",
    "ColumnsBuilder",
    "ConsumerRecord",
    "ControlRecordType",
    "Cursor",
    "DecodeAhead",
    "EndTransactionMarker",
    "HeaderColumn",
    "LogScan",
    "ScanStop",
    "SimpleRecord",
    "build_end_transaction_marker",
    "check_crc",
    "check_records",
    "convert",
    "decode_control_type",
    "decode_end_transaction_marker",
    "describe",
    "encode_end_transaction_marker",
    "iter_records",
    "patch_batch",
    "read_control_record",
    "read_end_transaction_marker",
    "record_size_bound",
    "scan",
]
