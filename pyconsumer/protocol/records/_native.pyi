"""The compiled decoder (``native/_native.pyx``): the same names as the decoder in Python, with the same meaning."""

from typing import final

from pyconsumer.protocol.records.checking import check_records as check_records
from pyconsumer.protocol.records.columns import ColumnsBuilder as ColumnsBuilder
from pyconsumer.protocol.records.conversion import convert as convert
from pyconsumer.protocol.records.cursor import Cursor as Cursor
from pyconsumer.protocol.records.log_scan import LogScan as LogScan
from pyconsumer.protocol.records.record import ConsumerRecord as ConsumerRecord
from pyconsumer.protocol.records.record import DeserializedRecord as TrackedRecord
from pyconsumer.protocol.records.record import make_record as make_record

__all__ = [
    "REVISION",
    "ColumnsBuilder",
    "ConsumerRecord",
    "Cursor",
    "DecodeAhead",
    "LogScan",
    "TrackedRecord",
    "check_records",
    "convert",
    "crc32c",
    "decompress_compiled",
    "library_of",
    "make_record",
    "stop_workers",
]

REVISION: int

def crc32c(data: bytes | bytearray | memoryview, before: int = 0, *, by_tables: bool = False) -> int: ...
def decompress_compiled(
    codec: int, data: bytes | bytearray | memoryview, max_bytes: int, magic: int
) -> bytes | int | None: ...
def library_of(codec: int) -> tuple[str, str, str, str] | None: ...

@final
class DecodeAhead:
    size_bytes: int

    def __init__(self, threads: int, size_bytes: int, worth_bytes: int = ...) -> None: ...
    @property
    def is_used(self) -> bool: ...
    def add(self, cursor: Cursor) -> bool: ...
    def remove(self, cursor: Cursor) -> None: ...
    def counts(self) -> dict[str, int]: ...

def stop_workers() -> None: ...
