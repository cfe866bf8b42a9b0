"""Makes ``consumer_groups.jsonl.gz``: ``python -m tests.vectors.make_consumer_groups`` (needs Java and Maven)."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.support.java import VERSION, KafkaTools

__all__ = ["VECTORS", "expected", "write_vectors"]

VECTORS = Path(__file__).with_name("consumer_groups.jsonl.gz")


def expected(tools: KafkaTools) -> str:
    """Return the results of Kafka's own coordinator, one JSON object a line."""
    output = tools.run_source(Path(__file__).with_name("ConsumerGroupVectors.java")).stdout
    return "".join(f"{line}\n" for line in output.splitlines() if line.startswith("{"))


def write_vectors(tools: KafkaTools, path: Path) -> None:
    """Let Kafka's classes compute all results."""
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(expected(tools).encode())


if __name__ == "__main__":
    write_vectors(KafkaTools(VERSION), VECTORS)
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
