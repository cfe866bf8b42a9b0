"""Steps of a load: a partition of an internal topic is read for a short time, then other requests get their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyconsumer.clock import Clock
from pyconsumer.protocol.records import SimpleRecord, iter_records, scan

__all__ = ["PAUSE_S", "STEP_S", "read_step"]

#: How long a step goes on.
STEP_S: Final = 0.01
#: The pause between two steps.
PAUSE_S: Final = 0.001


def read_step(
    pieces: Iterator[bytes | memoryview], clock: Clock, most_bytes: int, take: Callable[[SimpleRecord], object]
) -> bool:
    """Read the next records, without control batches. Return whether there may be more.

    A piece without records means that they are not yet in all in-sync replicas.

    Args:
        pieces: the unread record batches of the partition.
        most_bytes: the bytes after which the step ends, about.
        take: gets each record.
    """
    size, until = 0, clock.now() + STEP_S
    while size < most_bytes and clock.now() < until:
        piece = next(pieces, None)
        if piece is None:
            return False
        if len(piece) == 0:
            return True
        size += len(piece)
        view = memoryview(piece)
        for info in scan(view):
            if not info.is_control:
                for record in iter_records(view[info.position : info.end_position]):
                    take(record)
    return True
