"""The files of the controller's state: ``cluster.json`` (a snapshot) and ``cluster.journal`` (later changes).

A change is one line of the journal, flushed to disk before it takes effect, so that its cost depends on its own size
and not on the cluster's. A journal that has outgrown its snapshot is replaced by a new snapshot.

Rules
1. A snapshot is replaced as a whole (write, flush to disk, rename). Its ``generation`` is that of the last plus one.
2. A journal begins with the generation of the snapshot that it continues, and counts for no other. A crash between the
   new snapshot and its journal leaves the previous journal, whose changes are in the snapshot.
3. Each line of the journal has a checksum. An incomplete last line was never acknowledged and is dropped. Damage before
   the last line is an error, because acknowledged changes would be lost.
4. Rights, users and quotas raise the format, and the first of them is written as a snapshot. So an older version
   refuses the files. It never serves the topics without the rules that protect them.
5. The files can be read by their owner alone (mode 0600, folder 0700), because they contain credentials. Files that an
   older version has written are changed when they are loaded.

The meaning of a snapshot and of a change belongs to :class:`~pyconsumer.broker.controller.Controller`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from pyconsumer.background_log import Log
from pyconsumer.broker.elections import PartitionState, TopicState
from pyconsumer.broker.log.storage import append_line, replace_file
from pyconsumer.errors import BrokerStartError
from pyconsumer.protocol.primitives import uuid_to_str

__all__ = ["ClusterFile", "partition_from_json", "partition_to_json", "topic_to_json"]

_log = Log(__name__)

_QUOTA_FORMAT: Final = 4  # with quotas
_SECURITY_FORMAT: Final = 3  # with rights or users
_FORMAT: Final = 2
_OLD_FORMAT: Final = 1  # without a journal
#: Parts of the state that versions before a format would ignore.
_SINCE: Final = {"acls": _SECURITY_FORMAT, "scram_users": _SECURITY_FORMAT, "client_quotas": _QUOTA_FORMAT}
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
#: A journal below this size is never replaced by a snapshot.
_SMALL_JOURNAL_BYTES: Final = 64 << 10
_PARTITION_FOLDER = re.compile(r".+-\d+")


def partition_to_json(state: PartitionState) -> dict[str, Any]:
    """Return a partition's state in the form for both files."""
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": list(state.replicas),
        "isr": list(state.isr),
    }


def topic_to_json(topic: TopicState) -> dict[str, Any]:
    """Return a topic's state in the form for both files, without the topic's name."""
    return {
        "id": uuid_to_str(topic.topic_id),
        "config": topic.config,
        "partitions": [partition_to_json(state) for state in topic.partitions],
    }


def partition_from_json(data: Mapping[str, Any]) -> PartitionState:
    """Return the partition's state.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` if ``data`` has another form.
    """
    leader, epoch, replicas, isr = data["leader"], data["leader_epoch"], tuple(data["replicas"]), tuple(data["isr"])
    if not replicas or not all(type(number) is int for number in (leader, epoch, *replicas, *isr)):
        raise ValueError(f"{dict(data)} is not a partition")
    return PartitionState(leader, epoch, replicas, isr)


