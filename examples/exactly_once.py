"""Orders become invoices exactly once, though the program is stopped and started in the middle.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack

from pyconsumer import ConsumerRecords, KafkaConsumer, KafkaProducer, TopicPartition, process_exactly_once
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster

ORDERS, INVOICES, COUNT = "orders-to-bill", "invoices", 1000


def transform(records: ConsumerRecords) -> Iterator[tuple[str, bytes, bytes | None]]:
    for record in records.records():
        yield INVOICES, b"invoice for " + (record.value or b""), record.key


class Crash(Exception):
    """The program ends here."""


def crashing(records: ConsumerRecords) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Make a part of the invoices of a batch, then fail."""
    for number, invoice in enumerate(transform(records)):
        if number == 7:
            raise Crash
        yield invoice


def bill(servers: str, *, crash: bool) -> int:
    with (
        KafkaConsumer(
            ORDERS,
            bootstrap_servers=servers,
            group_id="billing",
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=100,
        ) as consumer,
        # One name for each instance of the program, and the same one after a restart.
        KafkaProducer(
            bootstrap_servers=servers, transactional_id="billing-0", transaction_timeout_ms=10_000
        ) as producer,
    ):
        return process_exactly_once(
            consumer, producer, crashing if crash else transform, idle_ms=1000, poll_timeout_ms=200
        )


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(ORDERS, 3), NewTopic(INVOICES, 3)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(COUNT):
            producer.send(ORDERS, b"order %d" % number, key=f"customer-{number % 20}")
    for _ in range(2):
        try:
            bill(servers, crash=True)
        except Crash:
            print("crashed in the middle of a batch")
    print(f"{bill(servers, crash=False)} orders billed")
    with KafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        invoices: list[bytes | None] = []
        consumer.assign([TopicPartition(INVOICES, number) for number in range(3)])
        while records := consumer.poll(timeout_ms=1000):
            invoices += [record.value for record in records.records()]
    print(f"{len(invoices)} invoices, {len(set(invoices))} of them different")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
