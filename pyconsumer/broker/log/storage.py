"""The storage of a log: files in a folder, or memory. Both behave the same and differ only in ``durable``.

A :class:`DataFile` is appended to, read at any position and truncated. A part of it can be read later, see
:mod:`.file_records`. Small files (checkpoints, snapshots) are replaced as a whole. The new content is written to a
``.tmp`` file, flushed to disk on request, and renamed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from pyconsumer.broker.log.file_records import FileRecords, OpenFile
from pyconsumer.protocol.primitives import Buffer

__all__ = [
    "DataFile",
    "FileStorage",
    "MemoryStorage",
    "Storage",
    "append_line",
    "read_file",
    "replace_file",
    "sync_folder",
]


_MOST_BUFFERS = 512  # below IOV_MAX everywhere
_FOR_ALL: Final = 0o666  # as far as the umask allows


class DataFile(Protocol):
    """A file that grows only at its end. ``size`` is its length in bytes.

    An ``OSError`` of a method contains the file's name.
    """

    size: int

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Append the buffers. If that fails, ``OSError`` is raised, and the file keeps its old size."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes, starting at ``position``. At the end of the file there may be fewer."""

    def records(self, position: int, size: int) -> FileRecords:
        """Return an object for ``size`` bytes, starting at ``position``. They are read later."""

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes."""

    def flush(self) -> None:
        """Flush the file to disk."""

    def flusher(self) -> Callable[[], None]:
        """Return a function that flushes the file to disk. Any thread may call it, even after this file was closed."""

    def modified_ns(self) -> int:
        """Return the time of the file's last change, in ns since 1970. In memory it is 0."""

    def close(self) -> None:
        """Close the file. It cannot be used afterwards."""


class Storage(Protocol):
    """The folder of one partition. ``durable`` is True if the folder outlives the process."""

    durable: bool

    def names(self) -> list[str]:
        """Return the names of all files."""

    def size(self, name: str) -> int:
        """Return the size of a data file in bytes. Raises ``OSError`` if the file does not exist."""

    def open(self, name: str) -> DataFile:
        """Open a data file. If it does not exist, it is created."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file. If a file has the new name, it is replaced."""

    def read_small(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""

    def write_small(self, name: str, content: bytes, *, sync: bool = True) -> None:
        """Replace a small file atomically. With ``sync=False``, a crash of the machine may lose it."""

    def sync(self) -> None:
        """Flush the names of new and renamed files to disk."""


def replace_file(path: Path, content: bytes, *, sync: bool = True, mode: int = _FOR_ALL) -> None:
    """Replace a file atomically. After a crash the file has either the old or the new content.

    With ``sync=False`` this holds after a crash of the process, but not after a crash of the machine.

    Args:
        mode: who may read and write the new file. The process's umask limits it further.

    Raises:
        OSError: the file could not be replaced. The error contains its name.
    """
    fresh = path.with_name(path.name + ".tmp")

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, mode)

    with _naming(path), open(fresh, "wb", opener=create) as file:
        if mode != _FOR_ALL:
            os.fchmod(file.fileno(), mode)  # a crash may have left a file with other rights
        file.write(content)
        file.flush()
        if not sync:
            os.replace(fresh, path)
            return
        os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY)  # before the rename: if this fails, the old content is still there
    try:
        with _naming(path):
            os.replace(fresh, path)
            os.fsync(folder)
    finally:
        os.close(folder)


