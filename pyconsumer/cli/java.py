"""The end of the Java process that PySpark starts, and of the Python processes that Java starts.

With PySpark alone they end when they notice that this process has ended, so they would outlive it for a moment.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["JavaOfBlock", "java_of_block"]

_END_WITHIN_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.01


class _Process(NamedTuple):
    """A process. ``started`` distinguishes it from a later one with the same id."""

    pid: int
    started: str


class JavaOfBlock:
    """The Java process that PySpark has started in a block of :func:`java_of_block`."""

    def __init__(self) -> None:
        self._below: set[_Process] = set()

    def remember_workers(self) -> None:
        """Remember the descendants of Java.

        Call this while Spark runs, because later they are no longer its children.
        """
        from pyspark import SparkContext

        java = getattr(SparkContext._gateway, "proc", None)
        if java is not None:
            self._below |= _below(java.pid)

    def end(self, gateway: Any) -> None:
        """End Java, and wait until it and its descendants have ended. If that takes 20 s, kill Java."""
        deadline = time.monotonic() + _END_WITHIN_S
        java = getattr(gateway, "proc", None)
        if java is None:
            return  # another program has started it
        self._below |= _below(java.pid)
        with contextlib.suppress(Exception):  # it may have crashed
            gateway.shutdown()
        with contextlib.suppress(OSError):
            java.stdin.close()  # which ends it
        try:
            java.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
        while self._below and time.monotonic() < deadline:
            self._below = {process for process in self._below if _started(process.pid) == process.started}
            if self._below:
                time.sleep(_LOOK_AGAIN_S)


@contextlib.contextmanager
def java_of_block() -> Iterator[JavaOfBlock]:
    """End the Java that PySpark starts in this block. A Java that was already running is left alone."""
    from pyspark import SparkContext

    before = SparkContext._gateway
    java = JavaOfBlock()
    try:
        yield java
    finally:
        gateway = SparkContext._gateway
        if before is None and gateway is not None:
            SparkContext._gateway = SparkContext._jvm = None  # a later session starts another one
            java.end(gateway)


def _below(pid: int) -> set[_Process]:
    """Return the descendants of a process, none on systems without ``/proc``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[_Process] = set()
    level = [pid]
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        found.update(_Process(child, _started(child)) for child in level)
    return {process for process in found if process.started}


def _started(pid: int) -> str:
    """Return the start time of a running process, in the system's notation. An empty text if it does not run."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _stat(pid: int) -> list[str]:
    """Return the fields after the name in ``/proc/PID/stat``: state, parent, and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
