"""Batches and logs for tests of the broker."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.cleaner import cleaning
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.recovery import open_log
from pyconsumer.broker.log.storage import DataFile, FileStorage, MemoryStorage, Storage
from pyconsumer.clock import ManualClock
from pyconsumer.protocol.records import BatchBuilder, SimpleRecord, iter_records, scan
from pyconsumer.structs import TopicPartition

__all__ = [
    "NOW_MS",
    "TP",
    "FailingStorage",
    "batch",
    "clean_log",
    "fill_disk",
    "keyed",
    "log_in",
    "no_space",
    "records_of",
    "topic_config",
]

TP = TopicPartition("t", 0)
#: Wall time at which every :class:`ManualClock` here begins.
NOW_MS = 1_700_000_000_000


def no_space(*_: object, **__: object) -> None:
    """A replacement for a function that writes a file."""
    raise OSError(28, "No space left on device")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change of the cluster's files fail."""
    monkeypatch.setattr("pyconsumer.broker.cluster_file.replace_file", no_space)
    monkeypatch.setattr("pyconsumer.broker.cluster_file.append_line", no_space)


def clean_log(log: PartitionLog, now_ms: int, first_dirty: int = 0) -> int:
    """Compact the closed segments. Return the offset up to which the log is compacted. Errors as ``cleaning``."""
    work = cleaning(log, now_ms, first_dirty)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return int(stop.value)


class FailingStorage(FileStorage):
    """A folder in which some files cannot be opened or written: ``refused`` are ends of their names.

    ``opened``: names of files that were opened. ``fails_at``: the number of operations from now until one fails, 0 for
    none.
    """

    refused: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.opened: list[str] = []
        self.fails_at = 0

    def _check(self, name: str) -> None:
        self.fails_at -= 1
        if name.endswith(self.refused) or self.fails_at == 0:
            raise OSError(24, "Too many open files")

    def open(self, name: str) -> DataFile:
        self._check(name)
        self.opened.append(name)
        return super().open(name)

    def write_small(self, name: str, content: bytes, *, sync: bool = True) -> None:
        self._check(name)
        super().write_small(name, content, sync=sync)

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        super().rename(old, new)

    def remove(self, name: str) -> None:
        self._check(name)
        super().remove(name)

    def sync(self) -> None:
        self._check(".")
        super().sync()


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    codec: str = "none",
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    key: bytes | None = None,
    control: bool = False,
    transactional: bool = False,
) -> bytearray:
    """A batch as a producer sends it, with a record for each value, 1 ms apart."""
    builder = BatchBuilder(codec)
    for index, value in enumerate(values or (b"value",)):
        builder.try_append(timestamp_ms + index, key, value)
    built = builder.build(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_control=control,
        is_transactional=transactional,
    )
    return bytearray(built)


def keyed(*pairs: tuple[bytes | None, bytes | None], timestamp_ms: int = NOW_MS, codec: str = "none") -> bytearray:
    """A batch of keys and values (None: a tombstone)."""
    builder = BatchBuilder(codec)
    for key, value in pairs:
        builder.try_append(timestamp_ms, key, value)
    return bytearray(builder.build())


def topic_config(**changes: object) -> TopicConfig:
    """A topic's settings, named as the fields of :class:`TopicConfig`."""
    return dataclasses.replace(TopicConfig(), **changes)  # type: ignore[arg-type]


def log_in(
    where: Path | Storage | None,
    clock: ManualClock | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    **config: object,
) -> PartitionLog:
    """Open the log in a folder, in a storage, or (None) in memory."""
    storage: Storage
    if where is None:
        storage = MemoryStorage()
    else:
        storage = FileStorage(where) if isinstance(where, Path) else where
    return open_log(
        storage,
        TP,
        topic_config(**config),
        clock or ManualClock(wall_ms=NOW_MS),
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def records_of(log: PartitionLog, offset: int | None = None) -> list[SimpleRecord]:
    """Every record from an offset (the log start offset) on."""
    found: list[SimpleRecord] = []
    at = log.log_start_offset if offset is None else offset
    while at < log.log_end_offset:
        data = log.read(at, 1 << 20, log.log_end_offset, at_least_one=True)
        if not data:
            break
        found.extend(record for record in iter_records(data) if record.offset >= at)
        at = scan(data)[-1].next_offset  # compaction may have left batches without records
    return found
