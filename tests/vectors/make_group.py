"""Makes ``group.jsonl``: ``python -m tests.vectors.make_group`` (needs Java and, the first time, Maven)."""

from __future__ import annotations

from pathlib import Path

from tests.support.java import VERSION, KafkaTools

__all__ = ["VECTORS", "expected"]

VECTORS = Path(__file__).with_name("group.jsonl")


def expected(tools: KafkaTools) -> str:
    """Return each message as Kafka's own classes write it, one JSON object a line."""
    output = tools.run_source(Path(__file__).with_name("GroupVectors.java")).stdout
    return "".join(f"{line}\n" for line in output.splitlines() if line.startswith("{"))


if __name__ == "__main__":
    VECTORS.write_text(expected(KafkaTools(VERSION)))
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
