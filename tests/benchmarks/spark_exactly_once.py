"""The cost of writing exactly once with Spark, beside at least once, in one run with alternating rounds.

``python -m tests.benchmarks.spark_exactly_once [--cluster apache] [--rows 1000000] [--batches 3] [--rounds 4]``:
a topic is copied to another one, in batches of ``--rows`` rows of 100 bytes. The time is that of Spark's report for
each batch, without the first of a query and without smaller ones. Processor time is that of the driver, the workers and
the broker together, for a whole query.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from tests.support.certificates import make_certificates
from tests.support.cluster import start_cluster
from tests.support.process import descendants
from tests.support.spark import start_spark

GUARANTEES = ("at-least-once", "exactly-once")


def processor_time() -> float:
    """Seconds that this process and all that it has started have used so far, also those that have ended."""
    ticks = 0
    for pid in (os.getpid(), *descendants()):
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:  # it has just ended
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="apache", choices=("embedded", "apache"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=4, help="of which the first one does not count")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    cluster = start_cluster(given.cluster, make_certificates(folder), data_dir=folder / "data")
    try:
        spark = start_spark(folder / "spark", connector=False)
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        source = cluster.create_topic("source", 2)
        rows = spark.range(given.rows * (given.batches + 1), numPartitions=2)
        rows = rows.selectExpr("cast(id AS string) AS key", "rpad(cast(id AS string), 100, 'x') AS value")
        rows.write.format("pyconsumer").options(topic=source, **servers).mode("append").save()
        times: dict[str, list[float]] = {name: [] for name in GUARANTEES}
        processor: dict[str, list[float]] = {name: [] for name in GUARANTEES}
        for turn in range(given.rounds):
            for name in GUARANTEES if turn % 2 else reversed(GUARANTEES):
                sink = cluster.create_topic(f"{name}-{turn}", 2)
                reader = spark.readStream.format("pyconsumer").options(
                    subscribe=source,
                    startingOffsets="earliest",
                    columns="key,value",
                    maxOffsetsPerTrigger=str(given.rows),
                    **servers,
                )
                writer = (
                    reader.load()
                    .writeStream.format("pyconsumer")
                    .options(
                        topic=sink,
                        deliveryGuarantee=name,
                        checkpointLocation=str(folder / "checkpoints" / sink),
                        **servers,
                    )
                )
                before = processor_time()
                query = writer.trigger(availableNow=True).start()
                query.awaitTermination()
                found = [
                    batch.durationMs["triggerExecution"] / 1000
                    for batch in query.recentProgress
                    if batch.numInputRows > 0.9 * given.rows
                ][1:]
                used = processor_time() - before
                text = " ".join(f"{one:.2f}" for one in found)
                print(f"round {turn + 1}, {name}: {text} s; {used:.1f} s of processor time in all", flush=True)
                if turn:  # Java compiles what it runs in the first round
                    times[name] += found
                    processor[name].append(used)
        for name, found in times.items():
            middle = statistics.median(found)
            print(f"{name}: median {middle:.3f} s a batch of {given.rows:,} rows, {given.rows / middle:,.0f} rows/s")
        once, twice = (statistics.median(times[name]) for name in GUARANTEES)
        print(f"exactly once costs {twice - once:+.3f} s a batch, {100 * (twice / once - 1):+.1f} %")
        once, twice = (statistics.median(processor[name]) for name in GUARANTEES)
        print(f"processor time of a query: {once:.1f} s and {twice:.1f} s, {100 * (twice / once - 1):+.1f} %")
        spark.stop()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
