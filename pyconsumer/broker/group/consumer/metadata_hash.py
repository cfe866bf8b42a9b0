"""The metadata hash, by which a coordinator notices that topics of a group have changed (KIP-1101).

It equals Apache Kafka's, because it is in the group's record. The hash of a topic is that of its id, name, partition
count and racks, by XXH3 over little-endian numbers and UTF-16 units. The hash of a group is that of its topics' hashes
in the order of their names. Racks are hashed although no assignor uses them. The only state is a cache of the topics'
hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyconsumer.broker.group.consumer.topics import TopicImage
from pyconsumer.broker.group.consumer.xxh3 import xxh3_64

__all__ = ["MetadataHasher", "group_hash", "topic_hash"]

_MAGIC = b"\0"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _int(value: int) -> bytes:
    return value.to_bytes(4, "little")


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Iterable[str]]) -> int:
    """Return the hash of one topic. It is a signed 64-bit number.

    Args:
        topic_id: the topic's id (16 bytes).
        racks: for each partition, the racks of its replicas in any order.
    """
    parts = []
    for index, names in enumerate(racks):
        parts.append(_int(index))
        for rack in sorted(names, key=_utf16_key):
            units = _utf16(rack)
            length = _int(len(units) // 2)
            parts += [length, units, length]
    units = _utf16(name)
    head = [_MAGIC, topic_id[7::-1], topic_id[:7:-1], units, _int(len(units) // 2), _int(len(racks))]
    return _signed(xxh3_64(b"".join(head + parts)))


def _utf16_key(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def group_hash(topic_hashes: dict[str, int]) -> int:
    """Return the hash of a group, from the hashes of its existing topics. Return 0 if there are none."""
    if not topic_hashes:
        return 0
    ordered = (topic_hashes[name] for name in sorted(topic_hashes, key=_utf16_key))
    return _signed(xxh3_64(b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in ordered)))


class MetadataHasher:
    """Computes the hashes of groups. It caches the hashes of topics until the topics change."""

    def __init__(self, image: TopicImage) -> None:
        self._image = image
        self._cache: dict[str, int] = {}

    def forget(self, topic: str) -> None:
        """Drop the cached hash of a topic that was created, changed or deleted."""
        self._cache.pop(topic, None)

    def of_topics(self, names: Iterable[str]) -> int:
        """Return the hash of a group that subscribes to these topics. Missing topics are left out."""
        hashes: dict[str, int] = {}
        for name in names:
            known = self._cache.get(name)
            if known is None:
                topic_id, count = self._image.topic_id(name), self._image.partition_count(name)
                if topic_id is None or count is None:
                    continue
                racks = [self._image.partition_racks(name, index) for index in range(count)]
                known = self._cache[name] = topic_hash(topic_id, name, racks)
            hashes[name] = known
        return group_hash(hashes)
