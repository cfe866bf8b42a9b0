"""Commit each message when it has been processed."""

from confluent_kafka import Consumer, Producer, TopicPartition

producer = Producer({"bootstrap.servers": "localhost:9092"})
for number in range(3):
    producer.produce("demo-orders", key="customer", value=f"order {number}")
producer.flush(10)

consumer = Consumer(
    {
        "bootstrap.servers": "localhost:9092",
        "group.id": "demo-billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe(["demo-orders"])
seen = 0
while seen < 3:
    message = consumer.poll(timeout=1.0)
    if message is None:
        continue
    print(message.key(), message.value())
    consumer.commit(message, asynchronous=False)
    seen += 1
(found,) = consumer.committed([TopicPartition("demo-orders", 0)])
print("committed", found.offset)
consumer.close()
