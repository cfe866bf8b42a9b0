"""Makes ``sticky.jsonl.gz``: ``python -m tests.vectors.make_sticky`` (needs Java and, the first time, Maven)."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.support.java import VERSION, KafkaTools

__all__ = ["VECTORS", "expected", "write_vectors"]

VECTORS = Path(__file__).with_name("sticky.jsonl.gz")


def expected(tools: KafkaTools) -> str:
    """Return the assignments of Kafka's own assignor for the groups, one JSON object a line."""
    output = tools.run_source(Path(__file__).with_name("StickyVectors.java")).stdout
    return "".join(f"{line}\n" for line in output.splitlines() if line.startswith("{"))


def write_vectors(tools: KafkaTools, path: Path) -> None:
    """Let Kafka's assignor assign all the groups."""
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(expected(tools).encode())


if __name__ == "__main__":
    write_vectors(KafkaTools(VERSION), VECTORS)
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
