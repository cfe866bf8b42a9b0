"""All logs of one broker: opens and removes them, and writes their checkpoints.

A broker's folder has one folder for each partition (``topic-0``), Kafka's checkpoint files, and after a clean shutdown
the marker ``.kafka_cleanshutdown``, which is removed at the next start.

The entries of a checkpoint have no topic ids. The entry of a deleted topic must not be applied to a later topic of the
same name. It is therefore removed with the partition's folder, at the latest before a new folder is created.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pyconsumer.background_log import Log
from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.checkpoints import format_offsets, parse_offsets
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.recovery import opening_log
from pyconsumer.broker.log.storage import FileStorage, MemoryStorage, Storage, read_file, replace_file
from pyconsumer.clock import Clock
from pyconsumer.errors import KafkaError
from pyconsumer.protocol.primitives import uuid_from_str, uuid_to_str
from pyconsumer.structs import TopicPartition

__all__ = ["LogManager", "LogToOpen", "Recovery"]

_log = Log(__name__)

_TOPIC_ID = re.compile(rb"^topic_id: (\S+)", re.MULTILINE)
_DELETED = "-delete"  # the suffix of folders that are being removed
_STRAY = "-stray"  # the suffix of folders that were moved aside, which are never opened
_CLEAN_MARKER = ".kafka_cleanshutdown"
_OFFSETS_TOPIC = "__consumer_offsets"
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_LOG_STARTS = "log-start-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"


def _topic_id_in(folder: str) -> bytes | None:
    """Return the topic id in a partition's folder, None if there is none."""
    content = read_file(os.path.join(folder, "partition.metadata"))
    found = None if content is None else _TOPIC_ID.search(content)
    try:
        return None if found is None else uuid_from_str(found[1].decode())
    except ValueError:
        return None


def _log_bytes(folder: str) -> int:
    """Return the size of the segments in a partition's folder."""
    try:
        return sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder) if name.endswith(".log"))
    except OSError:
        return 0


def _read_marks(marker: Path) -> dict[str, list[list[int]]] | None:
    """Return the segments' marks by folder name: empty if Kafka wrote the marker, None if it is missing or damaged."""
    try:
        data = json.loads(marker.read_bytes())
        return {
            name: [[int(number) for number in mark] for mark in marks] for name, marks in data.get("logs", {}).items()
        }
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        _log.warning("%s is damaged, so the logs are recovered as after a crash: %s", marker, error)
        return None


@dataclass(frozen=True, slots=True)
class LogToOpen:
    """A partition whose log must be opened at the start, with the id and settings of its topic."""

    tp: TopicPartition
    topic_id: bytes
    config: TopicConfig


@dataclass(slots=True)
class Recovery:
    """The progress of opening all logs at the start.

    Attributes:
        done, count: the number of open logs, and the number of all logs.
        tp: the log that is being opened.
        read_bytes, size_bytes: the number of bytes of this log that have been read, and its size.
    """

    count: int
    done: int = 0
    tp: TopicPartition | None = None
    read_bytes: int = 0
    size_bytes: int = 0

    def begin(self, tp: TopicPartition, size_bytes: int) -> None:
        """Record that a log is now being opened."""
        self.tp, self.read_bytes, self.size_bytes = tp, 0, size_bytes

    def advance(self, read_bytes: int) -> None:
        """Record how much of the log has been read."""
        self.read_bytes += read_bytes

    def end(self) -> None:
        """Record that the log is open, or cannot be opened."""
        self.done += 1

    def __str__(self) -> str:
        logs = f"{self.done} of {self.count} logs are open"
        if self.tp is None or self.done == self.count:
            return logs
        read, size = self.read_bytes / 1e6, self.size_bytes / 1e6
        return f"recovering {self.tp.topic}-{self.tp.partition}, {read:.1f} of {size:.1f} MB; {logs}"


