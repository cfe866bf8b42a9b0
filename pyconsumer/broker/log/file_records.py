"""Parts of files that are read while a response is sent.

1. The bytes can be read although the file was closed, renamed or removed in the meantime, as deletion and compaction of
   segments do. The descriptor is closed with the last reference to the file and its parts.
2. If a truncation took some of the bytes, other bytes may have come in their place. Reading them is an ``OSError``.
3. The bytes are not in memory, except in a cluster without files, where the log itself is.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyconsumer.protocol.primitives import Buffer, StoredRecords

__all__ = ["FileRecords", "OpenFile", "spill"]


class _Source(Protocol):
    """The bytes of a file, which can be read after the file was closed.

    Attributes:
        cuts: the sizes to which the file was truncated.
        descriptor: of the file, -1 if it is in memory.
    """

    cuts: list[int]
    descriptor: int

    def read(self, position: int, size: int) -> bytes: ...


class FileRecords(StoredRecords):
    """A part of a file that is read later, in pieces. The module has the rules.

    Attributes:
        descriptor: the descriptor of the file, for ``sendfile``. -1 if the file is in memory.
    """

    __slots__ = ("_known_cuts", "_size", "_source", "descriptor", "position")

    def __init__(self, source: _Source, position: int, size: int) -> None:
        self.position = position
        self.descriptor = source.descriptor
        self._size = size
        self._source = source
        self._known_cuts = len(source.cuts)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.read(self._size)

    def check(self) -> None:
        """Raise ``OSError`` if a truncation has removed some of the bytes (rule 2)."""
        cuts = self._source.cuts
        if len(cuts) > self._known_cuts and min(cuts[self._known_cuts :]) < self.position + self._size:
            raise OSError(errno.ESTALE, "the log was truncated while its records were being sent")

    def read(self, size: int) -> bytes:
        """Return the first ``size`` bytes, or all if there are fewer. Raises ``OSError`` if they cannot be read."""
        self.check()
        wanted = min(size, self._size)
        data = self._source.read(self.position, wanted)
        if len(data) != wanted:
            raise OSError(errno.ESTALE, f"{wanted} bytes were expected in a log's file, and {len(data)} are there")
        return data

    def read_only(self) -> None:
        """Read the bytes from now on, because the file system has no ``sendfile``."""
        self.descriptor = -1

    def skip(self, size: int) -> None:
        """Drop the first ``size`` bytes, because they were sent."""
        self.position += size
        self._size -= size


class OpenFile:
    """The descriptor of a file. It is closed together with the last reference to this object (rule 1)."""

    __slots__ = ("cuts", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.cuts: list[int] = []

    def __del__(self) -> None:
        os.close(self.descriptor)

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self.descriptor, size, position)
        if len(data) == size:
            return data
        parts = [data]  # a read stops short at 2 GiB and on some file systems
        while data and size > len(data):
            size -= len(data)
            position += len(data)
            data = os.pread(self.descriptor, size, position)
            parts.append(data)
        return b"".join(parts)


def spill(folder: Path | None, buffers: Sequence[Buffer]) -> FileRecords:
    """Write buffers to a nameless file, from which they are read later. Raises ``OSError`` if that fails.

    Args:
        folder: a folder on the file system for the file.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        source = OpenFile(os.dup(file.fileno()))
    size = 0
    for buffer in buffers:
        view = memoryview(buffer)
        while view:
            written = os.pwrite(source.descriptor, view, size)
            view = view[written:]
            size += written
    return FileRecords(source, 0, size)
