"""The number of threads that decompress ahead, and the memory for their output.

The threads themselves are those of ``protocol/records/native/ahead.c``. Only zstd is worth the hand-over, which
costs the reading thread some locking and the warmth of its cache. A batch of 16 KiB takes 20 microseconds in zstd,
8 in snappy and 6 in lz4. With one thread beside Apache Kafka on two cores lz4 took 1.03 to 1.28 times as long as
without. The processor time was 1.23 to 1.53 times as much (`docs/proof/codecs.md`). gzip is decompressed by Python's
library, which a thread that never takes the interpreter's lock cannot call.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyconsumer.protocol.records import DecodeAhead

if TYPE_CHECKING:
    from pyconsumer.protocol.records._native import DecodeAhead as Ahead

__all__ = ["decode_ahead", "default_threads", "usable_cpus"]

_MOST_THREADS: Final = 4
_MOST_BYTES: Final = 2 << 20
"""Most output that waits: with twice as much, the reader finds it in memory and no longer in a cache."""
_SHARE: Final = 8
"""Of ``fetch_buffer_bytes`` at most this part is for output that waits."""


def decode_ahead(threads: int | None, buffer_bytes: int) -> Ahead | None:
    """Return the threads that decompress ahead for one consumer, or None if it has no such threads.

    Args:
        threads: the setting ``decode_threads``.
        buffer_bytes: the setting ``fetch_buffer_bytes``.
    """
    if DecodeAhead is None:
        return None
    wanted = default_threads() if threads is None else threads
    return DecodeAhead(wanted, min(_MOST_BYTES, buffer_bytes // _SHARE)) if wanted else None


@cache
def default_threads() -> int:
    """Return the default of ``decode_threads``: the CPUs that the process may use, minus two, at most 4.

    One CPU is left for the application's thread, and one for other programs, such as a broker on the same machine. On a
    machine with two CPUs, one that also ran the embedded broker, a thread made reading one kind of topic 1.14 times as
    long.
    """
    return max(0, min(_MOST_THREADS, int(usable_cpus()) - 2))


def usable_cpus(root: Path = Path("/")) -> float:
    """Return how many CPUs this process may use, according to its affinity and to its control group's quota.

    Args:
        root: the folder that contains ``proc`` and ``sys``.
    """
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for quota in _quotas(root):
        cpus = min(cpus, quota)
    return cpus


def _quotas(root: Path) -> list[float]:
    """Return the quotas of the process's control groups, in CPUs, from the innermost group outwards."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            base = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup/cpu"
        else:
            continue
        # In a container the path may be that on the host, of which only the top is to be seen.
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(base):
                break
            names = ("cpu.max",) if number == "0" else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = " ".join(_read(folder / name) for name in names).split()
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
                found.append(int(words[0]) / int(words[1]))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
