"""The demo's Spark part: delay by hour of the day and carrier, as Parquet and as a plot."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["run"]

_SCHEMA = "carrier STRING, hour INT, dep_delay DOUBLE"


def run(
    servers: str, topic: str, settings: Mapping[str, str], names: Mapping[str, str], folder: Path
) -> tuple[int, Path, Path]:
    """Read the topic with Spark, write the results.

    Args:
        settings: further client settings, by Kafka's names. names: of the carriers. folder: where to write.

    Returns:
        How many flights Spark read, the Parquet folder and the plot.
    """
    from pyspark.sql import functions as f

    from pyconsumer.spark import session

    logging.getLogger("py4j").setLevel(logging.ERROR)
    with _errors_to(folder / "spark.log"):
        spark = session(
            master="local[2]",
            **{
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
            },
        )
    try:
        records = (
            spark.read.format("pyconsumer")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .options(**{f"kafka.{name}": value for name, value in settings.items()})
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
        parquet = folder / "delay_by_hour_and_carrier.parquet"
        result.coalesce(1).write.mode("overwrite").parquet(str(parquet))
        table = result.toPandas()
    finally:
        spark.stop()
    picture = folder / "delay_by_hour_and_carrier.png"
    draw(table, names, picture)
    return int(table["flights"].sum()), parquet, picture


@contextlib.contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """What processes started inside write to standard error goes to a file: the JVM's greetings are not for people."""
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def draw(table: DataFrame, names: Mapping[str, str], path: Path) -> None:
    """A heat map: carriers by hour, coloured by mean departure delay; the worst carrier on top.

    Cells with fewer than 20 flights are left out: their mean says little.
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
                    str(round(delay)),
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="white" if delay > 38 or delay < -3 else "black",
                )
    axes.set_xlabel("scheduled hour of departure")
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
