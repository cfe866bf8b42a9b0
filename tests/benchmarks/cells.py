"""Which topics the consumers are compared on. A cell is one kind of topic on one broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["APACHE", "CORE", "EMBEDDED", "GRID", "MAIN", "Cell"]

APACHE, EMBEDDED = "Apache Kafka", "embedded broker"

#: Records of a cell by size, for quick contenders and for slow ones, so that a run takes about a second.
_RECORDS = {100: (4_000_000, 500_000), 1000: (800_000, 160_000), 1_000_000: (1000, 1000)}
_NAMES = {100: "100 B", 1000: "1 kB", 1_000_000: "1 MB"}


@dataclass(frozen=True)
class Cell:
    """A kind of topic.

    Attributes:
        size_bytes: of each value.
        codec: compression of the records, or ``none``.
        keyed: whether records have a key and two headers.
        partitions: of the topic.
        broker: :data:`APACHE` or :data:`EMBEDDED`.
    """

    size_bytes: int = 100
    codec: str = "none"
    keyed: bool = False
    partitions: int = 4
    broker: str = APACHE

    @property
    def title(self) -> str:
        """For people: ``1 kB, zstd, keys and headers, 4 partitions``."""
        parts = [_NAMES[self.size_bytes], *([self.codec] if self.codec != "none" else [])]
        parts += ["keys and headers"] if self.keyed else []
        parts.append(f"{self.partitions:,} partition{'s' if self.partitions > 1 else ''}")
        return ", ".join(parts)

    @property
    def name(self) -> str:
        """For files and options: ``kafka-1000-zstd-keyed-4``."""
        broker = "kafka" if self.broker == APACHE else "embedded"
        return f"{broker}-{self.size_bytes}-{self.codec}-{'keyed' if self.keyed else 'plain'}-{self.partitions}"

    def records(self, *, quick: bool, scale: float = 1.0) -> int:
        """Return how many records a contender reads: the same number of each partition, at least one."""
        wanted = _RECORDS[self.size_bytes][not quick] * scale
        return max(1, round(wanted / self.partitions)) * self.partitions


def _grid() -> Iterator[Cell]:
    for broker in (APACHE, EMBEDDED):
        for size in _RECORDS:
            for codec in ("none", "zstd"):
                for keyed in (False, True):
                    for partitions in (1, 4, 1000):
                        yield Cell(size, codec, keyed, partitions, broker)


#: What most of the targets are about.
MAIN = Cell()

#: Every combination, once each, and lz4 once, which mostly behaves as zstd does.
GRID: tuple[Cell, ...] = (*_grid(), Cell(codec="lz4"))

#: The fourteen that are measured several times: the main one, what differs from it in one thing, and mixtures.
CORE: tuple[Cell, ...] = (
    MAIN,
    Cell(codec="zstd"),
    Cell(codec="lz4"),
    Cell(keyed=True),
    Cell(partitions=1),
    Cell(partitions=1000),
    Cell(1000),
    Cell(1000, partitions=1000),
    Cell(1000, "zstd"),
    Cell(1000, "zstd", True, 1000),
    Cell(1_000_000),
    Cell(1_000_000, partitions=1000),
    Cell(broker=EMBEDDED),
    Cell(1000, "zstd", True, broker=EMBEDDED),
)
