"""Send three messages, then read them."""

import asyncio

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def produce():
    producer = AIOKafkaProducer(bootstrap_servers="localhost:9092")
    await producer.start()
    try:
        for word in (b"first", b"second", b"third"):
            await producer.send_and_wait("demo-hello", word)
    finally:
        await producer.stop()


async def consume():
    consumer = AIOKafkaConsumer(
        "demo-hello",
        bootstrap_servers="localhost:9092",
        group_id="demo-readers",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    seen = 0
    try:
        async for message in consumer:
            print(message.topic, message.partition, message.offset, message.key, message.value)
            seen += 1
            if seen == 3:
                break
    finally:
        await consumer.stop()


asyncio.run(produce())
asyncio.run(consume())
