"""A rebalance listener with coroutines."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener


class Log(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        await asyncio.sleep(0)  # time to write down what has been processed

    async def on_partitions_assigned(self, assigned):
        await asyncio.sleep(0)
        if assigned:
            print("assigned", sorted(partition.partition for partition in assigned))


async def main():
    async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
        await producer.send_and_wait("demo-watched", b"one")
    consumer = AIOKafkaConsumer(
        bootstrap_servers="localhost:9092", group_id="demo-watchers", auto_offset_reset="earliest"
    )
    consumer.subscribe(["demo-watched"], listener=Log())
    await consumer.start()
    try:
        message = await consumer.getone()
        print(message.value)
    finally:
        await consumer.stop()


asyncio.run(main())
