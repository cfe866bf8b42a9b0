"""A group of two members shares the partitions of a topic, and each commits its processed records.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

TOPIC, GROUP, RECORDS = "clicks", "click-counters", 1000


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 4)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"click", key=f"user-{number}")

    all_read = threading.Event()
    counts = [0, 0]
    # A consumer belongs to one thread. In an application these would be processes, on any number of machines.
    with ThreadPoolExecutor() as threads:
        members = [threads.submit(member, servers, number, counts, all_read) for number in (0, 1)]
    for number, done in enumerate(members):
        print(f"member {number} had partitions {done.result()} at the end")
    print(f"{sum(counts)} clicks counted")

    with KafkaConsumer(bootstrap_servers=servers, group_id=GROUP) as consumer:
        committed = consumer.committed([TopicPartition(TOPIC, number) for number in range(4)])
        print(f"committed offsets add up to {sum(offset or 0 for offset in committed.values())}")


def member(servers: str, number: int, counts: list[int], all_read: threading.Event) -> list[int]:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=GROUP,
        client_id=f"member-{number}",
        auto_offset_reset="earliest",  # where nothing is committed yet
        enable_auto_commit=False,
    )
    with consumer:
        while not all_read.is_set():
            records = consumer.poll(timeout_ms=200)
            if not records:
                continue
            counts[number] += records.count()  # process them
            consumer.commit(records.next_offsets())  # then commit: at least once
            if sum(counts) >= RECORDS:
                all_read.set()
        return sorted(tp.partition for tp in consumer.assignment())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