def append_line(path: Path, line: bytes, size: int) -> None:
    """Write ``line`` at the end of a file, and flush it to disk. Raises ``OSError`` if that fails.

    ``size`` is the file's present size in bytes.
    """
    with _naming(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)  # removes the partial line of a failed call
            try:
                written = 0
                while written < len(line):
                    written += os.pwrite(descriptor, memoryview(line)[written:], size + written)
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Add the file's path to an ``OSError``. Calls on a descriptor, such as ``fsync``, raise it without a path."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def sync_folder(folder: Path) -> None:
    """Flush the names of a folder's files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _DiskFile:
    __slots__ = ("_descriptor", "_open", "_path", "size")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._open: OpenFile | None = OpenFile(self._descriptor)
        self.size = os.fstat(self._descriptor).st_size

    def append(self, buffers: Sequence[Buffer]) -> None:
        before = self.size
        try:
            if len(buffers) == 1:
                self._write_at(buffers[0], before)
                self.size = before + len(buffers[0])
                return
            for start in range(0, len(buffers), _MOST_BUFFERS):
                part = buffers[start : start + _MOST_BUFFERS]
                total = sum(map(len, part))
                if os.pwritev(self._descriptor, part, self.size) != total:
                    self._write_at(b"".join(part), self.size)
                self.size += total
        except OSError:
            self.size = before
            with _naming(self._path):
                os.ftruncate(self._descriptor, before)
                raise

    def _write_at(self, buffer: Buffer, position: int) -> None:
        written = os.pwrite(self._descriptor, buffer, position)
        while written < len(buffer):
            written += os.pwrite(self._descriptor, memoryview(buffer)[written:], position + written)

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        try:
            return self._opened().read(position, size)
        except OSError:
            with _naming(self._path):
                raise

    def records(self, position: int, size: int) -> FileRecords:
        return FileRecords(self._opened(), position, size)

    def _opened(self) -> OpenFile:
        if self._open is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open

    def truncate(self, size: int) -> None:
        self._opened().cuts.append(size)  # before the truncation: if it fails, the content is unknown
        with _naming(self._path):
            os.ftruncate(self._descriptor, size)
        self.size = size

    def flush(self) -> None:
        with _naming(self._path):
            os.fsync(self._descriptor)

    def flusher(self) -> Callable[[], None]:
        path = self._path
        with _naming(path):
            descriptor = os.dup(self._descriptor)

        def flush() -> None:
            try:
                with _naming(path):
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)

        return flush

    def modified_ns(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns

    def close(self) -> None:
        self._open = None  # closed by that, unless it is being sent
        self._descriptor = -1


def read_file(path: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    (This is five times as fast as ``Path.read_bytes``.)
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        parts = [os.read(descriptor, size + 1)]
        while parts[-1] and sum(map(len, parts)) < size:
            parts.append(os.read(descriptor, size + 1))
        return b"".join(parts)
    finally:
        os.close(descriptor)


class FileStorage:
    """The files in ``folder``. If the folder does not exist, it is created."""

    durable = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prefix = f"{folder}{os.sep}"  # joining paths takes longer than opening a file
        with suppress(FileExistsError):
            os.makedirs(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))

    def names(self) -> list[str]:
        return os.listdir(self.folder)

    def size(self, name: str) -> int:
        return os.stat(self._prefix + name).st_size

    def open(self, name: str) -> DataFile:
        return _DiskFile(self._prefix + name)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._prefix + name)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._prefix + old, self._prefix + new)

    def read_small(self, name: str) -> bytes | None:
        return read_file(self._prefix + name)

    def write_small(self, name: str, content: bytes, *, sync: bool = True) -> None:
        replace_file(self.folder / name, content, sync=sync)

    def sync(self) -> None:
        sync_folder(self.folder)


class _MemoryFile:
    __slots__ = ("_data", "cuts")

    descriptor = -1

    def __init__(self) -> None:
        self._data = bytearray()
        self.cuts: list[int] = []

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self._data += buffer

    def read(self, position: int, size: int) -> bytes:
        with memoryview(self._data) as view:
            return bytes(view[position : position + size])

    def records(self, position: int, size: int) -> FileRecords:
        return FileRecords(self, position, size)

    def truncate(self, size: int) -> None:
        self.cuts.append(size)
        del self._data[size:]

    def flush(self) -> None:
        pass

    def flusher(self) -> Callable[[], None]:
        return self.flush

    def modified_ns(self) -> int:
        return 0

    def close(self) -> None:
        pass


class MemoryStorage:
    """Memory in the place of files. The content does not outlive the process."""

    durable = False

    def __init__(self) -> None:
        self._files: dict[str, _MemoryFile] = {}
        self._small: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return [*self._files, *self._small]

    def size(self, name: str) -> int:
        return self._files[name].size if name in self._files else 0

    def open(self, name: str) -> DataFile:
        return self._files.setdefault(name, _MemoryFile())  # type: ignore[return-value]

    def remove(self, name: str) -> None:
        self._files.pop(name, None)
        self._small.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def read_small(self, name: str) -> bytes | None:
        return self._small.get(name)

    def write_small(self, name: str, content: bytes, *, sync: bool = True) -> None:
        self._small[name] = content

    def sync(self) -> None:
        pass


_SEGMENT_NAME = re.compile(r"(\d{20})\.log")


def segment_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of all segments in a list of file names, in order."""
    return sorted(int(found[1]) for name in names if (found := _SEGMENT_NAME.fullmatch(name)))


def segment_name(base_offset: int, suffix: str = "log") -> str:
    """Return Kafka's name for a file of a segment: 20 digits of the base offset, then the suffix."""
    return f"{base_offset:020d}.{suffix}"
