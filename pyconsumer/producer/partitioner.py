"""Chooses the partition of a record: by its key (murmur2) or sticky.

With a key: murmur2 of the serialized key, made positive, modulo the number of *all* partitions (so that a key keeps its
partition while one has no leader). Equal to Java's ``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``.

Without a key: the sticky strategy of KIP-794. Records go to one partition until at least ``batch_size`` bytes have gone
there, then to another one that has a leader, chosen at random. A rack-aware producer chooses among those whose leader
is in its rack, as long as there are any (KIP-1123). If batches wait for some partitions, the others are chosen more
often: with 0, 3 and 1 batches the chances are 4, 1 and 3 (Java's ``BuiltInPartitioner``). The sender counts them once a
turn, as Java's does, so a choice is a search in a table. Partitions whose broker takes nothing for
``partitioner_availability_timeout_ms`` are left out.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

__all__ = ["DefaultPartitioner", "Partitioner", "murmur2", "partition_for_key"]

#: ``(serialized key, all partitions, partitions with a leader) -> partition``
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_LONGEST_REMEMBERED = 256  # bytes of a key: what is remembered stays beyond buffer_memory


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of ``data`` as an unsigned number, with Kafka's seed."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for k in memoryview(data)[:whole].cast("I") if _LITTLE else _words(data, whole):
        k = k * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    left = length & 3
    if left:
        if left == 3:
            h ^= data[whole + 2] << 16
        if left >= 2:
            h ^= data[whole + 1] << 8
        h = (h ^ data[whole]) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


_remembered = lru_cache(maxsize=8192)(murmur2)
_LITTLE = memoryview(b"\1\0\0\0").cast("I")[0] == 1


def _words(data: bytes, end: int) -> list[int]:
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, end, 4)]


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key in a topic with ``partition_count`` partitions."""
    found = _remembered(key) if len(key) <= _LONGEST_REMEMBERED else murmur2(key)
    return (found & 0x7FFFFFFF) % partition_count


class DefaultPartitioner:
    """The built-in partitioner: by key, or sticky if there is no key.

    Args:
        batch_size: bytes after which the sticky partition of a topic changes.
        ignore_keys: True treats records with a key like records without a key (``partitioner_ignore_keys``).
        loads: returns how many batches wait for each partition of a topic, if there are any: the same object as long
            as they are the same. None: the choice does not depend on it.
        chance: the source of random numbers.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        ignore_keys: bool = False,
        loads: Callable[[str], Mapping[int, int]] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._loads = loads
        self._batch_size = max(1, batch_size)
        self._ignore_keys = ignore_keys
        self._chance = chance or random.Random()
        self._sticky: dict[str, list[int]] = {}  # topic -> [partition, bytes that went there]
        #: topic -> loads and partitions, and the sums of their chances. None if all are equal.
        self._chances: dict[str, tuple[Mapping[int, int], Sequence[int], list[int] | None]] = {}

    def partition(
        self, topic: str, key: bytes | None, partition_count: int, available: Sequence[int], size_bytes: int
    ) -> int:
        """Choose the partition of one record.

        Args:
            partition_count: the number of the topic's partitions, including those without a leader.
            available: the partitions to choose from if there is no key. They have a leader, and if possible it is in
                the producer's rack. If the list is empty, all partitions are considered.
            size_bytes: the approximate number of bytes that the record adds to a batch.
        """
        if key is not None and not self._ignore_keys:
            return partition_for_key(key, partition_count)
        state = self._sticky.get(topic)
        if state is None or state[1] >= self._batch_size or (available and state[0] not in available):
            chosen = self._choose(topic, available or range(partition_count), None if state is None else state[0])
            state = self._sticky[topic] = [chosen, 0]
        state[1] += size_bytes
        return state[0]

    def _choose(self, topic: str, choices: Sequence[int], present: int | None) -> int:
        loads = self._loads(topic) if self._loads is not None and len(choices) > 1 else {}
        if loads:
            known = self._chances.get(topic)
            if known is None or known[0] is not loads or known[1] is not choices:
                known = self._chances[topic] = (loads, choices, _sums_of_chances(loads, choices))
            sums = known[2]
            if sums is not None:
                return choices[bisect_right(sums, int(self._chance.random() * sums[-1]))]
        if present is not None and len(choices) > 1:
            choices = [partition for partition in choices if partition != present]
        return self._chance.choice(choices)

    def sticky(self, topic: str) -> list[int] | None:
        """Return the partition for records without a key, and the bytes sent to it.

        None if there were no such records.
        """
        return self._sticky.get(topic)


def _sums_of_chances(loads: Mapping[int, int], choices: Sequence[int]) -> list[int] | None:
    """Return the chance of each partition and of all before it. None if all are equal."""
    waiting = [loads.get(partition, 0) for partition in choices]
    most = max(waiting) + 1
    return list(accumulate(most - count for count in waiting)) if min(waiting) < most - 1 else None
