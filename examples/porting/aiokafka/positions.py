"""Partitions by hand: the ends of a log, a seek, an offset by time."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def main():
    async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
        for number in range(10):
            await producer.send_and_wait(
                "demo-readings", b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number
            )
    partition = TopicPartition("demo-readings", 0)
    consumer = AIOKafkaConsumer(bootstrap_servers="localhost:9092")
    await consumer.start()
    try:
        consumer.assign([partition])
        print(await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition]))
        consumer.seek(partition, 8)
        print((await consumer.getone(partition)).value, (await consumer.getone()).value)
        found = await consumer.offsets_for_times({partition: 1_700_000_000_000 + 4500})
        consumer.seek(partition, found[partition].offset)
        print("at", await consumer.position(partition), (await consumer.getone()).value)
        await consumer.seek_to_end(partition)
        print("end", await consumer.position(partition), "of", consumer.highwater(partition))
    finally:
        await consumer.stop()


asyncio.run(main())