class LogManager:
    """The logs in ``folder``, or in memory if it is None.

    Args:
        is_deleted: returns whether the topic with this id was deleted. A folder whose topic is unknown and was not
            deleted is a stray. Strays are moved aside and never removed.

    Attributes:
        clean: True if the last shutdown was clean and :meth:`started` has not been called yet.
    """

    def __init__(
        self, folder: Path | None, clock: Clock, is_deleted: Callable[[bytes], bool] = lambda topic_id: False
    ) -> None:
        self.folder = folder
        self._is_deleted = is_deleted
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._topic_ids: dict[TopicPartition, bytes] = {}
        #: The topic ids in the folders of logs that this start has opened.
        self._checked: dict[str, bytes] = {}
        self._clock = clock
        self.clean = False
        #: The marks of the segments at the last shutdown, by the names of the logs' folders. None if it was not clean.
        self._marks: dict[str, list[list[int]]] | None = None
        #: The content of the checkpoint files.
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {
            _RECOVERY_POINTS: {},
            _LOG_STARTS: {},
            _HIGH_WATERMARKS: {},
        }
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            marker = folder / _CLEAN_MARKER
            self._marks = _read_marks(marker)
            self.clean = self._marks is not None
            marker.unlink(missing_ok=True)
            self._checkpoints = {name: self._load(name) for name in self._checkpoints}

    def started(self) -> None:
        """Ignore the marks of the last shutdown from now on, because logs that are opened later are new."""
        self.clean = False
        self._checked.clear()

    def _load(self, name: str) -> dict[TopicPartition, int]:
        assert self.folder is not None
        try:
            return parse_offsets((self.folder / name).read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, UnicodeDecodeError) as error:
            _log.warning("%s is damaged and ignored: %s", self.folder / name, error)
            return {}

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """The high watermarks of the last checkpoint."""
        return self._checkpoints[_HIGH_WATERMARKS]

    def open(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> PartitionLog:
        """Return the log of a partition. If :meth:`opening_all` has not opened it, it is opened or created."""
        for _ in self._opening(tp, topic_id, config):
            pass
        return self.logs[tp]

    def opening_all(self, wanted: Iterable[LogToOpen], recovery: Recovery) -> Iterator[None]:
        """Open logs in steps, before the broker serves requests. Logs that cannot be opened are left out."""
        for one in wanted:
            size = 0 if self.clean or self.folder is None else _log_bytes(str(self._folder_of(one.tp)))
            recovery.begin(one.tp, size)
            try:
                for read_bytes in self._opening(one.tp, one.topic_id, one.config):
                    recovery.advance(read_bytes)
                    yield
            except (OSError, KafkaError) as error:
                _log.warning("%s could not be opened and will be tried again: %s", one.tp, error)
            recovery.end()
            yield

    def close_others(self, known: Mapping[str, bytes]) -> None:
        """Close the logs of topics that were deleted while :meth:`opening_all` ran.

        Args:
            known: the topic ids of this broker's partitions, by the names of their folders.
        """
        for tp in list(self.logs):
            if known.get(f"{tp.topic}-{tp.partition}") != self._topic_ids.get(tp):
                self.logs.pop(tp).abandon()
                self._topic_ids.pop(tp, None)

    def _opening(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> Generator[int, None, None]:
        if tp in self.logs:
            if self._topic_ids.get(tp) == topic_id:
                self.logs[tp].configure(config)
                return
            self.logs.pop(tp).abandon()
        storage: Storage
        if self.folder is None:
            storage = MemoryStorage()
        else:
            storage = self._storage_of(tp, topic_id)
        marks = (self._marks or {}).get(f"{tp.topic}-{tp.partition}") if self.clean else None
        log = yield from opening_log(
            storage,
            tp,
            config,
            self._clock,
            clean=marks is not None,
            marks=marks,
            # Damage anywhere in the offsets topic would leave groups without a coordinator, so all of it is recovered
            # if it was written to.
            must_be_unchanged=tp.topic == _OFFSETS_TOPIC,
            recovery_point=self._checkpoints[_RECOVERY_POINTS].get(tp, 0),
            log_start_offset=self._checkpoints[_LOG_STARTS].get(tp, 0),
        )
        self.logs[tp], self._topic_ids[tp] = log, topic_id

    def _storage_of(self, tp: TopicPartition, topic_id: bytes) -> FileStorage:
        folder = self._folder_of(tp)
        found = _topic_id_in(str(folder))
        if found == topic_id:
            self._checked[folder.name] = topic_id
            return FileStorage(folder)
        if folder.exists() and found is not None:
            self._delete_or_move_aside(folder)
        if not folder.exists():
            self._remove_from_checkpoints({tp})
        storage = FileStorage(folder)
        if storage.read_small("partition.metadata") is None:
            content = f"version: 0\ntopic_id: {uuid_to_str(topic_id)}".encode()
            storage.write_small("partition.metadata", content, sync=False)
        return storage

    def remove(self, tp: TopicPartition) -> bool:
        """Remove a log and its folder. Return whether that succeeded. If not, :meth:`remove_strays` does it later."""
        log = self.logs.pop(tp, None)
        self._topic_ids.pop(tp, None)
        if log is None:
            return True
        log.abandon()
        if self.folder is not None:
            try:
                self._discard(self._folder_of(tp))
                self._remove_from_checkpoints({tp})
            except OSError as error:
                _log.warning("%s could not be removed from the disk and the checkpoints: %s", tp, error)
                return False
        return True

    def _folder_of(self, tp: TopicPartition) -> Path:
        assert self.folder is not None
        return self.folder / f"{tp.topic}-{tp.partition}"

    def _remove_from_checkpoints(self, removed: Set[TopicPartition]) -> None:
        """Remove partitions from the checkpoint files. ``OSError`` if that fails."""
        for name, offsets in self._checkpoints.items():
            if not removed.isdisjoint(offsets):
                self._write(name, {tp: offset for tp, offset in offsets.items() if tp not in removed})

    @staticmethod
    def _discard(folder: Path) -> None:
        """Remove a partition's folder. It is renamed first, so that :meth:`remove_strays` removes it after a crash."""
        renamed = folder.with_name(f"{folder.name[:160]}.{uuid.uuid4().hex}{_DELETED}")
        folder.rename(renamed)
        shutil.rmtree(renamed, ignore_errors=True)

    def _delete_or_move_aside(self, folder: Path) -> None:
        """Remove the folder of a deleted topic. Move that of any other topic aside."""
        topic_id = _topic_id_in(str(folder))
        if topic_id is not None and self._is_deleted(topic_id):
            _log.info("removing %s: its topic was deleted", folder)
            self._discard(folder)
            return
        aside = folder.with_name(f"{folder.name[:160]}.{uuid.uuid4().hex}{_STRAY}")
        folder.rename(aside)
        _log.warning(
            "%s belongs to no existing or deleted topic of cluster.json, so it was renamed to %s."
            " Was an older cluster.json restored? If its records are not needed, remove it",
            folder,
            aside.name,
        )

    def remove_strays(self, known: Mapping[str, bytes]) -> None:
        """Remove the folders of deleted topics. Move the folders of unknown topics aside, as Apache Kafka does.

        A topic may have been deleted just before a crash, or while this broker was down. Entries of the checkpoints are
        removed, too, if their partition has no folder.

        Args:
            known: the topic ids of this broker's partitions, by the names of their folders.
        """
        if self.folder is None:
            return
        with os.scandir(self.folder) as entries:
            names = {entry.name for entry in entries if entry.is_dir()}
        for name in list(names):
            folder = self.folder / name
            if name.endswith(_DELETED):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            topic_id = known.get(name)
            if name.endswith(_STRAY) or (topic_id is not None and self._checked.get(name) == topic_id):
                continue
            if not (folder / "partition.metadata").exists():
                continue
            if topic_id is None or _topic_id_in(str(folder)) not in (None, topic_id):
                self._delete_or_move_aside(folder)
                names.discard(name)
        in_checkpoints = {tp for offsets in self._checkpoints.values() for tp in offsets}
        self._remove_from_checkpoints({tp for tp in in_checkpoints if f"{tp.topic}-{tp.partition}" not in names})

    # --- periodic tasks

    def checkpoint(self, high_watermarks: dict[TopicPartition, int]) -> None:
        """Write the checkpoint files."""
        if self.folder is None:
            return
        for log in self.logs.values():
            log.epochs.write()  # before the rest: recovery looks for missing epochs only after the recovery point
        self._write(_RECOVERY_POINTS, {tp: log.recovery_point for tp, log in self.logs.items()})
        self._write(
            _LOG_STARTS,
            {
                tp: log.log_start_offset
                for tp, log in self.logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            },
        )
        self._write(_HIGH_WATERMARKS, high_watermarks)

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        assert self.folder is not None
        replace_file(self.folder / name, format_offsets(offsets), sync=False)
        self._checkpoints[name] = offsets

    def write_log_starts(self) -> None:
        """Write the log start offsets now. Otherwise deleted records could become readable again after a crash."""
        if self.folder is not None:
            self._write(
                _LOG_STARTS, {tp: log.log_start_offset for tp, log in self.logs.items() if log.log_start_offset}
            )

    def flushers(self) -> list[tuple[PartitionLog, int, list[Callable[[], None]]]]:
        """For each log with segments to flush, return the calls that flush them, and the recovery point after that.

        Any thread may run these calls.
        """
        found = []
        for log in self.logs.values():
            point, calls = log.flushers()
            if calls:
                found.append((log, point, calls))
        return found

    def flush_due(self) -> None:
        """Flush the logs whose ``flush.ms`` has passed. If a flush fails, it is tried again at the next call."""
        for tp, log in self.logs.items():
            try:
                log.flush_if_due()
            except OSError as error:
                _log.error("cannot flush %s in %s to disk: %s", tp, self.folder, error)

    def expire_producers(self, expiration_ms: int) -> None:
        """Forget producers that have been idle for longer than ``expiration_ms``."""
        now_ms = self._clock.wall_ms()
        for log in self.logs.values():
            log.producers.expire(now_ms, expiration_ms)

    # --- shutdown

    def close(self, high_watermarks: dict[TopicPartition, int], *, flush: bool = True) -> None:
        """Close all logs, and write the checkpoints and the marker of a clean shutdown.

        Args:
            high_watermarks: the high watermarks for the checkpoint.
            flush: True flushes everything to disk. With False, a crash of the machine may lose data.
        """
        marks = {}
        for tp, log in self.logs.items():
            marks[f"{tp.topic}-{tp.partition}"] = log.close(flush=flush)
        if self.folder is not None:
            self.checkpoint(high_watermarks)
            content = json.dumps({"version": 0, "logs": marks}).encode()
            replace_file(self.folder / _CLEAN_MARKER, content, sync=flush)
        self.logs.clear()
        self._topic_ids.clear()

    def abandon(self) -> None:
        """Close the files without writing anything, as if the process had been killed."""
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        self._topic_ids.clear()
