"""Makes ``transactions.tsv.gz``: ``python -m tests.vectors.make_transactions`` (needs Java and, the first time, Maven).

It holds the legal moves between the states of Java's producer, and its reaction to each error code of each request.
``TransactionVectors.java`` prints them. Then come the transaction logs of Kafka's brokers, printed by
``TransactionLogVectors.java``.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.support.java import VERSION, KafkaTools

__all__ = ["VECTORS", "expected", "read_vectors"]

VECTORS = Path(__file__).with_name("transactions.tsv.gz")


def expected(tools: KafkaTools) -> str:
    """Run both Java programs. Return their lines."""
    sources = ("TransactionVectors.java", "TransactionLogVectors.java")
    return "".join(tools.run_source(Path(__file__).with_name(source)).stdout for source in sources)


def read_vectors(kind: str) -> list[list[str]]:
    """The fields of the lines of a kind, such as ``move``, ``error`` or ``state``."""
    lines = gzip.decompress(VECTORS.read_bytes()).decode().splitlines()
    return [fields[1:] for line in lines if (fields := line.split("\t"))[0] == kind]


if __name__ == "__main__":
    with VECTORS.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(expected(KafkaTools(VERSION)).encode())
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
