"""Assignors of your own: partitions dealt at random, by rack, and all of them to every member.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.assignors import (
    Assignment,
    Assignor,
    ClusterView,
    PartitionAssignor,
    Subscription,
    sorted_members,
    subscribed_topics,
)
from pyconsumer.broker import EmbeddedCluster

TOPIC, PARTITIONS, RECORDS = "readings", 6, 60
Shares = dict[str, list[TopicPartition]]


class RandomAssignor(PartitionAssignor):
    """Gives each partition to any one of the members that subscribed to its topic. It promises no fairness.

    Args:
        generator: what draws. With a seed, ``random.Random(7)``, the same groups get the same shares in every run.
    """

    def __init__(self, generator: random.Random | None = None) -> None:
        self._generator = generator or random.Random()

    @property
    def name(self) -> str:
        return "random"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        shares: Shares = {member_id: [] for member_id in subscriptions}
        for topic, count in partitions_per_topic.items():
            members = sorted_members(subscriptions, topic)  # in an order that does not depend on who joined first
            for partition in self.partitions(topic, count):
                shares[self._generator.choice(members)].append(partition)
        return shares


class RackAwareAssignor(Assignor):
    """Gives each partition to a member in the rack of the broker that leads it, where there is one.

    Members tell their rack in their user data, which :class:`PartitionAssignor` would not look at.

    Args:
        rack: where this member runs, as the brokers' ``broker.rack`` has it; by default the consumer's ``client_rack``.
    """

    def __init__(self, rack: str | None = None) -> None:
        self._rack = rack

    @property
    def name(self) -> str:
        return "rack-aware"

    def configure(self, config: Any, clock: object) -> None:
        self._rack = self._rack or config.client_rack

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return self._rack.encode() if self._rack else None

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        racks = {
            member_id: (each.user_data or b"").decode(errors="replace") for member_id, each in subscriptions.items()
        }
        shares: Shares = {member_id: [] for member_id in subscriptions}
        elsewhere = []
        for topic, partitions in subscribed_topics(cluster, subscriptions).items():
            members = sorted_members(subscriptions, topic)
            for metadata in partitions:
                leader = cluster.broker(metadata.leader)
                rack = leader.rack if leader is not None else None
                near = [member_id for member_id in members if rack and racks[member_id] == rack]
                partition = TopicPartition(topic, metadata.partition)
                if near:
                    self._give(partition, near, shares)
                else:
                    elsewhere.append((partition, members))
        for partition, members in elsewhere:  # last, so that they even out what the racks left uneven
            self._give(partition, members, shares)
        return {member_id: Assignment(tuple(share)) for member_id, share in shares.items()}

    @staticmethod
    def _give(partition: TopicPartition, members: Collection[str], shares: Shares) -> None:
        shares[min(members, key=lambda member_id: len(shares[member_id]))].append(partition)


class BroadcastAssignor(PartitionAssignor):
    """Gives every member all partitions of the topics that it subscribed to.

    What such a group commits is of no use: its members overwrite each other's offsets. See :class:`OwnPositions`.
    """

    @property
    def name(self) -> str:
        return "broadcast"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        shares: Shares = {}
        for member_id, subscription in subscriptions.items():
            for topic in subscription.topics:
                for partition in self.partitions(topic, partitions_per_topic.get(topic, 0)):
                    self.put(shares, member_id, partition)
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
    """Read what this member has not read yet."""
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
