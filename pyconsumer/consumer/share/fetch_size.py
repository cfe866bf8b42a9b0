"""``FetchSize``: how many bytes a ShareFetch asks for. A core: no I/O, no clock.

Rules

1. Apache Kafka's broker (4.3.1) reads the header of each batch among the bytes that a fetch asks for, before it
   acquires a few records of them. With 50 MB, the default of ``fetch_max_bytes``, that is most of its time for a
   request. So a fetch asks for a few times as many bytes as the last one returned, for each partition.
2. This is done only after a full response, which has all the records that were asked for. After any other response
   the next fetch asks for ``fetch_max_bytes``: its records may be larger, or far apart.
3. No fetch asks for more than ``fetch_max_bytes``, and none for less than ``fetch_min_bytes`` of each partition.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FetchSize"]

#: How many times the bytes of the last response a fetch asks for.
_ROOM: Final = 4


class FetchSize:
    """The bytes that the next ShareFetch to one broker asks for. See the module.

    Args:
        most, least: ``fetch_max_bytes`` and ``fetch_min_bytes``.
        records: the records that each fetch asks for.
    """

    def __init__(self, most: int, least: int, records: int) -> None:
        self._most = most
        self._least = least
        self._records = records
        self._of_partition = most

    def of(self, partitions: int) -> int:
        """Return the bytes to ask for, of a number of partitions together. The broker gives each the same part."""
        return min(self._most, self._of_partition * partitions)

    def on_response(self, acquired: int, size: int) -> None:
        """Learn from a response: the number of acquired records, and the bytes of all records."""
        is_full = acquired >= self._records
        self._of_partition = max(_ROOM * size, self._least) if is_full else self._most
