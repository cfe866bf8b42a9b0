"""Many messages at a time, committed by hand."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition


async def main():
    async with AIOKafkaProducer(bootstrap_servers="localhost:9092", linger_ms=10) as producer:
        batch = producer.create_batch()
        for number in range(5):
            batch.append(key=None, value=b"%d" % number, timestamp=None)
        batch.close()
        sent = await producer.send_batch(batch, "demo-batches", partition=0)
        print("first at", (await sent).offset)

    consumer = AIOKafkaConsumer(
        "demo-batches",
        bootstrap_servers="localhost:9092",
        group_id="demo-batch-readers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    seen = []
    try:
        while len(seen) < 5:
            data = await consumer.getmany(timeout_ms=1000, max_records=3)
            for partition, messages in data.items():
                seen += [message.value for message in messages]
                await consumer.commit({partition: messages[-1].offset + 1})
        print(seen)
        print("committed", await consumer.committed(TopicPartition("demo-batches", 0)))
    finally:
        await consumer.stop()


asyncio.run(main())
