"""Process records in a pool of threads, in order by key, and commit finished ones.

Two members share the partitions, each with a pool of its own. Before partitions move to the other member, the records
under way in them are finished. So none is processed twice.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack

from pyconsumer import ConsumerRecord, KafkaConsumer, KafkaProducer
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.workers import Retry, Workers

TOPIC, GROUP, COUNT, WORKERS = "pictures", "thumbnails", 400, 8

done = Counter[bytes]()  # adding to it is one step, so the workers need no lock
late = threading.Event()  # lets the second member begin when some of the work is done
all_done = threading.Event()


def make_thumbnail(record: ConsumerRecord) -> None:
    time.sleep(random.uniform(0.001, 0.02))
    done[record.value] += 1
    if len(done) > COUNT // 4:
        late.set()
    if len(done) == COUNT:
        all_done.set()


def member(servers: str) -> None:
    with KafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        auto_commit_interval_ms=500,
        heartbeat_interval_ms=200,
    ) as consumer:
        retry = Retry(attempts=5, backoff_ms=100)
        workers = Workers(consumer, make_thumbnail, order="key", concurrency=WORKERS, max_buffered=40, retry=retry)
        stopper = threading.Thread(target=lambda: all_done.wait(60) and workers.stop())
        stopper.start()
        workers.run()
        stopper.join()


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 4)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"picture %d" % number, key=b"album %d" % (number % 50), partition=number % 4)
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
