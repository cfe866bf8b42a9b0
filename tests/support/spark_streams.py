"""A streaming query into Parquet files, with its checkpoint, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.support.spark_topics import reader

__all__ = ["SLOW_START", "Stream", "patiently", "run_to_the_end"]

T = TypeVar("T")

#: Spark gives up on a Python process that takes more than 10 s to start, which on a busy machine it may.
SLOW_START = "Python worker failed to connect back"


def run_to_the_end(start: Callable[[], Any]) -> list[Any]:
    """Wait for the end of a query, which is started again where Spark gave up on a slow machine.

    Args:
        start: starts it, from its checkpoint.

    Returns:
        The progress of each batch.
    """
    progress: list[Any] = []

    def run() -> None:
        query = start()
        try:
            query.awaitTermination()
        finally:
            progress.extend(query.recentProgress)
            query.stop()

    patiently(run)
    return progress


def patiently(run: Callable[[], T]) -> T:
    """Run something again where Spark gave up on a process of Python that starts slowly."""
    for _ in range(9):
        try:
            return run()
        except Exception as error:
            if SLOW_START not in str(error):
                raise
    return run()


class Stream:
    """A stream of a topic into a folder. It may be run several times. The checkpoint stays.

    Args:
        folder: for the output and the checkpoint.
        options: of the source. ``__`` stands for a dot.
    """

    def __init__(self, spark: Any, servers: str, folder: Path, options: Mapping[str, object]) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.options = dict(options)
        self.output = folder / "output"
        self.checkpoint = folder / "checkpoint"

    def frame(self, *, format: str = "pyconsumer") -> Any:
        return reader(self.spark, self.servers, self.options, format=format, stream=True).load()

    def start(self, frame: Any = None, *, format: str = "pyconsumer", **trigger: Any) -> Any:
        """Start a query. ``trigger`` as DataStreamWriter's."""
        writer = (self.frame(format=format) if frame is None else frame).writeStream.format("parquet")
        writer = writer.option("path", str(self.output)).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def start_running(self) -> Any:
        """Start a continuing query, and wait until it has read all present records."""

        def run() -> Any:
            query = self.start()
            query.processAllAvailable()
            return query

        return patiently(run)

    def run_available(self, frame: Any = None, *, format: str = "pyconsumer") -> list[Any]:
        """Run with Trigger.AvailableNow to the end. The progress of each batch."""
        return run_to_the_end(lambda: self.start(frame, format=format, availableNow=True))

    def positions(self, partition: int | None = None) -> list[tuple[int, int]]:
        """Partition and offset of each row in the output, sorted."""
        if not self.output.is_dir() or not any(self.output.glob("*.parquet")):
            return []
        rows = self.spark.read.parquet(str(self.output)).select("partition", "offset").collect()
        return sorted((row.partition, row.offset) for row in rows if partition in (None, row.partition))

    def offsets(self) -> list[dict[str, dict[str, int]]]:
        """The ends of all batches in the checkpoint."""
        return [json.loads(path.read_text().splitlines()[-1]) for path in self.log("offsets")]

    def log(self, name: str) -> list[Path]:
        """The files of ``offsets`` or ``commits`` of the checkpoint, in order."""
        return sorted((path for path in (self.checkpoint / name).iterdir() if path.name.isdigit()), key=_number)

    def rewrite(self, batch: int, position: str) -> None:
        """Put another position in the place of a batch's end."""
        path = self.checkpoint / "offsets" / str(batch)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], position]))
        path.with_name(f".{batch}.crc").unlink(missing_ok=True)

    def forget_commit(self, batch: int) -> None:
        """As if the driver had died before a batch was finished: its files are there, its commit is not.

        The files' own log is cut as well.
        """
        for path in (self.checkpoint / "commits" / str(batch), self.output / "_spark_metadata" / str(batch)):
            path.unlink(missing_ok=True)
            path.with_name(f".{batch}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)
