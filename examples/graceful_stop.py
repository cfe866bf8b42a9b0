"""A worker that ends in good order on SIGTERM: it finishes the job at hand, commits, and leaves its group.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import os
import signal
from contextlib import ExitStack

from pyconsumer import KafkaConsumer, KafkaProducer, stop_on_signals
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

TOPIC, GROUP, JOBS = "jobs", "workers", 100


def work(servers: str, stop_at: int) -> int:
    """Do jobs until a signal comes, and return their number."""
    done = 0
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest")
    # A signal ends the wait for the next record. Then the consumer is closed: it commits what the loop has finished
    # and leaves the group, so that others get its partitions at once.
    with consumer, stop_on_signals(consumer) as stop:
        for _ in consumer:
            done += 1  # do the job
            if done == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)  # as the platform does when it ends the program
    print(f"{done} jobs done, ended by {stop.signal.name if stop.signal else 'nobody'}")
    return done


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 2)])
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(JOBS):
                producer.send(TOPIC, f"job {number}")

        first = work(servers, stop_at=30)
        print(f"members left in the group: {len(admin.describe_groups([GROUP])[GROUP].members)}")
        second = work(servers, stop_at=JOBS - 30)
        print(f"{first + second} of {JOBS} jobs, each done once")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
