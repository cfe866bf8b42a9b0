"""The demo's Spark part: delays by hour and carrier as Parquet and as a plot. The topic's archive, and its replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyconsumer.cli.demo.flights import compare
from pyconsumer.errors import KafkaError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["CONF", "archive_topic", "delays", "draw", "replay_archive"]

#: Settings of the session, for little data.
CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}

_SCHEMA = "carrier STRING, hour INT, dep_delay DOUBLE"
#: Records of a batch of the archive, so that there are a few batches.
_BATCH = 100_000


def delays(spark: Any, servers: str, topic: str, options: Mapping[str, str], path: Path) -> DataFrame:
    """Read the topic, and write two Parquet folders: the flights, and their mean delay by hour and carrier.

    Return both as tables.

    Args:
        options: additional options of the source.
    """
    from pyspark.sql import functions as f

    records = (
        spark.read.format("pyconsumer")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )
    flight = f.from_json(f.col("value").cast("string"), _SCHEMA)
    result = (
        records.select(flight.alias("flight"))
        .groupBy("flight.hour", "flight.carrier")
        .agg(f.count("*").alias("flights"), f.avg("flight.dep_delay").alias("mean_delay"))
        .orderBy("hour", "carrier")
        .cache()
    )
    result.coalesce(1).write.mode("overwrite").parquet(str(path))
    table: DataFrame = result.toPandas()
    return table


def archive_topic(
    spark: Any,
    servers: str,
    topic: str,
    options: Mapping[str, str],
    folder: Path,
    expected: Mapping[str, int],
    on_progress: Callable[[int], object],
) -> tuple[int, int]:
    """Archive the topic like ``pyconsumer archive``. Check that the files contain each flight once.

    Args:
        options: additional options of the source.
        folder: a new folder.
        expected: the number of flights of each carrier.
        on_progress: called with the number of flights archived so far.

    Returns:
        The number of flights in the files, and the number of batches.

    Raises:
        KafkaError: a flight is missing or duplicated.
    """
    from pyspark.sql import functions as f

    from pyconsumer.spark.archive import archive

    done = archive(
        spark,
        servers,
        topic,
        str(folder),
        batch_records=_BATCH,
        options=options,
        on_progress=lambda progress: on_progress(progress.records),
    )
    # With Spark's own Parquet reader.
    rows = (
        spark.read.parquet(str(folder))
        .groupBy("partition", f.col("key").cast("string").alias("carrier"))
        .agg(f.count("*").alias("flights"), f.countDistinct("offset").alias("different"))
        .collect()
    )
    found: Counter[str] = Counter()
    for row in rows:
        if row.flights != row.different:
            raise KafkaError(f"{row.flights - row.different:,} flights of {row.carrier} are in the archive twice")
        found[row.carrier] += row.flights
    compare(found, expected, "in the archive the flights")
    return sum(found.values()), done.batches


def replay_archive(
    spark: Any,
    folder: Path,
    servers: str,
    topic: str,
    options: Mapping[str, str],
    on_progress: Callable[[int], object],
) -> int:
    """Send the archive to a topic like ``pyconsumer replay``. Return the number of flights sent."""
    from pyconsumer.spark.archive import replay

    chosen = {"kafka.compression.type": "zstd", **options}
    done = replay(
        spark,
        str(folder),
        servers,
        topic,
        options=chosen,
        on_progress=lambda progress: on_progress(progress.records),
    )
    return done.records


def draw(table: DataFrame, names: Mapping[str, str], path: Path) -> None:
    """Draw a heat map of mean departure delays by carrier and hour, with the worst carrier on top.

    Cells with fewer than 20 flights are left out, because their mean says little.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    table = table[table["flights"] >= 20]
    grid = table.pivot(index="carrier", columns="hour", values="mean_delay")
    weights = table.assign(total=table["mean_delay"] * table["flights"]).groupby("carrier")[["total", "flights"]].sum()
    order = (weights["total"] / weights["flights"]).sort_values(ascending=False).index
    grid = grid.loc[order]
    figure, axes = plt.subplots(figsize=(11, 6.5), layout="constrained")
    image = axes.imshow(grid, aspect="auto", cmap="RdYlBu_r", vmin=-10, vmax=50)
    axes.set_xticks(range(len(grid.columns)), [f"{int(hour):02d}" for hour in grid.columns])
    axes.set_yticks(range(len(grid.index)), [f"{names.get(carrier, carrier)} ({carrier})" for carrier in grid.index])
    for row in range(len(grid.index)):
        for column in range(len(grid.columns)):
            delay = grid.iat[row, column]
            if delay == delay:
                axes.text(
                    column,
                    row,
                    str(round(float(delay))),
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="white" if delay > 38 or delay < -3 else "black",
                )
    axes.set_xlabel("scheduled hour of departure (hours with fewer than 20 flights are left out)")
    axes.set_title(
        "Delays build up through the day: mean departure delay in minutes, flights from New York City, 2013",
        fontsize=12,
    )
    axes.set_facecolor("0.93")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01, extend="both")
    bar.set_label("minutes")
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
