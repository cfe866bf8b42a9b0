"""Process records in a pool of threads, in any order, and commit finished ones.

Two members share the partitions, each with a pool of its own. A member stores the offsets below which all records are
finished, and automatic commits take only those. Before partitions move to the other member, the listener waits for the
records under way in them. (Everything would work the same way with processes or tasks.)

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import random
import threading
import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from pyconsumer import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    KafkaProducer,
    RecordProgress,
    TopicPartition,
)
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

TOPIC, GROUP, COUNT, WORKERS = "pictures", "thumbnails", 400, 8

done = Counter[bytes]()  # adding to it is one step, so the workers need no lock
late = threading.Event()  # lets the second member begin when some of the work is done


class FinishFirst(ConsumerRebalanceListener):
    """Finishes and commits partitions before they move. Runs in the member's thread, inside ``poll`` or ``close``."""

    def __init__(self, consumer: KafkaConsumer, progress: RecordProgress) -> None:
        self.consumer = consumer
        self.progress = progress

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.progress.wait(revoked, timeout_ms=10_000)  # well below max_poll_interval_ms
        self.consumer.store_offsets(self.progress.take())
        self.consumer.commit()  # what is stored; nobody else has the partitions yet
        self.progress.drop(revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.progress.drop(lost)  # somebody else has them already: do not commit


def member(servers: str) -> None:
    progress = RecordProgress()

    def work(record: ConsumerRecord) -> None:
        time.sleep(random.uniform(0.001, 0.02))
        done[record.value] += 1
        progress.finish(record)

    with (
        ThreadPoolExecutor(WORKERS) as pool,
        KafkaConsumer(
            bootstrap_servers=servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_offset_store=False,
            auto_commit_interval_ms=500,
            max_poll_records=20,
            heartbeat_interval_ms=200,
        ) as consumer,
    ):
        consumer.subscribe([TOPIC], listener=FinishFirst(consumer, progress))
        while len(done) < COUNT:
            # Polls go on while the workers are busy, or the member would leave the group; pauses hold records back.
            if len(progress) < 4 * WORKERS:
                consumer.resume(*consumer.paused())
            else:
                consumer.pause(*consumer.assignment())
            for record in consumer.poll(timeout_ms=50).records():
                progress.add(record)
                pool.submit(work, record)
            consumer.store_offsets(progress.take())
            if len(done) > COUNT // 4:
                late.set()


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 4)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"picture %d" % number, partition=number % 4)
    first = threading.Thread(target=member, args=(servers,))
    first.start()
    late.wait(timeout=60)
    member(servers)
    first.join()
    print(f"{len(done)} pictures done, {done.total() - len(done)} of them twice")
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        committed = admin.list_group_offsets(GROUP)
    print(f"committed offsets add up to {sum(found.offset for found in committed.values())}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
