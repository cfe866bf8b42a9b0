"""The file of an index: opens, reads and writes it. State: the size of the file."""

from __future__ import annotations

from contextlib import closing
from zlib import crc32

from pyconsumer.background_log import Log
from pyconsumer.broker.log.storage import Storage

__all__ = ["IndexFile"]

_log = Log(__name__)


class IndexFile:
    """The file of an index.

    It is open only while it is read or written, so that many logs need few descriptors.
    """

    __slots__ = ("_name", "_storage", "size")

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self.size = 0

    def probe(self, exists: bool) -> None:
        """Find the size of the file. A missing file is created."""
        if exists:
            self.size = self._storage.size(self._name)
        elif self._storage.durable:
            with closing(self._storage.open(self._name)) as file:
                self.size = file.size

    def load(self) -> bytes:
        """Return the content of the file. A missing file is created."""
        if not self._storage.durable:
            return b""
        with closing(self._storage.open(self._name)) as file:
            self.size = file.size
            return file.read(0, file.size)

    def checksum(self) -> int:
        """Return the CRC-32 of the file's content."""
        return crc32(self.load())

    def put(self, position: int, data: bytes) -> None:
        """Write ``data`` at ``position``. The file then ends after this data."""
        if self._storage.durable:
            with closing(self._storage.open(self._name)) as file:
                file.truncate(position)
                file.append([data])
            self.size = position + len(data)

    def truncate(self, size: int) -> None:
        """Truncate the file if it is longer than ``size``. If that fails, the next :meth:`put` does it."""
        if self._storage.durable and self.size > size:
            try:
                with closing(self._storage.open(self._name)) as file:
                    file.truncate(size)
            except OSError as error:
                _log.warning("%s could not be truncated and will be truncated later: %s", self._name, error)
            else:
                self.size = size

    def sync(self) -> None:
        """Flush the file to disk."""
        if self._storage.durable:
            with closing(self._storage.open(self._name)) as file:
                file.flush()

    def rename(self, name: str) -> None:
        """Rename the file."""
        if self._storage.durable:
            self._storage.rename(self._name, name)
        self._name = name

    def remove(self) -> None:
        self._storage.remove(self._name)