class ClusterFile:
    """The files ``cluster.json`` and ``cluster.journal`` in ``folder``, the data folder of the cluster."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cluster.json"
        self._journal = folder / "cluster.journal"
        self._generation = 0
        self._format = _FORMAT
        self._snapshot_size = 0
        self._journal_size = -1  # -1: the next change is written as a snapshot

    # --- reading

    def load(self) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """Return the snapshot and the later changes, the oldest first. Return None if the folder is new.

        Raises:
            BrokerStartError: a file is damaged, or there are logs without ``cluster.json``.
        """
        self._make_private()
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            self._check_new()
            return None
        snapshot = self._parse(content)
        self._snapshot_size = len(content)
        changes = self._changes() if self._generation else []
        for part in (snapshot, *changes):  # an older version has written quotas without a newer format
            self._raise_format(part)
        return snapshot, changes

    def _make_private(self) -> None:
        """Take the rights of others away from the folder and the files."""
        for path, mode in (
            (self.path.parent, _PRIVATE_FOLDER),
            (self.path, _PRIVATE_FILE),
            (self._journal, _PRIVATE_FILE),
        ):
            try:
                if path.stat().st_mode & 0o077:
                    path.chmod(mode)
            except FileNotFoundError:
                pass
            except OSError as error:  # it belongs to somebody else
                _log.warning("other users of this machine may read %s: %s", path, error)

    def _check_new(self) -> None:
        """Raise if there are logs: without their topics' ids and leaders they cannot be served or removed."""
        folder = self.path.parent
        found = sorted(
            str(path.parent.relative_to(folder))
            for path in folder.glob("broker-*/*/partition.metadata")
            if _PARTITION_FOLDER.fullmatch(path.parent.name)
        )
        if found:
            raise BrokerStartError(
                f"{folder} has {len(found)} partition folders ({found[0]}{', ...' if len(found) > 1 else ''}) but no"
                " cluster.json, which names their topics: restore it from a backup, or move the folders broker-* away"
                " to start with no topics"
            )
        if self._journal.exists():
            raise BrokerStartError(
                f"{folder} has a cluster.journal but no cluster.json, which it continues: restore it from a backup, or"
                " move the journal away to start with no topics"
            )

    def damaged(self, problem: object) -> BrokerStartError:
        """Return the error for a file that cannot be parsed."""
        return BrokerStartError(
            f"{self.path} is damaged ({problem}): restore it from a backup; without it the topics are not known"
        )

    def _parse(self, content: bytes) -> dict[str, Any]:
        if not content.strip(b" \0\r\n\t"):
            raise self.damaged("it is empty")
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self.damaged(error) from None
        if not isinstance(data, dict) or "format" not in data:
            raise self.damaged("it is not the state of a cluster")
        if data["format"] not in (_OLD_FORMAT, _FORMAT, _SECURITY_FORMAT, _QUOTA_FORMAT):
            raise BrokerStartError(
                f"{self.path} has format {data['format']!r}; this version reads {_OLD_FORMAT} to {_QUOTA_FORMAT}"
            )
        self._format = max(self._format, data["format"])
        if data["format"] != _OLD_FORMAT:
            generation = data.get("generation")
            if type(generation) is not int or generation <= 0:
                raise self.damaged(f"its generation is {generation!r}")
            self._generation = generation
        return data

    def _changes(self) -> list[dict[str, Any]]:
        try:
            content = self._journal.read_bytes()
        except FileNotFoundError:
            return []
        lines = content.split(b"\n")
        changes = [_parse_line(line) for line in lines[:-1]]
        bad = next((index for index, change in enumerate(changes) if change is None), len(changes))
        if any(change is not None for change in changes[bad:]):
            raise BrokerStartError(
                f"{self._journal} is damaged in line {bad + 1}: restore it with {self.path.name} from a backup; if it"
                f" is moved away, the changes since {self.path.name} was written are lost"
            )
        whole = [change for change in changes[:bad] if change is not None]
        generation = whole[0].get("generation", -1) if whole else -1
        if generation > self._generation:
            _log.warning(
                "%s is older than %s, which is not used: changes that were made since are lost, and folders of topics"
                " that it does not name are set aside",
                self.path,
                self._journal,
            )
            self._generation = generation  # the next snapshot must not have the generation of that journal
        elif generation == self._generation:
            incomplete = bad < len(changes) or lines[-1] != b""
            if incomplete:
                _log.warning(
                    "%s: the incomplete last line is dropped, because its change was not acknowledged", self._journal
                )
            else:
                self._journal_size = len(content)
            return whole[1:]
        return []

    # --- writing

    def save(self, change: Mapping[str, Any], snapshot: Callable[[], Mapping[str, Any]]) -> None:
        """Make a change durable.

        Args:
            snapshot: returns the whole state, including the change. It is called if a snapshot is written.

        Raises:
            OSError: the change could not be stored.
        """
        self._raise_format(change)
        if self._journal_size < 0:
            self._replace(snapshot())
            return
        line = _format_line(change)
        try:
            append_line(self._journal, line, self._journal_size)
        except FileNotFoundError:  # another program has removed it
            self._replace(snapshot())
            return
        self._journal_size += len(line)
        if self._journal_size > max(_SMALL_JOURNAL_BYTES, self._snapshot_size):
            self.compact(snapshot)

    def _raise_format(self, content: Mapping[str, Any]) -> None:
        """Let the next change be written as a snapshot of a newer format, if the content needs one."""
        needed = max((_SINCE[name] for name in _SINCE.keys() & content.keys()), default=_FORMAT)
        if needed > self._format:
            self._format = needed
            self._journal_size = -1

    def compact(self, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        """Replace the journal by a snapshot, unless the journal is empty. If the disk fails, the error is logged."""
        if self._journal_size <= len(self._header()):
            return
        try:
            self._replace(snapshot())
        except OSError as error:
            _log.warning("%s is not replaced yet, %s keeps growing: %s", self.path, self._journal.name, error)

    def _header(self) -> bytes:
        return _format_line({"generation": self._generation})

    def _replace(self, data: Mapping[str, Any]) -> None:
        content = b"".join(_snapshot_lines({"format": self._format, "generation": self._generation + 1} | dict(data)))
        replace_file(self.path, content, mode=_PRIVATE_FILE)
        self._generation += 1
        self._snapshot_size = len(content)
        self._journal_size = -1
        try:
            header = self._header()
            replace_file(self._journal, header, mode=_PRIVATE_FILE)
            self._journal_size = len(header)
        except OSError as error:  # the snapshot has all changes, and the next change is written as a snapshot, too
            _log.warning("%s cannot be created yet: %s", self._journal, error)


def _snapshot_lines(data: Mapping[str, Any]) -> Iterable[bytes]:
    """Return the snapshot as JSON with one topic a line."""
    topics = data["topics"]
    for name, value in data.items():
        if name != "topics":
            yield f"{'{' if name == 'format' else ','}{json.dumps(name)}: {json.dumps(value)}\n".encode()
    yield b',"topics": {\n'
    between = ""
    for name, topic in topics.items():
        yield f"{between}{json.dumps(name)}: {json.dumps(topic)}".encode()
        between = ",\n"
    yield b"}}\n"


def _format_line(change: Mapping[str, Any]) -> bytes:
    text = json.dumps(change).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the change in a line, None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % crc32(text):
        return None
    change = json.loads(text)
    return change if isinstance(change, dict) else None
