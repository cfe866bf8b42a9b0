"""A pipeline of five steps in Spark, from raw records to a table and a plot, exactly once all the way.

The steps are: ingest (readings of sensors, some of them broken or sent twice), clean (a stream from topic to topic,
exactly once), window and join (means of each minute, with the sensors' places). Then publish (to a topic, exactly once)
and table (Parquet).

Needs ``pip install 'pyconsumer[demo]'`` and Java 17 or newer. ``pip install 'pyconsumer[jvm]'`` brings one. Run it
as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster. There, with a ``--folder``, kill it
at any time after the ingest and run it again: no reading is there twice.
"""

import argparse
import json
import math
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyconsumer import KafkaAdminClient, KafkaProducer
from pyconsumer.admin import NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.spark import session

RAW, CLEAN, PLACES, MEANS = "raw-readings", "readings", "sensors", "means-by-minute"
SENSORS = {"s1": "roof", "s2": "cellar", "s3": "garden"}
START_S, MINUTES = 1_750_000_020, 30
SHAPE = "sensor string, number int, at timestamp, celsius double"


def ingest(servers: str) -> None:
    """Send readings as devices would: one each 10 s, every 50th broken, every 20th twice."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in (RAW, CLEAN, PLACES, MEANS)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for name, place in SENSORS.items():
            producer.send(PLACES, json.dumps({"sensor": name, "place": place}), name)
        for number in range(MINUTES * 6 + 13):  # the last ones only close the windows before them
            for index, name in enumerate(SENSORS):
                celsius = 12 + 4 * index + 3 * math.sin(number / 20 + index)
                at = START_S + 10 * number
                text = json.dumps({"sensor": name, "number": number, "at": at, "celsius": round(celsius, 2)})
                for _ in range(2 if number % 20 == 0 else 1):
                    producer.send(RAW, text if (number + index) % 50 else text[:-9], name)


def read(spark: SparkSession, servers: str, topic: str, *, stream: bool = True) -> DataFrame:
    """The records of a topic that are committed."""
    reader = spark.readStream if stream else spark.read
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "columns": "key,value"}
    options |= {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    return reader.format("pyconsumer").options(**options).load()


def publish(frame: DataFrame, servers: str, topic: str, folder: Path) -> None:
    """Write all there is to a topic, exactly once."""
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "checkpointLocation": str(folder / topic)}
    options |= {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "pipeline"}
    writer = frame.writeStream.format("pyconsumer").options(**options)
    writer.trigger(availableNow=True).start().awaitTermination()


def clean(raw: DataFrame) -> DataFrame:
    """Readings that can be parsed, each once."""
    parsed = raw.select("key", f.from_json(f.col("value").cast("string"), SHAPE).alias("r")).select("key", "r.*")
    once = parsed.where("celsius IS NOT NULL").withWatermark("at", "1 minute").dropDuplicates(["sensor", "at"])
    return once.select("key", f.to_json(f.struct("sensor", "number", "at", "celsius")).alias("value"))


def means(readings: DataFrame, places: DataFrame) -> DataFrame:
    """The mean of each minute and sensor, with the sensor's place."""
    shape = "sensor string, place string"
    known = places.select(f.from_json(f.col("value").cast("string"), shape).alias("p")).select("p.*")
    parsed = readings.select(f.from_json(f.col("value").cast("string"), SHAPE).alias("r")).select("r.*")
    minutes = parsed.withWatermark("at", "1 minute").groupBy(f.window("at", "1 minute"), "sensor")
    found = minutes.agg(f.round(f.avg("celsius"), 3).alias("celsius"), f.count("*").alias("readings"))
    joined = found.join(known, "sensor").withColumn("minute", f.unix_timestamp(f.col("window.start")))
    value = f.to_json(f.struct("minute", "sensor", "place", "celsius", "readings"))
    return joined.select(f.col("place").alias("key"), value.alias("value"))


def table(published: DataFrame, folder: Path) -> DataFrame:
    """Return the published records as a table in Parquet files."""
    shape = "minute long, sensor string, place string, celsius double, readings long"
    rows = published.select(f.from_json(f.col("value").cast("string"), shape).alias("m")).select("m.*")
    rows.write.mode("overwrite").parquet(str(folder / "table"))
    return published.sparkSession.read.parquet(str(folder / "table"))


def plot(rows: DataFrame, counts: dict[str, int], path: Path) -> None:
    """Means over time, and how many records each step has left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    lines, bars = figure.subplots(1, 2, width_ratios=[2, 1])
    for place, found in rows.toPandas().sort_values("minute").groupby("place"):
        lines.plot((found["minute"] - START_S) / 60, found["celsius"], label=place)
    lines.set(xlabel="minutes", ylabel="mean of each minute, °C", title="Means by place")
    lines.legend()
    bars.bar(list(counts), list(counts.values()), color="tab:gray")
    bars.set(title="Records after each step")
    figure.savefig(path, dpi=120)


def main(servers: str, folder: Path) -> None:
    if not (folder / RAW).exists():
        ingest(servers)
        (folder / RAW).mkdir(parents=True)
    spark = session("local[2]", **{"spark.sql.shuffle.partitions": 2, "spark.sql.session.timeZone": "UTC"})
    try:
        publish(clean(read(spark, servers, RAW)), servers, CLEAN, folder)
        publish(means(read(spark, servers, CLEAN), read(spark, servers, PLACES, stream=False)), servers, MEANS, folder)
        rows = table(read(spark, servers, MEANS, stream=False), folder)
        counts = {name: read(spark, servers, name, stream=False).count() for name in (RAW, CLEAN, MEANS)}
        for name, count in counts.items():
            print(f"{name}: {count}")
        for row in rows.groupBy("place").agg(f.count("*").alias("minutes")).orderBy("place").collect():
            print(f"{row['place']}: {row['minutes']} minutes")
        plot(rows, counts, folder / "pipeline.png")
    finally:
        spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    parser.add_argument("--folder", type=Path, help="for checkpoints, the table and pipeline.png; kept if it is given")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        place = arguments.folder or Path(stack.enter_context(TemporaryDirectory()))
        main(arguments.bootstrap_servers or stack.enter_context(EmbeddedCluster()).bootstrap_servers, place)
