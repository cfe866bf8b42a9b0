"""Reads a topic with Spark and discards the rows. Run as a child process by the benchmarks."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.process import descendants

_MEASURED = 3  # reads of the topic, one after the other


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    from pyconsumer.spark import session

    with tempfile.TemporaryDirectory() as folder:
        spark = session(
            master="local[2]",
            **{
                "spark.ui.enabled": False,
                "spark.ui.showConsoleProgress": False,
                "spark.log.level": "ERROR",
                "spark.driver.memory": "2g",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.sql.warehouse.dir": folder,
                "spark.local.dir": folder,
                **({"spark.jars": ",".join(arguments["jars"])} if arguments["jars"] else {}),
            },
        )
        try:
            return _read(spark, arguments)
        finally:
            spark.stop()


def _read(spark: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    # The first read checks the answer, the second one is as those that are measured: the JVM compiles as it goes.
    found = _frame(spark, arguments).selectExpr("count(*)", "sum(crc32(value))").first()
    _frame(spark, arguments).write.format("noop").mode("overwrite").save()
    cpu, start = cpu_s(), time.perf_counter()
    for _ in range(_MEASURED):
        _frame(spark, arguments).write.format("noop").mode("overwrite").save()
    return {
        "records": found[0],
        "crc32_sum": found[1],
        "seconds": (time.perf_counter() - start) / _MEASURED,
        "cpu_s": (cpu_s() - cpu) / _MEASURED,
    }


def _frame(spark: Any, arguments: dict[str, Any]) -> Any:
    """All columns, or those that were asked for: by option from ours, which Spark's own connector does not have."""
    reader = spark.read.format(arguments["format"])
    options = {"kafka.bootstrap.servers": arguments["servers"], "subscribe": arguments["topic"]}
    columns = arguments["columns"]
    if columns and arguments["format"] == "pyconsumer":
        options["columns"] = columns
    frame = reader.options(**options).load()
    return frame.select(*columns.split(",")) if columns else frame


def cpu_s() -> float:
    """Processor time of this process and of all below it, also of those that have ended and were waited for."""
    total = 0
    for pid in (os.getpid(), *descendants()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        total += sum(map(int, fields[11:15]))  # user and system, its own and its dead children's
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
