"""An assignor of your own, and three of pyconsumer's: at random, by rack, and all partitions to every member.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.assignors import (
    Assignor,
    BroadcastAssignor,
    PartitionAssignor,
    RackAwareAssignor,
    RandomAssignor,
    Subscription,
    sorted_members,
)
from pyconsumer.broker import EmbeddedCluster

TOPIC, PARTITIONS, RECORDS = "readings", 6, 60
Shares = dict[str, list[TopicPartition]]


class StandbyAssignor(PartitionAssignor):
    """Gives everything to one member. The others stand by, and one of them takes over when it ends."""

    @property
    def name(self) -> str:
        return "standby"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        shares: Shares = {}
        for topic, count in partitions_per_topic.items():
            first = sorted_members(subscriptions, topic)[0]  # in an order that does not depend on who joined first
            shares.setdefault(first, []).extend(self.partitions(topic, count))
        return shares


class OwnPositions(ConsumerRebalanceListener):
    """Keeps the positions of one member in a file of its own, and begins there when it gets its partitions."""

    def __init__(self, consumer: KafkaConsumer, path: Path) -> None:
        self._consumer = consumer
        self._path = path
        self._kept: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for partition in assigned:
            if str(partition) in self._kept:
                self._consumer.seek(partition, self._kept[str(partition)])
            else:
                self._consumer.seek_to_beginning(partition)

    def save(self) -> None:
        for partition in self._consumer.assignment():  # those that are not assigned at the moment stay
            self._kept[str(partition)] = self._consumer.position(partition)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._kept))
        fresh.replace(self._path)  # whole or not at all


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    write(servers, RECORDS)

    with group(servers, StandbyAssignor(), StandbyAssignor()) as members:
        print(f"one of two: {shown(members)}")

    with group(servers, RandomAssignor(random.Random(7)), RandomAssignor(random.Random(7))) as members:
        print(f"random: {shown(members)}")

    with group(servers, RackAwareAssignor("rack-1"), RackAwareAssignor("rack-2")) as members:
        print(f"by rack: {shown(members)}")

    with group(servers, BroadcastAssignor(), BroadcastAssignor(), each=PARTITIONS) as members:
        print(f"to all: {shown(members)}")

    # One member of such a group, with positions of its own, stops and comes back.
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            print(f"read {read_on(servers, Path(folder, 'positions.json'))} records")
            write(servers, 3)


def write(servers: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(TOPIC, f"{number}", partition=number % PARTITIONS)


@contextmanager
def group(servers: str, *assignors: Assignor, each: int = 0) -> Iterator[list[KafkaConsumer]]:
    """A group with one member for each assignor, once all of them share the partitions (or have ``each``)."""
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                KafkaConsumer(
                    TOPIC,
                    bootstrap_servers=servers,
                    group_id=f"{assignor.name}-readers",
                    client_id=f"member-{number}",
                    partition_assignment_strategy=assignor,
                    heartbeat_interval_ms=200,
                )
            )
            for number, assignor in enumerate(assignors)
        ]
        wanted = each * len(members) or PARTITIONS
        while sum(len(member.assignment()) for member in members) != wanted or len(generations(members)) > 1:
            for member in members:  # one thread may drive several consumers
                member.poll(timeout_ms=100)
        yield members


def generations(members: list[KafkaConsumer]) -> set[int]:
    return {member.group_metadata().generation_id for member in members}


def shown(members: list[KafkaConsumer]) -> str:
    shares = [sorted(partition.partition for partition in member.assignment()) for member in members]
    return ", ".join(f"member {number} has {share}" for number, share in enumerate(shares))


def read_on(servers: str, path: Path) -> int:
    """Read the records that this member has not read yet."""
    count = 0
    with KafkaConsumer(
        bootstrap_servers=servers,
        group_id="broadcast-readers",
        partition_assignment_strategy=BroadcastAssignor(),
        enable_auto_commit=False,
    ) as consumer:
        positions = OwnPositions(consumer, path)
        consumer.subscribe([TOPIC], listener=positions)
        while not (assignment := consumer.assignment()) or any(consumer.current_lag(tp) != 0 for tp in assignment):
            records = consumer.poll(timeout_ms=200)
            count += records.count()  # process them
            positions.save()  # then note where to go on
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        # Kafka's default waits 3 s for more members.
        config = {"broker.rack": "rack-1", "group.initial.rebalance.delay.ms": 0}
        main(address or stack.enter_context(EmbeddedCluster(config=config)).bootstrap_servers)
