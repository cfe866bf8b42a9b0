"""A driver for tests to kill: one streaming query into Parquet files, in a process of its own.

``python -m tests.support.spark_driver FOLDER SERVERS available|running OPTIONS``. It prints ``started`` when the query
runs, then a line ``batch N`` after each one it has seen finished. With ``available`` it ends when all is read.
The status is 75 if Spark gave up on a Python process that started too slowly.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.support.spark import start_spark
from tests.support.spark_streams import SLOW_START, Stream

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    folder, servers, mode, options = arguments
    spark = start_spark(Path(folder) / "spark", connector=False)
    stream = Stream(spark, servers, Path(folder), json.loads(options))
    trigger = {"availableNow": True} if mode == "available" else {"processingTime": "100 milliseconds"}
    query = stream.start(**trigger)
    print("started", flush=True)
    seen = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress.batchId > seen:
            seen = progress.batchId
            print("batch", seen, flush=True)
        time.sleep(0.05)
    error = query.exception()
    if error is not None:
        print(error, file=sys.stderr)
        return 75 if SLOW_START in str(error) else 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
