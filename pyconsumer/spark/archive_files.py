"""The files of an archive, by Hadoop's file systems, so that ``s3a://`` and ``hdfs://`` work as well."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from typing import Any, Final

from pyconsumer.errors import ConfigurationError, IllegalStateError, KafkaError

__all__ = ["ArchiveFiles", "batch_name"]

_BATCH: Final = re.compile(r"batch=(\d+)")
_DIGITS: Final = 10


def batch_name(number: int) -> str:
    """Name of a batch's folder."""
    return f"batch={number:0{_DIGITS}d}"


class ArchiveFiles:
    """What is in an archive.

    Args:
        spark: a session with a JVM.
        folder: path of the archive.

    Raises:
        ConfigurationError: the session is one of Spark Connect, whose JVM is out of reach.
    """

    def __init__(self, spark: Any, folder: str) -> None:
        if not hasattr(spark, "_jvm"):
            raise ConfigurationError("archives need a Spark session of this machine, not one of Spark Connect (sc://)")
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._folder = folder

    def _path(self, name: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)
        return found.getFileSystem(self._conf), found

    def exists(self, name: str) -> bool:
        system, found = self._path(name)
        return bool(system.exists(found))

    def names(self, name: str = "") -> list[str]:
        """What is in a folder; nothing if there is none."""
        system, found = self._path(name)
        if not system.exists(found):
            return []
        return [str(status.getPath().getName()) for status in system.listStatus(found)]

    def batches(self) -> list[str]:
        """Names of the batches that were finished, in order."""
        names = [name for name in self.names() if _BATCH.fullmatch(name)]
        whole = [name for name in names if self.exists(f"{name}/_SUCCESS")]
        return sorted(whole, key=lambda name: int(name.partition("=")[2]))

    def partitions(self, batch: str) -> list[int]:
        """Numbers of the partitions that a batch has records of."""
        return [int(name.partition("=")[2]) for name in self.names(batch) if name.startswith("partition=")]

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        system, found = self._path(name)
        if not system.exists(found):
            return None
        stream = system.open(found)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str = "") -> None:
        """Make a file. Where files can be renamed it is there as a whole or not at all."""
        system, found = self._path(name)
        _, fresh = self._path(f"{name}.new")
        stream = system.create(fresh, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        system.delete(found, False)
        system.rename(fresh, found)

    def remove(self, name: str) -> None:
        system, found = self._path(name)
        system.delete(found, True)

    @contextlib.contextmanager
    def alone(self, name: str, what: str) -> Iterator[None]:
        """Only one process is in here at a time, on a local file system; elsewhere nobody is kept out.

        Args:
            name: of a folder.
            what: who else is in there, for the error's message.

        Raises:
            IllegalStateError: another one is.
            KafkaError: the folder cannot be made.
        """
        system, found = self._path(name)
        if not system.mkdirs(found):
            raise KafkaError(f"the folder {found} cannot be made")
        if system.getScheme() != "file":
            yield
            return
        handle = os.open(f"{system.makeQualified(found).toUri().getPath()}/_lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IllegalStateError(f"{what} is at work; wait for its end, or end it") from None
            yield
        finally:
            os.close(handle)
