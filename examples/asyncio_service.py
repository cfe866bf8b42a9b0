"""A service on one event loop: it reads transfers, does two things beside that, and ends in good order on SIGTERM.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import asyncio
import signal
from contextlib import ExitStack

from pyconsumer.admin import NewTopic
from pyconsumer.aio import (
    AsyncConsumerRebalanceListener,
    AsyncKafkaAdminClient,
    AsyncKafkaConsumer,
    AsyncKafkaProducer,
)
from pyconsumer.broker import EmbeddedCluster

TOPIC, GROUP, TRANSFERS = "transfers", "ledger", 1000


class Ledger(AsyncConsumerRebalanceListener):
    """Commits the booked transfers before a partition goes to another member."""

    def __init__(self, consumer: AsyncKafkaConsumer) -> None:
        self.consumer = consumer
        self.booked = 0
        self.all_booked = asyncio.Event()

    async def on_partitions_revoked(self, revoked):
        await self.consumer.commit()

    async def run(self) -> None:
        self.consumer.subscribe([TOPIC], listener=self)
        async for _ in self.consumer:
            self.booked += 1
            if self.booked == TRANSFERS:
                self.all_booked.set()


async def produce(servers: str) -> None:
    async with AsyncKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(TRANSFERS):
            await producer.send(TOPIC, f"transfer {number}", key=f"account-{number % 7}")


async def main(servers: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncKafkaAdminClient(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(TOPIC, 4)])
    consumer = AsyncKafkaConsumer(bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest")
    ledger = Ledger(consumer)

    async def watch() -> None:
        """Stand for the rest of an application, such as a web server. This one asks the service to end."""
        await ledger.all_booked.wait()
        signal.raise_signal(signal.SIGTERM)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ledger.run())
        tasks.create_task(produce(servers))
        tasks.create_task(watch())
        await stop.wait()
        await consumer.close()  # ends the loop of ledger.run(), commits, and leaves the group
    print(f"{ledger.booked} transfers booked, and the group left")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        asyncio.run(main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers))
