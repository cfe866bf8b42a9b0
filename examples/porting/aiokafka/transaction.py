"""Read, write and commit the position, all in one transaction."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def main():
    async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
        for number in range(3):
            await producer.send_and_wait("demo-in", b"%d" % number, partition=0)

    partition = TopicPartition("demo-in", 0)
    consumer = AIOKafkaConsumer(
        "demo-in",
        bootstrap_servers="localhost:9092",
        group_id="demo-copiers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(bootstrap_servers="localhost:9092", transactional_id="demo-copy")
    await consumer.start()
    await producer.start()
    try:
        copied = 0
        while copied < 3:
            message = await consumer.getone()
            async with producer.transaction():
                await producer.send("demo-out", message.value * 2)
                await producer.send_offsets_to_transaction({partition: message.offset + 1}, "demo-copiers")
            copied += 1
        print("committed", await consumer.committed(partition))
    finally:
        await consumer.stop()
        await producer.stop()


asyncio.run(main())
