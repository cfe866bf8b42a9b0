"""Read partitions of your own choice, without a group: from the start, from a point in time, to the present end.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import time
from contextlib import ExitStack

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

TOPIC = "measurements"


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 2)])
    # The last hour: brokers delete records when their timestamps are a week old.
    began_ms = int(time.time() - 3600) * 1000
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for minute in range(60):
            producer.send(TOPIC, f"{minute}", partition=minute % 2, timestamp_ms=began_ms + minute * 60_000)

    partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    with KafkaConsumer(bootstrap_servers=servers) as consumer:
        consumer.assign(partitions)

        consumer.seek_to_beginning()
        print(f"from the start: {count_to_the_end(consumer, partitions)} records")

        # The first record of each partition with a timestamp of minute 50 or later.
        found = consumer.offsets_for_times(dict.fromkeys(partitions, began_ms + 50 * 60_000))
        for tp, place in found.items():
            if place is None:
                consumer.seek_to_end(tp)
            else:
                consumer.seek(tp, place.offset)
        print(f"from minute 50: {count_to_the_end(consumer, partitions)} records")


def count_to_the_end(consumer: KafkaConsumer, partitions: list[TopicPartition]) -> int:
    """Read up to the present end of the log, without later records."""
    ends = consumer.end_offsets(partitions)
    count = 0
    while any(consumer.position(tp) < ends[tp] for tp in partitions):
        count += consumer.poll(timeout_ms=1000).count()
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        main(address or stack.enter_context(EmbeddedCluster()).bootstrap_servers)
