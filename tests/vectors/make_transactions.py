"""Makes ``transactions.tsv.gz``: ``python -m tests.vectors.make_transactions`` (needs Java and, the first time, Maven).

What Java's producer does with transactions: the legal moves between its states, and its reaction to each error code in
the answer to each request, as ``TransactionVectors.java`` prints them.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.support.java import VERSION, KafkaTools

__all__ = ["VECTORS", "expected", "read_vectors"]

VECTORS = Path(__file__).with_name("transactions.tsv.gz")


def expected(tools: KafkaTools) -> str:
    """What Java's transaction manager does."""
    return tools.run_source(Path(__file__).with_name("TransactionVectors.java")).stdout


def read_vectors(kind: str) -> list[list[str]]:
    """The fields of the lines of a kind: ``move`` or ``error``."""
    lines = gzip.decompress(VECTORS.read_bytes()).decode().splitlines()
    return [fields[1:] for line in lines if (fields := line.split("\t"))[0] == kind]


if __name__ == "__main__":
    with VECTORS.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(expected(KafkaTools(VERSION)).encode())
    print(f"{VECTORS}: {VECTORS.stat().st_size} bytes")
