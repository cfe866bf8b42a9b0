"""Commit before partitions are taken away: a second member joins, and the first one's listener hears of it.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import threading
from collections.abc import Collection
from contextlib import ExitStack

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

TOPIC, GROUP = "payments", "payment-workers"


class CommitOnRevoke(ConsumerRebalanceListener):
    """All of its methods run in the consumer's own thread, inside ``poll`` or ``close``."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        print(f"assigned {numbers(assigned)}")

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        print(f"revoked {numbers(revoked)}")
        self.consumer.commit()  # nobody else has them yet

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        print(f"lost {numbers(lost)}")  # somebody else may have them already: do not commit


def numbers(partitions: Collection[TopicPartition]) -> list[int]:
    return sorted(tp.partition for tp in partitions)


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 4)])
    done = threading.Event()
    second = threading.Thread(target=second_member, args=(servers, done))
    with KafkaConsumer(
        bootstrap_servers=servers, group_id=GROUP, enable_auto_commit=False, heartbeat_interval_ms=200
    ) as consumer:
        consumer.subscribe([TOPIC], listener=CommitOnRevoke(consumer))
        while len(consumer.assignment()) < 4:
            consumer.poll(timeout_ms=200)
        second.start()
        while len(consumer.assignment()) != 2:
            consumer.poll(timeout_ms=200)
        done.set()
    second.join()


def second_member(servers: str, done: threading.Event) -> None:
    with KafkaConsumer(TOPIC, bootstrap_servers=servers, group_id=GROUP) as consumer:
        while not done.is_set():
            consumer.poll(timeout_ms=200)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
